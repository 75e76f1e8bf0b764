"""The words of MCP: ids, dialects, and how a call moves from phase to phase. Pure, so each row is a line here."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from turnctl.integrations.mcp import protocol
from turnctl.integrations.mcp.protocol import dialect_of, key_of, task_in
from turnctl.records.mcp import Outgoing

RESPONSE = {"jsonrpc": "2.0", "id": 7, "result": {}}
TASK = {"result": {"task": {"taskId": "t1", "status": "working"}}}


def call(phase: str = "queued", **more: Any) -> Outgoing:
    return Outgoing(7, "tools/call", "grep", "stdio", "2025-06-18", phase=phase, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, True, False, 1.5, float("nan"), float("inf"), [], {}, b"7"])
def test_what_is_no_id(value: Any) -> None:
    """Only strings and whole numbers are ids; a boolean is not 1."""
    assert key_of(value) is None


def test_strings_and_numbers_are_two_ids() -> None:
    """``"7"`` and ``7`` are two requests, ``7`` and ``7.0`` are one."""
    assert key_of("7") != key_of(7)
    assert key_of(7.0) == key_of(7)
    assert key_of(10**30) == ("number", 10**30)


@pytest.mark.parametrize(
    ("dialect", "transport", "version", "is_task"),
    [
        ("notifications/cancelled", "stdio", None, False),
        ("notifications/cancelled", "stdio", "2026-07-28", False),
        ("notifications/cancelled", "http", "2025-06-18", False),
        ("notifications/cancelled", "http", "2025-11-25", False),
        ("notifications/cancelled", "http", None, False),
        ("notifications/cancelled", "http", "zzz", False),
        ("stream-close", "http", "2026-07-28", False),
        ("stream-close", "http", "2027-01-01", False),
        ("tasks/cancel", "stdio", "2025-11-25", True),
        ("tasks/cancel", "http", "2026-07-28", True),
    ],
)
def test_dialects_are_told_apart(dialect: str, transport: Any, version: str | None, is_task: bool) -> None:
    """How a stop is said goes by the transport, the version, and whether the call is a task."""
    assert dialect == dialect_of(transport, version, is_task=is_task)


@pytest.mark.parametrize(
    ("found", "result"),
    [
        (("t1", "working"), {"task": {"taskId": "t1", "status": "working"}}),
        (("t1", "working"), {"resultType": "task", "taskId": "t1", "status": "working"}),
        (("t1", None), {"task": {"taskId": "t1", "status": 3}}),
        (None, {"content": []}),
        (None, {"task": "t1"}),
        (None, {"task": {"taskId": 1}}),
        (None, {"resultType": "complete", "taskId": "t1"}),
        (None, None),
    ],
)
def test_task_is_seen_in_a_result(found: Any, result: Any) -> None:
    """A task handle is known in the shape of either revision, and nothing else is taken for one."""
    assert found == task_in(result)


@pytest.mark.parametrize(
    ("after", "before", "not_sent"),
    [
        ("withdrawn", "queued", "it was stopped before it was sent"),
        ("signalling", "written", None),
        ("signalling", "task", None),
        ("answered", "answered", None),
        ("signalled", "signalled", None),
        ("withdrawn", "withdrawn", None),
        ("lost", "lost", None),
    ],
)
def test_stop_in_each_phase(after: str, before: str, not_sent: str | None) -> None:
    """A stop withdraws what is not written, signals what is, and changes nothing of what is over or was stopped."""
    one = call(before)
    stopped = protocol.want_stop(one, "enough", 5.0)

    assert (after, not_sent) == (stopped.phase, stopped.not_sent)
    assert (stopped is one) is (before not in ("queued", "written", "task"))


@pytest.mark.parametrize("method", ["initialize", "server/discover"])
def test_what_opens_is_never_cancelled(method: str) -> None:
    """A stop of what opens the connection sends nothing, and the evidence says why."""
    stopped = protocol.want_stop(attrs.evolve(call("written"), method=method), None, 5.0)
    evidence = protocol.evidence_of(stopped)

    assert evidence is not None
    assert ("none", None, f"{method} cannot be cancelled") == (
        evidence.evidence_class,
        evidence.dialect,
        evidence.not_sent,
    )


def test_signal_is_sent_once() -> None:
    """Only a call that is to be signalled becomes signalled, and a late response changes no class."""
    one = protocol.want_stop(call("written"), "enough", 5.0)
    one = protocol.signal_sent(one, 6.0)
    again = protocol.signal_sent(protocol.want_stop(one, "again", 7.0), 8.0)
    late, passes = protocol.take_response(again, RESPONSE, 9.0)
    evidence = protocol.evidence_of(late)

    assert again is one
    assert not passes
    assert evidence is not None
    assert ("signal_queued", "enough", 5.0, 6.0, RESPONSE, 9.0) == (
        evidence.evidence_class,
        evidence.reason,
        evidence.wanted_at,
        evidence.sent_at,
        evidence.late_response,
        evidence.late_at,
    )


def test_first_late_response_is_kept() -> None:
    """A second response to a call that was stopped is neither given nor kept."""
    one = protocol.signal_sent(protocol.want_stop(call("written"), None, 5.0), 6.0)
    one, _ = protocol.take_response(one, RESPONSE, 7.0)
    two, passes = protocol.take_response(one, {"error": {}}, 8.0)

    assert two is one
    assert not passes


def test_response_first_then_stop() -> None:
    """A call whose response has arrived is not signalled, and there is no evidence of a stop."""
    one, passes = protocol.take_response(call("written"), RESPONSE, 5.0)
    stopped = protocol.want_stop(one, None, 6.0)

    assert passes
    assert stopped is one
    assert protocol.evidence_of(stopped) is None


def test_call_that_became_a_task() -> None:
    """Its stop is ``tasks/cancel``; what the server answers is kept, and is no proof of anything."""
    one, passes = protocol.take_response(call("written"), TASK, 5.0)
    one = protocol.signal_sent(protocol.want_stop(one, None, 6.0), 7.0)
    one = protocol.answer_cancel(one, {"result": {"status": "cancelled"}}, 8.0)
    one = protocol.answer_cancel(one, {"result": {"status": "other"}}, 9.0)
    evidence = protocol.evidence_of(one)

    assert passes
    assert evidence is not None
    assert ("tasks/cancel", "signal_queued", "t1", {"result": {"status": "cancelled"}}, 8.0) == (
        evidence.dialect,
        evidence.evidence_class,
        evidence.task_id,
        evidence.answer,
        evidence.answered_at,
    )


@pytest.mark.parametrize("sent", [True, False])
def test_task_that_is_made_after_the_stop(sent: bool) -> None:
    """A late response that is a task is to be signalled by its own dialect, since nothing else reaches it."""
    one = protocol.want_stop(call("written"), None, 6.0)
    if sent:
        one = protocol.signal_sent(one, 7.0)
    one, passes = protocol.take_response(one, TASK, 8.0)
    done = protocol.signal_sent(one, 9.0)
    evidence = protocol.evidence_of(done)

    assert ("signalling", "t1", False) == (one.phase, one.task_id, passes)
    assert evidence is not None
    assert ("tasks/cancel", 9.0, TASK) == (evidence.dialect, evidence.sent_at, evidence.late_response)


def test_task_that_has_ended_is_not_cancelled() -> None:
    """Once the server has said that the task ended, a stop sends nothing."""
    one = protocol.end_task(protocol.take_response(call("written"), TASK, 5.0)[0])

    assert "answered" == one.phase
    assert protocol.want_stop(one, None, 6.0) is one


@pytest.mark.parametrize(
    ("after", "before"),
    [("lost", "queued"), ("lost", "written"), ("lost", "task"), ("silent", "signalling"), ("signalled", "signalled")],
)
def test_loss_in_each_phase(after: str, before: str) -> None:
    """A lost connection ends what is under way, and takes nothing back of what was signalled."""
    assert after == protocol.lose(call(before), "gone").phase


def test_nothing_claims_more_than_a_signal() -> None:
    """No phase of a call is told as stopped, ended or cancelled at the server."""
    phases = ["queued", "written", "task", "answered", "signalling", "silent", "withdrawn", "lost"]
    calls = [call(phase, wanted_at=1.0, not_sent="x") for phase in phases]
    calls += [call("signalled", wanted_at=1.0, sent_at=2.0)]
    found = [protocol.evidence_of(one) for one in calls]

    assert ["none"] * 8 + ["signal_queued"] == [one.evidence_class for one in found if one is not None]
    assert "is not known" in protocol.told(calls[-1])
