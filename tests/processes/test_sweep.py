"""Single steps of an ending: whom a walk finds, whom an ask reaches, and that all stand still before one is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from commands import alive
from warding import by_host, tag

from turnctl.processes import launch
from turnctl.processes.sweep import Below

pytestmark = pytest.mark.usefixtures("wardens")


@pytest.fixture(autouse=True)
def _launchers(leak_check: object) -> Iterator[None]:
    yield
    launch.shutdown()


# a program that is a subreaper itself, with a shape below it
BELOW = """
import signal, subprocess
from shapes import shape
from turnctl.processes import kernel, kin, sweep
kernel.adopt_orphans()
wake = kernel.hear_children()
def build(name):
    before = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    process = subprocess.Popen(shape(name, sys.argv[1]), stdout=subprocess.PIPE, start_new_session=True)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    process.stdout.readline()
    below = sweep.Below(process.pid)
    below.leader = process.pid
    process.returncode = 0
    return below
def finish(below):
    while not below.reap(): below.sweep(wake)
"""


def test_only_zombies_count_as_dead() -> None:
    """One call tells zombies alone from a child that lives; a stopped one lives."""
    code = """
import signal, subprocess
from turnctl.processes.sweep import _all_are_dead
def ends(child): os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
one = subprocess.Popen(["true"])
ends(one)
told = [_all_are_dead()]
two = subprocess.Popen(["sleep", "60"])
told.append(_all_are_dead())
two.send_signal(signal.SIGSTOP)
os.waitid(os.P_PID, two.pid, os.WSTOPPED | os.WNOWAIT)
told.append(_all_are_dead())
two.kill()
ends(two)
told.append(_all_are_dead())
one.wait()
two.wait()
say(*told)
"""
    with by_host(code) as host:
        assert "True False False True\n" == host.finished()


def test_asked_are_those_who_were_there() -> None:
    """A main process that dies of the signal at once hides nobody from it: the others are asked all the same."""
    mark = tag()
    code = """
below = build("away")
(other,) = [one.pid for one in below.members() if one.pid != below.leader]
real = os.killpg
def killpg(group, signum):
    real(group, signum)
    os.waitid(os.P_PID, group, os.WEXITED | os.WNOWAIT)
os.killpg = killpg
below.ask(15)
say([(number, scope, pid == other) for _, number, scope, pid in below.sent])
finish(below)
"""
    with by_host(BELOW + code, mark) as host:
        assert "[(15, 'group', False), (15, 'process', True)]\n" == host.finished()
    assert [] == alive(mark)


@pytest.mark.parametrize(("name", "least"), [("crowd", 121), ("chain", 21), ("stopped", 2), ("adopts", 2)])
def test_all_stand_still_before_one_is_killed(name: str, least: int) -> None:
    """A sweep that freezes stops everybody, parents first, before it kills the first."""
    mark = tag()
    code = """
below = build(sys.argv[2])
below._has_swept = True
sweep.FREEZE_S = 10.0
seen = []
real = sweep.send
def send(member, signum):
    if signum == kernel.SIGKILL and not any(n == signum for n, *_ in seen):
        now = [kin.read_member(one.pid) for one in below.members()]
        say(len(now), {one.state for one in now})
    seen.append((signum, member.pid, member.ppid))
    return real(member, signum)
sweep.send = send
below.sweep(wake)
stopped = [(pid, ppid) for signum, pid, ppid in seen if signum == kernel.SIGSTOP]
order = [pid for pid, _ in stopped]
say(all(ppid == os.getpid() or ppid in order[: order.index(pid)] for pid, ppid in stopped))
finish(below)
"""
    with by_host(BELOW + code, mark, name) as host:
        told = host.finished().splitlines()

    assert f"{least} {{'T'}}" == told[0]
    assert "True" == told[1]
    assert [] == alive(mark)


def test_walk_reads_any_name() -> None:
    """A member may call itself anything: parentheses, blanks, newlines and bytes that are no text."""
    code = """
name = b") Z 1 1\\\\n\\\\xff("
pid = os.fork()
if pid == 0:
    open("/proc/self/comm", "wb").write(name)
    os.write(1, b"named\\\\n")
    signal.pause()
say(sys.stdin.readline().strip())
(found,) = kin.walk([pid])
say(found.comm == name, found.ppid == os.getpid(), found.state in "RS")
os.kill(pid, 9)
""".replace("\\\\", "\\")
    with by_host(BELOW + code, tag()) as host:
        assert "named" == host.line()
        host.process.stdin.write("go\n")  # type: ignore[union-attr]
        host.process.stdin.flush()  # type: ignore[union-attr]

        assert "go" == host.line()
        assert "True True True" == host.line()


@pytest.mark.parametrize("lists", ["children", "table", "numbers"])
def test_each_way_of_finding_finds_the_same(lists: str) -> None:
    """Where the kernel keeps no lists the table is read; where there is none at all, numbers are asked about."""
    mark = tag()
    code = """
below = build("crowd")
expected = {one.pid for one in below.members()}
if sys.argv[2] != "children":
    real = kin._read_all
    kin._read_all = lambda path: None if path.endswith("children") else real(path)
    kin._has_lists = lambda: False
if sys.argv[2] == "numbers":
    kin.by_parent = dict
found = {one.pid for one in below.members()}
mine = set(kin.own_children(below.leader))
say(found == expected, mine <= expected, len(mine) > 1)
finish(below)
"""
    with by_host(BELOW + code, mark, lists) as host:
        told = host.finished()

    expected = "False True" if lists == "numbers" else "True True"
    assert told.startswith(expected)
    assert [] == alive(mark)


def test_list_with_nobody_in_it_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where ``wait`` knows of somebody whom no list shows, nothing is taken to be gone (W5)."""
    monkeypatch.setattr("turnctl.processes.sweep.own_children", lambda since: [])

    assert not Below(os.getpid()).holds_only_dead()
