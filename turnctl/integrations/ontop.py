"""A class of ours put on top of somebody else's, so that an object that exists goes on with both."""

from __future__ import annotations

from typing import Any

__all__ = ["is_of_urllib3", "on_top", "put_on_top"]

_made: dict[tuple[type, type], Any] = {}


def on_top(ours: type, theirs: type) -> Any:
    """Their class with ours on top, under their name; the same one each time. Thread-safe, never blocks."""
    if issubclass(theirs, ours):
        return theirs
    found = _made.get((ours, theirs))
    if found is None:
        made = type(theirs.__name__, (ours, theirs), {"__module__": theirs.__module__, "__doc__": theirs.__doc__})
        found = _made.setdefault((ours, theirs), made)
    return found


def put_on_top(ours: type, thing: Any) -> None:
    """Have ``thing`` go on with ours on top of its class. May be called twice."""
    kind = on_top(ours, type(thing))
    if type(thing) is not kind:
        thing.__class__ = kind


def is_of_urllib3(ours: type, kind: type, *names: str) -> bool:
    """Whether each of these methods, below ``ours``, is urllib3's own."""
    below = [one for one in kind.__mro__ if not issubclass(one, ours)]
    return all(
        next((one.__module__ for one in below if name in one.__dict__), "").startswith("urllib3.") for name in names
    )
