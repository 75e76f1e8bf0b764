"""A model behind a client of OpenAI's chat: ``openai.OpenAI``, ``litellm.completion``, or whatever speaks its shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from turnctl.agent.calling import Calling, call_of
from turnctl.agent.counting import Tally
from turnctl.agent.encodable import well_formed
from turnctl.agent.members import get
from turnctl.agent.messages import reply_of
from turnctl.agent.wires.client import ClientModel, Reading, marked_if_cut
from turnctl.agent.wires.openai import tools_to_openai, worded
from turnctl.errors import TurnctlError
from turnctl.records.messages import Message
from turnctl.records.replies import Delta, Reply, ReplyStop, TextDelta, ThinkingDelta, Usage

__all__ = ["OpenAIChat"]

_STOPS: dict[str, ReplyStop] = {
    "stop": "end",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "content_filter": "refusal",
}


class OpenAIChat(ClientModel):
    """A model for the loop, over ``client``: an object with ``chat.completions.create``, or a function like that.

    ``options`` go into each request as they are (``temperature``, ``max_tokens``, ``tool_choice``). ``stream_usage``
    asks for the number of tokens at the end of a stream, which some servers do not know. ``price(usage)`` says what
    tokens cost; where it is given, ``usage.cost`` is known.
    """

    _member = "chat.completions.create"
    _whose = "an OpenAI"
    _ours = ("messages", "model", "stream", "tools")

    def __init__(
        self,
        client: Any,
        model: str,
        *,
        stream_usage: bool = True,
        price: Callable[[Usage], float] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(client, model, price, options)
        self._stream_usage = stream_usage
        # what litellm put into an id for Gemini goes back to whoever may be litellm, and not to OpenAI
        host = urlsplit(str(getattr(client, "base_url", ""))).hostname or ""
        self._signed = not host.endswith((".openai.com", ".azure.com"))

    def request(self, messages: Iterable[Message], tools: Iterable[Any] = ()) -> dict[str, Any]:
        """What is sent, without sending it. Pure."""
        found: dict[str, Any] = {
            "model": self.model,
            "messages": worded(messages, signed=self._signed),
            **self._options,
        }
        if told := tools_to_openai(tools):
            found["tools"] = told
        return found

    def _streamed(self, request: dict[str, Any]) -> dict[str, Any]:
        found = super()._streamed(request)
        if self._stream_usage:
            found.setdefault("stream_options", {"include_usage": True})
        return found

    def _whole(self, answer: Any) -> Reply:
        return reply_of_completion(answer)

    def _reading(self) -> Reading:
        return _Chunks()


def count(tally: Tally, told: Any) -> None:
    """Count what a completion or a chunk tells of tokens."""
    tally.add(told, "prompt_tokens", "completion_tokens", "total_tokens")
    tally.add(get(told, "prompt_tokens_details"), "cached_tokens", of="prompt_tokens_details")


def usage_of(tally: Tally) -> Usage | None:
    """The tokens of a reply; those from a cache are among the input. Of two counts the sum tells a missing one."""
    if not tally.is_told:
        return None
    fed, written, both = tally["prompt_tokens"], tally["completion_tokens"], tally["total_tokens"]
    if "prompt_tokens" not in tally:
        fed = max(both - written, 0)
    elif "completion_tokens" not in tally:
        written = max(both - fed, 0)
    return Usage(fed, written, tally["cached_tokens"])


def text_of(content: Any) -> str:
    """The text of a message: some servers give it as a list of blocks, as it may be sent."""
    if isinstance(content, (list, tuple)):
        return "".join(str(get(block, "text", "")) for block in content)
    return "" if content is None else str(content)


def stop_of(word: str | None, has_calls: bool, refused: bool) -> ReplyStop:
    if refused:
        return "refusal"
    found = "cut" if word is None else _STOPS.get(word, "other")
    if has_calls and found == "end":  # some servers call and say "stop"
        return "calls"
    return found


def reply_of_completion(given: Any) -> Reply:
    """A completion as a reply. Raises ``TurnctlError`` if it has no choice."""
    choices = get(given, "choices", ())
    if not choices:
        raise TurnctlError(f"the model's answer has no choice: {given!r}; look at the client and its server")
    choice = choices[0]
    message = get(choice, "message")
    if message is None:
        raise TurnctlError(f"the model's answer has no message: {given!r}; look at the client and its server")
    refusal = get(message, "refusal", "")
    calls = []
    for one in get(message, "tool_calls", ()):
        told = get(one, "function")
        if told is None:
            raise TurnctlError(f"the model called what is no function: {one!r}; offer it function tools alone")
        calls.append(call_of(get(one, "id", ""), get(told, "name", ""), get(told, "arguments")))
    older = get(message, "function_call")
    if older is not None and not calls:
        calls.append(call_of(f"call_{get(older, 'name')}", get(older, "name", ""), get(older, "arguments")))
    word = get(choice, "finish_reason")
    found = Message.assistant(well_formed(text_of(get(message, "content")) or refusal), calls)
    stop = stop_of(word or "stop", bool(calls), bool(refusal))
    tally = Tally()
    count(tally, get(given, "usage"))
    usage = usage_of(tally)
    return reply_of(Reply(found, stop, usage, get(given, "model"), get(given, "id"), word, tally.notes))


class _Chunks:
    """One stream."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._calling = Calling()
        self._refused = False
        self._word: str | None = None
        self._tally = Tally()
        self._model: str | None = None
        self._id: str | None = None

    def read(self, chunk: Any) -> Iterator[Delta]:
        count(self._tally, get(chunk, "usage"))
        self._model = get(chunk, "model") or self._model
        self._id = get(chunk, "id") or self._id
        for choice in get(chunk, "choices", ()):
            if get(choice, "index", 0) != 0:
                continue
            self._word = get(choice, "finish_reason") or self._word
            yield from self._delta(get(choice, "delta"))

    def _delta(self, delta: Any) -> Iterator[Delta]:
        if thought := get(delta, "reasoning_content") or get(delta, "reasoning"):
            yield ThinkingDelta(str(thought))
        refusal = get(delta, "refusal", "")
        self._refused = self._refused or bool(refusal)
        if text := text_of(get(delta, "content")) or refusal:
            self._texts.append(text)
            yield TextDelta(text)
        for n, one in enumerate(get(delta, "tool_calls", ())):
            told = get(one, "function")
            key = get(one, "index", n)
            yield self._calling.add(key, get(one, "id"), get(told, "name"), get(told, "arguments", ""))
        older = get(delta, "function_call")
        if older is not None:
            name = get(older, "name")
            call_id = f"call_{name}" if name else None
            yield self._calling.add("function_call", call_id, name, get(older, "arguments", ""))

    def reply(self) -> Reply:
        calls = self._calling.calls()
        message = Message.assistant(well_formed("".join(self._texts)), calls)
        stop = stop_of(self._word, bool(calls), self._refused and self._word is not None)
        tally, whole = self._tally, marked_if_cut(message, stop)
        return Reply(whole, stop, usage_of(tally), self._model, self._id, self._word, tally.notes)
