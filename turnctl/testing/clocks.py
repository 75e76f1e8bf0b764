"""A clock that stands still until the test moves it, and ends the timed waits whose time has come.

Invariants
  K1  A waiter is listed with its due time *before* it blocks, under one lock with ``advance``; so an advance past its
      time finds it, or it finds that its time is over.
  K2  ``advance`` goes from due time to due time. After each it waits until the woken thread waits again or is gone,
      and until turnctl's own deadlines that are due have been carried out, before the time moves on.
  K3  A sum of spans may miss a due time by the rounding of a float: what is due within a nanosecond is due.

May block: ``advance`` and ``settle``, in real time and within bounds. Not promised: that a woken thread which then
computes or waits for something else has done all that it is going to do.
"""

from __future__ import annotations

import math
import threading
import time
from _thread import LockType
from collections.abc import Iterator
from contextlib import contextmanager

from turnctl import clock
from turnctl.errors import BadArgument
from turnctl.tokens.sites import frame_of

__all__ = ["FakeClock"]

# bound here, so that a test which replaces them does not stop the clock
_real_monotonic = time.monotonic
_NANO = 1e-9
_LOOK_S = 0.005  # between two looks at a thread that does not wait on this clock
_STILL_S = 0.05  # who has not moved for so long waits for something else


class _Sleeper:
    __slots__ = ("due", "ident", "lock")

    def __init__(self, lock: LockType, due: float) -> None:
        self.lock = lock
        self.due = due
        self.ident = threading.get_ident()


class FakeClock:
    """A clock for ``turnctl.clock.use``; it moves only by ``advance`` and ``jump``.

    While it is in use, every timed wait of turnctl that begins, and every deadline and grace, goes by it: the wait
    ends when ``advance`` reaches its time. Waits for a descriptor, a terminal or a process keep to real time, as does
    ``time.sleep``. ``monotonic`` starts at a whole second of the real clock, so what was timed before it came into
    use keeps its meaning, nearly. Thread-safe.
    """

    def __init__(self, monotonic: float | None = None, wall: float = 1_750_000_000.0, *, patience: float = 1.0) -> None:
        self._monotonic = float(math.floor(_real_monotonic())) if monotonic is None else monotonic
        self._wall = wall
        self._patience_s = patience
        self._changed = threading.Condition()
        self._sleepers: list[_Sleeper] = []
        self._uses = 0

    # -- the clock (turnctl.clock.Clock) ----------------------------------------------------------------------

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._monotonic

    def wall(self) -> float:
        """Seconds since the epoch."""
        return self._wall

    def block(self, lock: LockType, seconds: float) -> object:
        """Have this thread wait for ``lock`` until the time comes; below 0 there is no limit. For turnctl."""
        with self._changed:
            now = self._monotonic
            if not self._uses or 0 <= seconds <= _NANO:
                self._monotonic = max(now, now + seconds)  # K3
                return False
            sleeper = _Sleeper(lock, now + seconds if seconds >= 0 else math.inf)
            self._sleepers.append(sleeper)
            self._changed.notify_all()
        try:
            return lock.acquire()
        finally:
            with self._changed:
                if sleeper in self._sleepers:
                    self._sleepers.remove(sleeper)

    # -- moving it --------------------------------------------------------------------------------------------

    def advance(self, seconds: float | str) -> None:
        """Let time pass on both clocks, and end what is due on the way, in the order of the due times.

        ``seconds`` may be text as "5m". Raises ``BadDuration`` for what is no finite span.

        Before it returns, deadlines that have passed have stopped their turns, and each thread that was woken waits
        again, has ended, stands still in something else, or has run on for ``patience`` seconds of real time. A
        thread that was only about to begin its wait is not known yet: see ``wait_for_sleepers``.
        """
        if isinstance(seconds, (int, float)) and seconds < 0:
            raise BadArgument(f"time does not go back by {-seconds} s; use jump() to set the wall clock")
        span = clock.parse_duration(seconds, what="advance() by", zero=True)
        assert span is not None
        target = self._monotonic + span
        wall_at_target = self._wall + span
        self.settle()
        while True:
            with self._changed:
                due = min((s.due for s in self._sleepers), default=math.inf)
                if due > target + _NANO:
                    break
                self._wall += max(due - self._monotonic, 0.0)
                self._monotonic = max(self._monotonic, due)
                woken = [s for s in self._sleepers if s.due <= due]
                self._sleepers = [s for s in self._sleepers if s.due > due]
            for sleeper in woken:
                self._wake(sleeper)
            self.settle()
        with self._changed:
            self._monotonic = max(self._monotonic, target)
            self._wall = wall_at_target
        self.settle()

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator or a time server does. Wakes nobody."""
        if type(seconds) not in (int, float) or not math.isfinite(seconds):
            raise BadArgument(f"jump() needs a finite number of seconds, not {seconds!r}")
        self._wall += seconds

    def settle(self) -> bool:
        """Wait until every deadline that is due by now has been carried out; False if ``patience`` did not suffice."""
        done = True
        for keeper in clock.keepers:
            done = keeper(self._patience_s) and done
        return done

    # -- who waits --------------------------------------------------------------------------------------------

    @property
    def sleepers(self) -> int:
        """How many threads are in a timed wait on this clock; turnctl's own are not counted."""
        with self._changed:
            return self._count()

    def wait_for_sleepers(self, threads: int = 1, *, within: float = 5.0) -> None:
        """Block until that many threads are in a timed wait on this clock; ``AssertionError`` after ``within`` s."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._count() >= threads, within):
                raise AssertionError(
                    f"{self._count()} of {threads} threads are in a timed wait on this clock after {within:g} s; "
                    "a wait that began before the clock was in use, or in time.sleep(), keeps to real time"
                )

    def _count(self) -> int:
        return sum(s.due < math.inf and s.ident not in clock.own_threads for s in self._sleepers)

    def _wake(self, sleeper: _Sleeper) -> None:
        """End one wait, and see the thread into its next one (K2)."""
        try:
            sleeper.lock.release()
        except RuntimeError:
            return  # what it waited for came at the same time
        give_up_at = _real_monotonic() + self._patience_s
        stood: tuple[object, int] | None = None
        still_since = _real_monotonic()
        with self._changed:
            while not any(s.ident == sleeper.ident for s in self._sleepers):
                frame = frame_of(sleeper.ident)
                now = _real_monotonic()
                stands = None if frame is None else (id(frame), frame.f_lasti)
                if stands != stood:
                    stood, still_since = stands, now
                if frame is None or now - still_since > _STILL_S or now > give_up_at:
                    return
                del frame
                self._changed.wait(_LOOK_S)

    # -- using it ---------------------------------------------------------------------------------------------

    @contextmanager
    def used(self) -> Iterator[None]:
        """Put this clock in place of the real one until the block ends.

        Waits that are still going on then go on by the clock that was there before.
        """
        with self._changed:
            self._uses += 1
        try:
            with clock.use(self):
                yield
        finally:
            with self._changed:
                self._uses -= 1
                left, self._sleepers = self._sleepers, []
            for sleeper in left:
                try:
                    sleeper.lock.release()
                except RuntimeError:
                    pass  # woken already
