"""Models of the loop over the real clients: replies and streams as the SDKs give them, stops, cuts and errors."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from httpclients import assert_stopped, stop_at
from modelservers import (
    CALLS,
    DONE,
    HALF,
    START,
    STREAMED,
    TEXT,
    THINKING,
    anthropic_whole,
    behind,
    ended,
    model,
    openai_chunk,
    openai_whole,
)
from standins import until

from turnctl.agent import Assembly, Tool, close_calls, kind_of, validate_history
from turnctl.agent.messages import Call, Message, Opaque, Reply, Result, Text, Usage


def look(at: str) -> str:
    """Look at something."""
    return at


BOTH = pytest.mark.parametrize("name", ["openai", "anthropic"])


@BOTH
def test_two_steps_with_a_tool(name: str) -> None:
    """A reply that calls, the tool's result, and the next reply: what the provider is sent is accepted, and parsed."""
    tool = Tool(look)
    history = [Message.system("be brief"), Message.user("go")]
    with model(CALLS[name], DONE[name]) as server, behind(name, server.url) as chat:
        first = chat.complete(history, [tool])
        history += [first.message, Message.tool(*(tool.invoke(call).result for call in first.message.calls))]
        second = chat.complete(history, [tool])

    assert ("calls", (Call("a", "look", {"at": "x"}),), Usage(5, 2)) == (first.stop, first.message.calls, first.usage)
    assert ("end", "done", "m-1") == (second.stop, second.message.text, second.model)
    assert ["look"] == [one.get("name") or one["function"]["name"] for one in server.asked[0]["tools"]]
    for request in server.asked:
        validate_history(request["messages"], shape=name)  # type: ignore[arg-type]
    if name == "anthropic":
        assert "be brief" == server.asked[1]["system"]
        assert THINKING == server.asked[1]["messages"][1]["content"][0]


@BOTH
def test_ids_of_another_provider_are_taken(name: str) -> None:
    """A history that began elsewhere, with ids that this provider refuses, is sent with others, and stays as it is."""
    odd = ["functions.look:0", "portkey-6aa6db90-1b84-4155-9f32-f658c97d6b1b", "x" * 90]
    calls, results = [Call(one, "look", {"at": "x"}) for one in odd], [Result(one, "seen", name="look") for one in odd]
    history = [Message.user("go"), Message.assistant("", calls), Message.tool(*results)]
    with model(DONE[name]) as server, behind(name, server.url) as chat:
        reply = chat.complete(history, [Tool(look)])

    assert "done" == reply.message.text
    assert odd == [one.id for one in history[1].calls] == [one.call_id for one in history[2].results]
    validate_history(server.asked[0]["messages"], shape=name)  # type: ignore[arg-type]


@BOTH
def test_stream_with_a_call(name: str) -> None:
    """Pieces of text and of a call as they come, and at last the whole reply with its usage."""
    with model(("events", STREAMED[name])) as server, behind(name, server.url) as chat:
        assembly = Assembly()
        for item in chat.stream([Message.user("go")]):
            assembly.add(item)
    reply = assembly.reply()

    assert (Text("half"), Call("a", "look", {"at": "x"})) == reply.message.parts
    assert ("calls", Usage(5, 2), True) == (reply.stop, reply.usage, assembly.is_whole)
    assert server.asked[0]["stream"] is True


def test_refusals() -> None:
    """A refusal is told as one, by either provider, whole and streamed."""
    refused = openai_whole({"refusal": "I will not"}, "stop")
    events = ("events", [openai_chunk({"refusal": "I will not"}), openai_chunk({}, "stop")])
    with model(refused, events) as server, behind("openai", server.url) as chat:
        found = [chat.complete([Message.user("go")]), list(chat.stream([Message.user("go")]))[-1]]
    whole = anthropic_whole([{"type": "text", "text": "I will not"}], "refusal")
    with model(whole, ("events", [START, *TEXT, *ended("refusal")])) as server, behind("anthropic", server.url) as chat:
        found += [chat.complete([Message.user("go")]), list(chat.stream([Message.user("go")]))[-1]]

    assert ["refusal"] * 4 == [one.stop for one in found]
    assert ["I will not"] * 3 == [one.message.text for one in found[:3]]


@BOTH
def test_stop_in_a_stream_closes_the_connection(name: str) -> None:
    """A model that stalls in the middle: free at once, the server sees the end, and what came is kept, marked."""
    assembly = Assembly()

    def read(chat: Any) -> None:
        for item in chat.stream([Message.user("go")]):
            assembly.add(item)

    with model(("stall", HALF[name])) as server, behind(name, server.url) as chat:
        stopped = stop_at(lambda _: read(chat), lambda: until(lambda: assembly.text))
        seen = server.server.peer().ended.wait(5)
    partial = assembly.partial()

    assert_stopped(stopped)
    assert seen
    assert partial is not None
    assert ("half", True, False) == (partial.text, partial.is_partial, partial.is_fed)
    assert 1 == len(server.asked)


@BOTH
def test_stop_of_a_whole_reply_closes_the_connection(name: str) -> None:
    """The same where the model has not said a word."""
    with model(("stall", [])) as server, behind(name, server.url) as chat:
        stopped = stop_at(lambda _: chat.complete([Message.user("go")]), server.server.reached)
        seen = server.server.peer().ended.wait(5)

    assert_stopped(stopped)
    assert seen


@BOTH
def test_body_that_just_ends_is_cut(name: str) -> None:
    """A body without a length that ends is no error of the transport; the reply says that it was cut."""
    with model(("end", HALF[name])) as server, behind(name, server.url) as chat:
        reply = list(chat.stream([Message.user("go")]))[-1]

    assert isinstance(reply, Reply)
    assert ("cut", "half", True) == (reply.stop, reply.message.text, reply.message.is_partial)


@BOTH
def test_body_that_is_torn_is_an_error(name: str) -> None:
    """A chunked body that is torn raises what the transport raises; what came is kept, and it is no window."""
    assembly = Assembly()
    with model(("cut", HALF[name])) as server, behind(name, server.url) as chat:
        with pytest.raises(Exception) as raised:
            for item in chat.stream([Message.user("go")]):
                assembly.add(item)

    assert "half" == assembly.text
    assert "connection" == kind_of(raised.value)


# -- errors of the real clients -----------------------------------------------------------------------------------


def openai_error(code: str | None, message: str = "no", type: str = "invalid_request_error") -> Any:
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


def anthropic_error(type: str, message: str = "no") -> Any:
    return {"type": "error", "error": {"type": type, "message": message}, "request_id": "r"}


LONG = "This model's maximum context length is 8 tokens. However, your messages resulted in 9 tokens."


@pytest.mark.parametrize(
    ("name", "number", "body", "kind"),
    [
        ("openai", 400, openai_error("context_length_exceeded"), "window"),
        ("openai", 400, openai_error(None, LONG), "window"),
        ("openai", 400, openai_error(None, "context deadline exceeded"), "invalid"),
        ("openai", 504, openai_error(None, "context deadline exceeded"), "timeout"),
        ("openai", 429, openai_error("rate_limit_exceeded", type="tokens"), "rate_limit"),
        ("openai", 401, openai_error("invalid_api_key"), "auth"),
        ("openai", 500, openai_error(None, LONG, "server_error"), "server"),
        (
            "anthropic",
            400,
            anthropic_error("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
            "window",
        ),
        ("anthropic", 413, anthropic_error("request_too_large"), "window"),
        ("anthropic", 400, anthropic_error("invalid_request_error", "max_tokens: too large"), "invalid"),
        ("anthropic", 529, anthropic_error("overloaded_error"), "overloaded"),
        ("anthropic", 504, anthropic_error("timeout_error", "context deadline exceeded"), "timeout"),
    ],
)
def test_errors_of_the_clients(name: str, number: int, body: Any, kind: str) -> None:
    """What the SDK raises for an answer of the provider is of the right kind; only one of them is the window."""
    with model(("status", (number, body))) as server, behind(name, server.url) as chat:
        with pytest.raises(Exception) as raised:
            chat.complete([Message.user("go")])

    assert kind == kind_of(raised.value), raised.value


@BOTH
def test_error_within_a_stream(name: str) -> None:
    """A stream that has begun well and tells an error has that one's kind, whatever the status was."""
    event = {"type": "error", **anthropic_error("overloaded_error")}
    told = openai_error("context_length_exceeded", LONG) if name == "openai" else event
    with model(("events", [*HALF[name], told])) as server, behind(name, server.url) as chat:
        with pytest.raises(Exception) as raised:
            list(chat.stream([Message.user("go")]))

    assert ("window" if name == "openai" else "overloaded") == kind_of(raised.value), repr(raised.value)


@BOTH
def test_time_out_and_no_server(name: str) -> None:
    """A client that waited too long, or found nobody, has no word on the window."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with behind(name, f"http://127.0.0.1:{port}") as chat, pytest.raises(Exception) as nobody:
        chat.complete([Message.user("go")])
    with model(("stall", [])) as server, behind(name, server.url) as chat:
        slow = type(chat)(chat._create, "m", timeout=0.05)
        with pytest.raises(Exception) as late:
            slow.complete([Message.user("go")])

    assert ("connection", "timeout") == (kind_of(nobody.value), kind_of(late.value))


# -- histories of the SDKs' own objects ---------------------------------------------------------------------------


def test_history_of_openais_objects() -> None:
    """A host that appends the SDK's messages has its history closed: the objects are the same, the result is there."""
    openai = pytest.importorskip("openai", reason="its objects are what this test is about")
    message = openai.types.chat.ChatCompletion.model_validate(CALLS["openai"][1]).choices[0].message
    given = [{"role": "user", "content": "go"}, message]
    found = close_calls(given)

    assert message is found[1]
    assert ("tool", "a") == (found[2]["role"], found[2]["tool_call_id"])
    assert 2 == len(given)
    validate_history(found)
    assert found == close_calls(found)


def _type_of(block: Any) -> str:
    return str(block["type"] if isinstance(block, dict) else block.type)


def test_history_of_anthropics_objects() -> None:
    """The same with blocks of the SDK in a dict, and with its whole message, of which role and content are kept."""
    anthropic = pytest.importorskip("anthropic", reason="its objects are what this test is about")
    message = anthropic.types.Message.model_validate(CALLS["anthropic"][1])
    blocks = {"role": "assistant", "content": message.content}
    before = message.model_dump()
    for given in (blocks, message):
        found = close_calls([{"role": "user", "content": "go"}, given, {"role": "user", "content": "and?"}])

        assert ["user", "assistant", "user", "user"] == [one["role"] for one in found]
        assert ["thinking", "text", "tool_use"] == [_type_of(block) for block in found[1]["content"]]
        assert {"role", "content"} == set(found[1])
        assert "a" == found[2]["content"][0]["tool_use_id"]
        validate_history(found)
        assert found == close_calls(found)
    assert CALLS["anthropic"][1]["content"] == found[1]["content"]
    assert before == message.model_dump()
    assert blocks is close_calls([blocks])[0]


def test_blocks_that_are_changed_keep_their_signature() -> None:
    """Where an id has to be made new, the thinking beside it stays as the SDK gave it."""
    anthropic = pytest.importorskip("anthropic", reason="its objects are what this test is about")
    message = anthropic.types.Message.model_validate(CALLS["anthropic"][1])
    turn = {"role": "assistant", "content": message.content}
    found = close_calls([turn, turn])

    assert THINKING == found[2]["content"][0]
    assert "a-2" == found[2]["content"][2]["id"]
    assert "a-2" == found[3]["content"][0]["tool_use_id"]


def test_results_are_told_to_the_model() -> None:
    """What a stop left open reaches the provider as what it is: of unknown outcome, or never started."""
    said = [
        Message.user("go"),
        Message.assistant([Opaque("anthropic", THINKING)], [Call("a", "look"), Call("b", "look")]),
        Message.tool(Result("a", status="cancelled_unknown"), Result("b", status="not_started")),
        Message.user("and now?"),
    ]
    with model(DONE["anthropic"]) as server, behind("anthropic", server.url) as chat:
        chat.complete(said)
    told = server.asked[0]["messages"][2]["content"]

    assert ["cancelled, outcome unknown", "stopped before it started"] == [
        one["content"].partition(":")[0] for one in told
    ]
    assert [True, True] == [one["is_error"] for one in told]
