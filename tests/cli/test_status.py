"""The exit status is decided by one table: what lives, then the first accepted stop, then the command itself."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from turnctl.cli.ending import Ending
from turnctl.cli.status import ExitStatus, decide
from turnctl.records.process import ProcessOutcome, Survivor
from turnctl.records.report import TurnReport
from turnctl.records.stops import StopRecord

SURVIVOR = Survivor(7, 0.0, "sleep", "D", "in uninterruptible sleep")


def report(returncode: int | None = 0, *, stop: StopRecord | None = None, **fields: Any) -> TurnReport:
    """What is known after a command that ended so."""
    process = ProcessOutcome(1, ("true",), returncode=returncode, exited=returncode is not None)
    fields = {"outcome": "completed", "execution": "ended", "processes": (process,), "stop": stop} | fields
    return TurnReport("t1", None, started_at=0.0, **fields)


def stopped(cause: Any, reason: str | None = None) -> StopRecord:
    return StopRecord(cause, "cancel", 0.0, 0.0, reason)


@pytest.mark.parametrize(
    ("expected", "known"),
    [
        ((0, None), report(0)),
        ((7, None), report(7)),
        ((255, None), report(255)),
        ((137, None), report(-9)),
        ((139, None), report(-11)),
        ((124, None), report(-15, stop=stopped("deadline", "timeout of 1 s passed"))),
        ((124, None), report(0, stop=stopped("deadline"))),
        ((130, 2), report(-15, stop=stopped("signal", "Ctrl-C"))),
        ((143, 15), report(0, stop=stopped("signal", "SIGTERM"))),
        ((129, 1), report(-9, stop=stopped("signal", "SIGHUP"))),
        ((131, 3), report(-9, stop=stopped("signal", "SIGQUIT"))),
        ((143, 15), report(None, stop=stopped("signal", "SIGTERM"), processes=())),
        ((122, None), report(0, stop=stopped("user", "wrong branch"))),
        ((122, None), report(0, stop=stopped("operator"))),
        ((122, None), report(0, stop=stopped("signal", "SIGWHAT"))),
        ((123, None), report(0, execution="unproven", alive=("process 7 (sleep)",))),
        ((123, None), report(-15, stop=stopped("deadline"), execution="unproven")),
        ((123, None), report(-15, stop=stopped("signal", "Ctrl-C"), execution="stopping")),
        ((123, None), report(0, effects_unresolved=1)),
        ((123, None), report(None)),
        ((123, None), report(None, processes=())),
    ],
)
def test_status_by_the_table(expected: tuple[int, int | None], known: TurnReport) -> None:
    """Each row of the table gives its status, and the signal to die of where there is one."""
    assert Ending(*expected) == decide(known)


def test_death_by_a_key_is_passed_on() -> None:
    """A command that died of a key of the terminal takes us along by the same signal; others give a status."""
    keys = (signal.SIGINT, signal.SIGQUIT)

    assert Ending(130, 2) == decide(report(-2), keys=keys)
    assert Ending(130) == decide(report(-2))
    assert Ending(143) == decide(report(-15), keys=keys)
    assert Ending(130) == decide(report(130), keys=keys)


def test_statuses_do_not_collide() -> None:
    """Each meaning has a number of its own, and none is one that a death by signal has."""
    numbers = [status.value for status in ExitStatus]

    assert sorted(set(numbers)) == sorted(numbers)
    assert max(numbers) < 128
