"""Nothing of a command outlives its stop, nor its program, however it hides: from the library and the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import launch
import psutil
import pytest
from commands import Gate, alive
from shapes import shape
from standins import Background, until
from warding import tag

import turnctl
from turnctl.errors import CancelledError

SHAPES = [
    "adopts",
    "chain",
    "daemon without environment",
    "deaf daemon",
    "forks when asked",
    "hopper",
    "kills its parent",
    "only a thread",
    "stopped",
]
pytestmark = [
    pytest.mark.usefixtures("wardens"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="wardens need Linux"),
]


@pytest.fixture
def gate(tmp_path: Path, leak_check: object) -> Iterator[Gate]:
    """A place where a command of the test says that it is ready."""
    made = Gate(tmp_path / "gate")
    yield made
    made.close()


@pytest.mark.parametrize("name", SHAPES)
def test_stop_of_a_turn_ends_every_shape(name: str, gate: Gate) -> None:
    """The report says that nothing is left, and nothing is (promise 9)."""
    mark = tag()
    turns: list[turnctl.Turn] = []

    def body() -> None:
        with turnctl.turn(grace="200ms") as turn, gate.path.open("wb", 0) as told:
            turns.append(turn)
            turn.run(shape(name, mark), stdout=told)

    call = Background(body)
    gate.wait()
    is_accepted = bool(turns[0].cancel())
    error = call.error()

    assert is_accepted or name == "kills its parent"  # which ends by its own doing, maybe before
    assert [] == alive(mark)
    assert error is None or isinstance(error, CancelledError)
    (process,) = turns[0].report.processes
    assert ("complete", True, ()) == (process.containment, process.empty_proven, process.survivors)
    outcome = "cancelled" if is_accepted else "completed"
    assert ("ended", outcome) == (turns[0].report.execution, turns[0].outcome)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("name", SHAPES)
def test_signal_to_turnctl_ends_every_shape(name: str, number: int) -> None:
    """TERM has everything ended before turnctl ends; after KILL, of which it sees nothing, everything ends soon."""
    mark = tag()
    process = launch.start("run", "--grace", "200ms", "--", *shape(name, mark))
    assert process.stdout is not None
    assert "ready\n" == process.stdout.readline()
    process.send_signal(number)
    ended = launch.finish(process)

    is_over_before = name == "kills its parent" and number == signal.SIGTERM and "stop accepted" not in ended.err
    assert (123 if is_over_before else -number) == ended.status
    assert until(lambda: not alive(mark), within=10) if number == signal.SIGKILL else [] == alive(mark)


def test_status_that_is_lost_with_the_warden_is_explained() -> None:
    """A command that kills its warden is ended; its status is not known, and turnctl says why."""
    ended = launch.call("run", "--", "sh", "-c", "kill -9 $PPID; sleep 60")

    assert 123 == ended.status
    assert "turnctl: it was ended because its warden was gone, which another process must have ended\n" in ended.err
    assert "turnctl: the exit status is not known: its warden was ended by SIGKILL\n" in ended.err


@pytest.mark.parametrize("way", ["run", "popen"])
def test_killed_program_leaves_no_command(way: str, gate: Gate) -> None:
    """A program that is killed by SIGKILL has its commands ended: asked, then killed a second later (promise 10)."""
    mark = tag()
    line = f"trap '' TERM; setsid sleep {mark} & echo > {gate}; sleep {mark}; sleep {mark}"
    code = f"import turnctl, time\nwith turnctl.turn() as t: t.{way}({line!r}, shell=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": launch.ROOT}) as host:
        gate.wait()
        host.kill()

    assert until(lambda: not alive(mark), within=10)


def test_timeout_holds_while_the_program_is_stopped(gate: Gate) -> None:
    """The command's own timeout is carried out though its program cannot do anything."""
    mark = tag()
    code = (
        "import os, turnctl\n"
        "done = turnctl.run(os.environ['LINE'], shell=True, timeout=1)\n"
        "print(done.outcome.timed_out, done.outcome.empty_proven)\n"
    )
    env = {**os.environ, "PYTHONPATH": launch.ROOT, "LINE": f"echo > {gate}; sleep {mark}; true"}
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE) as host:
        gate.wait()
        host.send_signal(signal.SIGSTOP)
        assert until(lambda: not alive(mark), within=10)
        host.send_signal(signal.SIGCONT)
        out, _ = host.communicate(timeout=10)

    assert b"True True\n" == out


@pytest.mark.parametrize(
    ("script", "escapes"),
    [
        ("sleep 60 & sleep 60", (0, 0, 0)),
        ("setsid sleep 60 & sleep 60", (1, 1, 0)),
        ("(setsid sh -c 'sleep 60 & exec sleep 60' &); sleep 60", (2, 2, 1)),
        ("(sleep 60 &); sleep 60", (0, 0, 1)),
    ],
)
def test_outcome_tells_what_escaped_which_net(script: str, escapes: tuple[int, int, int]) -> None:
    """How many a signal to the group or session, or a walk from the main process, would have missed."""
    count = script.count("sleep 60")
    with turnctl.turn(grace="5s") as turn:
        process = turn.popen(["sh", "-c", script], capture=False)
        assert until(lambda: len(_named_below(process.pid)) == count)
        process.stop()
        found = process.outcome().escapes

    assert found is not None
    assert escapes == (found.group, found.session, found.parent)


def _named_below(pid: int) -> list[int]:
    """The processes named "sleep" that descend from the warden of ``pid``."""
    found = []
    below = [psutil.Process(pid).parent()]
    for one in below[0].children(recursive=True) if below[0] else []:
        with suppress(psutil.NoSuchProcess):  # one of those in between, which ends meanwhile
            if one.name() == "sleep":
                found.append(one.pid)
    return found
