"""The sentence of a report says who, how long, what became of the processes and what is left, and no more."""

from __future__ import annotations

import pytest

from turnctl.records.effects import EffectRecord
from turnctl.records.process import ProcessOutcome, Survivor
from turnctl.records.report import TurnReport
from turnctl.records.stops import CAUSES, StopRecord
from turnctl.records.words import sentence, who


def stop(cause: str = "user", reason: str | None = None, by: str | None = None) -> StopRecord:
    return StopRecord(cause, "cancel", 0.0, 0.0, reason, by)  # type: ignore[arg-type]


def report(**fields: object) -> TurnReport:
    values: dict[str, object] = {"outcome": "completed", "execution": "ended", **fields}
    return TurnReport("t1", None, started_at=0.0, **values)  # type: ignore[arg-type]


def stopped(**fields: object) -> TurnReport:
    values: dict[str, object] = {"outcome": "cancelled", "stop": stop(), "level": "cancel", "stop_took_s": 0.084}
    return report(**{**values, **fields})


def processes(ended: int, killed: int = 0, left: int = 0, *, proven: bool = True) -> tuple[ProcessOutcome, ...]:
    survivors = tuple(Survivor(n, 0.0, "sleep", "S", "") for n in range(left))
    return (ProcessOutcome(1, ("x",), ended=ended, killed=killed, survivors=survivors, empty_proven=proven),)


def done(n: int) -> EffectRecord:
    return EffectRecord(f"e{n}", "mail.send", str(n), "closed", "completed", "250 ok")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (report(), "completed"),
        (report(outcome="failed"), "failed"),
        (report(outcome="superseded"), "superseded"),
        (report(outcome=None, execution="running"), "running"),
        (report(outcome=None, execution="lost"), "lost"),
        (stopped(), "stopped by the user, which took 0.08 s"),
        (stopped(stop_took_s=None), "stopped by the user"),
        (
            stopped(stop=stop("deadline", "timeout of 1 s passed"), stop_took_s=0.15),
            "stopped by its deadline (timeout of 1 s passed), which took 0.15 s",
        ),
        (stopped(stop=stop(reason="wrong branch")), "stopped by the user (wrong branch), which took 0.08 s"),
        (stopped(stop=stop(by="ann")), "stopped by ann, which took 0.08 s"),
        (stopped(stop=stop("signal", "Ctrl-C")), "stopped by Ctrl-C, which took 0.08 s"),
        (stopped(stop=stop("signal")), "stopped by a signal, which took 0.08 s"),
        (
            stopped(stop=stop("signal", "Ctrl-C"), processes=processes(3, 1)),
            "stopped by Ctrl-C, which took 0.08 s: 3 processes ended, 1 needed SIGKILL, none left",
        ),
        (
            stopped(level="soft", stop_took_s=None),
            "stopped by the user after finishing the step in hand",
        ),
        (report(processes=processes(1)), "completed: 1 process ended, none left"),
        (report(processes=processes(0)), "completed: 0 processes ended, none left"),
        (report(processes=processes(2, proven=False)), "completed: 2 processes ended, none found left"),
        (
            report(processes=(*processes(2), *processes(3, 1))),
            "completed: 5 processes ended, 1 needed SIGKILL, none left",
        ),
        (report(effects_unresolved=1), "completed, effects unresolved: 1 effect with unknown outcome"),
        (report(effects_unresolved=2), "completed, effects unresolved: 2 effects with unknown outcome"),
        (report(effects=(done(1),)), "completed"),
        (
            stopped(stop_took_s=None, effects=(done(1),)),
            "stopped by the user: 1 effect already happened (mail.send '1')",
        ),
        (
            stopped(stop_took_s=None, effects=tuple(done(n) for n in range(8))),
            (
                "stopped by the user: 8 effects already happened "
                "(mail.send '0', mail.send '1', mail.send '2', mail.send '3', mail.send '4' and 3 more)"
            ),
        ),
        (report(outcome="failed", stop=stop()), "failed, asked to stop by the user"),
        (
            report(outcome=None, execution="running", stop=stop(reason="enough")),
            "cancellation requested, asked to stop by the user (enough)",
        ),
        (
            stopped(execution="unproven", alive=("process 7 (sleep)", "thread x")),
            "draining, asked to stop by the user: still alive: process 7 (sleep), thread x",
        ),
        (
            stopped(execution="unproven", processes=processes(1, 1, 2, proven=False)),
            "draining, asked to stop by the user: 1 process ended, 1 needed SIGKILL, 2 left",
        ),
    ],
)
def test_sentence(found: TurnReport, text: str) -> None:
    """Written by hand, one for each shape."""
    assert text == sentence(found)
    assert text == str(found)


@pytest.mark.parametrize("cause", sorted(CAUSES))
def test_every_cause_has_words(cause: str) -> None:
    """Whatever stopped a turn can be told to people."""
    text = sentence(stopped(stop=stop(cause)))

    assert text.startswith("stopped by ")
    assert who(stop(cause)) in text


@pytest.mark.parametrize("execution", ["running", "stopping", "unproven"])
def test_no_sentence_says_stopped_before_the_end_is_known(execution: str) -> None:
    """Accepted is not ended."""
    text = sentence(stopped(execution=execution))

    assert not text.startswith("stopped")
    assert "asked to stop by the user" in text


def test_reason_that_is_said_already_is_not_repeated() -> None:
    """A signal's name is the who, and not in brackets once more."""
    assert 1 == sentence(stopped(stop=stop("signal", "SIGTERM"))).count("SIGTERM")


def test_output_that_somebody_holds_is_not_called_nothing() -> None:
    """Where the pipe was still held open, the line says so beside what it did not find."""
    held = ProcessOutcome(7, ("make",), returncode=0, exited=True, output_held=True)
    report = TurnReport("t1", None, "completed", "unproven", 0.0, 1.0, processes=(held,))

    assert "none found left, but somebody still held the output open" in str(report)


def test_output_held_by_what_was_ended_is_no_warning() -> None:
    """Leftovers that held the pipe and were found and ended explain it: nobody unknown is hinted at."""
    left = Survivor(8, 0.0, "sleep", "S", "still running when the command had ended")
    held = ProcessOutcome(7, ("make",), returncode=0, exited=True, ended=1, leftovers=(left,), output_held=True)
    report = TurnReport("t1", None, "completed", "ended", 0.0, 1.0, processes=(held,))

    assert "completed: 1 process ended, none found left" == str(report)
