"""Text that can be sent: with no half of a surrogate pair in it, and values that JSON can hold on every wire.

A stream cuts an emoji in two, a file's name is no UTF-8, a model writes ``1e999``: each of them is fine in Python, is
kept in the history, and makes every later request fail before it is sent. Pure.
"""

from __future__ import annotations

import copy
import math
import re
from typing import Any

__all__ = ["DEEPEST", "copied", "is_sendable", "name_for_the_wire", "sendable", "well_formed"]

#: how deep a value may be nested; what is deeper is more than some encoders take
DEEPEST = 100

#: the bits of an integer whose digits every Python still reads back; one that is longer is refused where it is written
_LONGEST = 4_300 * 3
_PLAIN = (str, int, float, type(None))


def name_for_the_wire(name: str, longest: int = 64) -> str:
    """The name of a function such that a provider takes it: a model may ask for a tool by a name that no tool has."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:longest] or "unnamed"


_FLAT = frozenset((*_PLAIN, bool))
_ALWAYS = frozenset((str, bool, type(None)))


def copied(arguments: dict[str, Any]) -> dict[str, Any]:
    """A copy that shares nothing that can be changed: ``copy.deepcopy``, quicker for the usual flat arguments."""
    if _FLAT.issuperset(map(type, arguments.values())):
        return dict(arguments)
    return copy.deepcopy(arguments)


def well_formed(text: str) -> str:
    """``text`` with its halves put together, and the replacement character for one that is alone."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def is_sendable(arguments: Any) -> bool:
    """Whether ``sendable`` takes them; quicker for the usual flat arguments."""
    if type(arguments) is dict and all(map(_is_short, arguments.values())):
        return True
    try:
        sendable(arguments)
    except (ValueError, RecursionError):
        return False
    return True


def _is_short(value: Any) -> bool:
    kind = type(value)
    return kind in _ALWAYS or (kind is int and value.bit_length() <= _LONGEST)


def sendable(value: Any, deepest: int = DEEPEST) -> Any:
    """A value of JSON's kind with all text in it well-formed. Raises ``ValueError`` for what JSON cannot say."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value!r} is no number of JSON")
    if isinstance(value, int) and value.bit_length() > _LONGEST:
        raise ValueError("it has a number of more digits than can be written")
    if isinstance(value, (dict, list, tuple)) and deepest <= 0:
        raise ValueError(f"it is nested deeper than {DEEPEST} levels")
    if isinstance(value, dict):
        return {
            (well_formed(key) if isinstance(key, str) else key): sendable(one, deepest - 1)
            for key, one in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [sendable(one, deepest - 1) for one in value]
    if not isinstance(value, _PLAIN):
        raise ValueError(f"a {type(value).__name__} is nothing that JSON has")  # noqa: TRY004 - as all else here
    return value
