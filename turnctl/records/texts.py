"""The text that the items of a stream say together: pieces of text, or events of a model provider's client.

Events are told by their shape. An event that says the same once more, as the helpers of some clients do, is left out.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

__all__ = ["text_of"]

#: the events whose ``delta`` is a piece of text, by their ``type``
_DELTAS = frozenset({"response.output_text.delta", "content.delta"})


def text_of(items: Collection[object]) -> str | None:
    """What they say; None where they are neither text nor events that say any. Never raises."""
    found = [item if isinstance(item, str) else _of_anything(item) for item in items]
    kinds = {isinstance(item, str) for item in items}
    if kinds == {True, False}:
        return None  # nobody can tell what such a mixture says
    parts = [part for part in found if part is not None]
    return "".join(parts) if parts or not kinds else None


def _of_anything(item: object) -> str | None:
    try:
        return _of_event(item)
    except Exception:  # noqa: BLE001 - it only looks like an event, and a report is not to fail by that
        return None


def _of_event(item: Any) -> str | None:
    if getattr(item, "object", None) == "chat.completion.chunk":
        choices = item.choices
        return _text(choices[0].delta.content) if choices else None
    kind = getattr(item, "type", None)
    if kind in _DELTAS:
        return _text(item.delta)
    if kind == "content_block_delta":
        return _text(getattr(item.delta, "text", None))
    return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
