"""A model behind a client of Anthropic's messages: ``anthropic.Anthropic``, or whatever speaks its shape."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from turnctl.agent.closing.shapes import Item, plain, without_none
from turnctl.agent.counting import Tally
from turnctl.agent.members import get
from turnctl.agent.wires.anthropic import parts_of_blocks, to_anthropic, tools_to_anthropic
from turnctl.agent.wires.client import ClientModel, Reading, marked_if_cut
from turnctl.records.messages import Message
from turnctl.records.replies import CallDelta, Delta, Reply, ReplyStop, TextDelta, ThinkingDelta, Usage

__all__ = ["AnthropicMessages"]

_STOPS: dict[str, ReplyStop] = {
    "end_turn": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
    "pause_turn": "pause",
}


class AnthropicMessages(ClientModel):
    """A model for the loop, over ``client``: an object with ``messages.create``, or a function like that.

    ``options`` go into each request as they are (``temperature``, ``thinking``, ``tool_choice``). Tokens that came from
    a cache or went into one are among the input, as OpenAI counts them. ``price(usage)`` says what tokens cost; where
    it is given, ``usage.cost`` is known.
    """

    _member = "messages.create"
    _whose = "an Anthropic"
    _ours = ("messages", "model", "stream", "system", "tools")

    def __init__(
        self,
        client: Any,
        model: str,
        *,
        max_tokens: int = 4096,
        price: Callable[[Usage], float] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(client, model, price, {"max_tokens": max_tokens, **options})

    def request(self, messages: Iterable[Message], tools: Iterable[Any] = ()) -> dict[str, Any]:
        """What is sent, without sending it. Pure."""
        system, told = to_anthropic(messages)
        found: dict[str, Any] = {"model": self.model, "messages": told, **self._options}
        if system:
            found["system"] = system
        if offered := tools_to_anthropic(tools):
            found["tools"] = offered
        return found

    def _whole(self, answer: Any) -> Reply:
        return reply_of_message(answer)

    def _reading(self) -> Reading:
        return _Events()


_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def usage_of(tally: Tally) -> Usage | None:
    if not tally.is_told:
        return None
    cached = tally["cache_read_input_tokens"]
    fed = tally["input_tokens"] + cached + tally["cache_creation_input_tokens"]
    return Usage(fed, tally["output_tokens"], cached)


def reply_of_message(given: Any) -> Reply:
    """A message of the client as a reply."""
    blocks = [without_none(plain(block, "the model's answer")) for block in get(given, "content", ())]
    word = get(given, "stop_reason")
    stop = _STOPS.get(word, "other") if word else "cut"
    message = marked_if_cut(Message("assistant", parts_of_blocks(blocks)), stop)
    tally = Tally()
    tally.add(get(given, "usage"), *_COUNTS)
    return Reply(message, stop, usage_of(tally), get(given, "model"), get(given, "id"), word, tally.notes)


class _Events:
    """One stream."""

    def __init__(self) -> None:
        self._blocks: dict[int, Item] = {}
        self._pieces: dict[int, list[str]] = {}
        self._calls: dict[int, int] = {}
        self._start: Any = None
        self._tally = Tally()
        self._word: str | None = None

    def read(self, event: Any) -> Iterator[Delta]:
        kind = get(event, "type")
        if kind == "message_start":
            self._start = get(event, "message")
            self._tally.add(get(self._start, "usage"), *_COUNTS)
        elif kind == "content_block_start":
            yield from self._begin(get(event, "index", 0), plain(get(event, "content_block"), "a content block"))
        elif kind == "content_block_delta":
            yield from self._more(get(event, "index", 0), get(event, "delta"))
        elif kind == "message_delta":
            self._word = get(get(event, "delta"), "stop_reason") or self._word
            self._tally.add(get(event, "usage"), *_COUNTS)

    def _begin(self, index: int, block: Item) -> Iterator[Delta]:
        self._blocks[index] = block = without_none(block)
        if block.get("type") == "tool_use":
            self._calls[index] = len(self._calls)
            yield CallDelta(self._calls[index], block.get("id"), block.get("name"))
        elif block.get("type") == "text" and block.get("text"):
            yield TextDelta(block["text"])

    def _more(self, index: int, delta: Any) -> Iterator[Delta]:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        kind = get(delta, "type")
        if kind == "text_delta":
            text = get(delta, "text", "")
            block["text"] = f"{block.get('text', '')}{text}"
            yield TextDelta(text)
        elif kind == "thinking_delta":
            text = get(delta, "thinking", "")
            block["thinking"] = f"{block.get('thinking', '')}{text}"
            yield ThinkingDelta(text)
        elif kind == "signature_delta":
            block["signature"] = f"{block.get('signature', '')}{get(delta, 'signature', '')}"
        elif kind == "input_json_delta":
            text = get(delta, "partial_json", "")
            self._pieces.setdefault(index, []).append(text)
            if index in self._calls:
                yield CallDelta(self._calls[index], arguments=text)

    def reply(self) -> Reply:
        blocks = []
        for index in sorted(self._blocks):
            block = self._blocks[index]
            if text := "".join(self._pieces.get(index, ())):
                is_call = block.get("type") == "tool_use"
                block = {**block, "input": text if is_call else _object_of(text)}
            blocks.append(block)
        stop = _STOPS.get(self._word, "other") if self._word else "cut"
        if stop == "cut":  # thinking without its signature is of no use to anybody
            blocks = [block for block in blocks if block.get("type") != "thinking" or block.get("signature")]
        message = marked_if_cut(Message("assistant", parts_of_blocks(blocks)), stop)
        start, tally = self._start, self._tally
        return Reply(message, stop, usage_of(tally), get(start, "model"), get(start, "id"), self._word, tally.notes)


def _object_of(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {}
