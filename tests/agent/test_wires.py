"""Messages on the wires of providers: always accepted, merged there alone, and back again."""

from __future__ import annotations

import copy
import json
import random
from types import SimpleNamespace
from typing import Any

import histories
import pytest

from turnctl.agent.closing import close_calls
from turnctl.agent.messages import STATUS_WORDS, Call, Image, Mark, Message, Opaque, Result
from turnctl.agent.tools import Tool
from turnctl.agent.validating import validate_history
from turnctl.agent.wires import AnthropicMessages, OpenAIChat, from_anthropic, from_openai, to_anthropic, to_openai
from turnctl.errors import BadArgument, BadHistory

CALL = Call("a", "look", {"at": "é"})
THINKING = {"type": "thinking", "thinking": "hm", "signature": "s1"}
SAID = [
    Message.system("be brief"),
    Message.user("go"),
    Message("assistant", "hal", [Mark("partial")]),
    Message.user("go on"),
    Message.assistant([Opaque("anthropic", THINKING), "so:", CALL, Call("b", "look", {}, '{"at": ')]),
    Message.tool(Result("a", ["seen", Image(data="aGk=")], name="look"), Result("b", status="cancelled_unknown")),
    Message.user("and?"),
    Message.assistant("done"),
]


def test_openai_gets_what_it_takes() -> None:
    """The system's message in its place, prompts merged, the partial reply away, and images after the results."""

    assert [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "go\n\ngo on"},
        {
            "role": "assistant",
            "content": "so:",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"at": "é"}'}},
                {"id": "b", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "seen"},
        {"role": "tool", "tool_call_id": "b", "content": STATUS_WORDS["cancelled_unknown"]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "of look a:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            ],
        },
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "done"},
    ] == to_openai(SAID)


def test_anthropic_gets_what_it_takes() -> None:
    """The system's text apart, thinking with its signature first, results in one message with the image within."""
    system, messages = to_anthropic(SAID)

    assert "be brief" == system
    assert [
        {"role": "user", "content": "go\n\ngo on"},
        {
            "role": "assistant",
            "content": [
                THINKING,
                {"type": "text", "text": "so:"},
                {"type": "tool_use", "id": "a", "name": "look", "input": {"at": "é"}},
                {"type": "tool_use", "id": "b", "name": "look", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "a",
                    "content": [
                        {"type": "text", "text": "seen"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
                    ],
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "b",
                    "content": STATUS_WORDS["cancelled_unknown"],
                    "is_error": True,
                },
            ],
        },
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
    ] == messages


def test_results_of_several_messages_share_one() -> None:
    """Results of parallel calls that were kept one by one are in one message of Anthropic's user."""
    said = [
        Message.assistant("", [Call("a", "t"), Call("b", "t")]),
        Message.tool(Result("a")),
        Message.tool(Result("b")),
    ]
    _, messages = to_anthropic(said)

    assert [["tool_result", "tool_result"]] == [[block["type"] for block in one["content"]] for one in messages[1:]]


def test_open_calls_never_reach_a_wire() -> None:
    """A history that was not salvaged is closed on the way out, and left as it is."""
    said = [Message.user("go"), Message.assistant("", [CALL])]
    before = copy.deepcopy(said)

    assert STATUS_WORDS["cancelled_unknown"] == to_openai(said)[-1]["content"]
    assert STATUS_WORDS["cancelled_unknown"] == to_anthropic(said)[1][-1]["content"][0]["content"]
    assert before == said


def test_any_messages_are_taken() -> None:
    """400 random conversations, coherent or not: both wires are accepted by the strict check."""
    chance = random.Random(9)
    for _ in range(400):
        said = [_random_message(chance) for _ in range(chance.randrange(8))]
        validate_history(to_openai(said), shape="openai")
        validate_history(to_anthropic(said)[1], shape="anthropic")


def _random_message(chance: random.Random) -> Message:
    ids = [chance.choice(["a", "b", "c d", ""]) for _ in range(chance.randrange(4))]
    text = chance.choice(["", " ", "hello"])
    kind = chance.randrange(5)
    if kind == 0:
        marks = [Mark("partial")] * chance.randrange(2)
        return Message("assistant", [text, *(Call(one, "t", {"n": 1}) for one in ids)], marks)
    if kind == 1:
        content = [
            text,
            *[Image(url="http://x/1")] * chance.randrange(2),
            Opaque("openai", {"type": "file", "file": {}}),
        ]
        return Message.tool(*(Result(one, content[: chance.randrange(4)]) for one in ids))
    if kind == 2:
        return Message.user([text, Image(data="aGk=")])
    return Message(chance.choice(["user", "system", "assistant"]), text)


def test_what_cannot_be_encoded_is_sent_all_the_same() -> None:
    """Half an emoji, a name that is no UTF-8, a number that is none: no request fails of what is in the history."""
    calls = [Call("a", "t", {"n": float("inf")}), Call("b", "t", {"k\ud800": ["\udcff"]})]
    said = [
        Message.system("a\ud83d"),
        Message.user("b\udcff"),
        Message.assistant("\ud83d\ude00", calls),
        Message.tool(Result("a", "name \udcff"), Result("b", "x")),
    ]
    sent = to_openai(said)
    system, messages = to_anthropic(said)
    json.dumps([sent, system, messages], ensure_ascii=False, allow_nan=False).encode()

    assert ["a\ufffd", "b\ufffd", "\U0001f600"] == [one["content"] for one in sent[:3]]
    assert [{}, {"k\ufffd": ["\ufffd"]}] == [block["input"] for block in messages[1]["content"][1:]]
    assert "name \udcff" == said[3].results[0].text


def test_there_and_back() -> None:
    """What both wires can hold comes back as it was, statuses too."""
    said = [
        Message.user("go"),
        Message.assistant("so:", [CALL, Call("b", "look")]),
        Message.tool(Result("a", "seen"), Result("b", status="not_started")),
        Message.user(["see", Image(url="http://x/1")]),
        Message.assistant("done"),
    ]
    apart = [*said[:2], Message.tool(Result("a", "seen")), Message.tool(Result("b", status="not_started")), *said[3:]]
    system, messages = to_anthropic([Message.system("be brief"), *said])

    assert apart == from_openai(to_openai(said))
    assert [Message.system("be brief"), *said] == from_anthropic(messages, system)
    assert said == from_anthropic(messages)
    assert Message.system("a\n\nb") == from_anthropic([], [{"type": "text", "text": "a"}, {"text": "b"}])[0]


@pytest.mark.parametrize("shape", ["openai", "anthropic"])
def test_any_history_of_a_provider_is_read(shape: Any) -> None:
    """400 random histories: read as messages and sent again they are what closing makes of them, as far as told."""
    chance = random.Random(4)
    for _ in range(400):
        given = histories.SHAPES[shape](chance)
        closed = close_calls(given, shape=shape)
        if shape == "openai":
            sent = to_openai(from_openai(given))
            ids = [one["tool_call_id"] for one in closed if one["role"] == "tool"]
            kept = [one["tool_call_id"] for one in sent if one["role"] == "tool" if "call_" not in one["tool_call_id"]]

            assert [one for one in ids if "call_" not in one] == kept
        else:
            sent = to_anthropic(from_anthropic(given))[1]

            assert _results(closed) == _results(sent)
        validate_history(sent, shape=shape)


def _results(history: list[Any]) -> list[str]:
    blocks = [block for one in history if isinstance(one["content"], list) for block in one["content"]]
    return [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]


def test_parts_of_a_providers_own_are_kept() -> None:
    """Thinking, server tools and files come back as they came, and stay away from the other wire."""
    server = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
    file = {"type": "file", "file": {"file_id": "f"}}
    thought = from_anthropic([{"role": "assistant", "content": [THINKING, server, {"type": "text", "text": "x"}]}])
    filed = from_openai([{"role": "user", "content": [{"type": "text", "text": "x"}, file]}])

    assert [THINKING, server] == to_anthropic(thought)[1][0]["content"][:2]
    assert [{"role": "assistant", "content": "x"}] == to_openai(thought)
    assert file == to_openai(filed)[0]["content"][1]
    assert [{"type": "text", "text": "x"}] == to_anthropic(filed)[1][0]["content"]


def test_older_and_odd_histories_are_read() -> None:
    """``function_call``, a refusal, a developer and a data URL have their place; a custom tool has none."""
    older = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/gif;base64,aGk="}}]},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "x"},
        {"role": "assistant", "content": None, "refusal": "no"},
    ]
    found = from_openai(older)

    assert Message.system("be brief") == found[0]
    assert Message.user(Image("aGk=", "image/gif")) == found[1]
    assert ["call_f", "call_f"] == [found[2].calls[0].id, found[3].results[0].call_id]
    assert Message.assistant("no") == found[4]
    with pytest.raises(BadHistory, match="custom tool"):
        from_openai(
            [
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "s", "input": "x"}}],
                }
            ]
        )


# -- requests -----------------------------------------------------------------------------------------------------


def look(at: str) -> str:
    """Look at it."""
    return at


def test_requests_are_built() -> None:
    """Model, messages, options and tools; a tool in the wire's own shape is passed on."""
    own = {"type": "web_search"}
    chat = OpenAIChat(lambda **_: None, "m", temperature=0)
    claude = AnthropicMessages(lambda **_: None, "m", max_tokens=9)
    said = [Message.system("s"), Message.user("go")]
    schema = Tool(look).schema

    assert {
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "go"}],
        "temperature": 0,
        "tools": [
            {"type": "function", "function": {"name": "look", "description": "Look at it.", "parameters": schema}},
            own,
        ],
    } == chat.request(said, [Tool(look), own])
    assert {
        "model": "m",
        "messages": [{"role": "user", "content": "go"}],
        "max_tokens": 9,
        "system": "s",
        "tools": [{"name": "look", "description": "Look at it.", "input_schema": schema}, own],
    } == claude.request(said, [Tool(look), own])
    assert {"model", "messages", "temperature"} == set(chat.request([]))


@pytest.mark.parametrize("kind", [OpenAIChat, AnthropicMessages])
def test_wrong_client_is_refused_at_once(kind: Any) -> None:
    """What cannot be asked, and options that the loop gives, are told where the model is made."""
    with pytest.raises(BadArgument, match="is a function like"):
        kind(SimpleNamespace(), "m")
    with pytest.raises(BadArgument, match="messages of a request comes from the loop"):
        kind(print, "m", messages=[])
    with pytest.raises(BadArgument, match="a tool has a name and a schema"):
        kind(print, "m").request([], [look])
