"""A report tells what is known at any time, and is never ahead of it."""

from __future__ import annotations

import json
import time

import pytest
from standins import Background, Thing, own

import turnctl
from turnctl.records.process import ProcessOutcome, Survivor


def test_report_of_a_running_turn() -> None:
    """Running, no outcome, no end, nothing asked."""
    with turnctl.turn("chat") as turn:
        report = turn.report

    assert ("running", "running", None, None, None) == (
        report.state, report.execution, report.outcome, report.ended_at, report.stop,
    )  # fmt: skip
    assert ("chat", turn.turn_id) == (report.session_id, report.turn_id)
    assert "running" == str(report)


def test_report_of_a_softly_stopped_turn_says_requested() -> None:
    """Accepted, and the work goes on."""
    with turnctl.turn() as turn:
        turn.stop("enough", by="ann", soft=True)
        report = turn.report

    assert ("cancellation requested", "running") == (report.state, report.execution)
    assert "cancellation requested, asked to stop by ann (enough)" == str(report)


def test_report_of_a_stopped_turn_that_runs_says_draining() -> None:
    """Accepted is not ended, and what is alive is named."""
    with turnctl.turn() as turn:
        own(turn, Thing("slow"))
        turn.stop("enough")
        report = turn.report

    assert ("draining", "stopping") == (report.state, report.execution)
    assert ("thing slow",) == report.alive
    assert "draining, asked to stop by the user (enough): still alive: thing slow" == str(report)


@pytest.mark.parametrize("outcome", ["completed", "failed"])
def test_report_of_an_ended_turn(outcome: str) -> None:
    """The outcome is the word once everything has ended."""
    turn = turnctl.turn()
    turn.begin()
    report = turn.end(outcome)  # type: ignore[arg-type]

    assert (outcome, "ended", outcome) == (report.state, report.execution, report.outcome)
    assert report.ended_at is not None
    assert report.started_at <= report.ended_at <= time.time()
    assert report.stop_took_s is None
    report.validate()


def test_report_of_a_stopped_turn() -> None:
    """Who, why, how long it took, and that it has ended."""
    with turnctl.turn() as turn:
        turn.stop("wrong branch", by="ann")
    report = turn.report

    assert "cancelled, settled" == report.state
    assert report.stop_took_s is not None
    assert 0 <= report.stop_took_s < 5
    assert str(report).startswith("stopped by ann (wrong branch), which took 0.")


def test_report_counts_processes() -> None:
    """What the things of the turn know of their commands is in the report and its sentence."""
    outcome = ProcessOutcome(7, ("make",), ended=3, killed=1, empty_proven=True)
    with turnctl.turn() as turn:
        own(turn, Thing(outcome=outcome))
    report = turn.report

    assert (outcome,) == report.processes
    assert "completed: 3 processes ended, 1 needed SIGKILL, none left" == str(report)


def test_report_with_a_survivor_claims_no_end() -> None:
    """A process that is known to live keeps the turn not proven, though its owner has been closed."""
    survivor = Survivor(8, 1.0, "sleep", "D", "in uninterruptible sleep")
    with turnctl.turn() as turn:
        own(turn, Thing(outcome=ProcessOutcome(7, ("make",), survivors=(survivor,))))
        turn.stop()

    assert ("unproven", "draining") == (turn.report.execution, turn.report.state)
    turn.report.validate()


@pytest.mark.parametrize("stopped", [False, True])
def test_report_takes_in_what_ends_later(stopped: bool) -> None:
    """What had been given up and has ended since is not called alive any more."""
    thing = Thing("slow", ends="never")
    with turnctl.turn(grace=0) as turn:
        own(turn, thing)
        if stopped:
            turn.stop()
    before = turn.report
    thing.finish()
    after = turn.report

    assert ("unproven", ("thing slow",)) == (before.execution, before.alive)
    assert ("ended", ()) == (after.execution, after.alive)
    assert ("cancelled, settled" if stopped else "completed") == after.state
    assert ["abandoned"] == [a.state for a in after.activities]


def test_report_is_plain_for_machines() -> None:
    """``as_dict`` can be written as JSON, intent, execution and effects apart."""
    with turnctl.turn("chat") as turn:
        with turn.activity("tool", "search"):
            pass
        own(turn, Thing(outcome=ProcessOutcome(7, ("make",))))
        turn.stop("enough", grace="2s")
    found = json.loads(json.dumps(turn.report.as_dict()))

    assert ("turnctl.turn/1", "cancelled, settled") == (found["schema"], found["state"])
    assert (True, "cancel", "user") == (
        found["intent"]["cancel_requested"], found["intent"]["level"], found["intent"]["record"]["cause"],
    )  # fmt: skip
    assert ("ended", []) == (found["execution"]["state"], found["execution"]["alive"])
    assert {"unresolved": 0, "durable": False, "list": []} == found["effects"]
    assert found["summary"] == str(turn.report)


def test_report_may_be_asked_from_any_thread_at_any_time() -> None:
    """It never blocks and never fails, before, during and after the end."""
    states = set()
    for _ in range(20):
        turn = turnctl.turn()
        turn.begin()
        reader = Background(lambda turn=turn: [turn.report.state for _ in range(20)])  # type: ignore[misc]
        turn.stop()
        turn.end()
        states |= set(reader.result())

    assert states <= {"running", "draining", "finishing", "cancelled, settled"}


def test_late_stop_is_not_in_the_report() -> None:
    """Intent is what was accepted; a stop that came too late is none."""
    with turnctl.turn() as turn:
        pass
    turn.stop("late")

    assert (None, None, "completed") == (turn.report.stop, turn.report.level, turn.report.state)


def test_report_says_how_long_the_grace_was() -> None:
    """The turn's own, or the shorter one that a stop gave, or none where it was to kill; None without a stop."""
    with turnctl.turn(grace="3s") as plain:
        before = plain.report.grace_s
        plain.stop("enough", wait=None)
    with turnctl.turn(grace="3s") as hurried:
        hurried.stop("enough", grace="1s")
    with turnctl.turn(grace="3s") as killed:
        killed.stop("enough", kill=True)

    assert (None, 3.0, 1.0, 0.0) == (
        *(before, round(plain.report.grace_s or 0, 6), round(hurried.report.grace_s or 0, 6), killed.report.grace_s),
    )
    assert 3.0 == round(plain.report.as_dict()["execution"]["grace_s"], 6)
