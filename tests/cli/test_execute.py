"""What is said of a stop, whenever it comes."""

from __future__ import annotations

import pytest

from turnctl.cli.execute import Execution, Plan

ACCEPTED = "turnctl: stop accepted (wrong branch)\n"
WAITING = "turnctl: waiting for 1 process (sleep 4711), SIGTERM first, KILL in "


@pytest.fixture
def execution(monkeypatch: pytest.MonkeyPatch) -> Execution:
    plan = Plan(("sleep", "60"), None, "10m", 15, None, "auto", None, None, "end", None, False, {})
    made = Execution(plan)
    found: list[tuple[str, int]] = [("sleep", 4711)]
    monkeypatch.setattr(made, "_members", lambda: found if made.is_started else [])
    return made


def _stopped(execution: Execution) -> None:
    execution._turn.cancel("wrong branch")
    execution._tell_of_stop()


def test_stop_names_whom_it_waits_for(execution: Execution, capfd: pytest.CaptureFixture[str]) -> None:
    """A stop of a command that runs says at once whom it waits for, and once."""
    with execution._turn:
        execution._leader = 4711
        execution._say_the_rest()
        _stopped(execution)
        execution._say_the_rest()

    accepted, waiting = capfd.readouterr().err.splitlines(keepends=True)
    assert ACCEPTED == accepted
    assert waiting.startswith(WAITING)


def test_stop_in_the_moment_of_the_start(execution: Execution, capfd: pytest.CaptureFixture[str]) -> None:
    """Where the news of the start has not come yet, whom it waits for is said when it has."""
    with execution._turn:
        _stopped(execution)
        before = capfd.readouterr().err
        execution._leader = 4711
        execution._say_the_rest()

    assert ACCEPTED == before
    assert capfd.readouterr().err.startswith(WAITING)
