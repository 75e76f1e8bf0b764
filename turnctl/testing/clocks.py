"""A clock that stands still until the test moves it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from turnctl import clock

__all__ = ["FakeClock"]


class FakeClock:
    """A clock for ``turnctl.clock.use``; it moves only by ``advance`` and ``jump``.

    Moves what turnctl reads, not what a thread waits for: a wait that has begun keeps to real time.
    """

    def __init__(self, monotonic: float = 1_000.0, wall: float = 1_750_000_000.0) -> None:
        self._monotonic = monotonic
        self._wall = wall

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._monotonic

    def wall(self) -> float:
        """Seconds since the epoch."""
        return self._wall

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        if seconds < 0:
            raise ValueError(f"time does not go back by {-seconds} s; use jump() to set the wall clock")
        self._monotonic += seconds
        self._wall += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator or a time server does."""
        self._wall += seconds

    def used(self) -> AbstractContextManager[None]:
        """Put this clock in place of the real one until the block ends."""
        return clock.use(self)
