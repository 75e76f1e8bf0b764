"""Messages in the shape of OpenAI's chat, and back: what is sent is always such that it is taken.

What the wire cannot hold: an image in a result, which follows the results in a message of the user; parts that belong
to another wire, which stay away; arguments that were no JSON object, which are sent as an empty one, for their result
says what they were; an id of a call that is longer than OpenAI takes, which is a shorter one there. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from turnctl.agent.calling import arguments_of, call_of
from turnctl.agent.closing import close_calls
from turnctl.agent.closing.shapes import Item, blocks_of, items_of
from turnctl.agent.encodable import DEEPEST, name_for_the_wire, sendable
from turnctl.agent.history import feed_of, merged
from turnctl.agent.naming import LONGEST_ID, is_too_long, short
from turnctl.agent.wires.reading import spec_of, status_of
from turnctl.errors import BadHistory
from turnctl.records.messages import Call, Image, Message, Opaque, Part, Result, Text

__all__ = ["from_openai", "to_openai", "tools_to_openai"]

WIRE = "openai"
_LONGEST = LONGEST_ID[WIRE]


def to_openai(messages: Iterable[Message]) -> list[Item]:
    """What is fed of ``messages``, as ``messages=`` of the chat takes it."""
    return worded(messages, signed=True)


def worded(messages: Iterable[Message], *, signed: bool) -> list[Item]:
    """The same; with ``signed`` an id is as long as it is where it has to be (``agent.naming``)."""
    fed = [_named(message, signed) for message in feed_of(messages)]
    found: list[Item] = []
    images: list[Item] = []
    for message in merged(fed):
        if message.role != "tool" and images:
            found.append({"role": "user", "content": images})
            images = []
        if message.role == "assistant":
            found.append(_assistant(message))
        elif message.role == "tool":
            for result in message.results:
                found.append(_result(result))
                images += _images_of(result)
        else:
            found.append({"role": message.role, "content": _content(message.parts)})
    if images:
        found.append({"role": "user", "content": images})
    return [sendable(item, DEEPEST + 10) for item in close_calls(found, shape="openai")]


def _named(message: Message, signed: bool) -> Message:
    """The message with ids that are taken, of its calls and of its results."""
    ids = [call.id for call in message.calls] + [result.call_id for result in message.results]
    if not any(is_too_long(one, _LONGEST, signed=signed) for one in ids):
        return message
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, Call):
            parts.append(Call(short(part.id, _LONGEST, signed=signed), part.name, part.arguments, part.raw))
        elif isinstance(part, Result):
            call_id = short(part.call_id, _LONGEST, signed=signed)
            parts.append(Result(call_id, part.content, part.status, part.name))
        else:
            parts.append(part)
    return Message(message.role, parts, message.marks)


def _content(parts: Sequence[Part]) -> str | list[Item]:
    if all(isinstance(part, Text) for part in parts):
        return "".join(part.text for part in parts if isinstance(part, Text))
    return [block for part in parts if (block := _block(part)) is not None]


def _block(part: Part) -> Item | None:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Image):
        url = part.url if part.url is not None else f"data:{part.media_type};base64,{part.data}"
        return {"type": "image_url", "image_url": {"url": url}}
    return dict(part.value) if isinstance(part, Opaque) and part.wire == WIRE else None


def _assistant(message: Message) -> Item:
    found: Item = {"role": "assistant", "content": message.text or None}
    if message.calls:
        found["tool_calls"] = [_call(call) for call in message.calls]
    for part in message.parts:
        if isinstance(part, Opaque) and part.wire == WIRE:
            found.update(part.value)
    return found


def _call(call: Call) -> Item:
    arguments = json.dumps(arguments_of(call), ensure_ascii=False)
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": name_for_the_wire(call.name), "arguments": arguments},
    }


def _result(result: Result) -> Item:
    text = result.text or ("(an image, which follows)" if _images_of(result) else "(nothing that can be shown here)")
    return {"role": "tool", "tool_call_id": result.call_id, "content": text}


def _images_of(result: Result) -> list[Item]:
    found = [block for part in result.content if isinstance(part, Image) and (block := _block(part)) is not None]
    return [{"type": "text", "text": f"of {result.name or 'call'} {result.call_id}:"}, *found] if found else []


def tools_to_openai(tools: Iterable[Any]) -> list[Item]:
    """``tools`` as ``tools=`` of the chat takes them; a dict is passed on as it is."""
    found = []
    for tool in tools:
        spec = spec_of(tool)
        if spec is None:
            found.append(dict(tool))
            continue
        name, description, schema = spec
        told = {"name": name, "description": description, "parameters": schema}
        found.append({"type": "function", "function": told})
    return found


def from_openai(messages: Iterable[Any]) -> list[Message]:
    """A history in the shape of the chat, dicts or objects of the SDK, closed and as messages."""
    _, items = items_of(close_calls(messages, shape="openai"))
    return [_message_of(item, f"messages[{n}]") for n, item in enumerate(items)]


def _message_of(item: Item, where: str) -> Message:
    role, parts = item["role"], _parts_of(item, where)
    if role in ("tool", "function"):
        call_id = str(item.get("tool_call_id") or f"call_{item.get('name')}")
        text = "".join(part.text for part in parts if isinstance(part, Text))
        status = status_of(text)
        return Message.tool(Result(call_id, parts if status == "completed" else (), status, item.get("name")))
    if role != "assistant":
        return Message("system" if role == "developer" else role, parts)
    calls = [_call_of(call) for call in item.get("tool_calls") or ()]
    if item.get("function_call") is not None:
        told = item["function_call"]
        calls.append(call_of(f"call_{told['name']}", told["name"], told.get("arguments")))
    return Message.assistant(parts, calls)


def _call_of(call: Mapping[str, Any]) -> Call:
    if call.get("type") == "custom":
        raise BadHistory(
            f"call {call.get('id')!r} is of a custom tool, whose input is no JSON object; there is no message for it"
        )
    return call_of(call["id"], call["function"]["name"], call["function"]["arguments"])


def _parts_of(item: Item, where: str) -> list[Part]:
    content = item.get("content")
    if isinstance(content, str):
        return [Text(content)]
    found: list[Part] = []
    for block in blocks_of(item, where):
        if block.get("type") == "text":
            found.append(Text(block["text"]))
        elif block.get("type") == "image_url":
            found.append(_image_of(block["image_url"]["url"]))
        elif block.get("type") == "refusal":
            found.append(Text(block["refusal"]))
        else:
            found.append(Opaque(WIRE, block))
    return found or ([Text(item["refusal"])] if item.get("refusal") else [])


def _image_of(url: str) -> Image:
    head, _, data = url.partition(";base64,")
    return Image(data, head.removeprefix("data:")) if data and head.startswith("data:") else Image(url=url)
