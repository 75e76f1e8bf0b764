"""When to send what to a tree that is being ended: signals in steps, then sweeps. Stand-alone, and reads no clock.

Invariants
  Y1  Each step is taken at most once; none is taken once killing has begun.
  Y2  The moment at which killing begins only ever moves earlier.
  Y3  Between two sweeps that nothing brought about there is a pause, which doubles up to ``LONGEST_PAUSE_S``: a process
      that is born deep below after the last sweep gives no sign of itself.
"""

from turnctl.processes.kernel import SIGKILL

__all__ = ["FIRST_PAUSE_S", "Ladder", "Pauses"]

FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 0.25


class Pauses:
    """The times of sweeps that are made by the clock alone."""

    __slots__ = ("_pause",)

    def __init__(self) -> None:
        self._pause = FIRST_PAUSE_S

    def next_at(self, now: float) -> float:
        """When to sweep again after a sweep at ``now``."""
        at = now + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE_S)
        return at


class Ladder:
    """When to send what to the tree that is being ended. Reads no clock."""

    __slots__ = ("asks", "cause", "kill_at", "killed_at", "pauses", "sweep_at")

    def __init__(self, now: float, steps: tuple[tuple[int, float], ...], cause: str) -> None:
        self.cause = cause
        self.asks: list[tuple[float, int]] = []
        for signum, seconds in steps:
            if signum == SIGKILL:
                break
            self.asks.append((now, signum))
            now += seconds
        self.kill_at = now
        self.killed_at: float | None = None
        self.sweep_at = 0.0
        self.pauses = Pauses()

    def shorten(self, kill_at: float) -> None:
        """Kill at ``kill_at``, if that is earlier than what was planned (G3)."""
        self.kill_at = min(self.kill_at, kill_at)

    def next_at(self, drain_s: float) -> float:
        """When something is due by the clock."""
        if self.killed_at is not None:
            return min(self.sweep_at, self.killed_at + drain_s)
        return min(self.kill_at, self.asks[0][0]) if self.asks else self.kill_at
