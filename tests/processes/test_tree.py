"""Finding the processes of a command, and signalling nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import pytest
from commands import FakeTurn, Gate, alive, nap, state_of
from standins import BOUND, Background, until

from turnctl.errors import CancelledError
from turnctl.processes import leader as leader_module
from turnctl.processes import table
from turnctl.processes import tree as tree_module
from turnctl.processes.command import run
from turnctl.processes.leader import Leader
from turnctl.processes.table import Entry, read_entry
from turnctl.processes.tree import Tree


@contextmanager
def tree_of(command: str, count: int) -> Iterator[tuple[Tree, str]]:
    """A command in its own session with that many living processes, as a tree, and the tag it goes by."""
    tag = nap()
    popen = subprocess.Popen(["bash", "-c", command.replace("NAP", tag)], start_new_session=True)
    popen.returncode = 0
    leader = Leader(popen.pid, lambda: None)
    tree = Tree(leader)
    try:
        assert until(lambda: len(alive(tag)) == count), alive(tag)
        yield tree, tag
    finally:
        for pid in alive(tag):
            os.kill(pid, signal.SIGKILL)
        assert until(leader.look)
        tree.close()
        leader.reap()


def make_old(tree: Tree) -> None:
    """Make as if the last look were so long ago that pids may have gone all the way round."""
    tree._members._mark = (tree._members._mark[0], 0.0)


def make_young(tree: Tree) -> None:
    """Make as if the last look were of this moment, however long a busy machine took to come here."""
    tree._members._mark = (tree._members._mark[0], monotonic())


def pids(members: list[Entry]) -> list[int]:
    return sorted(member.pid for member in members)


def stranger() -> subprocess.Popen[bytes]:
    """A process that is none of the tree's."""
    return subprocess.Popen(["sleep", "60"], start_new_session=True)


# -- signalling -----------------------------------------------------------------------------------------------


def test_recycled_pid_is_not_signalled() -> None:
    """A process that has the pid of a member but another start is left alone (promise 11)."""
    with tree_of("NAP; true", 2) as (tree, _), stranger() as other:
        entry = read_entry(other.pid)
        assert entry is not None
        impostor = entry._replace(start=entry.start - 1)

        assert not tree.signal_one(impostor, signal.SIGKILL)
        tree.hold([impostor])
        assert () == tree.held
        assert None is other.poll()
        other.kill()


def test_recycled_pid_is_not_signalled_without_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same holds where the kernel has no pidfd."""
    with tree_of("NAP; true", 2) as (tree, _), stranger() as other:
        monkeypatch.setattr(tree_module, "open_pidfd", lambda pid: None)
        entry = read_entry(other.pid)
        assert entry is not None

        assert not tree.signal_one(entry._replace(start=entry.start - 1), signal.SIGKILL)
        assert None is other.poll()
        assert tree.signal_one(entry, signal.SIGKILL)
        assert -signal.SIGKILL == other.wait(BOUND)


def test_identity_is_compared_after_the_descriptor_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends and is replaced between the reading and the signal is not hit."""
    order: list[str] = []
    with tree_of("NAP; true", 2) as (tree, _):
        member = tree.members()[0]
        opened, read = tree_module.open_pidfd, tree_module.read_entry
        monkeypatch.setattr(tree_module, "open_pidfd", lambda pid: (order.append("open"), opened(pid))[1])
        monkeypatch.setattr(tree_module, "read_entry", lambda pid: (order.append("read"), read(pid))[1])
        tree.signal_one(member, 0)

    assert ["open", "read"] == order


@pytest.mark.parametrize("pid", [0, 1, os.getpid()])
def test_some_are_never_signalled(monkeypatch: pytest.MonkeyPatch, pid: int) -> None:
    """Neither pid 0, nor pid 1, nor this process is signalled, whatever an entry says."""
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("signalled"))
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *_: pytest.fail("signalled"))
    entry = read_entry(pid) or Entry(pid, 0, 0, 0, "S", 0, b"")
    tree = Tree.__new__(Tree)
    tree.is_blind, tree._held = False, {}

    assert not tree.signal_one(entry, signal.SIGKILL)


@pytest.mark.parametrize("pid", [0, 1, os.getpgrp()])
def test_own_group_is_never_signalled(monkeypatch: pytest.MonkeyPatch, pid: int) -> None:
    """A leader that would mean the host's own group, or everybody, signals nobody."""
    monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("signalled"))
    leader = Leader.__new__(Leader)
    leader.pid, leader.fd, leader.lost, leader.ended = pid, None, False, False

    assert not leader.signal_group(signal.SIGKILL)


@pytest.fixture
def no_group_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that cannot send to a group by pidfd, as before Linux 6.9."""
    plain = signal.pidfd_send_signal

    def refuse(fd: int, signum: int, info: None = None, flags: int = 0) -> None:
        if flags:
            raise OSError(22, "Invalid argument")
        plain(fd, signum)

    monkeypatch.setattr(signal, "pidfd_send_signal", refuse)


def test_group_is_reached_on_older_kernels(no_group_pidfd: None) -> None:
    """Without the newer system call the group is reached by its number, while the leader holds it."""
    with tree_of("NAP & NAP", 3) as (tree, tag):
        assert [("group", tree.leader.pid)] == tree.signal(tree.members(), signal.SIGKILL)
        assert until(lambda: not alive(tag))


def test_group_of_a_lost_leader_is_left_alone(no_group_pidfd: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the leader was reaped by somebody else its group number proves nothing, and is not signalled."""
    with tree_of("NAP & true", 1) as (tree, tag):
        os.waitpid(tree.leader.pid, 0)
        make_old(tree)
        monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("signalled"))

        assert not tree.leader.signal_group(signal.SIGKILL)
        assert [] == tree.members()
        assert 1 == len(alive(tag))


def test_known_member_proves_the_group(no_group_pidfd: None) -> None:
    """A member that was in the group before, and still is, proves the number although the leader was reaped."""
    with tree_of("NAP & NAP & wait", 3) as (tree, tag):
        before = pids(tree.members())
        os.kill(tree.leader.pid, signal.SIGKILL)
        os.waitpid(tree.leader.pid, 0)
        after = tree.members()

        assert set(before) - {tree.leader.pid} == set(pids(after))
        assert all(scope == "process" for scope, _ in tree.signal(after, signal.SIGKILL))
        assert until(lambda: not alive(tag))


def test_young_number_is_still_its_own(no_group_pidfd: None) -> None:
    """Right after the start pids cannot have gone round: the number names this command though nobody holds it."""
    with tree_of("NAP & true", 1) as (tree, tag):
        os.waitpid(tree.leader.pid, 0)
        make_young(tree)
        found = tree.members()
        make_old(tree)

        assert alive(tag) == pids(found) == pids(tree.members())


def test_lost_leader_still_names_its_group() -> None:
    """Where the kernel can send to a group by pidfd, a reaped leader's group is still found and reached."""
    with tree_of("NAP & true", 1) as (tree, tag):
        os.waitpid(tree.leader.pid, 0)

        assert alive(tag) == pids(tree.members())
        assert tree.leader.signal_group(signal.SIGKILL)
        assert until(lambda: not alive(tag))


def test_member_that_left_the_group_is_killed_again() -> None:
    """KILL to the group does not count for a member that had left it by then."""
    with tree_of("NAP; true", 2) as (tree, _):
        members = tree.members()
        tree.signal(members, signal.SIGKILL)
        moved = [member._replace(pgrp=member.pid) for member in members if member.pid != tree.leader.pid]

        assert 0 == tree.count_unkilled(members)
        assert 1 == tree.count_unkilled(moved)


# -- waiting and the end --------------------------------------------------------------------------------------


def test_held_descriptors_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large tree does not use up the host's descriptors; closing lets go of all."""
    monkeypatch.setattr(tree_module, "MOST_HELD", 2)
    with tree_of("NAP & NAP & NAP & NAP", 5) as (tree, _):
        tree.hold(tree.members())
        held = tree.held
        tree.let_go(held[0])

        assert (2, 1) == (len(held), len(tree.held))
        tree.close()
        assert () == tree.held


def test_foreign_user_is_named_as_the_reason() -> None:
    """A member that may not be signalled is a survivor whose reason names its user."""
    if os.getuid() != 0:
        pytest.skip("needs root, to be somebody else than the member")
    code = (
        "import os, sys, signal, json\n"
        "from turnctl.processes.tree import Tree\n"
        "from turnctl.processes.table import read_entry\n"
        "tree = Tree.__new__(Tree); tree.is_blind, tree._held = False, {}\n"
        "os.setuid(65534)\n"
        "print(tree.why(read_entry(int(sys.argv[1]))))\n"
    )
    with stranger() as other:
        told = subprocess.run(
            [sys.executable, "-c", code, str(other.pid)],
            capture_output=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            text=True,
        )
        other.kill()

    assert "belongs to user 0, whom this program may not signal\n" == told.stdout, told.stderr


@pytest.mark.usefixtures("grouped")
def test_what_will_not_die_is_given_up_and_named(owner: FakeTurn, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """After grace and drain the call comes back with the survivors; the turn says abandoned, not ended."""
    monkeypatch.setattr("turnctl.processes.ladder.DRAIN_S", 0.2)
    monkeypatch.setattr("turnctl.processes.grouped.Ladder", _impatient)
    monkeypatch.setattr(Tree, "signal", lambda self, members, signum: [])
    call = Background(lambda: run(owner, f"echo $$ > {gate}; exec sleep 60", shell=True, grace=0.1))
    pid = int(gate.wait())
    owner.stop()
    error = call.error()
    monkeypatch.undo()
    state, owned = owner.activities[0].record().state, owner.activities[0].owned
    still = owned.alive() if owned else ()
    os.kill(pid, signal.SIGKILL)

    assert isinstance(error, CancelledError)
    assert error.partial is not None
    (survivor,) = error.partial.outcome.survivors
    assert (pid, "still there although KILL was sent") == (survivor.pid, survivor.reason)
    assert (None, False, 0) == (error.partial.returncode, error.partial.outcome.exited, error.partial.outcome.ended)
    assert "abandoned" == state
    assert (f"process {pid} (sleep)",) == still
    assert until(lambda: state_of(pid) == "Z")
    assert owned is not None
    assert () == owned.alive()
    leader_module.reap_abandoned()
    assert "" == state_of(pid)


def _impatient(*, kill_at: float) -> object:
    from turnctl.processes.ladder import Ladder

    return Ladder(kill_at=kill_at, drain_s=0.2)


@pytest.mark.usefixtures("grouped")
def test_without_a_table_the_group_is_ended(owner: FakeTurn, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where processes cannot be seen at all, the group is ended by its number and the outcome says so."""
    tag = nap()
    monkeypatch.setattr(tree_module, "is_readable", lambda: False)
    call = Background(lambda: run(owner, f"trap '' TERM; {tag} & echo > {gate}; {tag}", shell=True))
    gate.wait()
    owner.stop(0.1)
    error = call.error()

    assert isinstance(error, CancelledError)
    assert error.partial is not None
    assert until(lambda: not alive(tag))
    assert error.partial.outcome.notes[1].startswith("the process table cannot be read here")


@pytest.mark.usefixtures("grouped")
def test_tree_is_ended_by_psutil_too(owner: FakeTurn, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no /proc the same tree is found and ended through psutil."""
    tag = nap()
    monkeypatch.setattr(table, "shows_us", lambda: False)
    monkeypatch.setattr(table, "_is_for_psutil", lambda: True)
    call = Background(lambda: run(owner, f"setsid {tag} & echo > {gate}; wait", shell=True))
    gate.wait()
    assert until(lambda: len(alive(tag)) == 2)
    owner.stop()
    error = call.error()

    assert isinstance(error, CancelledError)
    assert error.partial is not None
    assert 2 == error.partial.outcome.ended
    assert [] == alive(tag)


def test_adopted_orphans_are_reaped(gate: Gate) -> None:
    """In a host that adopts orphans, those of the command are not left to it as zombies."""
    tag = nap()
    code = (
        "import ctypes, os, sys, time\n"
        "from turnctl.processes.command import Unowned, run\n"
        "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
        f"run(Unowned(), '({tag} &); {tag}', shell=True, timeout=0.2)\n"
        "print(open(f'/proc/self/task/{os.getpid()}/children').read().split())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TURNCTL_CONTAINMENT": "group"},
        timeout=BOUND,
    )

    assert "[]\n" == done.stdout, done.stderr
    assert [] == alive(tag)
