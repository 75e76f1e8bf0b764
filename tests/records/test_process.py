"""What is known of one command, as values."""

from __future__ import annotations

import json
import signal

import pytest

import turnctl.records
from turnctl.records.process import Completed, ProcessOutcome, SignalSent, Survivor


@pytest.mark.parametrize(
    ("returncode", "number"), [(None, None), (0, None), (3, None), (-9, signal.SIGKILL), (-15, signal.SIGTERM)]
)
def test_signal_is_read_from_the_status(returncode: int | None, number: int | None) -> None:
    """As in ``subprocess``: minus N is signal N."""
    assert number == ProcessOutcome(1, ("x",), returncode=returncode).signal


def test_outcome_is_plain_for_machines() -> None:
    """What was sent, what is left and how it was contained can be written as JSON."""
    outcome = ProcessOutcome(
        7,
        ("make", "test"),
        returncode=-9,
        exited=True,
        stopped=True,
        signals=(SignalSent("SIGTERM", 0.1, "group", 7), SignalSent("SIGKILL", 5.1, "process", 8)),
        survivors=(Survivor(8, 1.0, "sleep", "D", "uninterruptible"),),
    )
    found = json.loads(json.dumps(outcome.as_dict()))

    assert (["make", "test"], 9, "best-effort", False) == (
        found["argv"], found["signal"], found["containment"], found["empty_proven"],
    )  # fmt: skip
    assert ["SIGTERM", "SIGKILL"] == [s["signal"] for s in found["signals"]]
    assert "uninterruptible" == found["survivors"][0]["reason"]


def test_outcome_claims_nothing_by_default() -> None:
    """Not exited, not stopped, not proven empty: what was not observed is not said."""
    found = ProcessOutcome(None, ("x",))

    assert (None, False, False, False, False) == (
        found.returncode, found.exited, found.timed_out, found.stopped, found.empty_proven,
    )  # fmt: skip


def test_completed_holds_what_came_back() -> None:
    """Arguments, status, output and outcome."""
    outcome = ProcessOutcome(7, ("echo", "hi"), returncode=0, exited=True)
    found = Completed(("echo", "hi"), 0, b"hi\n", None, outcome)

    assert (("echo", "hi"), 0, b"hi\n", None, outcome) == (
        found.args, found.returncode, found.stdout, found.stderr, found.outcome,
    )  # fmt: skip


@pytest.mark.parametrize("name", turnctl.records.__all__)
def test_every_record_is_had_from_the_room(name: str) -> None:
    """The room's names are loaded on first use."""
    assert name == getattr(turnctl.records, name).__name__


def test_unknown_name_of_the_room_is_an_attribute_error() -> None:
    """A typo is told as in any module."""
    with pytest.raises(AttributeError, match="has no attribute 'Report'"):
        turnctl.records.Report  # type: ignore[attr-defined]  # noqa: B018
