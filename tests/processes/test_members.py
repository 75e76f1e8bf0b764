"""Who is found to belong to a command, and who must not be."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import pytest
from commands import Gate, alive, nap
from standins import until

from turnctl.processes import members as module
from turnctl.processes.leader import Leader
from turnctl.processes.members import Members
from turnctl.processes.table import Entry

# -- real processes -------------------------------------------------------------------------------------------


@contextmanager
def command(script: str, count: int) -> Iterator[tuple[Members, Leader, str]]:
    """A command in its own session with that many processes; their memory, the main process, their tag."""
    tag = nap()
    popen = subprocess.Popen(["bash", "-c", script.replace("NAP", tag)], start_new_session=True)
    popen.returncode = 0
    leader = Leader(popen.pid, lambda: None)
    try:
        assert until(lambda: len(alive(tag)) == count), alive(tag)
        yield Members(leader), leader, tag
    finally:
        for pid in alive(tag):
            os.kill(pid, signal.SIGKILL)
        assert until(leader.look)
        leader.reap()


def pids(entries: list[Entry]) -> list[int]:
    return sorted(entry.pid for entry in entries)


def forget_time(members: Members) -> None:
    """Make as if the last look were so long ago that pids may have gone all the way round."""
    members._mark = (members._mark[0], 0.0)


@pytest.mark.parametrize(
    ("script", "count"),
    [
        ("NAP; true", 2),
        ("NAP & NAP & NAP", 4),
        ("set -m; NAP & NAP & wait", 3),
        ("setsid NAP & wait", 2),
        ("setsid bash -c 'NAP & NAP' & wait", 4),
        ("(NAP &); NAP; true", 3),
        ("setsid bash -c '(NAP &); (NAP &); NAP; true' & wait", 5),
    ],
)
def test_members_are_found(script: str, count: int) -> None:
    """Group, session, descendants, and orphans in the session of a descendant: each is found, nobody else."""
    with command(script, count) as (members, _, tag):
        found = pids(members.read())

        assert until(lambda: alive(tag) == found)  # one that is just in exec has no argv to be found by


def test_known_orphan_is_found_again() -> None:
    """What was found once is known by identity after it has lost parent, group and session."""
    with command("setsid bash -c 'setsid NAP & wait' & wait", 3) as (members, leader, tag):
        for member in members.read():
            if member.name == "bash":
                os.kill(member.pid, signal.SIGKILL)
        assert until(lambda: leader.look() and len(alive(tag)) == 1)
        forget_time(members)

        found = pids(members.read())

        assert until(lambda: alive(tag) == found)  # one that is just in exec has no argv to be found by


def test_last_words_of_a_session_are_found(gate: Gate) -> None:
    """What a known session leader forked in its last moment has no parent of ours, and is found by the session."""
    inside = f"trap 'NAP & exit' USR1; echo > {gate}; while :; do sleep 0.01; done"
    with command(f'setsid bash -c "{inside}" & wait; exec NAP', 2) as (members, leader, tag):
        gate.wait()
        (inner,) = (entry for entry in members.read() if entry.pid == entry.sid != leader.pid)
        os.kill(inner.pid, signal.SIGUSR1)
        assert until(lambda: inner.pid not in alive(tag) and len(alive(tag)) == 2)

        found = pids(members.read())

        assert until(lambda: alive(tag) == found)  # one that is just in exec has no argv to be found by


def test_zombies_are_not_members() -> None:
    """A process that has ended and was not reaped by its parent is not alive."""
    with command("exec -a 'bash NAP' bash -c 'sleep 0 & exec NAP'", 1) as (members, _, tag):
        assert until(lambda: pids(members.read()) == alive(tag))


def test_short_look_says_what_the_table_says() -> None:
    """The look at a few numbers finds somebody where reading the table does."""
    with command("NAP & true", 1) as (members, leader, tag):
        assert until(leader.look)
        short = members.is_surely_empty()

        assert not short
        found = pids(members.read())

        assert until(lambda: alive(tag) == found)  # one that is just in exec has no argv to be found by
    with command("true", 0) as (members, leader, _):
        assert until(leader.look)
        assert [] == members.read()


# -- tables that the test makes up ----------------------------------------------------------------------------

LEADER = 1000


class FakeLeader:
    """A main process whose number is held, or is not."""

    pid = LEADER
    fd = None

    def __init__(self, *, held: bool) -> None:
        self.held = held

    @property
    def lost(self) -> bool:
        return not self.held

    def is_held(self) -> bool:
        return self.held


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The machine as the test wants it: its table, and the number given out last."""
    made: dict[str, Any] = {"table": [], "last": LEADER}
    monkeypatch.setattr(module, "read_table", lambda: {entry.pid: entry for entry in made["table"]})
    monkeypatch.setattr(module, "read_entry", lambda pid: {e.pid: e for e in made["table"]}.get(pid))
    monkeypatch.setattr(module, "read_numbers", lambda a, b: {e.pid: e for e in made["table"] if a <= e.pid <= b})
    monkeypatch.setattr(module, "last_pid", lambda: made["last"])
    return made


def entry(pid: int, *, ppid: int = 1, pgrp: int = 77, sid: int = 77, start: float = 5.0, state: str = "S") -> Entry:
    return Entry(pid, ppid, pgrp, sid, state, start, b"x")


def members_of(*, held: bool = True) -> Members:
    return Members(FakeLeader(held=held))  # type: ignore[arg-type]


def test_nobody_else_is_a_member(world: dict[str, Any]) -> None:
    """Neither pid 1, nor this process, nor what descends from these alone is found."""
    me = os.getpid()
    world["table"] = [
        entry(1, ppid=0, pgrp=LEADER),
        entry(me, ppid=LEADER, pgrp=LEADER, sid=LEADER),
        entry(2001, ppid=me),
        entry(2002, ppid=1),
        entry(LEADER, ppid=me, pgrp=LEADER, sid=LEADER),
    ]

    assert [LEADER] == pids(members_of().read())


def test_own_helpers_are_no_members(world: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What this program itself has put into the group is neither a member nor left over."""
    monkeypatch.setattr(module, "helpers", {LEADER + 2})
    world["last"] = LEADER + 2
    world["table"] = [entry(LEADER, pgrp=LEADER), entry(LEADER + 2, ppid=os.getpid(), pgrp=LEADER)]
    members = members_of()

    assert members.is_surely_empty()
    assert [LEADER] == pids(members.read())


def test_child_cannot_be_older_than_its_parent(world: dict[str, Any]) -> None:
    """A process that names a member as parent but started before it is somebody else's."""
    world["table"] = [entry(LEADER, pgrp=LEADER), entry(1001, ppid=LEADER, start=4.0), entry(1002, ppid=LEADER)]

    assert [LEADER, 1002] == pids(members_of().read())


def test_recycled_pid_is_forgotten(world: dict[str, Any]) -> None:
    """A known pid with another start is a stranger."""
    members = members_of()
    world["table"] = [entry(LEADER, pgrp=LEADER), entry(1001, ppid=LEADER)]
    members.read()
    forget_time(members)
    world["table"] = [entry(LEADER, pgrp=LEADER), entry(1001, start=9.0)]

    assert [LEADER] == pids(members.read())


@pytest.mark.parametrize(
    ("last", "age", "found"),
    [
        (LEADER, 0.0, True),
        (LEADER + 5000, 0.0, True),
        (LEADER - 1, 0.0, False),
        (None, 0.0, False),
        (LEADER, 2.0, False),
    ],
)
def test_number_without_holder_needs_a_proof(world: dict[str, Any], last: int | None, age: float, found: bool) -> None:
    """Once the main process was reaped its group counts only while pids cannot have come round to its number."""
    members = members_of(held=False)
    members._mark = (LEADER, monotonic() - age)
    world["last"] = last
    world["table"] = [entry(1001, pgrp=LEADER)]

    assert ([1001] if found else []) == pids(members.read())


def test_who_cannot_be_told_is_kept_in_mind(world: dict[str, Any]) -> None:
    """Who has a number that was the command's, after the numbers came round, is no member, and is named as doubtful."""
    members = members_of()
    world["table"] = [entry(LEADER, pgrp=LEADER), entry(1001, ppid=LEADER, pgrp=1001, sid=1001)]
    members.read()
    world["last"] = LEADER - 1
    world["table"] = [entry(LEADER, pgrp=LEADER), entry(500, pgrp=1001, sid=1001), entry(501)]
    found = pids(members.read())

    assert ([LEADER], [500]) == (found, pids(list(members.doubtful.values())))


def test_number_given_out_since_the_last_look_is_not_ours(world: dict[str, Any]) -> None:
    """A member that ended, and whose number the kernel has come to since, proves nothing any more."""
    members = members_of()
    world["table"] = [entry(LEADER, pgrp=LEADER), entry(1005, ppid=LEADER, pgrp=1005, sid=1005)]
    world["last"] = 1004
    members.read()
    world["last"] = 1006
    world["table"] = [entry(LEADER, pgrp=LEADER), entry(1006, pgrp=1005, sid=1005)]

    assert [LEADER] == pids(members.read())


def test_member_from_before_proves_its_group(world: dict[str, Any]) -> None:
    """While a known member still has a number, nobody else can have been given it, however long ago that was."""
    members = members_of()
    world["table"] = [
        entry(LEADER, pgrp=LEADER),
        entry(1001, ppid=LEADER, pgrp=1001, sid=1001),
        entry(1002, ppid=1001, pgrp=1001, sid=1001),
    ]
    members.read()
    forget_time(members)
    world["last"] = 500
    world["table"] = [
        entry(LEADER, pgrp=LEADER),
        entry(1002, pgrp=1001, sid=1001),
        entry(2002, pgrp=1001, sid=1001),
    ]

    assert [LEADER, 1002, 2002] == pids(members.read())


def test_session_of_the_host_proves_nothing(world: dict[str, Any]) -> None:
    """For a command in the host's session, the others in it are not members."""
    session = os.getsid(0)
    members = members_of()
    world["table"] = [
        entry(LEADER, pgrp=LEADER, sid=session),
        entry(1001, ppid=LEADER, pgrp=LEADER, sid=session),
        entry(900, pgrp=900, sid=session),
    ]
    first = pids(members.read())

    assert [LEADER, 1001] == first == pids(members.read())


@pytest.mark.parametrize(
    ("last", "table", "empty"),
    [
        (LEADER, [], True),
        (LEADER + 3, [entry(LEADER + 2)], True),
        (LEADER + 3, [entry(LEADER + 2, pgrp=LEADER)], False),
        (LEADER + 3, [entry(LEADER + 2, sid=LEADER)], False),
        (LEADER + 3, [entry(LEADER + 3, ppid=LEADER)], False),
        (LEADER + 500, [], False),
        (LEADER - 5, [], False),
        (None, [], False),
    ],
)
def test_short_look_is_not_trusted_too_far(
    world: dict[str, Any], last: int | None, table: list[Entry], empty: bool
) -> None:
    """Numbers that went round, are many, or are not known, and anybody of ours, lead to reading the table."""
    world["last"], world["table"] = last, table

    assert empty is members_of().is_surely_empty()


def test_child_born_while_the_table_is_read_is_found(world: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that is listed, forks and ends before it is read does not hide its child."""
    leader = entry(LEADER, pgrp=LEADER, state="Z")

    def read_table() -> dict[int, Entry]:
        # the listing was made before the child was born; its parent has ended by the time it is read
        world["last"] = 1003
        world["table"] = [leader, entry(1003, pgrp=LEADER)]
        return {LEADER: leader}

    monkeypatch.setattr(module, "read_table", read_table)

    assert [1003] == pids(members_of().read())


def test_next_look_reads_what_is_known_and_new(world: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Soon after a look the table is not read again: who is known or newer is all that can be a member."""
    members = members_of()
    world["table"] = [entry(LEADER, pgrp=LEADER), entry(990, ppid=LEADER)]
    members.read()
    monkeypatch.setattr(module, "read_table", lambda: pytest.fail("the table was read"))
    world["last"] = LEADER + 2
    world["table"] = [entry(LEADER, pgrp=LEADER), entry(LEADER + 1, ppid=LEADER), entry(LEADER + 2)]

    assert [LEADER, LEADER + 1] == pids(members.read())


@pytest.mark.parametrize(("age", "last"), [(2.0, LEADER + 1), (0.0, LEADER - 1), (0.0, LEADER + 500), (0.0, None)])
def test_late_or_crowded_look_reads_the_table(world: dict[str, Any], age: float, last: int | None) -> None:
    """After a second, or where numbers went round or are many, the whole table is read again."""
    members = members_of()
    world["table"] = [entry(LEADER, pgrp=LEADER)]
    members.read()
    members._mark = (LEADER, monotonic() - age)
    world["last"] = last
    world["table"] = [entry(LEADER, pgrp=LEADER), entry(30, pgrp=LEADER)]

    assert [30, LEADER] == pids(members.read())


def test_endless_births_end_the_reading(world: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine where processes are born all the time a reading comes to its end."""
    rounds = iter(range(LEADER, LEADER + 10_000))
    monkeypatch.setattr(module, "last_pid", lambda: next(rounds))
    world["table"] = [entry(LEADER, pgrp=LEADER)]

    assert [LEADER] == pids(members_of().read())


def test_chain_that_moves_on_is_followed(world: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The short look follows the numbers until nothing new has been given out."""
    lasts = iter([LEADER + 1, LEADER + 2, LEADER + 3])
    monkeypatch.setattr(module, "last_pid", lambda: next(lasts))
    world["table"] = [entry(LEADER + 3, pgrp=LEADER)]

    assert not members_of().is_surely_empty()


def test_short_look_is_for_young_commands(world: dict[str, Any]) -> None:
    """After a second pids may have gone all the way round."""
    members = members_of()
    forget_time(members)

    assert not members.is_surely_empty()


def test_reading_that_was_cut_short_is_made_again_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C, or a lack of descriptors, in the first look does not hide what that look would have found."""
    with command("NAP & NAP & NAP", 4) as (members, _, tag):
        real = module.read_table

        def cut_short() -> dict[int, Entry]:
            monkeypatch.setattr(module, "read_table", real)
            raise KeyboardInterrupt

        monkeypatch.setattr(module, "read_table", cut_short)
        with pytest.raises(KeyboardInterrupt):
            members.read()
        found = pids(members.read())

        assert until(lambda: alive(tag) == found)  # one that is just in exec has no argv to be found by
