"""What a turn owns is registered before it runs, closed once with its time, and refused when it is too late."""

from __future__ import annotations

import threading
import time

import pytest
from standins import BOUND, Background

import turnctl
from turnctl import CancelledError, TurnOver
from turnctl.tokens.activities import Activities, Activity


def test_activity_of_the_body_is_in_the_report_with_its_times() -> None:
    """What the body does is listed, with when and how it ended."""
    before = time.time()
    with turnctl.turn() as turn, turn.activity("tool", "search"):
        during = turn.report.activities
    (found,) = turn.report.activities

    assert ("open", None) == (during[0].state, during[0].ended_at)
    assert ("tool", "search", "completed", None) == (found.kind, found.name, found.state, found.detail)
    assert found.ended_at is not None
    assert before <= found.started_at <= found.ended_at <= time.time()


@pytest.mark.parametrize("stop", [False, True])
def test_activity_ends_as_its_body_does(stop: bool) -> None:
    """An error fails it, the stop cancels it; both pass on."""
    with turnctl.turn() as turn:
        if stop:
            turn.stop()
            with pytest.raises(CancelledError), turn.activity("tool", "search"):
                turn.check()
        else:
            with pytest.raises(KeyError), turn.activity("tool", "search"):
                raise KeyError("x")
    (found,) = turn.report.activities

    assert ("cancelled" if stop else "failed") == found.state
    assert (None if stop else "KeyError: 'x'") == found.detail


def test_activity_is_closed_once() -> None:
    """The first close stays, also against a second thread."""
    for _ in range(50):
        activity = Activities("t").admit("tool", "x")
        gate = threading.Barrier(2)

        def close(state: str, activity: Activity = activity, gate: threading.Barrier = gate) -> bool:
            gate.wait(BOUND)
            return activity.close(state)  # type: ignore[arg-type]

        states = ("completed", "failed")
        won = [thread.result() for thread in [Background(close, s) for s in states]]

        assert 1 == won.count(True)
        assert states[won.index(True)] == activity.record().state
        assert not activity.close("unknown")


def test_body_may_close_its_activity_itself() -> None:
    """What the body says about its activity stands."""
    with turnctl.turn() as turn, turn.activity("ask", "permission") as activity:
        activity.close("unknown", "the person left")

    assert [("unknown", "the person left")] == [(a.state, a.detail) for a in turn.report.activities]


def test_admission_after_the_close_is_refused_and_not_listed() -> None:
    """The error names the turn and says what to do."""
    activities = Activities("t1")
    activities.admit("tool", "early")
    activities.close_admission()
    with pytest.raises(TurnOver, match=r"turn t1 is over and admits no new tool \(late\); begin") as raised:
        activities.admit("tool", "late")

    assert "t1" == raised.value.turn_id
    assert ["early"] == [a.name for a in activities.all()]


def test_admission_that_races_the_close_is_never_lost() -> None:
    """Each admitted one is in the inventory that is read after the close; each other one is refused (A3)."""
    for _ in range(200):
        activities = Activities("t1")
        gate = threading.Barrier(3)

        def admit(name: str, activities: Activities = activities, gate: threading.Barrier = gate) -> bool:
            gate.wait(BOUND)
            try:
                activities.admit("tool", name)
            except TurnOver:
                return False
            return True

        threads = {name: Background(admit, name) for name in ("a", "b")}
        gate.wait(BOUND)
        activities.close_admission()
        listed = {a.name for a in activities.all()}
        admitted = {name for name, thread in threads.items() if thread.result()}

        assert admitted <= listed
        assert all(not a.is_open for a in activities.all() if a.name not in admitted)


def test_activity_after_the_end_is_refused() -> None:
    """A turn that is over accounts for nothing new."""
    with turnctl.turn() as turn:
        pass
    with pytest.raises(TurnOver), turn.activity("tool", "late"):
        raise AssertionError

    assert () == turn.report.activities


def test_late_evidence_changes_no_end() -> None:
    """What comes after the close stands beside it, all of it, in its order."""
    activity = Activities("t").admit("call", "fetch")
    assert activity.record().late is None
    activity.close("abandoned", "left behind")
    activity.note_late("returned")
    activity.note_late("and more")
    found = activity.record()

    assert ("abandoned", "left behind", "returned; and more") == (found.state, found.detail, found.late)


def test_received_items_are_recorded_as_they_are_now() -> None:
    """A record keeps what a stream had then, with how many of these were given; others have neither."""
    activity = Activities("t").admit("stream", "tokens")
    assert (None, None) == (activity.record().received, activity.record().given)
    activity.received = ["a", "b"]
    activity.given = 1
    found = activity.record()
    activity.received.append("c")

    assert (("a", "b"), 1, ("b",)) == (found.received, found.given, found.not_given)
