"""A thread of a turn is registered before it runs, ends accounted for, and is named when it does not come back."""

from __future__ import annotations

import contextvars
import functools
import threading
from typing import Any

import pytest
from standins import BOUND, Background, is_parked, until

import turnctl
from turnctl import CancelledError, TurnOver
from turnctl.testing import call_at, pause_at
from turnctl.waiting import abandoned
from turnctl.waiting.worker import Worker, name_of


def made(turn: turnctl.Turn | None, fn: Any, *args: Any, **options: Any) -> Worker:
    return Worker(turn, fn, args, {}, **options)


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (len, "len"),
        (functools.partial(len, ()), "len"),
        (lambda: None, "lambda"),
        (threading.Event().wait, "Event.wait"),
        (made, "made"),
        (object(), "object"),
    ],
)
def test_function_has_a_name_for_people(fn: object, name: str) -> None:
    """Whatever kind of callable it is."""
    assert name == name_of(fn)


def test_worker_is_registered_before_it_runs() -> None:
    """And is a daemon, which keeps no process from exiting (W1, W2)."""
    seen: list[Any] = []
    with turnctl.turn() as turn:
        worker = made(turn, lambda: seen.append((turn.report.activities[0].state, threading.current_thread().daemon)))
        worker.start()
        assert worker.wait(BOUND)

    assert [("open", True)] == seen
    assert "completed" == turn.report.activities[0].state


@pytest.mark.parametrize(
    ("error", "state", "detail"),
    [
        (None, "completed", None),
        (KeyError("x"), "failed", "raised KeyError: 'x'"),
        (CancelledError("enough"), "cancelled", "enough"),
    ],
)
def test_worker_ends_as_its_function_does(error: BaseException | None, state: str, detail: str | None) -> None:
    """Its error is kept for whoever waits, its activity says how it ended."""

    def work() -> str:
        if error is not None:
            raise error
        return "value"

    with turnctl.turn() as turn:
        worker = made(turn, work)
        worker.start()
        assert worker.wait(BOUND)

    assert (error, None if error else "value", ()) == (worker.error, worker.result, worker.alive())
    assert (state, detail) == (turn.report.activities[0].state, turn.report.activities[0].detail)


def test_worker_of_no_turn_is_a_plain_thread() -> None:
    """It carries the context it was made in."""
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("mine")
    worker = made(None, variable.get)
    worker.start()

    assert worker.wait(BOUND)
    assert "mine" == worker.result


def test_stopped_turn_runs_nothing() -> None:
    """What was stopped before its thread began does not begin."""
    with turnctl.turn() as turn:
        worker = made(turn, pytest.fail)
        with call_at("worker.admitted", turn.cancel):
            worker.start()
        assert worker.wait(BOUND)

        assert isinstance(worker.error, CancelledError)


def test_worker_of_a_turn_that_is_over_is_refused() -> None:
    """``TurnOver``, and no thread."""
    with turnctl.turn() as turn:
        pass
    with pytest.raises(TurnOver):
        made(turn, pytest.fail).start()


def test_end_is_stored_before_waiters_are_woken() -> None:
    """Who is woken finds it ended; who comes in between does not park (W3)."""
    with turnctl.turn() as turn:
        worker = made(turn, int)
        with pause_at("worker.ended") as held:
            worker.start()
            assert held.reached.wait(BOUND)

            assert worker.wait(BOUND)
            assert worker.has_ended
        gate = threading.Event()
        other = made(turn, gate.wait, BOUND)
        other.start()
        waiting = Background(other.wait)
        assert is_parked(other.waiters)
        gate.set()

        assert waiting.result()


def test_worker_that_does_not_come_back_is_named() -> None:
    """The turn waits for its grace; then the report has its name and line, and what comes later is evidence (W4)."""
    gate = threading.Event()
    with turnctl.turn(grace=0.05) as turn:
        worker = made(turn, gate.wait, BOUND, name="stuck")
        worker.start()
    (alive,) = turn.report.alive

    assert alive.startswith("thread stuck (")
    assert "threading.py:" in alive
    assert ("abandoned", None) == (turn.report.activities[0].state, turn.report.activities[0].late)
    gate.set()
    assert worker.wait(BOUND)
    assert ("abandoned", "returned") == (turn.report.activities[0].state, turn.report.activities[0].late)
    assert ("ended", ()) == (turn.report.execution, turn.report.alive)


def test_thread_that_ends_its_own_turn_does_not_wait_for_itself() -> None:
    """It would wait for ever."""
    turn = turnctl.turn(inherit=False, grace=60)
    turn.begin()
    worker = made(turn, turn.end)
    worker.start()

    assert worker.wait(BOUND)
    assert turn.is_over


class StruckInStart(threading.Thread):
    """A thread whose starter is struck while it waits for it: the thread has come up by then, or not."""

    comes_up_first = True

    def start(self) -> None:
        if self.comes_up_first:
            super().start()
        raise KeyboardInterrupt


@pytest.mark.parametrize("comes_up_first", [True, False])
def test_starter_that_is_struck(comes_up_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C in the start: the function runs and is accounted for, or never runs and says so (W5)."""
    ran: list[int] = []
    gate = threading.Event()

    def work() -> None:
        gate.wait(BOUND)
        ran.append(1)

    monkeypatch.setattr(StruckInStart, "comes_up_first", comes_up_first)
    with turnctl.turn() as turn:
        worker = made(turn, work)
        with monkeypatch.context() as patch:
            patch.setattr("turnctl.waiting.worker.threading.Thread", StruckInStart)
            with pytest.raises(KeyboardInterrupt):
                worker.start()
        assert comes_up_first != worker.has_ended
        gate.set()
        if not comes_up_first:
            worker._run()  # the thread comes up all the same, later
        assert worker.wait(BOUND)

    assert [1] * comes_up_first == ran
    (found,) = turn.report.activities
    assert ("completed" if comes_up_first else "failed") == found.state
    assert comes_up_first or found.detail == "its thread could not be started: KeyboardInterrupt"


def test_thread_that_does_not_come_back_is_counted() -> None:
    """A thread of a turn that is left behind counts among the abandoned ones until it ends (P5)."""
    free = threading.Event()
    with turnctl.turn(grace=0) as turn:
        turn.thread(free.wait, name="stuck")
        turn.stop()
    counted = abandoned.count()
    free.set()

    assert 1 == counted
    assert until(lambda: abandoned.count() == 0)
    assert "unproven" not in turn.report.execution
