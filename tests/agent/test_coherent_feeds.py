"""The feed never has a call without a result, nor a result without its call: whatever a host gave, or took out."""

from __future__ import annotations

from typing import Any

import pytest
from loops import Played, calls, is_strict

from turnctl.agent import AgentLoop, Call, History, Message, Result

ASKS = Message.assistant("", [Call("a", "look"), Call("b", "look")])


def look() -> str:
    """Look."""
    return "seen"


def told(messages: Any) -> list[str]:
    """Each message by its role, and what its results say."""
    return [" ".join([one.role, *(f"{each.call_id}:{each.status}" for each in one.results)]) for one in messages]


def test_a_compaction_leaves_out_results_without_their_call() -> None:
    """A cut between a call and its result is how most compactors cut; what was taken out is handed over."""
    history = History([Message.user("go"), ASKS, Message.tool(Result("a", "1"), Result("b", "2"))])
    history.compact([Message.tool(Result("z", "0")), Message.user("more"), history.feed[1], *history.feed[2:]])

    assert ["user", "assistant", "tool a:completed b:completed"] == told(history.feed)
    assert history.transcript[1] is history.feed[1]


@pytest.mark.parametrize("keeps", range(1, 7))
def test_the_last_messages_are_a_compaction(keeps: int) -> None:
    """``messages[-n:]``, wherever that cuts: each request of the run is coherent, and says something."""
    demoted: list[Message] = []

    class Last:
        def compact(self, messages: tuple[Message, ...]) -> Any:
            return messages[-keeps:] if len(messages) > keeps else None

        def demote(self, messages: tuple[Message, ...]) -> None:
            demoted.extend(messages)

    model = Played(*([calls("look")] * 6), "end")
    loop = AgentLoop(model, [look], compactor=Last())
    loop.run("go")

    assert 7 == len(model.requests)
    for request in model.requests:
        is_strict(request)
    kept = {id(one) for one in loop.history.feed}
    assert {id(one) for one in loop.history.transcript} <= kept | {id(one) for one in demoted}


@pytest.mark.parametrize("given", [[], [Message.system("be brief")], [Message.tool(Result("z", "0"))], iter(())])
def test_a_compaction_to_nothing_does_not_land(given: Any) -> None:
    """No provider answers nothing: that is noted, handed to nobody, and the history stays as it is."""
    handed: list[Any] = []
    compactor: Any = type(
        "Compactor", (), {"compact": lambda *_: given, "demote": lambda _, taken: handed.append(taken)}
    )
    model = Played("end")
    result = AgentLoop(model, compactor=compactor()).run("go")

    assert (["user"], []) == (told(model.requests[0]), handed)
    assert ["compaction failed: BadArgument: a compacted history has more"] == [one[:60] for one in result.record.notes]


@pytest.mark.parametrize(
    ("kept", "fed"),
    [
        ([Message.user("go"), ASKS], ["user", "assistant", "tool a:unknown b:unknown", "user"]),
        (
            [Message.user("go"), ASKS, Message.tool(Result("b", "2"))],
            ["user", "assistant", "tool a:unknown b:completed", "user"],
        ),
        (
            [Message.user("go"), ASKS, Message.user("well?"), Message.tool(Result("a", "1"))],
            ["user", "assistant", "tool a:completed b:unknown", "user", "user"],
        ),
        ([Message.tool(Result("z", "0")), Message.user("go")], ["user", "user"]),
    ],
)
def test_a_history_of_the_hosts_is_made_whole(kept: list[Message], fed: list[str]) -> None:
    """What it kept of a program that was killed within a call: the first run closes it, and loses nothing."""
    model = Played("one", "two")
    loop = AgentLoop(model, history=kept)
    loop.run("more")
    loop.history.add(ASKS)  # and between two runs
    loop.run("again")

    assert fed == told(model.requests[0])
    assert [*fed, "assistant", "assistant", "tool a:unknown b:unknown", "user"] == told(model.requests[1])
    assert all(any(one.parts == other.parts for other in loop.history.transcript) for one in kept if not one.results)
    is_strict(loop.history.feed)


def test_a_coherent_history_is_not_touched() -> None:
    """It is the same objects, however many runs there are."""
    kept = [Message.user("go"), ASKS, Message.tool(Result("a", "1"), Result("b", "2")), Message.assistant("done")]
    loop = AgentLoop(Played("one", "two"), history=kept)
    loop.run("more")
    loop.run("again")

    assert all(one is other for one, other in zip(kept, loop.history.transcript, strict=False))
    assert 8 == len(loop.history)


@pytest.mark.parametrize(
    ("recalled", "asked"),
    [
        ([Message.tool(Result("z", "0"))], ["user"]),
        ([Message.user("last week"), ASKS], ["user", "assistant", "tool a:unknown b:unknown", "user"]),
        ((one for one in ["last week"]), ["user", "user"]),
    ],
)
def test_what_is_recalled_is_made_whole(recalled: Any, asked: list[str]) -> None:
    """Messages of another conversation may be cut anywhere; they are added to the request, and not kept."""
    memory: Any = type("Memory", (), {"recall": lambda *_: recalled})
    model = Played("end")
    loop = AgentLoop(model, memory=memory())
    loop.run("go")

    assert (asked, ["user", "assistant"]) == (told(model.requests[0]), told(loop.history.feed))
    is_strict(model.requests[0])
