"""A run goes on from a checkpoint event by event, in step with whoever iterates."""

from __future__ import annotations

import gc
import json
import threading
from typing import Any

import pytest
from loops import Gate, Played, calls, feed_is_strict, statuses

import turnctl
from turnctl.agent import AgentLoop, RunCheckpoint, Tool
from turnctl.errors import BadArgument, LedgerRefused
from turnctl.testing import call_at


def _tools(called: list[str], names: str = "ab") -> list[Tool]:
    def made(name: str) -> Tool:
        return Tool(lambda **_: called.append(name) or f"{name} is done", name=name, schema={"type": "object"})

    return [made(name) for name in names]


def _half(**options: Any) -> RunCheckpoint:
    """A run between the two calls of its first step."""
    kept: list[RunCheckpoint] = []
    AgentLoop(Played(calls("a", "b"), "never"), _tools([]), checkpoint=kept.append, **options).run("go")
    return kept[1]


def test_a_resumed_stream_gives_events_and_result() -> None:
    """The events of the new run in order, and a result, record and history as ``resume`` gives them."""
    half, called = _half(), list[str]()
    loop = AgentLoop(Played(calls("b"), "end"), _tools(called))
    other = AgentLoop(Played(calls("b"), "end"), _tools([]))
    with loop.resume_stream(json.loads(json.dumps(half.as_dict())), timeout="1m") as events:
        assert events.result is None
        told = list(events)
    plain = other.resume(half)

    step = ["step_started", "reply", "tool_started", "tool_ended", "step_ended", "step_started", "reply", "step_ended"]
    assert ["run_started", *step, "run_ended"] == [one.kind for one in told]
    assert {events.run_id} == {one.run_id for one in told}
    assert [2, 3] == sorted({one.step for one in told if one.kind == "step_started"})
    assert events.result is not None
    assert ("completed", "end", half.run_id) == (
        events.result.stop_reason,
        events.result.text,
        events.result.record.resumes,
    )
    assert (["b"], plain.record.usage) == (called, events.result.record.usage)
    assert [one.parts for one in other.history.feed] == [one.parts for one in loop.history.feed]
    assert 1 == len(loop.runs)
    feed_is_strict(loop)


def test_a_resumed_stream_after_the_last_reply() -> None:
    """Where the model has no more to do there are two events, and it is not asked."""
    kept: list[RunCheckpoint] = []
    AgentLoop(Played("that is all"), checkpoint=kept.append).run("go")
    events = AgentLoop(Played()).resume_stream(kept[0])

    assert ["run_started", "run_ended"] == [one.kind for one in events]
    assert events.result is not None
    assert "that is all" == events.result.unwrap()


@pytest.mark.parametrize("how", ["break", "close", "forget", "raise"])
def test_leaving_a_resumed_stream_ends_the_run(how: str) -> None:
    """No step runs, no pending call is carried out, nothing is raised; and from where it ended it can go on."""
    called: list[str] = []
    loop = AgentLoop(Played("end"), _tools(called))
    events = loop.resume_stream(_half())
    assert "run_started" == next(events).kind
    if how == "close":
        events.close()
        assert [] == list(events)
    elif how == "raise":
        with pytest.raises(LookupError), events:
            raise LookupError
    elif how == "break":
        for _ in events:
            break
        del _
    del events
    gc.collect()

    assert ("cancelled", "closed") == (loop.runs[-1].stop_reason, loop.runs[-1].cause)
    assert ([], []) == (loop.model.requests, called)
    assert {"c1": "completed", "c2": "unknown"} == statuses(loop)
    feed_is_strict(loop)
    again = loop.run("go on")
    assert ("end", None) == (again.text, again.record.resumes)


def test_one_that_was_left_can_be_resumed() -> None:
    """The result of a stream that was left has the checkpoint of that moment."""
    half, loop = _half(), AgentLoop(Played("end"), _tools([]))
    with loop.resume_stream(half) as events:
        next(events)
    assert events.result is not None
    assert events.result.checkpoint is not None
    again = loop.resume_stream(events.result.checkpoint)

    assert "run_ended" == list(again)[-1].kind
    assert again.result is not None
    assert ("end", events.run_id) == (again.result.text, again.result.record.resumes)


def test_one_that_nobody_asks_for_changes_nothing() -> None:
    """The run begins with the first event that is asked for: until then the loop is as it was, with a ledger too."""
    with turnctl.open_ledger("memory:") as ledger:
        half, loop = _half(), AgentLoop(Played("fresh"), _tools([]), ledger=ledger)
        events = loop.resume_stream(half)
        events.close()

        assert (0, (), []) == (len(loop.history), loop.runs, list(events))
        assert "fresh" == loop.run("go").text


def test_a_stop_reaches_a_resumed_stream() -> None:
    """One that waits cancels it before its first request; one that comes while its consumer holds it, there."""
    half, loop = _half(), AgentLoop(Played("never"), _tools([]))
    loop.cancel("not now")
    armed = [(one.kind, one.ok) for one in loop.resume_stream(half)]
    other = AgentLoop(Played("never"), _tools([]))
    with other.resume_stream(half) as events:
        next(events)
        answer = other.cancel_signal.cancel("now", by="ann", run_id=events.run_id)
        rest = [one.kind for one in events]

    assert [("run_started", True), ("run_ended", False)] == armed
    assert ("accepted", "run_ended") == (answer.kind, rest[-1])
    assert ("not now", "now") == (loop.runs[-1].reason, other.runs[-1].reason)
    assert ([], []) == (loop.model.requests, other.model.requests)


def test_a_stop_by_the_consumer_of_a_resumed_stream() -> None:
    """Fired between two events, it ends the step that had begun, whose model is not asked; the end is told."""
    loop = AgentLoop(Played("never"), _tools([]))
    kinds = []
    for event in loop.resume_stream(_half()):
        kinds.append(event.kind)
        if event.kind == "step_started":
            loop.cancel("enough")

    assert ["run_started", "step_started", "step_ended", "run_ended"] == kinds
    assert [] == loop.model.requests


def test_a_stop_in_the_model_of_a_resumed_stream() -> None:
    """What hangs is left behind as in any run, and the consumer hears of the end."""
    with Gate() as gate:
        loop = AgentLoop(Played(gate.pass_through), _tools([]))
        stopper = threading.Thread(target=lambda: gate.reached.wait(10) and loop.cancel("enough"))
        stopper.start()
        kinds = [one.kind for one in loop.resume_stream(_half())]
        stopper.join()

    assert ["run_started", "step_started", "step_ended", "run_ended"] == kinds
    assert "cancelled" == loop.runs[-1].stop_reason


def test_what_cannot_be_resumed_is_refused_at_the_call() -> None:
    """What ``resume`` refuses is raised before there is a stream, and nothing is changed."""
    half = _half()
    loop = AgentLoop(Played("never"), _tools([], "b"))
    with pytest.raises(BadArgument, match="had tools that this loop has not: a"):
        loop.resume_stream(half)
    with pytest.raises(BadArgument, match="its schema is None"):
        loop.resume_stream({})
    with pytest.raises(BadArgument, match="is completed"):
        loop.resume_stream({**half.as_dict(), "stop_reason": "completed"})

    assert ((), 0) == (loop.runs, len(loop.history))


def test_a_history_that_has_grown_meanwhile_is_kept() -> None:
    """A run between the call and the first event is not overwritten: the first event is refused."""
    loop = AgentLoop(Played("another"), _tools([]))
    events = loop.resume_stream(_half())
    loop.run("first this")
    with pytest.raises(BadArgument, match="has 2 messages that are not the beginning of run"):
        next(events)

    assert ([], 1, 2) == (list(events), len(loop.runs), len(loop.history))


def test_a_history_that_grows_at_the_last_moment_is_kept() -> None:
    """What another thread has added when the run has begun is not overwritten: the run fails, and says why."""
    half, loop = _half(), AgentLoop(Played("never"), _tools([]))
    with call_at("signal.bound", lambda: loop.history.add("another")):
        result = loop.resume(half)

    assert ("failed", ["another"]) == (result.stop_reason, [one.text for one in loop.history.transcript])
    assert "has 1 messages that are not the beginning of run" in str(result.record.error)


def test_what_the_ledger_refuses_is_raised_by_the_first_event() -> None:
    """A task that is over, or that another worker has: nothing is changed, and the loop is good for a run."""
    with turnctl.open_ledger("memory:") as ledger:
        half = _half(ledger=ledger)
        loop = AgentLoop(Played("fresh"), _tools([]), ledger=ledger)
        with loop.resume_stream(half) as events, pytest.raises(LedgerRefused) as refused:
            next(events)

        assert ("ended", (), 0) == (refused.value.code, loop.runs, len(loop.history))
        assert (None, []) == (events.result, list(events))
        assert "fresh" == loop.run("go").text
