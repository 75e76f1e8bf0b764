"""Commands in a control group of their own: ended by one write, proved empty by the kernel, and found afterwards."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import alive
from shapes import shape
from standins import until
from warding import KILL, TERM, Command, by_host, ends, everybodys_python, parent_of, run, tag

from turnctl.processes import cgroups, launch
from turnctl.processes.delegated import own_folder

GONE_S = 20.0
FOLDER = own_folder()
pytestmark = [
    pytest.mark.usefixtures("wardens"),
    pytest.mark.skipif(
        not FOLDER or not os.access(f"{FOLDER}/cgroup.procs", os.W_OK),
        reason="no version 2 control group is delegated to this user",
    ),
]


@pytest.fixture(autouse=True)
def _launchers(leak_check: object) -> Iterator[None]:
    before = _leaves()
    yield
    launch.shutdown()

    assert before == _leaves()


def _leaves() -> list[str]:
    return [leaf.name for leaf in cgroups.find_leaves(FOLDER) if f"-{os.getpid()}-" in leaf.name]


def _grouped(argv: list[Any], **options: Any) -> Command:
    return Command(argv, hold="cgroup", folder=FOLDER, **options)


def _leaf_of(command: Command) -> cgroups.Leaf:
    own = Path(f"/proc/{command.pid}/cgroup").read_text().splitlines()[-1].rpartition("/")[2]
    return cgroups.Leaf(f"{FOLDER}/{own}")


@pytest.mark.parametrize("name", ["deaf daemon", "stopped", "hopper", "storm", "only a thread"])
def test_stopped_shape_is_gone(name: str) -> None:
    """Whatever shape a command takes, a stop leaves neither a process nor a group."""
    mark = tag()
    with _grouped(shape(name, mark)) as command:
        command.line()
        command.warded.stop(((TERM, 0.1),))
        facts = command.ended()

    assert (True, ()) == (facts["empty"], facts["survivors"])
    assert [] == alive(mark)


def test_command_begins_in_its_leaf() -> None:
    """The command is in its own group before it is loaded, and its status is its own."""
    facts, out = run(["sh", "-c", "cat /proc/self/cgroup; exit 3"], hold="cgroup", folder=FOLDER)

    assert (3, True) == (facts["status"], facts["empty"])
    assert f"/turnctl-{os.getpid()}-" in out.decode()


def test_killed_by_one_write() -> None:
    """What ends it is one act for all that are in the group."""
    mark = tag()
    with _grouped(shape("crowd", mark)) as command:
        command.line()
        command.warded.hurry(0.0)
        facts = command.ended()

    assert facts["empty"]
    assert (KILL, "cgroup") == command.signals()[0]
    assert [] == alive(mark)


def test_who_leaves_the_group_is_ended_too() -> None:
    """A process that moved itself to another group is still below its warden."""
    mark = tag()
    code = f"echo $$ > {FOLDER}/cgroup.procs; setsid sleep {mark} & sleep {mark} & echo ready; wait"
    with _grouped(["sh", "-c", code]) as command:
        command.line()
        assert until(lambda: 3 == len(alive(mark)))
        command.warded.hurry(0.0)
        facts = command.ended()

    assert (True, -KILL) == (facts["empty"], facts["status"])
    assert [] == alive(mark)


def test_frozen_command_is_asked_and_ends() -> None:
    """A group that was frozen goes on when it is asked."""
    with _grouped(["sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done"]) as command:
        command.line()
        leaf = _leaf_of(command)
        leaf.write("cgroup.freeze", b"1")
        assert until(lambda: "frozen 1" in Path(f"{leaf.path}/cgroup.events").read_text())
        command.warded.stop(((TERM, 8.0),))
        facts = command.ended()

    assert (5, True) == (facts["status"], facts["empty"])


def test_stranger_in_the_group_is_told() -> None:
    """A process that others put into the group keeps it from being empty: it is named, and ends with it."""
    mark = tag()
    stranger = subprocess.Popen(["sleep", mark])
    with _grouped(["sh", "-c", "echo ready; sleep 0.2"]) as command:
        command.line()
        _leaf_of(command).write("cgroup.procs", b"%d" % stranger.pid)

        assert [stranger.pid] == [member[0] for member in command.until("leftovers")[1]]
        command.warded.hurry(0.0)
        assert command.ended()["empty"]
    assert -KILL == stranger.wait()


def test_group_below_the_group_is_removed() -> None:
    """Groups that the command made in its own end and go with it."""
    mark = tag()
    name = "$(tail -1 /proc/self/cgroup | sed 's,.*/,,')"
    code = f"d={FOLDER}/{name}/sub; mkdir $d && echo 0 > $d/cgroup.procs"
    with _grouped(["sh", "-c", f"{code}; echo ready; sleep {mark}"]) as command:
        assert b"ready\n" == command.line()
        command.warded.hurry(0.0)

        assert command.ended()["empty"]
    assert [] == alive(mark)


def test_killed_warden_leaves_a_group_that_is_found() -> None:
    """Of a warden that was killed the group stays, empty, with its makers' names; the next command tidies it away."""
    mark = tag()
    with _grouped(shape("deaf daemon", mark)) as command:
        command.line()
        leaf, warden = _leaf_of(command), parent_of(command.pid)

        assert [os.getpid(), warden] == [pid for pid, _ in leaf.makers()]
        os.kill(warden, KILL)
        assert command.ended()["empty"]
    assert [] == alive(mark)
    assert Path(leaf.path).exists()
    leaf.remove()


def test_killed_at_one_moment_it_is_found_by_its_group() -> None:
    """If host, launcher and warden die together the command lives on, and its group tells which it is and whose."""
    mark = tag()
    code = f"""
from shapes import shape
command = Command(shape("deaf daemon", sys.argv[1]), hold="cgroup", folder={FOLDER!r})
command.line()
say(parent_of(command.pid), parent_of(parent_of(command.pid)))
sys.stdin.readline()
"""
    with by_host(code, mark) as host:
        pids = [host.process.pid, *map(int, host.line().split())]
        before = set(alive(mark)) - set(pids)
        for number in (signal.SIGSTOP, KILL):
            for pid in pids:
                os.kill(pid, number)
        host.process.wait()
        assert all(ends(pid) for pid in pids)
        (leaf,) = [one for one in cgroups.find_leaves(FOLDER) if one.makers()[0][0] == host.process.pid]
        try:
            assert leaf.is_orphaned()
            assert before == set(leaf.pids()) == set(alive(mark))
        finally:
            leaf.write("cgroup.kill", b"1")
    assert until(lambda: not alive(mark), within=GONE_S)
    assert until(leaf.remove, within=GONE_S)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can delegate a group to somebody else")
def test_ordinary_user_in_a_delegated_group() -> None:
    """Started inside a group that was given to it, an ordinary user's program has groups for its commands."""
    mark = tag()
    folder = Path(FOLDER, f"test-{random.randrange(10**9)}")
    code = """
with open(sys.argv[2] + "/cgroup.procs", "w") as file: file.write("0")
os.setgroups([]); os.setgid(65534); os.setuid(65534)
from shapes import shape
from turnctl.processes.delegated import own_folder
with Command(shape("deaf daemon", sys.argv[1]), hold="cgroup", folder=own_folder()) as command:
    command.line()
    command.warded.stop(((TERM, 0.1),))
    say(own_folder() == sys.argv[2], command.ended()["empty"], os.listdir(own_folder()).count("turnctl"))
"""
    folder.mkdir()
    try:
        for path in (folder, folder / "cgroup.procs"):
            os.chown(path, 65534, 65534)
        with by_host(code, mark, str(folder), interpreter=everybodys_python()) as host:
            assert "True True 0\n" == host.finished()
    finally:
        assert until(cgroups.Leaf(str(folder)).remove, within=GONE_S)
    assert [] == alive(mark)


def test_refused_group_is_named() -> None:
    """Where the group is not delegated nothing is started; the step and the errno are told."""
    with pytest.raises(launch.Uncontained) as refused:
        Command(["true"], hold="cgroup", folder="/proc")

    assert "cgroup:mkdir" == refused.value.step
