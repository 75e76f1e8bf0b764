"""Commands in real turns: what a stop, an end and a displacement do to processes that a turn started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Gate, alive, nap, timed
from standins import BOUND, Background, until

import turnctl
from turnctl.errors import CancelledError, TurnOver


@pytest.fixture
def gate(tmp_path: Path, leak_check: object) -> Iterator[Gate]:
    """A place where a command of the test says that it is ready."""
    made = Gate(tmp_path / "gate")
    yield made
    made.close()


def test_command_with_a_job_ends_at_its_timeout() -> None:
    """A shell and its background job are gone in less than the grace and a second (promise 12)."""
    tag = nap()
    with turnctl.turn(grace="3s") as turn, timed() as passed:
        done = turn.run(f"{tag} & {tag}", shell=True, timeout=1)
        took = passed()

    assert 1 <= took < 4
    assert [] == alive(tag)
    assert done.outcome.timed_out
    assert "completed" == turn.outcome


@pytest.mark.usefixtures("wardens")
def test_stop_from_another_thread_carries_the_output(gate: Gate) -> None:
    """The call raises, the tree is gone, and what was read before is in the exception (promise 12)."""
    tag = nap()
    turns: list[turnctl.Turn] = []
    kept: list[CancelledError] = []

    def body() -> None:
        with turnctl.turn("chat") as turn:
            turns.append(turn)
            try:
                turn.run(f"echo early; echo > {gate}; {tag}", shell=True, text=True)
            except CancelledError as error:
                kept.append(error)
                raise

    worker = Background(body)
    gate.wait()
    result = turnctl.stop("chat", reason="wrong repo", by="ana", wait=BOUND)
    worker.result()

    assert result
    assert isinstance(result, turnctl.StopResult)
    assert result.over
    assert kept[0].partial is not None
    assert "early\n" == kept[0].partial.stdout
    assert kept[0].partial.outcome.stopped
    assert [] == alive(tag)
    assert "ended" == turns[0].report.execution
    assert str(turns[0].report).startswith("stopped by ana (wrong repo), which took ")
    assert "none left" in str(turns[0].report)


def test_stop_of_one_turn_leaves_the_others_command() -> None:
    """A hundred times: of two commands on two threads only the stopped turn's ends (promise 2)."""
    with turnctl.turn("other") as other:
        spared = other.popen(["sleep", "60"], capture=False)
        for _ in range(100):
            with turnctl.turn("stopped", inherit=False) as turn:
                victim = turn.popen(["sleep", "60"], capture=False)
                turnctl.stop("stopped", expected_turn=turn.turn_id)
                with pytest.raises(CancelledError):
                    victim.wait(BOUND)

            assert "cancelled" == turn.outcome
            assert [] == [s for p in turn.report.processes for s in p.survivors]
            assert -signal.SIGTERM == victim.returncode
            assert spared.returncode is None
        assert not other.cancelled


def test_displaced_turn_has_its_command_ended_at_once(gate: Gate) -> None:
    """The ladder does not wait for the old frames to come back, and the new turn is untouched."""
    tag = nap()
    old: list[turnctl.Turn] = []

    def body() -> None:
        with turnctl.turn("chat") as turn:
            old.append(turn)
            turn.run(f"echo > {gate}; {tag}", shell=True)

    worker = Background(body)
    gate.wait()
    with turnctl.turn("chat") as new:
        gone = until(lambda: not alive(tag))
        new.check()
    worker.result()

    assert gone
    assert ("cancelled", "displaced") == (old[0].outcome, old[0].cause)
    assert "completed" == new.outcome


def test_displaced_turn_starts_nothing_more() -> None:
    """Its admission is closed before the new turn begins (promise 2)."""
    begun, moved = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def body() -> None:
        with turnctl.turn("chat") as turn:
            begun.set()
            assert moved.wait(BOUND)
            with turn.shield():
                try:
                    turn.run(["true"])
                except TurnOver as error:
                    errors.append(error)

    worker = Background(body)
    assert begun.wait(BOUND)
    with turnctl.turn("chat"):
        moved.set()
        worker.result()

    assert [TurnOver] == [type(error) for error in errors]


def test_what_a_command_left_ends_with_the_turn() -> None:
    """It is named as a leftover when the command ends, and gone when the turn is over (promise 9)."""
    tag = nap()
    with turnctl.turn() as turn:
        done = turn.run(f"{tag} >/dev/null 2>&1 & exit 3", shell=True)
        left = alive(tag)

    assert 3 == done.returncode
    assert [left[0]] == [one.pid for one in done.outcome.leftovers]
    assert [] == alive(tag)
    assert "completed" == turn.outcome


def test_handle_that_nobody_waits_for_ends_with_the_turn() -> None:
    """A command started with ``popen`` and forgotten does not outlive its turn (promise 9)."""
    tag = nap()
    with turnctl.turn() as turn:
        turn.popen(tag, shell=True)
        assert until(lambda: alive(tag))

    assert [] == alive(tag)
    assert "ended" == turn.report.execution


def test_stop_of_the_parent_ends_the_childs_command(gate: Gate) -> None:
    """A stop goes down the tree of turns, to their processes."""
    tag = nap()
    begun = threading.Event()
    inner: list[turnctl.Turn] = []

    def body() -> None:
        with turnctl.turn("outer"):
            begun.set()
            with turnctl.turn("inner") as turn:
                inner.append(turn)
                turn.run(f"echo > {gate}; {tag}", shell=True)

    worker = Background(body)
    gate.wait()
    turnctl.stop("outer")
    worker.result()

    assert [] == alive(tag)
    assert ("cancelled", "parent") == (inner[0].outcome, inner[0].cause)


def test_kill_spends_no_grace(gate: Gate) -> None:
    """A stop of level kill ends at once what ignores TERM, whatever the grace."""
    tag = nap()
    with turnctl.turn("chat", grace="60s") as turn, timed() as passed:
        killer = Background(lambda: (gate.wait(), turnctl.stop("chat", kill=True)))
        turn.run(f"trap '' TERM; echo > {gate}; {tag}; {tag}", shell=True)
    killer.result()

    assert passed() < 20
    assert [] == alive(tag)
    assert sum(p.killed for p in turn.report.processes) > 0


def test_second_stop_shortens_the_grace(gate: Gate) -> None:
    """An explicit shorter grace is heard by a ladder that is going on; the record stays the first one."""
    tag = nap()

    def press() -> None:
        gate.wait()
        first = turnctl.stop("chat", reason="first")
        second = turnctl.stop("chat", reason="second", grace="100ms")
        assert "accepted" == first.kind  # type: ignore[union-attr]
        assert "already_cancelled" == second.kind  # type: ignore[union-attr]

    with turnctl.turn("chat", grace="60s") as turn, timed() as passed:
        presser = Background(press)
        turn.run(f"trap '' TERM; echo > {gate}; {tag}; {tag}", shell=True)
    presser.result()

    assert passed() < 20
    assert "first" == turn.token.reason
    assert [] == alive(tag)


def test_stop_while_the_turn_is_finishing_shortens_it(gate: Gate) -> None:
    """A completed turn that waits for a leftover hears a stop: already ended, and soon over."""
    tag = nap()
    answers: list[object] = []

    def press() -> None:
        assert until(lambda: turn.outcome is not None)
        answers.append(turnctl.stop("chat", kill=True))

    with turnctl.turn("chat", grace="60s") as turn, timed() as passed:
        turn.popen(f"trap '' TERM; echo > {gate}; {tag}; {tag}", shell=True)
        gate.wait()
        presser = Background(press)
    presser.result()

    assert passed() < 20
    assert ["already_ended"] == [answer.kind for answer in answers]  # type: ignore[attr-defined]
    assert "completed" == turn.outcome
    assert [] == alive(tag)


def test_own_ctrl_c_of_python_ends_the_command(tmp_path: Path) -> None:
    """Without our handlers a Ctrl-C is a KeyboardInterrupt: it passes, the tree is ended, the cause is signal."""
    tag = nap()
    program = f"""
import turnctl
try:
    with turnctl.turn() as turn:
        turn.run("echo ready >&2; {tag}", shell=True, stderr="inherit")
except KeyboardInterrupt:
    print(turn.outcome, turn.cause, turn.report.execution)
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    assert "ready\n" == child.stderr.readline()
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=BOUND)

    assert "cancelled signal ended\n" == out
    assert [] == alive(tag)


@pytest.mark.usefixtures("wardens")
def test_report_of_a_stopped_turn_is_json(gate: Gate) -> None:
    """What machines get holds the intent, the execution and each process, with times and signals."""
    tag = nap()
    with turnctl.turn("chat") as turn:
        presser = Background(lambda: (gate.wait(), turnctl.stop("chat", reason="enough")))
        turn.run(f"echo > {gate}; {tag}", shell=True)
    presser.result()
    turn.report.validate()
    found = json.loads(json.dumps(turn.report.as_dict()))

    assert ("turnctl.turn/1", "cancelled", "ended") == (found["schema"], found["outcome"], found["execution"]["state"])
    assert "enough" == found["intent"]["record"]["reason"]
    assert "SIGTERM" == found["processes"][0]["signals"][0]["signal"]
    assert ("complete", True) == (found["processes"][0]["containment"], found["processes"][0]["empty_proven"])


def test_command_outside_any_turn_is_supervised() -> None:
    """Without a turn the timeout holds for the whole tree, and nothing is left when the call returns."""
    tag = nap()
    started = time.monotonic()
    done = turnctl.run(f"{tag} >/dev/null & {tag}", shell=True, timeout=0.5)
    left = turnctl.run(f"{tag} >/dev/null 2>&1 & exit 0", shell=True)

    assert time.monotonic() - started < BOUND
    assert done.outcome.timed_out
    assert 1 == len(left.outcome.leftovers)
    assert [] == alive(tag)


def test_ambient_run_finds_the_turn(gate: Gate) -> None:
    """Code without a turn argument runs its commands in the current turn."""
    with turnctl.turn("chat") as turn:
        done = turnctl.run(["echo", "hi"], text=True)

    assert "hi\n" == done.stdout
    assert 1 == len(turn.report.processes)


def test_stop_before_the_start_starts_nothing(tmp_path: Path) -> None:
    """A tripped turn's command is never started (a checkpoint comes first)."""
    with turnctl.turn() as turn:
        turn.stop()
        turn.run(["touch", str(tmp_path / "made")])

    assert not (tmp_path / "made").exists()
    assert () == turn.report.processes


@pytest.mark.usefixtures("wardens")
def test_signal_handler_stop_reaches_a_blocked_run() -> None:
    """With handle_signals one SIGTERM ends the command of the blocked main thread, and the program goes on."""
    tag = nap()
    program = f"""
import turnctl
with turnctl.handle_signals():
    with turnctl.turn() as turn:
        turn.run("echo ready >&2; {tag}", shell=True, stderr="inherit")
print(turn.outcome, turn.cause, turn.token.reason, "none left" in str(turn.report))
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    assert "ready\n" == child.stderr.readline()
    child.send_signal(signal.SIGTERM)
    out, _ = child.communicate(timeout=BOUND)

    assert "cancelled signal SIGTERM True\n" == out
    assert 0 == child.returncode
    assert [] == alive(tag)


@pytest.mark.parametrize(("custody", "execution"), [("group", "unproven"), ("", "ended")])
def test_output_held_by_somebody_unknown_is_not_an_end(
    custody: str, execution: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe that a process outside the tree holds open leaves the end unproven: who holds it may be ours.

    Where nothing of the command is left for certain, it is somebody else's.
    """
    monkeypatch.setenv("TURNCTL_CONTAINMENT", custody)
    with turnctl.turn() as turn:
        process = turn.popen(["sh", "-c", "read x"], stdin="pipe")
        held = os.open(f"/proc/{process.pid}/fd/1", os.O_WRONLY)  # as one would that got it by a socket
        process.write(b"\n")
        process.wait(BOUND)
    report = turn.report
    os.close(held)

    assert execution == report.execution
    assert ("somebody still held the output open" in str(report)) == (execution == "unproven")


def test_call_comes_back_from_a_command_that_is_killed(gate: Gate) -> None:
    """A function whose command hears no SIGTERM has its grace's end with the command, and is not left behind for it."""
    with turnctl.turn(grace="300ms") as turn:
        stopper = Background(lambda: (gate.wait(), turn.stop()))
        turn.call(lambda: turnctl.run(f"trap '' TERM; echo > {gate}; sleep 60", shell=True))
    stopper.result()

    assert turn.cancelled
    assert [("call", "cancelled")] == [(a.kind, a.state) for a in turn.report.activities if a.kind == "call"]
    assert ["SIGTERM", "SIGKILL"] == list(dict.fromkeys(s.signal for s in turn.report.processes[0].signals))
