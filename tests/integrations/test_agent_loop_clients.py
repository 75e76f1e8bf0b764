"""The loop over the real clients: what a stop, a cut and a full window leave, as the provider sees it next."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from modelservers import CALLS, DONE, HALF, STREAMED, behind, ended, model, openai_chunk
from standins import until

from turnctl.agent import AgentLoop, Retry, validate_history

BOTH = pytest.mark.parametrize("name", ["openai", "anthropic"])
LOOKED: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    LOOKED.clear()


def look(at: str) -> str:
    """Look at something."""
    LOOKED.append(at)
    return f"seen {at}"


def said(request: dict[str, Any]) -> list[str]:
    """What the user says in a request, as texts."""
    return [one["content"] for one in request["messages"] if one["role"] == "user" and isinstance(one["content"], str)]


def last(name: str) -> tuple[str, Any]:
    """A streamed reply that ends a run."""
    end = [openai_chunk({}, "stop")] if name == "openai" else ended("end_turn")
    return ("events", [*HALF[name], *end])


@BOTH
@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
def test_run_with_a_tool(name: str, streaming: bool) -> None:
    """A run of two steps: the tool is called once, and every request is such that the provider takes it."""
    answers = [("events", STREAMED[name]), last(name)] if streaming else [CALLS[name], DONE[name]]
    with model(*answers) as server, behind(name, server.url) as chat:
        loop = AgentLoop(chat, [look], streaming=streaming)
        result = loop.run("go")

    assert "completed" == result.stop_reason
    assert ["x"] == LOOKED
    assert 2 == len(server.asked)
    assert result.record.usage.total_tokens >= 7
    for request in server.asked:
        validate_history(request["messages"], shape=name)  # type: ignore[arg-type]


@BOTH
def test_stop_in_the_middle_of_a_reply(name: str) -> None:
    """The connection is closed at once; the partial reply is kept and not fed; both prompts are one on the wire."""
    with model(("stall", HALF[name]), last(name)) as server, behind(name, server.url) as chat:
        heard: list[str] = []
        loop = AgentLoop(chat, [look], observers=lambda event: heard.append(event.kind))
        found: list[Any] = []
        runner = threading.Thread(target=lambda: found.append(loop.run("first")))
        runner.start()
        assert until(lambda: "delta" in heard)
        before = time.monotonic()
        loop.cancel_signal.cancel("enough")
        runner.join(10)
        took_s = time.monotonic() - before
        seen = server.server.peer().ended.wait(5)
        result = loop.run("second")

    assert "cancelled" == found[0].stop_reason
    assert took_s < 1
    assert seen
    assert ["half"] == [one.text for one in loop.history.transcript if one.is_partial]
    assert "completed" == result.stop_reason
    assert ["first\n\nsecond"] == said(server.asked[1])
    assert 1 == len(server.asked[1]["messages"])


@BOTH
def test_cut_reply_is_tried_again(name: str) -> None:
    """A stream that ends within a reply counts for nothing: its call is not carried out, and it is asked again."""
    cut = STREAMED[name][:3] if name == "openai" else STREAMED[name][:-2]
    cut = [openai_chunk(cut[-1]["choices"][0]["delta"]) if one is cut[-1] and name == "openai" else one for one in cut]
    with model(("end", cut), last(name)) as server, behind(name, server.url) as chat:
        result = AgentLoop(chat, [look], retry=Retry(wait=0)).run("go")

    assert ("completed", 1) == (result.stop_reason, result.record.retries)
    assert [] == LOOKED
    assert server.asked[0]["messages"] == server.asked[1]["messages"]


ERRORS = {
    "openai": {"error": {"message": "no", "type": "invalid_request_error", "code": "context_length_exceeded"}},
    "anthropic": {"type": "error", "error": {"type": "request_too_large", "message": "no"}},
}


@BOTH
def test_only_a_full_window_discards(name: str) -> None:
    """A run that the window could not hold is out of the next request; one that took too long is in it."""
    late = {"error": {"message": "context deadline exceeded", "type": "server_error"}}
    with (
        model(("status", (400, ERRORS[name])), ("status", (504, late)), DONE[name]) as server,
        behind(name, server.url) as chat,
    ):
        loop = AgentLoop(chat, [look], streaming=False, retry=Retry(1))
        reasons = [loop.run(prompt).stop_reason for prompt in ("too long", "late", "third")]

    assert ["failed", "failed", "completed"] == reasons
    assert ["late\n\nthird"] == said(server.asked[2])
    assert ["too long", "late", "third"] == [one.text for one in loop.history.transcript if one.role == "user"]
