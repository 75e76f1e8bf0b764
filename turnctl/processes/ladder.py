"""The clockwork of ending a tree: ask, wait out the grace, kill until nothing is left, give up.

It is told the time and what lives, and says what to do next. It reads no clock, sends nothing and waits for
nothing, so that every order of events can be tried without a process.

Invariants
  L1  It asks at most once, and never once killing has begun. What is forked after the ask is not asked: it
      may be the clean-up that the ask was for.
  L2  The moment at which killing begins only ever moves earlier.
  L3  ``done`` is said only when nothing lives, never because the main process has ended.
  L4  While something lives that has not been sent KILL it is killed again, until ``drain_s`` after the first
      KILL.
  L5  Between two looks at the tree there is a pause, which doubles up to ``LONGEST_PAUSE_S``. These looks,
      made only while a ladder is going on, are the one place in this room that looks again by the clock: a
      process that is forked after the last look has no descriptor that could tell of it.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["DRAIN_S", "Ladder", "Move"]

DRAIN_S = 5.0
FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.25

Move = Literal["ask", "kill", "wait", "done", "give-up"]


class Ladder:
    """One ending of one tree. Not thread-safe: whoever drives it owns it."""

    __slots__ = ("_asked", "_drain_s", "_pause", "kill_at", "killed_at", "look_at")

    def __init__(self, *, kill_at: float, drain_s: float = DRAIN_S) -> None:
        self._asked = False
        self._pause = FIRST_PAUSE_S
        self._drain_s = drain_s
        self.kill_at = kill_at
        self.killed_at: float | None = None
        #: when to look at the tree and call ``step`` again, unless something happens before
        self.look_at = 0.0

    @property
    def has_asked(self) -> bool:
        return self._asked

    def shorten(self, kill_at: float) -> None:
        """Begin killing at ``kill_at`` if that is earlier than what was planned (L2)."""
        if kill_at < self.kill_at:
            self.kill_at = kill_at
            if self.killed_at is None:
                self.look_at = min(self.look_at, kill_at)

    def step(self, now: float, *, alive: int, unkilled: int) -> Move:
        """What to do, given how many processes live and how many of these have not been sent KILL.

        After ``wait`` the next step is due at ``look_at``, or as soon as the tree has changed.
        """
        if alive == 0:
            return "done"
        if now >= self.kill_at:
            if self.killed_at is None:
                self.killed_at = now
                self._pause = FIRST_PAUSE_S
                return "kill"
            if now - self.killed_at >= self._drain_s:
                return "give-up"
            if unkilled:
                return "kill"
        elif not self._asked:
            self._asked = True
            return "ask"
        limit = self.kill_at if self.killed_at is None else self.killed_at + self._drain_s
        self.look_at = min(now + self._pause, limit)
        self._pause = min(self._pause * 2, LONGEST_PAUSE_S)
        return "wait"
