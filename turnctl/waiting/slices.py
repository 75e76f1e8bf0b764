"""Waiting in slices, for the few things that nothing else can wake: a foreign lock, queue or thread.

With ``in_slices`` each slice is a bounded wait of the thing's own. Between two slices the stop is looked at, so it is
seen at most 50 ms late; the thing itself wakes the waiter at once. With ``by_looking`` it is the other way round: each
slice is a wait of ours, which a stop ends at once, and the thing is only ever tried: for what has no bounded wait that
can be trusted. These are the only waits that poll, and the report names them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from turnctl import points
from turnctl.tokens import registry
from turnctl.waiting.parking import end_of, left_until, pend

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken

__all__ = ["SLICE_S", "by_looking", "in_slices", "kind_of", "note_slices", "sooner"]

#: Seconds. A stop is seen at most this late.
SLICE_S = 0.05


def kind_of(thing: object) -> str:
    """The type of a thing, for messages."""
    kind = type(thing)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def note_slices(token: CancelToken | None, what: str) -> None:
    """Have the report of the turn say, once, that it polled."""
    turn = registry.enclosing(token)
    text = f"waited for {what} in slices of {SLICE_S * 1000:.0f} ms, since nothing can wake such a wait"
    if turn is not None and text not in turn.notes:
        turn.notes.append(text)


def in_slices(
    token: CancelToken | None, attempt: Callable[[float | None], bool], ends_at: float | None, what: str
) -> bool:
    """Block until ``attempt(seconds)`` has the thing, or ``ends_at``; whether it has. A checkpoint at both ends.

    ``attempt`` waits at most that long and takes the thing in one step; None is no limit, which only a wait
    without a token is given. ``what`` is named in the report, unless the thing is there at once.
    """
    if token is None:
        return attempt(left_until(ends_at))
    token.check()
    points.reach("waiting.asked")
    if attempt(0):
        return True
    note_slices(token, what)
    while True:
        token.check()
        left = left_until(ends_at)
        if left == 0:
            return False
        points.reach("waiting.slice")
        if attempt(SLICE_S if left is None else min(left, SLICE_S)):
            return True
        points.reach("waiting.woken")


def by_looking(token: CancelToken | None, attempt: Callable[[], bool], ends_at: float | None, what: str) -> bool:
    """Block until ``attempt()``, which does not block, has the thing, or ``ends_at``; whether it has.

    A checkpoint at both ends; a stop wakes it at once. ``what`` is named in the report, unless the thing is there
    at once.
    """
    is_noted = False
    while True:
        if token is not None:
            token.check()
        points.reach("waiting.asked")
        if attempt():
            return True
        if left_until(ends_at) == 0:
            return False
        if not is_noted:
            note_slices(token, what)
            is_noted = True
        points.reach("waiting.slice")
        pend(token, lambda: False, sooner(ends_at, end_of(SLICE_S)))


def sooner(one: float | None, other: float | None) -> float | None:
    """The earlier of two times, None being never."""
    return other if one is None or (other is not None and other < one) else one
