"""Replies of models read from their wires, whole or in pieces, and what is kept of one that was cut."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from turnctl.agent.assembling import Assembly
from turnctl.agent.messages import Call, CallDelta, Mark, Message, Opaque, Reply, Text, TextDelta, ThinkingDelta, Usage
from turnctl.agent.wires import AnthropicMessages, OpenAIChat
from turnctl.errors import TurnctlError


class Stream:
    """What a client gives for ``stream=True``."""

    def __init__(self, items: list[Any]) -> None:
        self.items = iter(items)
        self.closed = 0

    def __iter__(self) -> Any:
        for item in self.items:
            if isinstance(item, BaseException):
                raise item
            yield item

    def close(self) -> None:
        self.closed += 1


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "c", "model": "m-1", "choices": choices, **more}


def piece(index: Any, arguments: str, call_id: str | None = None, name: str | None = None) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}]}


def streamed(kind: Any, items: list[Any]) -> tuple[list[Any], Stream]:
    stream = Stream(items)
    return list(kind(lambda **_: stream, "m").stream([Message.user("go")])), stream


def test_openai_reply_is_read() -> None:
    """Text, calls, usage and the reason; from dicts and from objects alike."""
    answer = {
        "id": "c",
        "model": "m-1",
        "choices": [
            {
                "finish_reason": "tool_calls",
                "message": {
                    "content": "so",
                    "tool_calls": [
                        {"id": "a", "function": {"name": "look", "arguments": '{"at": 1}'}},
                        {"id": "a", "function": {"name": "look", "arguments": '{"at'}},
                        {"id": None, "function": {"name": "look", "arguments": ""}},
                    ],
                },
            }
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}},
    }
    calls = [Call("a", "look", {"at": 1}), Call("a-2", "look", {}, '{"at'), Call("call", "look")]
    expected = Reply(Message.assistant("so", calls), "calls", Usage(5, 2, 3), "m-1", "c", "tool_calls")

    assert expected == OpenAIChat(lambda **_: answer, "m").complete([])
    assert expected == OpenAIChat(lambda **_: _objects(answer), "m").complete([])


def _objects(given: Any) -> Any:
    if isinstance(given, dict):
        return SimpleNamespace(**{name: _objects(value) for name, value in given.items()})
    return [_objects(one) for one in given] if isinstance(given, list) else given


@pytest.mark.parametrize(
    ("message", "finish", "stop", "text"),
    [
        ({"content": "x"}, "stop", "end", "x"),
        ({"content": "x"}, None, "end", "x"),
        ({"content": "x"}, "length", "length", "x"),
        ({"content": ""}, "content_filter", "refusal", ""),
        ({"content": None, "refusal": "no"}, "stop", "refusal", "no"),
        ({"content": "x"}, "eos", "other", "x"),
        ({"content": None, "tool_calls": [{"id": "a", "function": {"name": "f"}}]}, "stop", "calls", ""),
        ({"content": None, "function_call": {"name": "f", "arguments": "{}"}}, "function_call", "calls", ""),
    ],
)
def test_openai_reasons(message: dict[str, Any], finish: str | None, stop: str, text: str) -> None:
    """Why it stopped, in words that are the same for every provider; a refusal is text that says so."""
    reply = OpenAIChat(lambda **_: {"choices": [{"message": message, "finish_reason": finish}]}, "m").complete([])

    assert (stop, text, finish) == (reply.stop, reply.message.text, reply.raw_stop)


def test_answer_without_a_choice_is_an_error() -> None:
    """An answer that has nothing in it is told, not taken for an empty reply."""
    with pytest.raises(TurnctlError, match="no choice"):
        OpenAIChat(lambda **_: {"choices": []}, "m").complete([])
    with pytest.raises(TurnctlError, match="what is no function"):
        custom = {"message": {"tool_calls": [{"id": "a", "custom": {"name": "x"}}]}}
        OpenAIChat(lambda **_: {"choices": [custom]}, "m").complete([])


def test_openai_stream_is_read() -> None:
    """Text and thinking as they come, the pieces of two calls at once put together, usage from the last chunk."""
    items, stream = streamed(
        OpenAIChat,
        [
            chunk({"role": "assistant", "content": ""}),
            chunk({"reasoning_content": "hm"}),
            chunk({"content": "so "}),
            chunk({"content": "it is"}),
            chunk(piece(0, "", "a", "look")),
            chunk(piece(0, '{"at"')),
            chunk(piece(1, '{"at": 2}', "b", "look")),
            chunk(piece(0, ": 1}")),
            chunk({}, "tool_calls"),
            chunk(usage={"prompt_tokens": 5, "completion_tokens": 2}),
        ],
    )
    reply = items.pop()

    assert [
        ThinkingDelta("hm"),
        TextDelta("so "),
        TextDelta("it is"),
        CallDelta(0, "a", "look", ""),
        CallDelta(0, None, None, '{"at"'),
        CallDelta(1, "b", "look", '{"at": 2}'),
        CallDelta(0, None, None, ": 1}"),
    ] == items
    assert Message.assistant("so it is", [Call("a", "look", {"at": 1}), Call("b", "look", {"at": 2})]) == reply.message
    assert ("calls", Usage(5, 2), "m-1") == (reply.stop, reply.usage, reply.model)
    assert 1 == stream.closed


def test_odd_servers_streams_are_read() -> None:
    """One index for all calls, an id with each piece, no index at all, other choices between, the older form."""
    one_index, _ = streamed(OpenAIChat, [chunk(piece(0, "{}", "a", "f")), chunk(piece(0, "{}", "b", "g"), "stop")])
    id_again, _ = streamed(OpenAIChat, [chunk(piece(0, "{", "a", "f")), chunk(piece(0, "}", "a", "f"), "stop")])
    no_index, _ = streamed(OpenAIChat, [chunk(piece(None, "{}", "a", "f"), "tool_calls")])
    other = {"choices": [{"index": 1, "delta": {"content": "no"}}]}
    older = {"function_call": {"name": "f", "arguments": "{}"}}
    found, _ = streamed(OpenAIChat, [other, chunk(older, "function_call")])

    assert (Call("a", "f"), Call("b", "g")) == one_index[-1].message.calls
    assert (Call("a", "f"),) == id_again[-1].message.calls
    assert (Call("a", "f"),) == no_index[-1].message.calls
    assert ("", (Call("call_f", "f"),)) == (found[-1].message.text, found[-1].message.calls)


def test_emoji_cut_in_two_is_put_together() -> None:
    """A server that cuts text between the halves of a pair: the reply has it whole, and one half alone is replaced."""
    items, _ = streamed(OpenAIChat, [chunk({"content": "a\ud83d"}), chunk({"content": "\ude00 \udcff"}, "stop")])

    assert "a\U0001f600 \ufffd" == items[-1].message.text


@pytest.mark.parametrize(
    "arguments",
    ['{"n": 1e999}', '{"n": NaN}', "[" * 100_000, '{"a":' * 200 + "1" + "}" * 200, "[1]", '"x"', "{"],
    ids=["infinite", "nan", "endless", "deep", "list", "text", "cut"],
)
def test_arguments_that_cannot_be_sent_are_a_text(arguments: str) -> None:
    """What is no object of JSON, or none that every later request could hold, stays the text that it was."""
    message = {"tool_calls": [{"id": "a", "function": {"name": "t", "arguments": arguments}}]}
    (call,) = OpenAIChat(lambda **_: {"choices": [{"message": message}]}, "m").complete([]).message.calls

    assert ({}, arguments) == (call.arguments, call.raw)


@pytest.mark.parametrize("kind", [OpenAIChat, AnthropicMessages])
def test_tokens_have_their_price(kind: Any) -> None:
    """With a price the cost of each reply is known, whole or streamed; without usage it stays unknown."""
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "input_tokens": 5, "output_tokens": 2}
    told = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "stop_reason": "end_turn"}

    def price(given: Usage) -> float:
        return given.input_tokens * 2 + given.output_tokens * 10

    whole = kind(lambda **_: {**told, "usage": usage}, "m", price=price).complete([])
    free = kind(lambda **_: told, "m", price=price).complete([])
    pieces = [chunk({}, "stop"), chunk(usage=usage)] if kind is OpenAIChat else events()
    last = list(kind(lambda **_: Stream(pieces), "m", price=price).stream([]))[-1]

    assert whole.usage is not None
    assert last.usage is not None
    assert 30 == whole.usage.cost
    assert price(last.usage) == last.usage.cost
    assert free.usage is None


def test_refusal_in_a_stream() -> None:
    """A refusal is shown as it comes, and told at the end."""
    items, _ = streamed(OpenAIChat, [chunk({"refusal": "I will"}), chunk({"refusal": " not"}), chunk({}, "stop")])

    assert ("refusal", "I will not") == (items[-1].stop, items[-1].message.text)
    assert TextDelta("I will") == items[0]


@pytest.mark.parametrize("kind", [OpenAIChat, AnthropicMessages])
def test_stream_without_an_end_is_cut(kind: Any) -> None:
    """A body that ends without a reason is no whole reply: its stop says so, and what came is marked partial."""
    pieces = [chunk({"content": "hal"})] if kind is OpenAIChat else events("hal")[:3]
    items, stream = streamed(kind, pieces)

    assert ("cut", "hal") == (items[-1].stop, items[-1].message.text)
    assert items[-1].message.is_partial
    assert not items[-1].message.is_fed
    assert 1 == stream.closed


@pytest.mark.parametrize("kind", [OpenAIChat, AnthropicMessages])
def test_stream_is_closed_however_it_is_left(kind: Any) -> None:
    """An error in the middle, or a reader that goes away: the stream is closed, once, and the error passes."""
    first = chunk({"content": "hal"}) if kind is OpenAIChat else events("hal")[2]
    broken = Stream([first, OSError("reset")])
    left = Stream([first, first])
    items = kind(lambda **_: left, "m").stream([])
    next(items)
    items.close()
    with pytest.raises(OSError, match="reset"):
        list(kind(lambda **_: broken, "m").stream([]))

    assert (1, 1) == (broken.closed, left.closed)


@pytest.mark.parametrize("kind", [OpenAIChat, AnthropicMessages])
def test_nothing_is_sent_before_the_first_item(kind: Any) -> None:
    """A stream that nobody reads has asked no model: a run that was stopped before it began sends nothing."""
    asked: list[Any] = []
    items = kind(lambda **request: asked.append(request) or Stream([]), "m").stream([])

    assert [] == asked
    items.close()


def test_streams_ask_for_their_usage() -> None:
    """The number of tokens is asked for, unless that is said to be unknown or said otherwise."""
    requests: list[Any] = []

    def create(**request: Any) -> Stream:
        requests.append(request)
        return Stream([])

    list(OpenAIChat(create, "m").stream([]))
    list(OpenAIChat(create, "m", stream_usage=False).stream([]))
    list(OpenAIChat(create, "m", stream_options={"x": 1}).stream([]))

    assert [{"include_usage": True}, None, {"x": 1}] == [one.get("stream_options") for one in requests]
    assert [True] * 3 == [one["stream"] for one in requests]


# -- Anthropic ----------------------------------------------------------------------------------------------------


USAGE = {"input_tokens": 5, "output_tokens": 1}


def events(text: str = "so", stop: str = "end_turn") -> list[dict[str, Any]]:
    return [
        {
            "type": "message_start",
            "message": {"id": "x", "model": "m-1", "usage": {"input_tokens": 5, "output_tokens": 1}},
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "ping"},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]


def started(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def more(index: int, kind: str, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **delta}}


def test_anthropic_reply_is_read() -> None:
    """Blocks in their order, thinking with its signature; tokens of the cache are among the input."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    answer = {
        "id": "x",
        "model": "m-1",
        "stop_reason": "tool_use",
        "content": [
            thinking,
            {"type": "text", "text": "so", "citations": None},
            {"type": "tool_use", "id": "a", "name": "look", "input": {"at": 1}},
        ],
        "usage": {
            "input_tokens": 5,
            "output_tokens": 2,
            "cache_read_input_tokens": 3,
            "cache_creation_input_tokens": 1,
        },
    }
    reply = AnthropicMessages(lambda **_: answer, "m").complete([])

    assert (Opaque("anthropic", thinking), Text("so"), Call("a", "look", {"at": 1})) == reply.message.parts
    assert ("calls", Usage(9, 2, 3), "x", "tool_use") == (reply.stop, reply.usage, reply.id, reply.raw_stop)


@pytest.mark.parametrize(
    ("word", "stop"),
    [
        ("end_turn", "end"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("stop_sequence", "stop_sequence"),
        ("refusal", "refusal"),
        ("pause_turn", "pause"),
        ("something_new", "other"),
    ],
)
def test_anthropic_reasons(word: str, stop: str) -> None:
    """Why it stopped, whole or streamed, in the same words as for every provider."""
    whole = AnthropicMessages(lambda **_: {"content": [], "stop_reason": word}, "m").complete([])
    items, _ = streamed(AnthropicMessages, events(stop=word))

    assert (stop, stop) == (whole.stop, items[-1].stop)


def test_anthropic_stream_is_read() -> None:
    """Thinking with its signature, text, and a call put together from its pieces; usage as last told."""
    items, stream = streamed(
        AnthropicMessages,
        [
            events()[0],
            started(0, {"type": "thinking", "thinking": "", "signature": ""}),
            more(0, "thinking_delta", thinking="h"),
            more(0, "thinking_delta", thinking="m"),
            more(0, "signature_delta", signature="s1"),
            started(1, {"type": "redacted_thinking", "data": "xx"}),
            started(2, {"type": "text", "text": ""}),
            more(2, "text_delta", text="so"),
            started(3, {"type": "tool_use", "id": "a", "name": "look", "input": {}}),
            more(3, "input_json_delta", partial_json=""),
            more(3, "input_json_delta", partial_json='{"at"'),
            more(3, "input_json_delta", partial_json=": 1}"),
            started(4, {"type": "tool_use", "id": "b", "name": "list", "input": {}}),
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}},
        ],
    )
    reply = items.pop()

    assert (
        Opaque("anthropic", {"type": "thinking", "thinking": "hm", "signature": "s1"}),
        Opaque("anthropic", {"type": "redacted_thinking", "data": "xx"}),
        Text("so"),
        Call("a", "look", {"at": 1}),
        Call("b", "list"),
    ) == reply.message.parts
    assert ("calls", Usage(5, 7), "m-1", "x") == (reply.stop, reply.usage, reply.model, reply.id)
    assert [
        ThinkingDelta("h"),
        ThinkingDelta("m"),
        TextDelta("so"),
        CallDelta(0, "a", "look"),
        CallDelta(0, arguments=""),
        CallDelta(0, arguments='{"at"'),
        CallDelta(0, arguments=": 1}"),
        CallDelta(1, "b", "list"),
    ] == items
    assert 1 == stream.closed


def test_thinking_that_was_cut_is_not_kept() -> None:
    """Thinking without its signature would be refused, so a cut reply keeps what was said alone."""
    items, _ = streamed(
        AnthropicMessages,
        [
            started(0, {"type": "thinking", "thinking": ""}),
            more(0, "thinking_delta", thinking="h"),
            *events("hal")[1:3],
        ],
    )

    assert "cut" == items[-1].stop
    assert (Text("hal"),) == items[-1].message.parts


# -- a reply as it is being written -------------------------------------------------------------------------------


def test_partial_reply_has_all_that_came() -> None:
    """At any moment: text and calls in their order, marked with who stopped it; a cut call stays the text it was."""
    assembly = Assembly()

    assert assembly.partial() is None
    for item in (TextDelta("so "), "it is", CallDelta(0, "a", "look"), CallDelta(0, arguments='{"at"'), TextDelta("!")):
        assembly.add(item)
    assembly.add(ThinkingDelta("hm"))
    partial = assembly.partial(Mark("closing", "user", "ann", "enough", "r1"))

    assert partial is not None
    assert (Text("so it is"), Call("a", "look", {}, '{"at"'), Text("!")) == partial.parts
    assert (Mark("partial", "user", "ann", "enough", "r1"),) == partial.marks
    assert ("so it is!", "hm", False) == (assembly.text, assembly.thinking, assembly.is_whole)


def test_whole_reply_is_the_streams_own() -> None:
    """With its reply a stream is whole; a cut one is not; one of plain pieces is what came."""
    whole, cut, plain = Assembly(), Assembly(), Assembly()
    reply = Reply(Message.assistant("x"))
    for item in (TextDelta("y"), reply):
        whole.add(item)
    cut.add(Reply(Message.assistant("x"), "cut"))
    plain.add("so")

    assert (True, False, False) == (whole.is_whole, cut.is_whole, plain.is_whole)
    assert reply is whole.reply()
    assert Reply(Message.assistant("so")) == plain.reply()
    with pytest.raises(TypeError, match="a model gives"):
        plain.add(3)
