"""Ids of calls on the wires: such that a provider takes them, the same in call and result; the history is as it was."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
from loops import Played, feed_is_strict

from turnctl.agent import (
    AgentLoop,
    AnthropicMessages,
    Call,
    Image,
    Message,
    OpenAIChat,
    Result,
    Tool,
    to_anthropic,
    to_openai,
    validate_history,
)

LONG = "portkey-6aa6db90-1b84-4155-9f32-f658c97d6b1b"  # 44 characters
SHORT = "call_8ec468140a72a3da354c8e558e1c9e92"
#: as litellm makes them of what Gemini wants back
SIGNED = "call_1__thought__" + "A+/=" * 200


def _history(*ids: str) -> list[Message]:
    wanted = Message.assistant("", [Call(one, "look") for one in ids])
    results = Message.tool(*(Result(one, f"of {n}", name="look") for n, one in enumerate(ids)))
    return [Message.user("go"), wanted, results]


def _openai_ids(messages: list[Any]) -> tuple[list[str], list[str]]:
    calls = [one["id"] for item in messages for one in item.get("tool_calls", ())]
    return calls, [item["tool_call_id"] for item in messages if item["role"] == "tool"]


def _anthropic_ids(messages: list[Any]) -> tuple[list[str], list[str]]:
    blocks = [block for item in messages if isinstance(item["content"], list) for block in item["content"]]
    uses = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return uses, [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]


@pytest.mark.parametrize("longest", ["a" * 40, "call_1", "functions.look:0", "mit Leerzeichen"])
def test_an_id_that_openai_takes_stays(longest: str) -> None:
    """There are servers of that shape that want to have their ids back as they were."""
    assert ([longest], [longest]) == _openai_ids(to_openai(_history(longest)))


def test_a_long_id_is_a_short_one_for_openai() -> None:
    """The same in call and result, in each request, with short ones beside it; the history is not changed."""
    history = _history("a", LONG, f"{LONG}x")
    before = copy.deepcopy(history)
    sent = to_openai(history)
    calls, results = _openai_ids(sent)

    assert ["a", SHORT] == calls[:2]
    assert calls == results
    assert 3 == len(set(calls))
    assert all(len(one) <= 40 for one in calls)
    assert sent == to_openai(history)
    assert sent == to_openai([*history, Message.user("and?")])[: len(sent)]
    assert before == history
    validate_history(sent, shape="openai")


def test_an_id_that_looks_like_the_short_one_stays_apart() -> None:
    """No two calls of a reply have one id, whatever the history has."""
    calls, results = _openai_ids(to_openai(_history(SHORT, LONG, LONG)))

    assert [SHORT, f"{SHORT}-2", f"{SHORT}-3"] == calls == results


def test_an_image_names_its_call_as_the_wire_does() -> None:
    """What follows the results is of a call that the model can find."""
    history = [*_history(LONG)[:2], Message.tool(Result(LONG, [Image(data="aGk=")], name="look"))]

    assert f"of look {SHORT}:" == to_openai(history)[-1]["content"][0]["text"]


def _asked(client: Any) -> tuple[list[str], list[str]]:
    return _openai_ids(OpenAIChat(client, "m").request(_history(SIGNED))["messages"])


def _client(url: str) -> Any:
    completions = SimpleNamespace(create=lambda **_: None)
    return SimpleNamespace(base_url=url, chat=SimpleNamespace(completions=completions))


def test_what_is_put_into_an_id_goes_back() -> None:
    """litellm, as a function or behind an address, finds there what Gemini wants; OpenAI itself would refuse it."""
    assert ([SIGNED], [SIGNED]) == _asked(lambda **_: None)
    assert ([SIGNED], [SIGNED]) == _asked(_client("http://127.0.0.1:4000/v1"))
    assert ([SIGNED], [SIGNED]) == _openai_ids(to_openai(_history(SIGNED)))
    for url in ("https://api.openai.com/v1/", "https://eu.api.openai.com/v1", "https://x.openai.azure.com/openai/"):
        calls, results = _asked(_client(url))
        assert calls == results
        assert len(calls[0]) <= 40


def test_anthropic_gets_ids_of_its_letters() -> None:
    """Others are replaced, two that would fall together stay apart, and none is longer than its hosts take."""
    history = _history("functions.look:0", "functions/look:0", "ä", LONG, "b" * 65, SIGNED)
    before = copy.deepcopy(history)
    sent = to_anthropic(history)[1]
    uses, results = _anthropic_ids(sent)

    assert ["functions_look_0", "functions_look_0-2", "_", LONG] == uses[:4]
    assert uses == results
    assert 6 == len(set(uses))
    assert all(len(one) <= 64 for one in uses)
    assert before == history
    validate_history(sent, shape="anthropic")


@pytest.mark.parametrize("kind", [OpenAIChat, AnthropicMessages])
def test_a_run_keeps_the_ids_of_its_model(kind: Any) -> None:
    """What the loop, its records and its hooks call a call is what the model called it; only the request differs."""
    replies = [Message.assistant("", [Call(one, "look") for one in (LONG, "functions.look:0")]), "done"]
    loop = AgentLoop(Played(*replies), [Tool(lambda **_: "seen", name="look", schema={"type": "object"})])
    result = loop.run("go")
    sent = kind(lambda **_: None, "m").request(loop.history.feed)["messages"]
    calls, results = (_openai_ids if kind is OpenAIChat else _anthropic_ids)(sent)

    assert [LONG, "functions.look:0"] == [one.call_id for one in result.record.steps[0].calls]
    assert [LONG, "functions.look:0"] == [one.call_id for one in loop.history.feed[2].results]
    assert calls == results
    feed_is_strict(loop)
