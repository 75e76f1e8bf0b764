"""What a model tells of its tokens: nonsense takes nothing from a budget, costs no reply, and is on record."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from loops import Played, Writing, calls

from turnctl.agent import AgentLoop, AnthropicMessages, Message, OpenAIChat, Reply, Tool, Usage
from turnctl.errors import BadArgument
from turnctl.records.checkpoints import RunCheckpoint

WORD = Tool(lambda **_: "word", name="word", schema={"type": "object"})
Odd: Any = Usage  # what a careless model makes of it


class Unshowable:
    def __repr__(self) -> str:
        raise ValueError


class Hidden(Exception):
    """An error of a test."""


NONSENSE = [
    -5,
    -0.5,
    math.nan,
    math.inf,
    True,
    False,
    "many",
    "-3",
    "nan",
    [7],
    10**13,
    10**400,
    Unshowable(),
    "9" * 50,
]


@pytest.mark.parametrize("value", NONSENSE, ids=range(len(NONSENSE)))
@pytest.mark.parametrize("kind", [Played, Writing])
def test_a_count_that_is_none_costs_no_reply(value: Any, kind: type[Played]) -> None:
    """The reply is used, what else it tells is counted, and the record names what was not."""
    reply = Reply(Message.assistant("so"), usage=Odd(value, 3, 1))
    result = AgentLoop(kind([reply] if kind is Writing else reply)).run("please")

    assert "so" == result.unwrap()
    assert Usage(0, 3, 1) == result.record.usage
    [note] = result.record.notes
    assert "as its input_tokens, which is no number of tokens and counts for nothing" in note
    assert len(note) < 150
    json.dumps(result.record.as_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (Odd(None, 3), Usage(0, 3)),
        (Odd("12", 2.0), Usage(12, 2)),
        (Odd(2.5, Decimal("1.0")), Usage(3, 1)),
        ({"input_tokens": 4, "output_tokens": None}, Usage(4)),
        (Odd(1, 2, cost=Decimal("0.5")), Usage(1, 2, cost=0.5)),
        (Odd(1, 2, cost="0.25"), Usage(1, 2, cost=0.25)),
        ({}, Usage()),
        (None, Usage()),
    ],
    ids=range(8),
)
def test_what_can_be_counted_is(told: Any, expected: Usage) -> None:
    """Numbers in another dress are numbers, part of a token is one, and what is not told is no nonsense."""
    result = AgentLoop(Played(Reply(Message.assistant("so"), usage=told))).run("please")

    assert ("so", expected, ()) == (result.text, result.record.usage, result.record.notes)


@pytest.mark.parametrize("told", ["lots", 7, [1, 2], b"x"], ids=str)
def test_a_usage_that_is_none_is_noted(told: Any) -> None:
    """The reply is used all the same."""
    result = AgentLoop(Played(Reply(Message.assistant("so"), usage=told))).run("please")

    assert ("so", Usage()) == (result.text, result.record.usage)
    assert "as its usage, which is none and counts for nothing" in result.record.notes[0]


@pytest.mark.parametrize("value", [-1000, math.nan, -math.inf, True])
def test_nonsense_takes_nothing_from_a_budget(value: Any) -> None:
    """The run is stopped when what could be counted reaches the limit."""
    replies = [Reply(calls("word"), "calls", Odd(40, 0, cost=0.4)), Reply(calls("word"), "calls", Odd(value, 60))]

    result = AgentLoop(Played(*replies), [WORD], max_tokens=100).run("please")
    assert ("cancelled", "budget", 100) == (result.stop_reason, result.cause, result.record.usage.total_tokens)


@pytest.mark.parametrize("value", [-1000, math.nan, -math.inf, math.inf, True, "much", 10**400, None], ids=str)
def test_a_cost_that_is_none_takes_nothing_either(value: Any) -> None:
    """It is not known, and a run with a limit says so; the others add up."""
    costs = [0.4, value, 0.6]
    replies = [Reply(calls("word"), "calls", Odd(1, 1, cost=cost)) for cost in costs]

    result = AgentLoop(Played(*replies), [WORD], max_cost=1.0).run("please")
    assert ("cancelled", "budget", 1.0) == (result.stop_reason, result.cause, result.record.usage.cost)
    assert "there is a max_cost, and what a reply cost is not known: it counts for nothing" == result.record.notes[-1]
    json.dumps(result.record.as_dict(), allow_nan=False)


def test_a_budget_that_cannot_be_kept_is_noted_once() -> None:
    """A model that never tells what it used is not stopped by ``max_tokens``, and the record says why."""
    result = AgentLoop(Played(calls("word"), calls("word"), "so"), [WORD], max_tokens=100).run("please")

    assert "completed" == result.stop_reason
    assert ("there is a max_tokens, and a reply did not tell what it used: it counts for nothing",) == (
        result.record.notes
    )


# -- the wires --------------------------------------------------------------------------------------------------------


def _openai(usage: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": "so"}, "finish_reason": "stop"}], "usage": usage}


def _anthropic(usage: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "so"}], "stop_reason": "end_turn", "usage": usage}


OPENAI: list[tuple[Any, Usage | None, int]] = [
    ({"prompt_tokens": 5, "completion_tokens": 2}, Usage(5, 2), 0),
    ({"prompt_tokens": -5, "completion_tokens": 2}, Usage(0, 2), 1),
    ({"prompt_tokens": True, "completion_tokens": math.nan, "total_tokens": "7"}, Usage(7, 0), 2),
    ({"prompt_tokens": "5", "completion_tokens": None, "total_tokens": 7}, Usage(5, 2), 0),
    ({"total_tokens": 7}, Usage(7, 0), 0),
    ({"completion_tokens": 9, "total_tokens": 7}, Usage(0, 9), 0),
    ({"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": -3}}, Usage(5, 2), 1),
    ({"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": "3"}}, Usage(5, 2, 3), 0),
    ({"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": "few"}, Usage(5, 2), 1),
    ({"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": None}, Usage(5, 2), 0),
    ({}, None, 0),
    (None, None, 0),
    ("unknown", None, 1),
]
ANTHROPIC: list[tuple[Any, Usage | None, int]] = [
    ({"input_tokens": 5, "output_tokens": 2}, Usage(5, 2), 0),
    ({"input_tokens": -5, "output_tokens": 2, "cache_read_input_tokens": 3}, Usage(3, 2, 3), 1),
    ({"input_tokens": "5", "output_tokens": True, "cache_creation_input_tokens": math.inf}, Usage(5, 0), 2),
    ({"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": -100}, Usage(5, 2), 1),
    ({"input_tokens": None, "output_tokens": 2, "server_tool_use": {"web_search_requests": -1}}, Usage(0, 2), 0),
    ({}, None, 0),
    (None, None, 0),
    ([5, 2], None, 1),
]


@pytest.mark.parametrize(("usage", "expected", "notes"), OPENAI, ids=range(len(OPENAI)))
def test_what_an_openai_server_tells_is_looked_at(usage: Any, expected: Usage | None, notes: int) -> None:
    """Whole or as a stream: missing, null, of another kind, negative, or within details that are none."""
    pieces = [{"choices": [{"delta": {"content": "so"}, "finish_reason": "stop"}]}, {"choices": [], "usage": usage}]
    whole = OpenAIChat(lambda **_: _openai(usage), "m").complete([])
    [*_, written] = OpenAIChat(lambda **_: iter(pieces), "m").stream([])

    assert isinstance(written, Reply)
    assert ("so", expected, notes) == (whole.message.text, whole.usage, len(whole.notes))
    assert ("so", expected, notes) == (written.message.text, written.usage, len(written.notes))


@pytest.mark.parametrize(("usage", "expected", "notes"), ANTHROPIC, ids=range(len(ANTHROPIC)))
def test_what_anthropic_tells_is_looked_at(usage: Any, expected: Usage | None, notes: int) -> None:
    """The same on the other wire, where those of the cache are added."""
    whole = AnthropicMessages(lambda **_: _anthropic(usage), "m").complete([])
    [*_, written] = AnthropicMessages(lambda **_: _events(None, usage), "m").stream([])

    assert isinstance(written, Reply)
    assert ("so", expected, notes) == (whole.message.text, whole.usage, len(whole.notes))
    assert ("so", expected, notes) == (written.message.text, written.usage, len(written.notes))


def _events(*usages: Any) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": {"usage": usages[0]}}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "so"}}
    for usage in usages[1:]:
        yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}


def _told(fed: Any, written: Any) -> dict[str, Any]:
    return {"prompt_tokens": fed, "completion_tokens": written, "input_tokens": fed, "output_tokens": written}


STREAMED = [
    [_told(5, 1), _told(5, 2), _told(5, 7)],  # in sum with each piece
    [None, None, _told(5, 7)],  # at the end alone
    [_told(5, 7), None],
    [_told(5, 7), {}],
    [_told(5, 7), _told(0, 0)],  # a last one that knows nothing
    [_told(0, 0), _told(5, 7)],
    [_told(5, None), _told(None, 7)],  # one half each
    [_told(5, 1), _told(-5, 7), _told("?", math.nan)],
]


@pytest.mark.parametrize("usages", STREAMED, ids=range(len(STREAMED)))
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_what_a_stream_tells_is_told_in_sum(kind: str, usages: list[Any]) -> None:
    """The highest of each count is what the reply used: nothing is counted twice, and nothing is taken back."""
    pieces = [{"choices": [{"delta": {"content": "so"}, "finish_reason": "stop"}], "usage": one} for one in usages]
    model = (
        OpenAIChat(lambda **_: iter(pieces), "m")
        if kind == "openai"
        else AnthropicMessages(lambda **_: _events(*usages), "m")
    )
    [*_, reply] = model.stream([])

    assert isinstance(reply, Reply)
    assert Usage(5, 7) == reply.usage
    assert (3 if usages is STREAMED[-1] else 0) == len(reply.notes)


def _fails(_: Usage) -> float:
    raise Hidden("no price for that")


@pytest.mark.parametrize(
    ("price", "said"),
    [
        (_fails, "price() failed (Hidden: no price for that)"),
        (lambda _: None, "TypeError"),
        (lambda _: math.nan, "nan"),
    ],
    ids=["raises", "none", "nan"],
)
def test_a_reply_is_not_lost_for_its_price(price: Callable[[Usage], float], said: str) -> None:
    """It is asked for once; what it cost is not known, and the record says why."""
    asked: list[Any] = []

    def create(**request: Any) -> dict[str, Any]:
        asked.append(request)
        return _openai({"prompt_tokens": 5, "completion_tokens": 2})

    loop = AgentLoop(OpenAIChat(create, "m", price=price), streaming=False, max_cost=1)
    result = loop.run("please")

    assert ("so", Usage(5, 2), 1) == (result.unwrap(), result.record.usage, len(asked))
    assert said in result.record.notes[0]
    assert "max_cost" in result.record.notes[1]


# -- checkpoints ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"), [("input_tokens", -1), ("output_tokens", -7), ("cost", math.nan), ("cost", -0.5)]
)
@pytest.mark.parametrize("where", ["usage", "steps"])
def test_a_checkpoint_takes_nothing_from_a_budget(where: str, name: str, value: float) -> None:
    """One that was changed so that the run had used less than nothing is refused, and the place is named."""
    result = AgentLoop(Played(calls("word"), RuntimeError("down")), [WORD], retry=None).run("please")
    assert result.checkpoint is not None
    kept = result.checkpoint.as_dict()
    (kept if where == "usage" else kept["steps"][0])["usage"][name] = value

    with pytest.raises(BadArgument, match=rf"checkpoint\.{where}.*\.{name} is 0 or more, not {value}"):
        RunCheckpoint.from_dict(kept)
