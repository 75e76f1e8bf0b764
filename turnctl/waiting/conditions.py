"""Waiting on a ``threading.Condition`` of somebody else together with the stop, without polling.

A bell of ours stands in the condition's queue of waiters, so that ``notify`` rings it on the notifier's stack; the
stop rings the token's list. The thread itself is parked on both. The queue of waiters is a private attribute of the
standard library (``_waiters``), so it is tested for at run time; where it is missing the caller has to go without.

Invariants
  N1  The bell is hung up and taken down with the condition's lock held. So a notify either rings it or does not.
  N2  A waiter that was notified passes the notify on, with the lock held, before it does anything but look: leave by
      a stop or an exception, or stand in a pause. So no other waiter sleeps beside what the notify was for. Where
      nothing is there nothing is passed on, or two of them would wake each other for ever.
  N3  The checkpoint, and so a pause, a tracer and what they call, runs with the lock let go.
  N4  The stop is looked at with the lock held, right before the thing is taken in the same breath.

Lock order: the condition's lock is the only one. May block: until the thing, the stop or the time; and for the
condition's own lock, as ``Condition.wait`` does.
"""

from __future__ import annotations

import threading
from _thread import LockType
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turnctl import points
from turnctl.errors import BadArgument
from turnctl.tokens.event import release_all
from turnctl.waiting.parking import end_of, left_until, must_raise, pend
from turnctl.waiting.slices import kind_of

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken

__all__ = ["Bell", "can_join", "listen", "queue_of", "take_under", "wait_for"]


class Bell:
    """Looks like a waiter's lock to ``Condition.notify``, which calls ``release`` once and forgets it.

    Several bells may share one list of ``waiters``, and say on ``rung`` which of them it was.
    """

    __slots__ = ("_what", "is_rung", "rung", "waiters")

    def __init__(self, what: Any = None, waiters: list[LockType] | None = None, rung: deque[Any] | None = None) -> None:
        self.is_rung = False
        self.waiters: list[LockType] = [] if waiters is None else waiters
        self.rung = rung
        self._what = what

    def release(self, *_: object) -> None:
        """Called by the notifier, with the condition's lock held: takes nothing, calls nobody."""
        self.is_rung = True
        if self.rung is not None:
            self.rung.append(self._what)
        release_all(self.waiters)


def queue_of(condition: object) -> Any:
    """The condition's queue of waiters, or None if it cannot be joined."""
    waiters = getattr(condition, "_waiters", None)
    return waiters if isinstance(waiters, deque) else None


def listen(condition: object, bell: Bell) -> Callable[[], None] | None:
    """Hang ``bell`` up for a condition that only ever notifies everybody, for which no lock is needed; the undo.

    None if it has no queue to join. An event and a future have such a condition: nobody loses a notify to the bell.
    """
    waiters = queue_of(condition)
    if waiters is None:
        return None
    waiters.append(bell)

    def undo() -> None:
        try:
            waiters.remove(bell)
        except ValueError:
            pass  # it was rung

    return undo


def can_join(condition: object) -> bool:
    """Whether ``take_under`` works with it."""
    return queue_of(condition) is not None and hasattr(condition, "_release_save")


class _LetGo:
    """Lets the condition's lock go for the length of a ``with``, however often this thread holds it."""

    __slots__ = ("_condition", "_saved")

    def __init__(self, condition: Any) -> None:
        self._condition = condition

    def __enter__(self) -> None:
        self._saved = self._condition._release_save()

    def __exit__(self, *_: object) -> None:
        self._condition._acquire_restore(self._saved)


def take_under(
    token: CancelToken | None,
    condition: Any,
    is_there: Callable[[], object],
    take: Callable[[], object],
    ends_at: float | None,
) -> bool:
    """Block until ``is_there()``, and then ``take()`` it, or until ``ends_at``; whether it was taken. A checkpoint.

    Called with the condition held, and comes back so, also by an exception. Both functions run with it held.
    """
    waiters = queue_of(condition)
    outside = _LetGo(condition)
    is_owed = False  # whether a notify came that nobody has looked after yet
    while True:
        if token is not None and token._due:
            if is_owed and is_there():
                points.reach("waiting.passed_on")
                condition.notify()  # N2
            is_owed = False
            with outside:  # N3
                token.check()
                points.reach("waiting.asked")
            if must_raise(token):
                continue
        if is_there():  # N4
            take()
            return True
        if left_until(ends_at) == 0:
            return False
        bell = Bell()
        waiters.append(bell)  # N1
        try:
            with outside:
                pend(token, lambda: bell.is_rung, ends_at, bell.waiters)  # noqa: B023 - not kept beyond this round
        except BaseException:
            if _take_down(waiters, bell):
                condition.notify()  # N2
            raise
        is_owed = _take_down(waiters, bell)


def _take_down(waiters: Any, bell: Bell) -> bool:
    """Leave the queue of waiters; whether a notify had come."""
    if not bell.is_rung:
        waiters.remove(bell)
    return bell.is_rung


def wait_for(
    token: CancelToken | None, condition: object, predicate: Callable[[], object], timeout: float | str | None
) -> bool:
    """Block until ``predicate()`` is true or ``timeout`` has passed; whether it is. See ``waiting.wait``."""
    ends_at = end_of(timeout)
    if not isinstance(condition, threading.Condition):
        raise BadArgument(f"on= takes the threading.Condition that the predicate belongs to, not {kind_of(condition)}")
    if not callable(predicate):
        raise BadArgument(f"with on= the thing to wait for is a function without arguments, not {kind_of(predicate)}")
    if not can_join(condition):
        raise BadArgument(f"{kind_of(condition)} has no queue of waiters to join; use a plain threading.Condition")
    if not condition._is_owned():  # type: ignore[attr-defined]
        raise RuntimeError("cannot wait on a condition that is not held; wait inside `with condition:`")
    return take_under(token, condition, predicate, lambda: None, ends_at)
