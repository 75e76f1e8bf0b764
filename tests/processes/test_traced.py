"""Commands whose processes are traced by somebody who is not below their warden, and so outlives them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import alive
from shapes import shape_of
from standins import BOUND, until
from warding import KILL, TERM, Command, parent_of, run, tag

import turnctl
from turnctl.processes import launch

pytestmark = pytest.mark.usefixtures("wardens")

#: says when it traces a process, and does so until its input ends; never waits for it
TRACER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
refused = libc.ptrace(0x4206, int(sys.argv[1]), 0, int(sys.argv[2]))
os.write(1, os.strerror(ctypes.get_errno()).encode() if refused else b"on")
sys.stdin.read()
"""
KEEP_ITS_ZOMBIE, HOLD_ITS_END = 0, 0x40

PARENT_AND_CHILD = """
child = os.fork()
if child == 0: stay()
os.write(1, b"%d" % child)
stay()
"""


@pytest.fixture(autouse=True)
def _launchers(leak_check: object) -> Iterator[None]:
    yield
    launch.shutdown()


@contextmanager
def traced(pid: int, how: int) -> Iterator[int]:
    """Somebody traces that process; the tracer's pid."""
    argv = [sys.executable, "-I", "-S", "-c", TRACER, str(pid), str(how)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tracer:
        assert tracer.stdin is not None
        assert tracer.stdout is not None
        said = tracer.stdout.read(2).decode()
        if said != "on":
            tracer.stdin.close()
            pytest.skip(f"tracing is refused here: {said}{tracer.stdout.read().decode()}")
        try:
            yield tracer.pid
        finally:
            tracer.stdin.close()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_kept_zombie_is_nobody() -> None:
    """A zombie that a tracer keeps holds up no ending, and is proved to be all that is left."""
    mark = tag()
    with Command(shape_of(PARENT_AND_CHILD, mark)) as command:
        child = int(command.line())
        with traced(child, KEEP_ITS_ZOMBIE):
            command.warded.stop(((TERM, 0.1),))
            facts = command.ended(within=3.0)

            assert "Z" == state_of(child)
            assert (True, (), -TERM) == (facts["empty"], facts["survivors"], facts["status"])
            assert not facts["reusable"]
    assert [] == alive(mark)


def test_launcher_serves_beside_a_kept_zombie() -> None:
    """What a tracer keeps falls to the launcher in the end, which sleeps and serves others as before."""
    with Command(shape_of(PARENT_AND_CHILD, tag())) as command:
        child = int(command.line())
        launcher = parent_of(parent_of(command.pid))
        with traced(child, KEEP_ITS_ZOMBIE):
            command.warded.stop(((TERM, 0.1),))
            command.ended(within=3.0)

            assert until(lambda: parent_of(child) == launcher)
            assert run(["true"])[0]["empty"]
            assert until(lambda: state_of(launcher) == "S", within=1.0)


def test_kept_leftover_delays_nothing() -> None:
    """A command that has ended by itself has left nothing if a zombie is all there is of it."""
    body = """
child = os.fork()
if child == 0:
    sys.stdin.read()
    os._exit(0)
os.write(1, b"%d" % child)
sys.stdin.read()
os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG)
"""
    with turnctl.turn() as turn, turn.popen(shape_of(body, tag()), stdin="pipe") as process:
        child = int(next(process.chunks()))
        with traced(child, KEEP_ITS_ZOMBIE):
            process.close_stdin()
            process.wait(timeout=BOUND)
            outcome = process.outcome()

    assert (True, 0, ()) == (outcome.empty_proven, outcome.returncode, outcome.leftovers)


def test_status_that_a_tracer_keeps_is_not_known() -> None:
    """The status of a main process that a tracer keeps is not known, and a note says why."""
    with turnctl.turn() as turn, turn.popen(shape_of("ready(); stay()", tag()), grace="0.1s") as process:
        next(process.chunks())
        assert process.pid is not None
        with traced(process.pid, KEEP_ITS_ZOMBIE):
            process.stop()
            outcome = process.outcome()

    assert (True, None, ()) == (outcome.empty_proven, outcome.returncode, outcome.survivors)
    assert [
        one
        for one in outcome.notes
        if one.endswith("another process traces its main process, and has not let go of it")
    ]


def test_who_is_held_in_its_end_is_named() -> None:
    """A process that a tracer holds in the last step of its end is a survivor, with the pid of the tracer."""
    mark = tag()
    with Command(shape_of(PARENT_AND_CHILD, mark), drain_s=0.3) as command:
        child = int(command.line())
        with traced(child, HOLD_ITS_END) as tracer:
            command.warded.stop(((KILL, 0.0),))
            facts = command.ended()

        assert not facts["empty"]
        assert [(child, f"killed, but held in its end by process {tracer}, which traces it")] == [
            (one[0], one[5]) for one in facts["survivors"]
        ]
    assert until(lambda: not alive(mark))
