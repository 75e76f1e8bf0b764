"""What a tool gave, as what the model is shown of it.

The rule, in its order: a ``Result`` is taken as it is. Text is text, and nothing (``None``) is told as "done, with no
output". An ``Image`` or a ``Text``, or a list of such and of text, are parts. What has ``as_dict()`` is shown by that,
a dataclass by its fields, an Enum by its value, and whatever JSON can hold as JSON. Bytes are text where they are
UTF-8, else their number is told. All else is shown as ``str`` shows it. None of this can fail: the tool has acted,
and that its value is odd does not undo that.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
from collections.abc import Iterator, Mapping
from typing import Any

import turnctl.records.messages as values

__all__ = ["canonical", "not_lazy", "parts_of"]

Parts = tuple[values.Part, ...]
_VALUES = frozenset((str, bytes, int, float, bool, type(None), list, tuple, dict))


def not_lazy(value: Any) -> Any:
    """``value``, if it is one. Raises ``TypeError`` for what only would come to one: nothing has been done yet then."""
    if type(value) in _VALUES:
        return value
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        if inspect.iscoroutine(value):
            value.close()
        raise TypeError(f"it gave a {type(value).__name__}, which nobody awaits; run it within the tool")
    if isinstance(value, Iterator):
        raise TypeError(f"it gave a {type(value).__name__}, whose items nobody asks for; collect them within the tool")
    return value


def parts_of(value: Any) -> Parts:
    """``value`` as the content of a result, by the rule above."""
    if value is None:
        return ()
    if type(value) is str:
        return (values.Text(value),) if value else ()
    if isinstance(value, (values.Text, values.Image, values.Opaque)):
        return (value,)
    if isinstance(value, (list, tuple)) and any(isinstance(one, (values.Text, values.Image)) for one in value):
        return tuple(part for one in value for part in parts_of(one))
    text = _text_of(value)
    return (values.Text(text),) if text else ()


def _text_of(value: Any) -> str:
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return f"({len(value)} bytes that are no text)"
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain)
    except Exception:  # noqa: BLE001 - whatever its own methods raise, it is shown in some way
        return _shown(value)


def _plain(value: Any) -> Any:
    if callable(found := getattr(value, "as_dict", None)):
        return found()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    raise TypeError(type(value).__name__)


def _shown(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - the same
        return f"(a {type(value).__name__})"


def canonical(arguments: Mapping[str, Any]) -> str:
    """The arguments of a call as one text, the same for the same arguments whatever their order."""
    return json.dumps(arguments, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=_plain)
