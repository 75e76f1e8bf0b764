"""A token below a turn stops the commands that run where it is bound, and wakes who waits for one there."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest
from commands import Gate, alive, nap, timed
from standins import until

import turnctl
from turnctl.processes.command import run
from turnctl.processes.unowned import Unowned

Run = Callable[[turnctl.Turn, str], object]
RUNS: dict[str, Run] = {
    "turnctl.run": lambda turn, line: turnctl.run(line, shell=True),
    "turn.run": lambda turn, line: turn.run(line, shell=True),
    "turnctl.popen": lambda turn, line: turnctl.popen(line, shell=True).wait(),
    "turn.popen": lambda turn, line: turn.popen(line, shell=True).wait(),
}


@pytest.fixture(params=RUNS)
def a_run(request: pytest.FixtureRequest, leak_check: object) -> Run:
    return RUNS[request.param]


def test_timeout_of_child_ends_command(a_run: Run) -> None:
    """The time of a child token ends the command and what it started, and the turn goes on."""
    tag = nap()
    with timed() as passed:
        with turnctl.turn() as turn:
            with turn.child(timeout=0.2) as child:
                a_run(turn, f"{tag} & {tag}")
            took = passed()
            assert until(lambda: not alive(tag))

    assert child.cancelled
    assert 5 > took >= 0.2
    assert ("completed", 0) == (turn.outcome, len(turn.report.alive))


def test_turn_still_stops_command_of_child(a_run: Run, gate: Gate) -> None:
    """Inside a child's scope the stop of the turn reaches the command as well."""
    with turnctl.turn() as turn:
        threading.Thread(target=lambda: (gate.wait(), turn.cancel("test"))).start()
        with turn.child() as child:
            a_run(turn, f"echo > {gate}; {nap()}")

    assert ("cancelled", "parent") == (turn.outcome, child.cause)


def test_closed_child_stops_nothing() -> None:
    """A handle that outlives the child it was started under belongs to the turn alone from then on."""
    with turnctl.turn() as turn:
        with turn.child() as child:
            process = turnctl.popen(nap().split())
        answer = child.cancel("late")
        number = process.pid
        os.kill(number, signal.SIGTERM)  # by somebody else: so it was there, and its status is told

        assert -signal.SIGTERM == process.wait()

    assert not answer
    assert [] == [sent.signal for sent in turn.report.processes[0].signals]


def test_time_of_closed_child_stops_nothing() -> None:
    """Nor does the time that the child had."""
    for seconds in (0.2, 0.8, 3.2):
        with turnctl.turn() as turn:
            with turn.child(timeout=seconds) as child:
                process = turnctl.popen(["sleep", str(seconds * 1.5)])
            if child.cancelled:
                continue  # this machine took longer than that to start it
            status = process.wait()
            break

    assert 0 == status


def test_wait_wakes_for_token_bound_where_it_waits() -> None:
    """Waiting under a child obeys the child, and the command that was started outside of it goes on."""
    with turnctl.turn() as turn, turn.popen(nap().split()) as process:
        with turn.child(timeout=0.2) as child:
            process.wait()

        assert child.cancelled
        assert process.poll() is None


def test_lines_wake_for_token_bound_where_they_are_read(gate: Gate) -> None:
    """Reading lines under a child obeys the child."""
    seen: list[str] = []
    with turnctl.turn() as turn, turn.popen(f"echo one; {nap()}", shell=True, text=True) as process:
        lines = iter(process)
        seen.append(next(lines))
        with turn.child(timeout=0.1) as child:
            seen.extend(lines)

        assert child.cancelled
        assert ["one\n"] == seen
        assert process.poll() is None


def test_grace_of_child_counts(gate: Gate) -> None:
    """A stop of the child that names a grace is killed after that, not after the turn's."""
    with timed() as passed:
        with turnctl.turn(grace="50s") as turn:
            with turn.child() as child:
                threading.Thread(target=lambda: (gate.wait(), child.cancel("test", grace=0.1))).start()
                turn.run(f"trap '' TERM; echo > {gate}; while :; do sleep 0.05; done", shell=True)

    assert passed() < 5
    assert "SIGKILL" in [sent.signal for sent in turn.report.processes[0].signals]


def test_shield_holds_stop_of_child_back() -> None:
    """Under a shield of the child its stop waits for the shield's end."""
    with turnctl.turn() as turn:
        with turn.child(timeout=0.1) as child:
            with child.shield("5s"):
                done = turn.run(["sleep", "0.4"])

    assert child.cancelled
    assert (0, False) == (done.returncode, done.outcome.stopped)


def test_token_without_turn_stops_command() -> None:
    """Outside any turn a token that is bound stops the command all the same."""
    free = turnctl.CancelToken()
    timer = threading.Timer(0.2, free.cancel)
    timer.start()
    with timed() as passed:
        with free:
            turnctl.run(nap().split())
    timer.join()

    assert passed() < 5


def test_stopped_child_starts_nothing() -> None:
    """Under a child that was stopped before, nothing is started."""
    with turnctl.turn() as turn:
        with turn.child() as child:
            child.cancel()
            turn.run(["true"])

    assert () == turn.report.processes


def test_token_of_another_turn_is_not_obeyed() -> None:
    """A command of one turn does not end by a token of another one that is bound around it."""
    with turnctl.turn() as outer:
        with turnctl.turn(inherit=False, timeout=0.2) as inner:
            done = outer.run(["sleep", "0.4"])

    assert (0, "cancelled", "completed") == (done.returncode, inner.outcome, outer.outcome)


def test_unowned_in_turn_stays_unowned() -> None:
    """A command that was given no owner on purpose obeys no turn around it."""
    with turnctl.turn(timeout=0.1) as turn:
        done = run(Unowned(), ["sleep", "0.3"])

    assert (0, "cancelled") == (done.returncode, turn.outcome)
