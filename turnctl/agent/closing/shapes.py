"""Which provider's shape a history has, and its items as plain values: dicts, or the objects of the SDKs.

Pure; what is given is never changed, nor kept in what is read of it where that could be changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from turnctl.errors import BadHistory

__all__ = [
    "SHAPES",
    "Item",
    "Shape",
    "blocks_of",
    "is_blank",
    "items_of",
    "plain",
    "shape_among",
    "without_none",
]

Item = dict[str, Any]
Shape = Literal["openai", "anthropic", "responses"]
SHAPES: tuple[Shape, ...] = get_args(Shape)

_OPENAI_ROLES = ("tool", "function", "developer")
_OPENAI_PARTS = ("image_url", "input_audio", "file", "refusal")
_RESPONSES_PARTS = ("input_text", "output_text", "input_image", "input_file", "summary_text", "reasoning_text")
#: what no other shape has; thinking and documents are found among the parts of other providers as well
_CALLING = ("a block 'tool_use'", "a block 'tool_result'")
#: what people put among messages and what they mean by it
_NOT_MESSAGES = {
    "ChatCompletion": ".choices[0].message",
    "Choice": ".message",
    "ParsedChatCompletion": ".choices[0].message",
    "ModelResponse": ".choices[0].message",
    "Choices": ".message",
    "Response": ".output, whose items are the history's",
}


def plain(given: Any, where: str) -> Item:
    """``given`` as a dict: a mapping, or an object of an SDK by its ``model_dump``. Raises ``BadHistory``."""
    if isinstance(given, Mapping):
        return dict(given)
    name = type(given).__name__
    if name in _NOT_MESSAGES:
        raise BadHistory(f"{where} is a whole {name}; take its {_NOT_MESSAGES[name]}")
    if callable(dump := getattr(given, "model_dump", None)):
        return _said(dump())
    raise BadHistory(f"{where} is neither a dict nor an object of an SDK, but {name}: {_short(given)}")


def _said(dumped: Mapping[str, Any]) -> Item:
    """What an object says, without the fields that it only has; its blocks and its calls the same."""
    found = without_none(dumped)
    for name in ("content", "tool_calls"):
        if isinstance(found.get(name), list):
            found[name] = [without_none(one) if isinstance(one, Mapping) else one for one in found[name]]
    return found


def without_none(item: Mapping[str, Any]) -> Item:
    """Without the members that are None."""
    return {key: value for key, value in item.items() if value is not None}


def _short(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 80 else f"{text[:80]}..."


def items_of(messages: Iterable[Any]) -> tuple[list[Any], list[Item]]:
    """The items as they were given, and each as a dict."""
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Iterable):
        raise BadHistory(f"a history is a list of messages, not {_short(messages)}")
    given = list(messages)
    return given, [plain(one, f"messages[{n}]") for n, one in enumerate(given)]


def blocks_of(item: Mapping[str, Any], where: str) -> list[Item]:
    """The blocks of an item's content, each as a dict; none if it is text or absent. Raises ``BadHistory``."""
    content = item.get("content")
    if content is None or isinstance(content, str):
        return []
    if isinstance(content, Mapping) or not isinstance(content, Iterable):
        raise BadHistory(f"{where} has content that is neither text nor a list of blocks: {_short(content)}")
    found = [plain(one, f"{where}.content[{n}]") for n, one in enumerate(content)]
    for n, block in enumerate(found):
        if not isinstance(block.get("type"), (str, type(None))):
            raise BadHistory(f"{where}.content[{n}] has a type that is no text: {_short(block)}")
        if block.get("type") == "text" and not isinstance(block.get("text"), (str, type(None))):
            raise BadHistory(f"{where}.content[{n}] has a text that is none: {_short(block)}")
    return found


def is_blank(text: Any) -> bool:
    """Whether it is no text, or one of white space alone."""
    return not (isinstance(text, str) and text.strip())


def shape_among(items: Iterable[Item], given: Shape | None = None) -> Shape | None:
    """The shape that the items have; None if nothing tells. Raises ``BadHistory`` where two are mixed."""
    if given is not None:
        if given not in SHAPES:
            raise BadHistory(f"unknown shape {given!r}; use {', '.join(SHAPES)}")
        return given
    found: dict[Shape, str] = {}
    hints: dict[Shape, str] = {}
    for n, item in enumerate(items):
        for shape, why in _told_by(item, f"messages[{n}]"):
            is_hint = shape == "anthropic" and why not in _CALLING
            (hints if is_hint else found).setdefault(shape, f"messages[{n}] has {why}")
    if not found and hints:  # a block of no shape that is known here; only Anthropic's has no such message
        found = {"openai": "a role"} if any(item.get("role") == "system" for item in items) else hints
    if len(found) > 1:
        told = "; ".join(f"{shape}: {why}" for shape, why in found.items())
        raise BadHistory(f"this history mixes the shapes of more than one provider ({told})")
    return next(iter(found), None)


def _told_by(item: Item, where: str) -> Iterable[tuple[Shape, str]]:
    role, kind = item.get("role"), item.get("type")
    for name, value in (("role", role), ("type", kind)):
        if value is not None and not isinstance(value, str):
            raise BadHistory(f"{where} has a {name} that is no text: {_short(value)}")
    if role is None and kind is None:
        raise BadHistory(f"{where} has neither a role nor a type: {_short(item)}")
    if role is None or kind in ("function_call", "function_call_output", "reasoning"):
        yield "responses", f"the type {kind!r} and no role"
        return
    if role in _OPENAI_ROLES:
        yield "openai", f"the role {role!r}"
    for key in ("tool_calls", "function_call"):
        if item.get(key) is not None:
            yield "openai", key
    for block in blocks_of(item, where):
        name = str(block.get("type"))
        if name in _OPENAI_PARTS:
            yield "openai", f"a part {name!r}"
        elif name in _RESPONSES_PARTS:
            yield "responses", f"a part {name!r}"
        elif name != "text":
            yield "anthropic", f"a block {name!r}"
