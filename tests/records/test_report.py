"""A report that claims an end has nothing open; a contradiction is refused."""

from __future__ import annotations

import pickle

import pytest

from turnctl.records.process import ProcessOutcome, Survivor
from turnctl.records.report import ActivityRecord, TurnReport

OPEN = ActivityRecord("tool", "search", "open", 1.0)
HELD = ProcessOutcome(7, ("make",), returncode=0, exited=True, output_held=True)
CLOSED = ActivityRecord("tool", "fetch", "completed", 1.0, 2.0, "ok")
LEFT = ProcessOutcome(7, ("x",), survivors=(Survivor(8, 1.0, "sleep", "D", "uninterruptible"),))


def report(**fields: object) -> TurnReport:
    values: dict[str, object] = {"outcome": "completed", "execution": "ended", **fields}
    return TurnReport("t1", "chat", started_at=0.0, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"activities": (CLOSED, OPEN)}, "t1 says ended with open activities: tool search"),
        ({"alive": ("thread x",)}, "t1 says ended and names things that may be alive"),
        ({"processes": (HELD,)}, "t1 says ended and names things that may be alive"),
        ({"processes": (LEFT,)}, "t1 says ended and names things that may be alive"),
    ],
)
def test_end_with_something_open_is_refused(fields: dict[str, object], words: str) -> None:
    """The validator names the turn and what contradicts the end."""
    with pytest.raises(ValueError, match=words):
        report(**fields).validate()


@pytest.mark.parametrize("execution", ["running", "stopping", "unproven", "lost"])
def test_open_things_are_fine_without_a_claim(execution: str) -> None:
    """Who claims no end may name what lives."""
    report(execution=execution, activities=(OPEN,), alive=("thread x",), processes=(LEFT,)).validate()


def test_end_with_all_closed_is_valid() -> None:
    """Nothing open, nothing alive."""
    report(activities=(CLOSED,), processes=(ProcessOutcome(7, ("x",)),)).validate()


def test_open_activities_are_told_apart() -> None:
    """Those without an end, in their order."""
    assert (OPEN,) == report(activities=(CLOSED, OPEN)).open_activities
    assert () == report(activities=(CLOSED,)).open_activities


def test_report_is_plain_values() -> None:
    """Intent, execution, activities, processes and effects stand apart."""
    found = report(activities=(CLOSED,), processes=(LEFT,), execution="unproven", notes=("a note",)).as_dict()

    assert {
        *("schema", "turn_id", "session_id", "state", "outcome", "started_at", "ended_at", "intent", "execution"),
        *("activities", "processes", "effects", "notes", "summary"),
    } == set(found)
    assert {"cancel_requested": False, "level": None, "record": None} == found["intent"]
    assert [{**CLOSED.as_dict()}] == found["activities"]
    assert "uninterruptible" == found["processes"][0]["survivors"][0]["reason"]
    assert ["a note"] == found["notes"]


def test_report_travels_between_processes() -> None:
    """A supervisor may read what a worker wrote."""
    made = report(activities=(CLOSED,), processes=(LEFT,), execution="unproven")

    assert made == pickle.loads(pickle.dumps(made))


@pytest.mark.parametrize(
    ("received", "given", "plain", "not_given"),
    [
        (None, None, None, ()),
        ((), 0, {"items": 0, "given": 0, "text": ""}, ()),
        (("Hel", "lo"), 1, {"items": 2, "given": 1, "text": "Hello"}, ("lo",)),
        (("a", 1), 2, {"items": 2, "given": 2, "text": None}, ()),
    ],
)
def test_received_items_are_counted_and_marked(
    received: tuple[object, ...] | None, given: int | None, plain: object, not_given: tuple[object, ...]
) -> None:
    """Plain values have the numbers and the text; what the loop was not given is told apart."""
    made = ActivityRecord("stream", "tokens", "cancelled", 1.0, 2.0, received=received, given=given)

    assert (plain, not_given) == (made.as_dict()["received"], made.not_given)
    assert "given" not in made.as_dict()


def test_late_evidence_is_part_of_the_plain_values() -> None:
    """Beside the end, which it does not change."""
    made = ActivityRecord("call", "fetch", "abandoned", 1.0, 2.0, late="returned")

    assert ("abandoned", "returned") == (made.as_dict()["state"], made.as_dict()["late"])
