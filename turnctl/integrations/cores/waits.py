"""What a request of httpcore waits for inside the process: a connection, a lock, a free stream, the next attempt.

Invariants
  D1  Without an exchange that is served the original runs, as it is.
  D2  What is free is taken without a look at the stop, so clean-up that takes a free lock is never broken off; and
      clean-up that could find one held is served by nobody (``cores.http1``, ``cores.http2``).
  D3  A lock's inner lock is never replaced: others hold it and wait for it. Who can be stopped only ever tries it,
      and stands on a list that ``__exit__`` wakes *after* it has freed it (``waiting.locks``, L1).
  D4  Who holds the lock by the original ``__enter__``, from before the change, leaves by the original ``__exit__``,
      which wakes nobody. That is told by a mark, and then the wait goes by slices.

May block: all of them, until the thing or the stop.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from turnctl.integrations.cores.library import Library, Replaced
from turnctl.integrations.exchanges import served
from turnctl.waiting.installing import Change
from turnctl.waiting.locks import Lock, acquire
from turnctl.waiting.wait import sleep, wait

__all__ = ["changes", "free", "is_brief", "owing", "try_lock"]

_TWIN = "_turnctl_twin"
_HELD = "_turnctl_held"
_BRIEF = "_turnctl_brief"
_OWED = "_turnctl_owed"

#: set while a connection is told that it may have fewer streams: a place that is in use is then owed, not waited for
owing: ContextVar[bool] = ContextVar("turnctl_http_owing", default=False)


def is_brief(lock: Any) -> None:
    """Say that ``lock`` is held for no longer than a few assignments take: it is waited for as it always was."""
    lock.__dict__[_BRIEF] = True


def try_lock(lock: Any) -> bool:
    """Take httpcore's ``lock`` if it is free; give it back with ``free``."""
    if not lock._lock.acquire(False):
        return False
    lock.__dict__[_HELD] = True
    return True


def free(lock: Any) -> None:
    """Give back what ``try_lock`` took."""
    type(lock).__exit__(lock, None, None, None)


def changes(library: Library) -> list[Change]:
    """What is replaced in the part that threads wait for each other with."""
    part = library.part("_synchronization")
    base = library.part("_backends.base")

    def event() -> Any:
        return part.Event

    def lock() -> Any:
        return part.Lock

    def semaphore() -> Any:
        return part.Semaphore

    def backend() -> Any:
        return base.NetworkBackend

    return [
        Replaced(event, "wait", lambda change: _wait(change, library)),
        Replaced(lock, "__enter__", _enter),
        Replaced(lock, "__exit__", _exit),
        Replaced(semaphore, "acquire", _acquire),
        Replaced(semaphore, "release", _release),
        Replaced(backend, "sleep", _sleep),
    ]


def _wait(change: Change, library: Library) -> Callable[..., Any]:
    original: Any = change.original

    def wait_for_event(self: Any, timeout: float | None = None) -> None:
        exchange = served.get()
        if exchange is None:
            original(self, timeout)
            return
        if not wait(exchange.obeyed(), self._event, None if timeout == float("inf") else timeout):
            raise library.face.PoolTimeout

    return wait_for_event


def _enter(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    def enter(self: Any) -> Any:
        exchange = served.get()
        if exchange is None or _BRIEF in self.__dict__:
            original(self)
        elif not self._lock.acquire(False):  # D2
            twin: Lock = self.__dict__.setdefault(_TWIN, Lock._over(self._lock))
            if self.__dict__.get(_HELD):
                twin._take(exchange.obeyed(), None)
            else:
                acquire(exchange.obeyed(), self._lock)  # D4
        self.__dict__[_HELD] = True
        return self

    return enter


def _exit(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    def leave(self: Any, exc_type: Any = None, exc_value: Any = None, traceback: Any = None) -> None:
        self.__dict__[_HELD] = False
        original(self, exc_type, exc_value, traceback)
        twin = self.__dict__.get(_TWIN)
        if twin is not None:
            twin._pass_on()  # D3

    return leave


def _acquire(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    def acquire_one(self: Any) -> None:
        exchange = served.get()
        if owing.get():
            if not self._semaphore.acquire(False):
                self.__dict__.setdefault(_OWED, []).append(None)
        elif exchange is None:
            original(self)
        elif not self._semaphore.acquire(False):  # D2
            acquire(exchange.obeyed(), self._semaphore)

    return acquire_one


def _release(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    def release(self: Any) -> None:
        owed = self.__dict__.get(_OWED)
        if owed:
            try:
                owed.pop()
            except IndexError:
                pass  # another thread has paid the last
            else:
                return
        original(self)

    return release


def _sleep(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    def sleep_until_next(self: Any, seconds: float) -> None:
        exchange = served.get()
        if exchange is None:
            original(self, seconds)
        else:
            exchange.stage = "waiting to connect again"
            sleep(exchange.obeyed(), seconds)

    return sleep_until_next
