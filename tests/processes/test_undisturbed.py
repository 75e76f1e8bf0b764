"""A handler that raises while a command is being started loses no process."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
from commands import alive, nap
from standins import until

import turnctl
from turnctl.processes.undisturbed import Undisturbed
from turnctl.testing import call_at

pytestmark = pytest.mark.usefixtures("wardens")


class Struck(BaseException):
    """What the handler of the test raises."""


@pytest.fixture
def _raising_handler() -> Iterator[None]:
    def raise_it(signum: int, frame: FrameType | None) -> None:
        raise Struck

    before = signal.signal(signal.SIGUSR1, raise_it)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def _signal_at_the_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal arrives after the child was made and before anybody has stored its pid."""
    holder: Any = subprocess if hasattr(subprocess, "_fork_exec") else subprocess._posixsubprocess  # type: ignore[attr-defined]
    name = "_fork_exec" if hasattr(subprocess, "_fork_exec") else "fork_exec"
    real = getattr(holder, name)

    def fork_exec(*args: Any) -> int:
        pid: int = real(*args)
        os.kill(os.getpid(), signal.SIGUSR1)
        return pid

    monkeypatch.setattr(holder, name, fork_exec)


@pytest.mark.usefixtures("_raising_handler", "_signal_at_the_fork", "grouped")
def test_handler_that_raises_at_the_fork_loses_no_process() -> None:
    """The exception comes, after the command is known, and the command is ended (promise 9)."""
    tag = nap()
    turns = []
    with pytest.raises(Struck), turnctl.turn(grace="1s") as turn:
        turns.append(turn)
        turn.run(tag.split())

    assert until(lambda: not alive(tag), within=2)
    assert "failed" == turns[0].outcome
    assert "ended" == turns[0].report.execution


@pytest.mark.usefixtures("_raising_handler")
@pytest.mark.parametrize("moment", ["composed", "asked", "started"])
def test_raising_handler_beside_a_warden_loses_nothing(moment: str) -> None:
    """The same where a warden starts the command."""
    tag = nap()
    turns = []
    at = call_at(f"processes.launch.{moment}", lambda: os.kill(os.getpid(), signal.SIGUSR1))
    with at, pytest.raises(Struck), turnctl.turn(grace="1s") as turn:
        turns.append(turn)
        turn.run(tag.split())

    assert until(lambda: not alive(tag), within=2)
    assert ("failed", "ended") == (turns[0].outcome, turns[0].report.execution)


@pytest.mark.usefixtures("_raising_handler")
def test_handlers_are_back_and_were_told_in_order() -> None:
    """What came is handed over afterwards, and nothing of ours stays in place."""
    came: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGINT)}
    first = signal.signal(signal.SIGUSR2, lambda number, frame: came.append(number))
    quiet = Undisturbed()
    quiet.begin()
    os.kill(os.getpid(), signal.SIGUSR2)
    os.kill(os.getpid(), signal.SIGUSR2)
    before = list(came)
    quiet.end()
    quiet.end()
    signal.signal(signal.SIGUSR2, first)

    assert [] == before
    assert [signal.SIGUSR2] * 2 == came
    assert handlers == {number: signal.getsignal(number) for number in handlers}


@pytest.mark.usefixtures("_raising_handler")
def test_let_in_runs_what_came_and_goes_on_holding() -> None:
    """What has come by then is handed over at once, and what comes later waits again."""
    came: list[int] = []
    first = signal.signal(signal.SIGUSR2, lambda number, frame: came.append(number))
    quiet = Undisturbed()
    quiet.begin()
    os.kill(os.getpid(), signal.SIGUSR2)
    counts = [len(came)]
    quiet.let_in()
    counts.append(len(came))
    quiet.let_in()
    os.kill(os.getpid(), signal.SIGUSR2)
    counts.append(len(came))
    quiet.end()
    counts.append(len(came))
    signal.signal(signal.SIGUSR2, first)

    assert [0, 1, 1, 2] == counts


def test_other_threads_hold_nothing() -> None:
    """Handlers run on the main thread only, so there is nothing to hold elsewhere."""
    before = signal.getsignal(signal.SIGINT)
    during: list[object] = []

    def work() -> None:
        quiet = Undisturbed()
        quiet.begin()
        during.append(signal.getsignal(signal.SIGINT))
        quiet.end()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert [before] == during
