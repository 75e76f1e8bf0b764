"""Nothing outlives a command of turnctl, whatever it builds: counted from outside, in every mode of stopping."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest
from census import Census
from commands import alive
from kinds import KINDS, Maker, Missing
from runs import MODES, Result, run
from shapes import shape
from standins import until
from supervisors import ALL, OURS, Interpreter, Supervisor, interpreter_for, namespace_refusal
from tables import by_kind, by_supervisor
from warding import tag

pytestmark = [
    pytest.mark.gauntlet,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts in /proc"),
]
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can become an ordinary user")

#: those that no other test has; with four modes and two ways, each of them once in a run of the quick tests
QUICK = [
    "daemon without a trace",
    "pipeline",
    "job control",
    "all blocked",
    "in vfork",
    "never reaps",
    "odd name",
    "another argv when asked",
    "own namespace",
    "sister",
    "traced",
    "kills its supervisor",
    "deaf to the hang-up",
    "nohup",
    "without a death signal",
    "forked by a thread",
    "floods who holds it",
]


def _free_uid() -> int:
    """A user whom nobody is, so that no limit or process of another is met."""
    taken = {one.pw_uid for one in pwd.getpwall()}
    return next(uid for uid in range(61_000 + os.getpid() % 1000, 65_000) if uid not in taken)


@pytest.fixture(scope="module")
def maker() -> Iterator[Maker]:
    with Maker() as made:
        yield made


@pytest.fixture(scope="module")
def user() -> tuple[int, Interpreter]:
    """An ordinary user, and an interpreter for it."""
    uid = _free_uid()
    found = interpreter_for(uid)
    if isinstance(found, str):
        pytest.skip(found)
    return uid, found


def _run_all(
    maker: Maker, jobs: list[tuple[str, str, str]], width: int, uid: int | None, python: Interpreter
) -> list[Result]:
    lacking: list[str] = []

    def go(job: tuple[str, str, str]) -> Result | None:
        try:
            return run(maker, *job, uid=uid, python=python)
        except Missing as missing:
            lacking.append(str(missing))
            return None

    with ThreadPoolExecutor(width) as pool:
        found = [one for one in pool.map(go, jobs) if one is not None]
    if lacking:
        print("left out:", *lacking, sep="\n")
    if not found:
        pytest.skip("; ".join(lacking))
    return found


def _quick(supervisor: str, mode: str) -> list[tuple[str, str, str]]:
    """A quarter of the kinds for each mode, another quarter with the other way."""
    offset = (MODES.index(mode) + 2 * list(OURS).index(supervisor)) % 4
    return [(kind, supervisor, mode) for kind in islice(QUICK, offset, None, 4)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("supervisor", ["turnctl run", "SDK"])
def test_nothing_is_left_of_some_kinds(supervisor: str, mode: str, maker: Maker) -> None:
    """However it is stopped, no process, zombie or helper is left (promises 9 and 10)."""
    jobs = _quick(supervisor, mode)
    found = _run_all(maker, jobs, 4, None, Interpreter())

    assert [] == [str(one) for one in found if not one.is_clean]
    assert [] == [str(one) for one in found if one.stood < KINDS[one.kind].least and one.kind != "kills its supervisor"]


@AS_ROOT
@pytest.mark.parametrize("mode", ["term", "kill"])
def test_nothing_is_left_for_an_ordinary_user(mode: str, maker: Maker, user: tuple[int, Interpreter]) -> None:
    """It needs no privilege (promise 10)."""
    jobs = _quick("SDK", mode)[:3] + _quick("turnctl run", mode)[:2]
    found = _run_all(maker, jobs, 5, *user)

    assert [] == [str(one) for one in found if not one.is_clean]


@pytest.mark.stress
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("supervisor", list(OURS))
@pytest.mark.parametrize("who", ["this user", pytest.param("ordinary user", marks=AS_ROOT)])
def test_nothing_is_left_of_any_kind(
    who: str, supervisor: str, mode: str, maker: Maker, request: pytest.FixtureRequest
) -> None:
    """All kinds, in all ways, as root and as an ordinary user (promises 9 and 10)."""
    uid, python = (None, Interpreter()) if who == "this user" else request.getfixturevalue("user")
    if supervisor == "run, namespace" and (why := namespace_refusal(python, uid)):
        pytest.skip(why)
    still = [(kind, supervisor, mode) for kind in KINDS if not KINDS[kind].is_moving]
    moving = [(kind, supervisor, mode) for kind in KINDS if KINDS[kind].is_moving]
    found = _run_all(maker, still, 3, uid, python) + _run_all(maker, moving, 1, uid, python)

    assert [] == [str(one) for one in found if not one.is_clean]


# -- the counting itself -----------------------------------------------------------------------------------------------


def test_survivors_of_a_rival_are_counted(maker: Maker) -> None:
    """What another way of ending leaves is found, so that a nought of ours means something, and is ended after it."""
    found = run(maker, "daemon", "Popen, killpg", "kill", left_s=0.2)

    assert (2, 2, False) == (found.stood, found.survivors, found.is_clean)


def test_zombie_is_counted() -> None:
    """A child that nobody reaps is told apart from one that lives."""
    mark = tag()
    census = Census(mark)
    with subprocess.Popen(["sleep", mark]) as process:
        assert until(lambda: census.look()[0])
        process.kill()

        assert until(lambda: not census.look()[0])
        assert [process.pid] == [pid for pid, _ in census.look()[1]]


def test_dead_first_thread_is_no_end() -> None:
    """A process whose first thread has ended has an empty command line, and is counted by its threads."""
    mark = tag()
    census = Census(mark)
    with subprocess.Popen(shape("only a thread", mark), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()

        assert [] == alive(mark)
        assert [process.pid] == [pid for pid, _ in census.look()[0]]
        process.send_signal(signal.SIGKILL)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("exit 3", "it was over before it was ready (status 3)"),
        ("echo ready; exec sleep 60", "only 0 of its 2 processes ever stood"),
    ],
)
def test_what_did_not_start_is_no_success(line: str, error: str, maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of which nobody stood is told as one that was not run, although nobody is left of it."""
    monkeypatch.setattr("runs._ALL_SEEN_S", 0.05)
    monkeypatch.setitem(ALL, "another", Supervisor(lambda *_: ["sh", "-c", line]))
    found = run(maker, "child", "another", "kill")

    assert (error, 0, False) == (found.error, found.survivors, found.is_clean)
    assert ["not run"] == [
        cell.strip() for cell in by_kind([found], ["another"], "kill", ["child"])[-1].split("|")[2:3]
    ]


def test_table_counts_what_was_not_run_apart() -> None:
    """It is neither among those of which something was left nor among those that it is out of."""
    found = [
        Result("one", "another", "kill", survivors=2, zombies=1),
        Result("two", "another", "kill"),
        Result("three", "another", "kill", error="it never was ready"),
    ]

    assert "| another | 1 of 2 (1 not run) | 1 |" == by_supervisor(found, ["another"], ["kill"])[-1]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="compiles a program")
def test_runs_beside_each_other_share_a_program() -> None:
    """Several of the same kind that begin at one time all find the program that has to be compiled for it."""
    gate = threading.Barrier(4)

    def command(maker: Maker) -> str:
        gate.wait()
        return maker.command("tight hopper", tag(), sys.executable)[-1]

    with Maker() as fresh, ThreadPoolExecutor(4) as pool:
        programs = list(pool.map(command, [fresh] * 4))

        assert 1 == len(set(programs))
        assert os.access(programs[0], os.X_OK)


def test_every_rival_has_its_way_told() -> None:
    """Each supervisor can be asked for its command, and says what it lacks."""
    for name, supervisor in ALL.items():
        assert "true" == supervisor.argv(Interpreter(), 1.5, ["true"])[-1], name
        assert isinstance(supervisor.missing(), str)
