"""Holding a thread at a named race point (``turnctl.points``), so that a test forces one order of events.

    with pause_at("token.retire.decided") as held:
        worker.start()
        assert held.reached.wait(5)
        token.cancel()            # while the worker stands between two steps
        held.release()

Blocks may be nested and entered by several threads. When the last one ends the points cost nothing again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from turnctl import points
from turnctl.errors import BadArgument
from turnctl.tokens.callables import check_plain

__all__ = ["Pause", "call_at", "pause_at"]

#: A held thread goes on by itself after this many seconds, so that a faulty test ends; the block then raises.
HELD_AT_MOST_S = 30.0

# a thread object, or what threading.get_ident() gave
Who = threading.Thread | int | None


class _Action(Protocol):
    def take(self, name: str) -> bool:
        """Whether this thread at this point is the one meant; True at most once unless it says otherwise."""

    def act(self) -> None:
        """What happens to it."""


_lock = threading.Lock()  # guards the two below; never taken by a thread at a point
_actions: tuple[_Action, ...] = ()


def _at_point(name: str) -> None:
    # an immutable tuple: a signal handler may come to a point while this thread is at one
    for action in _actions:
        if action.take(name):
            action.act()
            return


@contextmanager
def _active(action: _Action) -> Iterator[None]:
    global _actions
    with _lock:
        _actions = (*_actions, action)
        points.hook = _at_point
    try:
        yield
    finally:
        with _lock:
            _actions = tuple(other for other in _actions if other is not action)
            if not _actions:
                points.hook = None


class _Target:
    """Which arrival is meant: the first, at one point, of one thread or of any."""

    def __init__(self, name: str, thread: Who) -> None:
        if not isinstance(name, str):
            raise BadArgument(f"a race point has a name, such as 'token.cancel.entered'; not {name!r}")
        if thread is not None and (isinstance(thread, bool) or not isinstance(thread, (threading.Thread, int))):
            raise BadArgument(f"thread is a Thread, an ident or None, not {thread!r}")
        self.name = name
        self.thread = thread
        # try-lock: of two threads that arrive together one gets it, without waiting
        self._unclaimed = threading.Lock()

    def take(self, name: str) -> bool:
        if name != self.name:
            return False
        # compared by ident: current_thread() would register a stand-in for a raw thread, and that would stay
        wanted = self.thread.ident if isinstance(self.thread, threading.Thread) else self.thread
        if self.thread is not None and wanted != threading.get_ident():
            return False
        return self._unclaimed.acquire(blocking=False)


class Pause(_Target):
    """A point where one thread is held; ``reached`` is set when it stands there."""

    def __init__(self, name: str, thread: Who = None) -> None:
        super().__init__(name, thread)
        self.reached = threading.Event()
        self.overslept = False
        self._released = threading.Event()

    def act(self) -> None:
        """Hold the calling thread; used by the hook."""
        self.reached.set()
        if not self._released.wait(HELD_AT_MOST_S):
            self.overslept = True

    def release(self) -> None:
        """Let the held thread go on; one that arrives later is not held any more."""
        self._released.set()


@contextmanager
def pause_at(name: str, *, thread: Who = None) -> Iterator[Pause]:
    """Hold the first thread that reaches the point ``name``, until ``release()`` or the end of the block.

    ``thread`` (a Thread, started or not, or an ident) holds only that one. Later arrivals pass, so two blocks
    with the same name hold the first two threads. Reaching the point is not demanded: assert on
    ``reached.wait(timeout)``. After 30 s the thread goes on and the block raises.
    """
    pause = Pause(name, thread)
    with _active(pause):
        try:
            yield pause
        finally:
            pause.release()
    if pause.overslept:
        raise AssertionError(f"nobody released the thread held at {name!r} within {HELD_AT_MOST_S:g} s")


class _Call(_Target):
    def __init__(self, name: str, thread: Who, fn: Callable[[], object]) -> None:
        super().__init__(name, thread)
        check_plain("call_at()", fn)
        self._fn = fn

    def act(self) -> None:
        self._fn()


@contextmanager
def call_at(name: str, fn: Callable[[], object], *, thread: Who = None) -> Iterator[None]:
    """Call ``fn`` on the first thread that reaches the point ``name``.

    Runs where a signal handler or a finalizer would. What ``fn`` raises is raised at the point. ``thread`` as
    in ``pause_at``.
    """
    with _active(_Call(name, thread, fn)):
        yield
