"""The main process of a command: its end, its status, and hosts that reap what is not theirs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from commands import FakeTurn, Gate, alive, nap
from standins import BOUND, Background, until

from turnctl.errors import CancelledError
from turnctl.processes import leader as leader_module
from turnctl.processes.command import run
from turnctl.processes.leader import Leader
from turnctl.testing import pause_at


@pytest.fixture
def no_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel or sandbox without pidfds."""

    def refuse(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)


@pytest.fixture
def ignored_sigchld() -> Iterator[None]:
    """A host that has the kernel reap its children."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


def test_end_is_seen_without_reaping() -> None:
    """Looking tells the status and leaves the process to be looked at again."""
    popen = subprocess.Popen(["sh", "-c", "exit 3"])
    popen.returncode = 0
    leader = Leader(popen.pid, lambda: None)
    assert until(leader.look)

    assert (3, True, False) == (leader.returncode, leader.is_held(), leader.lost)
    assert leader.reap()
    with pytest.raises(ChildProcessError):
        os.waitpid(popen.pid, 0)


def test_living_leader_is_not_reaped() -> None:
    """Reaping what has not ended does nothing and says so."""
    popen = subprocess.Popen(["sleep", "60"])
    leader = Leader(popen.pid, lambda: None)

    assert not leader.reap()
    popen.kill()
    popen.wait()
    leader.reap()
    assert (True, True, None) == (leader.ended, leader.lost, leader.returncode)


@pytest.mark.usefixtures("grouped")
def test_status_taken_by_the_host_is_not_invented(owner: FakeTurn) -> None:
    """A host that reaps every child leaves a status that is not known, said as such, and never an exit 0."""
    with pause_at("processes.run.spawned") as spawned:
        call = Background(lambda: run(owner, "echo said; exit 3", shell=True))
        assert spawned.reached.wait(BOUND)
        outcome = owner.activities[0].owned.outcome()  # type: ignore[union-attr]
        assert outcome is not None
        assert outcome.pid is not None
        os.waitpid(outcome.pid, 0)
        spawned.release()
        done = call.result()

    assert (b"said\n", None, True) == (done.stdout, done.returncode, done.outcome.exited)
    assert done.outcome.notes[-1].startswith("the exit status is not known")
    assert "unknown" == owner.activities[0].record().state


@pytest.mark.usefixtures("grouped")
def test_host_that_ignores_sigchld(owner: FakeTurn, ignored_sigchld: None) -> None:
    """Where the kernel reaps at once the call comes back, with what is known."""
    done = run(owner, "echo said; exit 3", shell=True)

    assert (b"said\n", None, True) == (done.stdout, done.returncode, done.outcome.exited)
    assert done.outcome.notes[-1].startswith("the exit status is not known")


@pytest.mark.usefixtures("grouped")
def test_leftovers_of_a_lost_leader_are_found(owner: FakeTurn, ignored_sigchld: None) -> None:
    """Leftovers are found and ended although the leader's number is no longer held."""
    tag = nap()
    done = run(owner, f"{tag} & true", shell=True)

    assert alive(tag) == [left.pid for left in done.outcome.leftovers]
    owner.end()
    assert [] == alive(tag)


@pytest.mark.usefixtures("grouped")
def test_commands_end_without_pidfd(owner: FakeTurn, no_pidfd: None) -> None:
    """Without pidfds the end of a command is seen at once too, by a thread that ends with it."""
    done = run(owner, "echo x; exit 3", shell=True)

    assert (b"x\n", 3) == (done.stdout, done.returncode)


@pytest.mark.usefixtures("grouped")
def test_trees_end_without_pidfd(owner: FakeTurn, no_pidfd: None, gate: Gate) -> None:
    """Without pidfds a stop ends the whole tree, sessions below it included."""
    tag = nap()
    call = Background(lambda: run(owner, f"setsid {tag} & trap '' TERM; echo > {gate}; {tag}; true", shell=True))
    gate.wait()
    assert until(lambda: len(alive(tag)) == 3)
    owner.stop(0.2)
    error = call.error()

    assert isinstance(error, CancelledError)
    assert error.partial is not None
    assert -signal.SIGKILL == error.partial.returncode
    assert [] == alive(tag)


def test_status_held_back_by_a_tracer_is_awaited(owner: FakeTurn, monkeypatch: pytest.MonkeyPatch) -> None:
    """An end that is announced before its status can be had does not make the call wait for ever."""
    plain, asked = Leader._wait, []

    def late(self: Leader, flags: int) -> bool:
        asked.append(flags)
        return False if len(asked) < 5 else plain(self, flags)

    monkeypatch.setattr(leader_module.Leader, "_wait", late)

    assert 3 == run(owner, "exit 3", shell=True).returncode


def test_forked_child_touches_nothing(owner: FakeTurn, gate: Gate) -> None:
    """In a forked child of the host stopping, ending and leaving do nothing to the parent's command."""
    tag = nap()
    code = (
        "import os, sys\n"
        "from turnctl.processes.command import popen\n"
        "from turnctl.errors import TurnctlError\n"
        "from commands import FakeTurn\n"
        "with FakeTurn() as owner:\n"
        "    process = popen(owner, ['sh', '-c', os.environ['TAG'] + '; true'])\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        try:\n"
        "            owned = owner.activities[0].owned\n"
        "            owned.ask(); owned.end(lambda: 0.0); process.__exit__(None, None, None); owner.end()\n"
        "            for do in (process.kill, process.stop, process.wait):\n"
        "                try: do()\n"
        "                except TurnctlError as e: assert 'forked child' in str(e)\n"
        "                else: os._exit(2)\n"
        "        except BaseException: os._exit(3)\n"
        "        os._exit(0)\n"
        "    print(os.waitpid(child, 0)[1], process.returncode)\n"
        "    sys.stdout.flush()\n"
        "    open(sys.argv[1], 'w').write('x')\n"
        "    sys.stdin.read()\n"
        "print(process.returncode)\n"
    )
    support = os.path.join(os.path.dirname(os.path.dirname(__file__)), "support")
    with subprocess.Popen(
        [sys.executable, "-c", code, str(gate)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([support, *sys.path]), "TAG": tag},
        text=True,
    ) as host:
        gate.wait()
        living = until(lambda: len(alive(tag)) == 2)
        out, _ = host.communicate(timeout=BOUND)

    assert living
    assert ["0", "None"] == out.split()[:2]
    assert out.split()[2] in ("-9", "-15")
    assert [] == alive(tag)


@pytest.mark.usefixtures("wardens")
def test_host_that_ignores_sigchld_learns_the_status(owner: FakeTurn, ignored_sigchld: None) -> None:
    """Under a warden the host's own way with children plays no part: the status is known."""
    done = run(owner, "echo said; exit 3", shell=True)

    assert (b"said\n", 3, True, ()) == (done.stdout, done.returncode, done.outcome.empty_proven, done.outcome.notes)
