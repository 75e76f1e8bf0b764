"""Acquiring locks under a stop, and ``Lock``, the lock whose waiters a stop can wake.

The rule is that of ``waiting.parking``: the stop is looked at first, and the lock is taken in one step. So when
``acquire`` raises the lock is not held, and when it returns True it is: never neither.

Invariants of ``Lock``
  L1  ``release`` frees the lock and *then* wakes the first waiter; a waiter lists itself and *then* looks at the lock.
  L2  A waiter that was listed and leaves without the lock wakes the next if the lock is free, so a wake-up that it
      was given is not lost.

May block: ``acquire``. Not promised: fairness. A thread that comes at the right moment may be served before those
that wait, as with ``threading.Lock``.
"""

from __future__ import annotations

import threading
from _thread import LockType, allocate_lock
from typing import TYPE_CHECKING, Any, Self

from turnctl import points
from turnctl.errors import BadArgument
from turnctl.waiting.conditions import can_join, take_under
from turnctl.waiting.parking import end_of, left_until, pend
from turnctl.waiting.queues import wake_first
from turnctl.waiting.slices import in_slices, kind_of

if TYPE_CHECKING:
    from types import TracebackType

    from turnctl.tokens.token import CancelToken

__all__ = ["Lock", "acquire"]

_PLAIN = (LockType, type(threading.RLock()), threading._RLock)
_OF_PROCESSES = ("multiprocessing.synchronize", "multiprocessing.managers")


def acquire(token: CancelToken | None, lock: Any, timeout: float | str | None = None) -> bool:
    """Acquire a lock, or raise ``CancelledError`` as soon as ``token`` trips, without it; whether it was acquired.

    ``lock`` is a ``turnctl.Lock``, a ``threading.Semaphore`` or one of its family. False when ``timeout`` (seconds
    or "5s") has passed. A checkpoint; blocks without polling.

    A foreign ``Lock`` or ``RLock``, a ``Condition`` made on one, and the locks of ``multiprocessing`` cannot be
    woken: these are waited for in slices of 50 ms, and the turn's report says so. One that is acquired by a slice
    as the stop arrives is the caller's: True, and the next checkpoint raises.
    """
    ends_at = end_of(timeout)
    if isinstance(lock, type):
        raise BadArgument(f"cannot acquire the class {lock.__qualname__}; make one and give that")
    if isinstance(lock, threading.Condition):
        lock = lock._lock  # type: ignore[attr-defined]
    if isinstance(lock, Lock):
        is_held = lock._take(token, ends_at)
    elif _is_open(lock):
        is_held = _acquire_semaphore(token, lock, ends_at)
    elif isinstance(lock, (*_PLAIN, threading.Semaphore)) or type(lock).__module__ in _OF_PROCESSES:
        is_held = in_slices(token, lambda seconds: _attempt(lock, seconds), ends_at, kind_of(lock))
    else:
        raise BadArgument(
            f"cannot wait to acquire {kind_of(lock)}; give a turnctl.Lock, a lock or semaphore of threading or "
            "multiprocessing, and run the acquire of any other with turn.call()"
        )
    points.reach("waiting.taken")
    return is_held


def _attempt(lock: Any, seconds: float | None) -> bool:
    if seconds == 0:
        return bool(lock.acquire(False))
    return bool(lock.acquire() if seconds is None else lock.acquire(True, seconds))


def _is_open(lock: object) -> bool:
    """Whether it is a semaphore of the standard library, inside as well."""
    return (
        isinstance(lock, threading.Semaphore)
        and type(lock).acquire is threading.Semaphore.acquire
        and can_join(getattr(lock, "_cond", None))
        and hasattr(lock, "_value")
    )


def _acquire_semaphore(token: CancelToken | None, semaphore: Any, ends_at: float | None) -> bool:
    def take() -> None:
        semaphore._value -= 1

    if token is not None:
        token.check()
    points.reach("waiting.asked")
    with semaphore._cond:
        return take_under(token, semaphore._cond, lambda: semaphore._value > 0, take, ends_at)


class Lock:
    """A mutual exclusion lock with the interface of ``threading.Lock``, whose waiters a stop can wake.

    Its own ``acquire`` and ``with`` are plain and no checkpoints, so clean-up may use them; ``turn.acquire(lock)``
    and ``turnctl.acquire(lock)`` are, and do not poll. Not re-entrant; any thread may release it. Thread-safe, and
    ``release`` is safe in signal handlers. Serves as the lock of a ``threading.Condition``.
    """

    __slots__ = ("__weakref__", "_inner", "_waiters")

    def __init__(self) -> None:
        self._inner = allocate_lock()  # only ever tried, never waited for
        self._waiters: list[LockType] = []

    @classmethod
    def _over(cls, inner: LockType) -> Self:
        """One on a lock that others take and free plainly; who frees that has to call ``_pass_on`` afterwards (L1)."""
        lock = cls()
        lock._inner = inner
        return lock

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire it; whether it was. Blocks, unless told not to, at most ``timeout`` seconds; no checkpoint."""
        if not blocking:
            if timeout != -1:
                raise ValueError("can't specify a timeout for a non-blocking call")
            return self._inner.acquire(False)
        return self._take(None, end_of(None if timeout == -1 else timeout))

    def release(self) -> None:
        """Free it and wake a waiter. Never blocks. Raises ``RuntimeError`` if nobody holds it."""
        self._inner.release()
        points.reach("waiting.lock.freed")
        wake_first(self._waiters)  # L1

    def locked(self) -> bool:
        """Whether somebody holds it."""
        return self._inner.locked()

    def _take(self, token: CancelToken | None, ends_at: float | None) -> bool:
        was_listed = is_held = False
        try:
            while True:
                if token is not None:
                    if token._due and was_listed:
                        self._pass_on()  # L2: it may block in a pause, or raise
                    token.check()
                points.reach("waiting.asked")
                is_held = self._inner.acquire(False)
                if is_held or left_until(ends_at) == 0:
                    return is_held
                was_listed = True
                pend(token, self._is_free, ends_at, self._waiters)
        finally:
            if was_listed and not is_held:
                self._pass_on()

    def _is_free(self) -> bool:
        return not self._inner.locked()

    def _pass_on(self) -> None:
        if not self._inner.locked():
            wake_first(self._waiters)

    def _at_fork_reinit(self) -> None:
        # the holder and the waiters are threads that do not exist in the child
        self._inner = allocate_lock()
        self._waiters.clear()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<turnctl.Lock {'held' if self.locked() else 'free'}>"
