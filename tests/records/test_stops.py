"""A stop and its answer are values: plain, frozen, and true only where a stop was taken up."""

from __future__ import annotations

import json
import pickle
from typing import get_args

import attrs
import pytest

from turnctl.records.stops import CAUSES, LEVELS, AnswerKind, Cause, Level, Outcome, StopAnswer, StopRecord, StopResult

RECORD = StopRecord("user", "cancel", 1.5, 2.5, "enough", "ann", 3.0, None, "t1")


@pytest.mark.parametrize(
    ("kind", "taken_up"),
    [
        ("accepted", True),
        ("armed", True),
        ("already_cancelled", True),
        ("already_ended", False),
        ("refused", False),
    ],
)
def test_answer_is_true_where_the_stop_was_taken_up(kind: AnswerKind, taken_up: bool) -> None:
    """In a boolean context the first three kinds count."""
    assert taken_up is bool(StopAnswer(kind))
    assert taken_up is bool(StopResult(StopAnswer(kind), None, False))


def test_kinds_are_the_agreed_ones() -> None:
    """The vocabulary of answers, levels, outcomes and causes is fixed."""
    assert {"accepted", "armed", "already_cancelled", "already_ended", "refused"} == set(get_args(AnswerKind))
    assert {"completed", "failed", "cancelled", "superseded"} == set(get_args(Outcome))
    assert set(LEVELS) == set(get_args(Level))
    assert CAUSES == set(get_args(Cause))
    assert {
        *("user", "deadline", "signal", "parent", "shutdown", "displaced", "budget", "event", "closed", "operator")
    } == CAUSES


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (StopAnswer("accepted", turn_id="t1"), "stop accepted for turn t1"),
        (StopAnswer("armed"), "stop kept for the next turn"),
        (StopAnswer("already_cancelled", turn_id="t1"), "turn t1 was already asked to stop"),
        (StopAnswer("already_ended", outcome="completed", turn_id="t1"), "turn t1 had already ended (completed)"),
        (StopAnswer("refused", why="no_turn"), "refused: no running turn"),
        (StopAnswer("refused", why="no_turn", session_id="chat"), "refused: no running turn in session chat"),
        (StopAnswer("refused", why="retired", turn_id="t1"), "refused: retired (turn t1)"),
        (StopAnswer("accepted"), "stop accepted for no turn"),
    ],
)
def test_answer_says_what_became_of_the_request(answer: StopAnswer, text: str) -> None:
    """In words for people, and never that anything has ended that may not have."""
    assert text == str(answer)


def test_record_is_plain_for_machines() -> None:
    """Wall-clock time goes out, the monotonic one does not; the origin is nested."""
    child = StopRecord("parent", "kill", 1.5, 2.5, origin=RECORD)
    found = json.loads(json.dumps(child.as_dict()))

    assert {
        "cause": "user",
        "level": "cancel",
        "reason": "enough",
        "by": "ann",
        "at": 2.5,
        "grace_s": 3.0,
        "source": "t1",
        "site": None,
        "origin": None,
    } == found["origin"]
    assert ("parent", "kill", None) == (found["cause"], found["level"], found["reason"])


def test_record_names_the_place_that_asked() -> None:
    """The user's file, line and function, in one text."""
    record = StopRecord("user", "cancel", 1.5, 2.5, site=("agent.py", 41, "press"))

    assert "agent.py:41 in press" == record.as_dict()["site"]


def test_records_are_frozen() -> None:
    """Nobody changes what was recorded."""
    for value in (RECORD, StopAnswer("accepted"), StopResult(StopAnswer("accepted"), None, True)):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            value.reason = "other"  # type: ignore[union-attr]


def test_equal_records_are_the_same_request() -> None:
    """Two requests with the same words are still two."""
    twin = StopRecord("user", "cancel", 1.5, 2.5, "enough", "ann", 3.0, None, "t1")

    assert twin != RECORD
    assert 2 == len({twin, RECORD})


def test_record_travels_between_processes() -> None:
    """A record can be pickled, with its origin."""
    found = pickle.loads(pickle.dumps(StopRecord("parent", "cancel", 0.0, 0.0, origin=RECORD)))

    assert RECORD.as_dict() == found.origin.as_dict()
