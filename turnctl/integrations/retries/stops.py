"""What the retries of every client have in common: how they ask the turn, how they sleep, how they are made to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from turnctl.errors import CancelledError
from turnctl.tokens.current import current_token
from turnctl.waiting.wait import sleep

__all__ = ["go_on_as", "look", "nap"]

_made: dict[tuple[Callable[[Any], type], type], type] = {}


def look(error: BaseException | None = None) -> None:
    """Raise the stop of the current turn, from what an attempt failed with; nothing outside any turn. A checkpoint.

    An attempt that ended with a ``CancelledError`` of whatever turn is not tried again: that is raised as it is.
    """
    if isinstance(error, CancelledError):
        raise error
    token = current_token()
    if token is None:
        return
    try:
        token.check()
    except CancelledError as stop:
        raise stop from error


def nap(seconds: float) -> None:
    """Sleep between two attempts; a checkpoint at both ends, in a turn, and a plain sleep outside of any."""
    sleep(current_token(), max(float(seconds), 0.0))


def go_on_as(make: Callable[[Any], type], thing: Any) -> None:
    """Have ``thing`` go on with the class that ``make`` derives from its own, under the same name. May be called twice.

    With one base, so that the two are laid out alike also where theirs is generic or abstract, which a class of ours
    put beside it would not be.
    """
    theirs = type(thing)
    if theirs in _made.values():
        return
    kind = _made.get((make, theirs))
    if kind is None:
        kind = make(theirs)
        kind.__name__, kind.__qualname__ = theirs.__name__, theirs.__qualname__
        kind.__module__, kind.__doc__ = theirs.__module__, theirs.__doc__
        kind = _made.setdefault((make, theirs), kind)
    thing.__class__ = kind
