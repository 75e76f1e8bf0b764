"""The latch: a one-shot event without a lock inside, and ``TurnEvent``, the ``threading.Event`` made from it.

``threading.Event.set()`` takes a lock. A signal handler, a finalizer or a forked child that calls it while that
lock is held by the frame it interrupted hangs for ever, on every CPython. Here nothing is ever held.

Invariants
  E1  A waiter appends its own private lock to ``waiters`` and *then* re-reads the flag.
  E2  A setter stores the flag and *then* reads ``waiters``.
  E3  A setter releases a waiter's lock first and takes it off the list second; it goes through the list once more
      in ``finally``. So a setter that is cut short by an exception leaves nobody parked who was on the list when
      it began.
  E4  The flag goes up once and never down. A retired event's flag never goes up.
  E5  More than sixteen waiters are a crowd: the setter releases sixteen, and each thread that leaves its lists
      releases the next one. What a thread has to carry on is stored before its lock is released; a thread reads it
      after it has taken its lock off the lists. So of a thread that leaves by itself and whoever wakes it, one goes on
      with the crowd. A thread that is struck by an exception while it does releases all that are left; and since the
      sixteen go on with one and the same crowd, one of them is enough.

Why no wake-up is lost. With the GIL each of the four steps above is atomic and all threads see one order of them:
if the waiter's re-read misses the flag then its append came before the setter's read of the list, so the setter
sees it. Free-threaded builds have no such single order for plain loads and stores, but every operation on one
list takes that list's own mutex, and the critical sections of one mutex are totally ordered. Say A is the waiter's
append and R the setter's read of the list. If A precedes R, R sees the lock and releases it. If R precedes A, then
the setter's store of the flag, which is before R, happens before A (unlock of R, lock of A), and so before the
waiter's re-read after A, which therefore sees it. (Free-threaded builds are not among those that are tested, and the
short way in ``tokens.core`` reads a length without the mutex: nothing is promised for them yet.) Swapping the two
lines on either side breaks this; the tests do so (``tests/races``).

May block: ``wait`` only. Not promised: fairness, or that code which reaches into ``Event._cond`` works here.
"""

from __future__ import annotations

import threading
from _thread import LockType, allocate_lock
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from turnctl import clock
from turnctl.errors import EventMisuse, TokenMisuse

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken

__all__ = ["TurnEvent", "park", "release_all"]

_LONGEST = threading.TIMEOUT_MAX


def park(done: Callable[[], bool], timeout: float | None, *lists: list[LockType]) -> bool:
    """Block until ``done()`` or until ``timeout`` seconds have passed; the last ``done()`` is returned.

    ``done`` is asked after each release of one of the ``lists`` of waiters; it must be true for good once the setter
    has stored its flag. Does not poll: a thread parked here runs again only when it is released or its time is over,
    by the clock in use.
    """
    if done():
        return True
    ends_at = None if timeout is None else clock.monotonic() + timeout
    while True:
        left = -1.0
        if ends_at is not None:
            left = min(ends_at - clock.monotonic(), _LONGEST)
            if left <= 0:
                return done()
        lock = allocate_lock()
        lock.acquire()
        try:
            for waiters in lists:
                waiters.append(lock)
            if not done():  # E1
                clock.block(lock, left)
        finally:
            try:
                for waiters in lists:
                    if lock in waiters:  # most often the setter has taken it off, and an exception costs
                        try:
                            waiters.remove(lock)
                        except ValueError:
                            pass  # a setter was here first
            finally:
                if lock in _carried:
                    _hand_on(lock)
        if done():
            return True


def release_all(waiters: list[LockType]) -> None:
    """Wake every thread whose lock is on the list. Re-entrant, holds nothing, never blocks.

    Of a crowd a few are woken, and each of them wakes the next (E5).
    """
    if not waiters:
        return
    if len(waiters) > _AT_ONCE:
        _release_crowd(waiters)
        return
    try:
        _release(waiters)
    finally:
        if waiters:
            _release(waiters)  # E3: the first round may have been cut short by an exception


def _release(waiters: list[LockType]) -> None:
    # a snapshot is enough: who appends later re-reads the flag (E1), and a loop over the live list could chase
    # a timed waiter that comes back for the rest of its time
    for lock in list(waiters):
        try:
            lock.release()
        except RuntimeError:
            pass  # released by an earlier round that was cut short
        try:
            waiters.remove(lock)
        except ValueError:
            pass


#: Who wakes more at once has all of them queue for the interpreter, each asking for it every 5 ms.
_AT_ONCE = 16
#: the locks that are still to be released, and the list of waiters that they are on
_Crowd = tuple[deque[LockType], list[LockType]]
#: by lock: the crowd that the thread behind it has to go on waking
_carried: dict[LockType, _Crowd] = {}


def _release_crowd(waiters: list[LockType]) -> None:
    crowd = (deque(waiters), waiters)
    try:
        for _ in range(_AT_ONCE):
            if not _release_next(crowd):
                return
    except BaseException:
        _release(waiters)  # E3
        raise


def _release_next(crowd: _Crowd) -> bool:
    """Release the next of the crowd, whose thread carries the rest on; False if there is none."""
    locks, waiters = crowd
    while True:
        try:
            lock = locks.popleft()
        except IndexError:
            return False
        is_carrier = _carried.setdefault(lock, crowd) is crowd  # or it carries another crowd already
        try:
            lock.release()
        except RuntimeError:
            pass  # released by somebody else, and about to leave
        try:
            waiters.remove(lock)
            if is_carrier:
                return True
        except ValueError:
            # it had left by itself: either its thread found what it carries, or that is taken back here (E5)
            if is_carrier and _carried.pop(lock, None) is None:
                return True


def _hand_on(lock: LockType) -> None:
    """Called by a thread that has left its lists: go on with the crowd that it carries."""
    try:
        crowd = _carried.get(lock)
        if crowd is not None:
            _release_next(crowd)
    except BaseException:
        crowd = _carried.get(lock)
        if crowd is not None:
            _release(crowd[1])  # no fewer are woken because this thread was struck
        raise
    finally:
        _carried.pop(lock, None)


class TurnEvent(threading.Event):
    """A ``threading.Event`` that goes up once, and may be set from anywhere.

    Made by ``token.event``, or by the host and handed in with ``turn(event=...)``; one event serves one turn.
    While it belongs to a running turn, ``set()`` is a stop of that turn with cause ``event``. Once the turn has
    ended it is retired: ``set()`` does nothing, an untimed ``wait()`` returns False at once when it was never
    set, and a timed one keeps its time. Thread-safe; ``set`` is safe in signal handlers and finalizers.
    """

    __slots__ = ("_fate", "_flag", "_over", "_token", "_waiters")

    _flag: bool
    _over: bool
    _token: CancelToken | None
    _waiters: list[LockType]

    def __init__(self) -> None:
        # the base initialiser is not called: it would make the Condition that we do without
        self._fate: list[bool] = []  # set or retired, whichever is entered first (E4)
        self._flag = False
        self._over = False
        self._token = None
        self._waiters = []

    def is_set(self) -> bool:
        """Whether the event has gone up. Never blocks, not a checkpoint."""
        return self._flag

    def set(self) -> None:
        """Put the event up and wake every waiter; on a turn's event this stops the turn (cause ``event``).

        Never blocks and holds nothing, so it may be called from a signal handler, a finalizer or a callback.
        Does nothing once the turn has ended.
        """
        if self._token is None and not self._over:
            self._raise_flag()
        token = self._token  # read again: a turn that adopts the event stores itself and *then* reads the flag
        if token is not None:
            token.cancel(cause="event", reason="event set")

    def _raise_flag(self) -> None:
        if not self._fate:
            self._fate.append(True)
        if not self._fate[0]:
            return
        try:
            self._flag = True
            release_all(self._waiters)  # E2
        except BaseException:
            # cut short by a raising handler or an exception thrown into this thread: nobody stays parked
            release_all(self._waiters)
            raise

    def _retire(self) -> None:
        """Make every later ``set`` a no-op and let untimed waiters go."""
        if not self._fate:
            self._fate.append(False)
        self._over = True
        self._token = None
        release_all(self._waiters)

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the event is set or ``timeout`` seconds have passed; whether it is set.

        Not a checkpoint: it returns, also when the turn is stopped. Untimed, it returns False when the event is
        retired unset, since nobody can set it any more.
        """
        if not self._flag:
            park(self._is_settled if timeout is None else self.is_set, timeout, self._waiters)
        return self._flag

    def _is_settled(self) -> bool:
        return self._flag or self._over

    def clear(self) -> None:
        """Do nothing on an event that is not set (hosts call it at start); refuse on one that is.

        Raises ``EventMisuse`` on a set event: a stop that was accepted cannot be taken back.
        """
        if self._flag:
            raise EventMisuse(
                f"{self!r} cannot be cleared: a stop that was accepted stays; begin a new turn, which has an "
                "event of its own"
            )

    @property
    def _cond(self) -> Any:
        raise EventMisuse(
            f"{self!r} has no inner condition to reach into; give this code a plain threading.Event and hand "
            "that in with turn(event=...)"
        )

    def _at_fork_reinit(self) -> None:
        # the locks belong to threads that do not exist in the child
        self._waiters.clear()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TokenMisuse(f"{self!r} cannot be pickled: it lives in one process; pass the turn id and stop by that")

    def __copy__(self) -> TurnEvent:
        return self

    def __deepcopy__(self, memo: Any) -> TurnEvent:
        return self

    def __repr__(self) -> str:
        state = "set" if self._flag else "retired" if self._over else "unset"
        return f"<TurnEvent at {id(self):#x}: {state}>"
