"""Waiting for futures of ``concurrent.futures`` together with the stop.

A future's condition is only ever notified for everybody, when the future is done. So the waiter joins its queue of
waiters without the condition's lock and leaves it likewise: no notify can be lost to somebody else. Where there is
no such queue (the attribute is private) a done callback does the same, and stays with the future until it is done.

Invariant F1: the waiter is on the future's list, *then* asks whether it is done (``tokens.event``, E1).

May block: until the future, the stop or the time. Nothing is cancelled and no result is taken here.
"""

from __future__ import annotations

from _thread import LockType
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from turnctl.clock import parse_duration
from turnctl.errors import BadArgument
from turnctl.waiting.conditions import Bell, listen
from turnctl.waiting.parking import end_of, wait_until
from turnctl.waiting.slices import kind_of

if TYPE_CHECKING:
    from concurrent.futures import Future

    from turnctl.tokens.token import CancelToken

__all__ = ["as_completed", "is_future", "wait_for_future"]

T = TypeVar("T")


def is_future(thing: object) -> bool:
    """Whether it is done, and says so, on any thread. A future of an event loop may only be asked on its own."""
    if isinstance(thing, type) or hasattr(thing, "get_loop"):
        return False
    return all(hasattr(thing, name) for name in ("done", "add_done_callback", "result"))


def wait_for_future(token: CancelToken | None, future: Any, ends_at: float | None) -> bool:
    """Block until ``future`` is done, in whatever way, or ``ends_at``; whether it is. A checkpoint at both ends."""
    bell = Bell()
    undo = _hang_up(bell, future)
    try:
        return wait_until(token, future.done, ends_at, bell.waiters)
    finally:
        undo()


def as_completed(
    token: CancelToken | None, futures: Iterable[Future[T]], timeout: float | str | None = None
) -> Iterator[Future[T]]:
    """Give each of ``futures`` once, as it is done; a checkpoint before each.

    Raises ``CancelledError`` before the next one as soon as ``token`` trips, also if some are done: the futures keep
    their results, and nothing is cancelled. Raises ``TimeoutError`` if not all are done ``timeout`` (seconds or
    "5s") after the first was asked for, as in the standard library: its clock starts with the loop, not with this
    call. Blocks without polling, for as long as it is asked for the next one.
    """
    seconds = parse_duration(timeout, what="timeout", zero=True, none=True)
    if not isinstance(futures, Iterable):
        raise BadArgument(f"as_completed() takes an iterable of futures, not {kind_of(futures)}; give a list of them")
    pending = list(dict.fromkeys(futures))
    for future in pending:
        if not is_future(future):
            raise BadArgument(f"as_completed() takes concurrent.futures.Future objects, not {kind_of(future)}")
    return _given(token, pending, seconds)


def _given(token: CancelToken | None, futures: list[Future[T]], seconds: float | None) -> Iterator[Future[T]]:
    ends_at = end_of(seconds)
    done: deque[Future[T]] = deque()
    waiters: list[LockType] = []
    left = dict.fromkeys(futures)
    undo: list[Callable[[], None]] = []

    try:
        undo.extend(_hang_up(Bell(future, waiters, done), future) for future in futures)
        done.extend(future for future in futures if future.done())  # F1
        while left:
            if not wait_until(token, lambda: bool(done), ends_at, waiters):
                raise TimeoutError(f"{len(left)} (of {len(futures)}) futures unfinished")
            future = done.popleft()
            if future in left:  # it may have rung and been found done as well
                del left[future]
                yield future
    finally:
        for take_down in undo:
            take_down()


def _hang_up(bell: Bell, future: Any) -> Callable[[], None]:
    refuse = getattr(future, "refuse_in_fork", None)  # of ours
    if refuse is not None:
        refuse()
    undo = listen(getattr(future, "_condition", None), bell)
    if undo is None:
        future.add_done_callback(bell.release)
        return lambda: None
    return undo
