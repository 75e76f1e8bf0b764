"""What a program leaves running when it ends by itself is ended: asked, then killed, without a word."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from commands import FakeTurn, Gate, alive, nap
from launch import ROOT, clean_environment
from standins import Background, until

from turnctl.processes import leaving
from turnctl.processes.command import run
from turnctl.testing import pause_at

BOUND = 20

_HEAD = f"""
import os, sys, threading, time
sys.path.insert(0, {ROOT!r})
import turnctl
def started(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
def wait_for_gate(path):
    open(path).readline()
"""
WAYS = {
    "a daemon thread in a turn": (
        "def work():\n    with turnctl.turn() as turn: turn.run(LINE, shell=True)\nstarted(work); wait_for_gate(GATE)"
    ),
    "a daemon thread without a turn": "started(lambda: turnctl.run(LINE, shell=True)); wait_for_gate(GATE)",
    "a turn that is never ended": "turnctl.begin_turn(); turnctl.popen(LINE, shell=True); wait_for_gate(GATE)",
    "a handle without a turn": "turnctl.popen(LINE, shell=True); wait_for_gate(GATE)",
    "leftovers of a turn that is never ended": "turnctl.begin_turn(); turnctl.run(f'({LINE}) &', shell=True)",
    "an error": "turnctl.begin_turn(); turnctl.popen(LINE, shell=True); wait_for_gate(GATE); sys.exit(3)",
}


def ended(code: str, **options: object) -> tuple[int, str, float]:
    """Status, stderr and duration of a program."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-I", "-c", _HEAD + code],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=BOUND,
        env=clean_environment(),
    )
    return done.returncode, done.stderr, time.monotonic() - began


@pytest.mark.parametrize("way", WAYS)
def test_commands_end_with_program(way: str, gate: Gate) -> None:
    """However it was started, a command does not outlive a program that ends normally, which says nothing of it."""
    tag = nap()
    status, err, took = ended(f"LINE = 'echo > {gate}; {tag}'; GATE = {str(gate)!r}\n{WAYS[way]}\n")

    assert until(lambda: not alive(tag))
    assert (3 if way == "an error" else 0, "") == (status, err)
    assert took < 10


def test_program_does_not_wait_for_long_grace(gate: Gate) -> None:
    """A command that does not heed the asking is killed after two seconds, however long its turn's grace is."""
    tag = nap()
    line = f"trap '' TERM; echo > {gate}; {tag}; {tag}"
    code = f"turnctl.begin_turn(grace=60)\nturnctl.popen({line!r}, shell=True); wait_for_gate({str(gate)!r})\n"
    status, err, took = ended(code)

    assert (0, "") == (status, err)
    assert until(lambda: not alive(tag))
    assert took < 20


def test_command_may_end_by_itself_when_asked(gate: Gate, tmp_path: object) -> None:
    """It is asked before it is killed, so its own clean-up runs."""
    line = f"trap 'echo clean > {tmp_path}/done; exit' TERM; echo > {gate}; while :; do sleep 0.02; done"
    code = f"turnctl.begin_turn()\nturnctl.popen({line!r}, shell=True); wait_for_gate({str(gate)!r})\n"

    assert 0 == ended(code)[0]
    with open(f"{tmp_path}/done") as file:
        assert "clean\n" == file.read()


def test_threads_that_are_waited_for_are_not_cut_short() -> None:
    """A command of a thread that the interpreter waits for runs to its end."""
    code = (
        "def work():\n"
        "    time.sleep(0.3); done = turnctl.run(['sleep', '0.3'])\n"
        "    os._exit(7 if done.returncode == 0 else 8)\n"
        "turnctl.run(['true'])\nthreading.Thread(target=work).start()\n"
    )

    assert 7 == ended(code)[0]


def test_forked_child_ends_nothing(gate: Gate) -> None:
    """A forked child that ends normally leaves the parent's command alone."""
    code = (
        "turnctl.begin_turn()\n"
        f"p = turnctl.popen('echo > {gate}; sleep 60', shell=True); wait_for_gate({str(gate)!r})\n"
        "pid = os.fork()\n"
        "if not pid: sys.exit(0)\n"
        "os.waitpid(pid, 0); time.sleep(0.1)\n"
        "os._exit(9) if p.poll() is not None else p.stop()\n"
    )

    assert 0 == ended(code)[0]


def test_nothing_new_is_started_behind_the_end() -> None:
    """A daemon thread that goes on starting commands while the program ends leaves none."""
    tag = nap()
    code = (
        "def work():\n"
        f"    while True: turnctl.popen({tag!r}, shell=True); time.sleep(0.02)\n"
        # a daemon thread that writes its error as the interpreter closes stderr has CPython abort
        "threading.excepthook = lambda _: None\n"
        "started(work); time.sleep(0.3)\n"
    )
    assert 0 == ended(code)[0]
    assert until(lambda: not alive(tag))


def test_stuck_thread_keeps_no_command_alive(monkeypatch: pytest.MonkeyPatch, owner: FakeTurn) -> None:
    """A command that a thread has in hand, which does not come through, has its group killed in the end."""
    monkeypatch.setattr(leaving, "GRACE_S", 0.1)
    monkeypatch.setattr(leaving, "DRAIN_S", 0.1)
    monkeypatch.setattr(leaving, "_MARGIN_S", 0.1)
    monkeypatch.setattr(leaving, "_is_ending", False)
    tag = nap()
    with pause_at("processes.run.spawned") as held:
        call = Background(lambda: run(owner, tag.split()))
        assert held.reached.wait(BOUND)
        leaving.end_all()

        assert until(lambda: not alive(tag))
        held.release()
    call.result()


def test_clean_up_may_still_run_commands() -> None:
    """What the program runs on its main thread while it ends is run."""
    code = (
        "import atexit\n"
        "atexit.register(lambda: os._exit(5 if turnctl.run(['true']).returncode == 0 else 6))\nturnctl.run(['true'])\n"
    )

    assert 5 == ended(code)[0]
