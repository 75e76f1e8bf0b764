"""Messages in the shape of Anthropic's messages, and back: what is sent is always such that it is taken.

The system's messages are one text, apart from the others, wherever they stood. Thinking goes back with its signature,
as it came and where it stood. Parts that belong to another wire stay away. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from turnctl.agent.calling import arguments_of, call_of
from turnctl.agent.closing import close_calls
from turnctl.agent.closing.shapes import Item, blocks_of, items_of, plain, without_none
from turnctl.agent.encodable import DEEPEST, name_for_the_wire, sendable, well_formed
from turnctl.agent.history import feed_of, merged
from turnctl.agent.wires.reading import spec_of, status_of
from turnctl.errors import BadHistory
from turnctl.records.messages import Call, Image, Message, Opaque, Part, Result, Text

__all__ = ["from_anthropic", "parts_of_blocks", "to_anthropic", "tools_to_anthropic"]

WIRE = "anthropic"


def to_anthropic(messages: Iterable[Message]) -> tuple[str, list[Item]]:
    """What is fed of ``messages``, as ``system=`` and ``messages=`` take it; the first is empty where there is none."""
    fed = feed_of(messages)
    system = "\n\n".join(message.text for message in fed if message.role == "system" and message.text.strip())
    found: list[Item] = []
    for message in merged(message for message in fed if message.role != "system"):
        if message.role == "user" and message.is_text_only:
            found.append({"role": "user", "content": message.text})
            continue
        blocks = [block for part in message.parts if (block := _block(part)) is not None]
        found.append({"role": "assistant" if message.role == "assistant" else "user", "content": blocks})
    return well_formed(system), [sendable(item, DEEPEST + 10) for item in close_calls(found, shape="anthropic")]


def _block(part: Part) -> Item | None:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Image):
        if part.url is not None:
            return {"type": "image", "source": {"type": "url", "url": part.url}}
        return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}
    if isinstance(part, Call):
        name = name_for_the_wire(part.name, 128)
        return {"type": "tool_use", "id": part.id, "name": name, "input": arguments_of(part)}
    if isinstance(part, Result):
        return _result(part)
    return dict(part.value) if part.wire == WIRE else None


def _result(result: Result) -> Item:
    inner = [block for part in result.content if (block := _block(part)) is not None]
    is_text = all(block["type"] == "text" for block in inner)
    content = (result.text or "(nothing that can be shown here)") if is_text else inner
    found: Item = {"type": "tool_result", "tool_use_id": result.call_id, "content": content}
    return {**found, "is_error": True} if result.is_error else found


def tools_to_anthropic(tools: Iterable[Any]) -> list[Item]:
    """``tools`` as ``tools=`` takes them; a dict is passed on as it is."""
    found = []
    for tool in tools:
        spec = spec_of(tool)
        if spec is None:
            found.append(dict(tool))
            continue
        name, description, schema = spec
        found.append({"name": name, "description": description, "input_schema": schema})
    return found


def from_anthropic(messages: Iterable[Any], system: str | Iterable[Any] | None = None) -> list[Message]:
    """A history in the shape of the messages, dicts or objects of the SDK, closed and as messages; ``system`` first."""
    text = system if isinstance(system, str) else _text_of(system or ())
    _, items = items_of(close_calls(messages, shape="anthropic"))
    found = [Message.system(text)] if text else []
    for n, item in enumerate(items):
        blocks = blocks_of(item, f"messages[{n}]")
        content = item["content"]
        parts = [Text(content)] if isinstance(content, str) else parts_of_blocks(blocks)
        results = [part for part in parts if isinstance(part, Result)]
        rest = [part for part in parts if not isinstance(part, Result)]
        if results:
            found.append(Message.tool(*results))
        if rest or not results:
            found.append(Message(item["role"], rest))
    return found


def _text_of(blocks: Iterable[Any]) -> str:
    return "\n\n".join(str(plain(block, "the system prompt")["text"]) for block in blocks)


def parts_of_blocks(blocks: Sequence[Mapping[str, Any]]) -> list[Part]:
    """The blocks of one message as parts, in their order. What has no part of its own is kept as it is."""
    return [part for block in blocks if (part := _part_of(block)) is not None]


def _part_of(block: Mapping[str, Any]) -> Part | None:
    kind = block.get("type")
    if kind == "text":
        return Text(well_formed(block["text"])) if block["text"] else None
    if kind == "tool_use":
        return call_of(block["id"], block["name"], block.get("input"))
    if kind == "tool_result":
        return _result_of(block)
    if kind == "image":
        source = block.get("source") or {}
        if source.get("type") == "base64":
            return Image(source["data"], source["media_type"])
        if source.get("type") == "url":
            return Image(url=source["url"])
    return Opaque(WIRE, without_none(block))


def _result_of(block: Mapping[str, Any]) -> Result:
    content = block.get("content")
    if isinstance(content, str):
        parts: list[Part] = [Text(content)]
    else:
        parts = parts_of_blocks(blocks_of(block, "a tool_result"))
    if any(isinstance(part, (Call, Result)) for part in parts):
        raise BadHistory(f"the result of {block.get('tool_use_id')!r} has a call or a result within")
    text = "".join(part.text for part in parts if isinstance(part, Text))
    status = status_of(text, is_error=bool(block.get("is_error")))
    is_ours = status not in ("completed", "failed")
    return Result(block["tool_use_id"], () if is_ours else parts, status)
