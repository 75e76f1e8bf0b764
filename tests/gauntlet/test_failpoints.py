"""Whoever is killed, at whichever named place, nothing is left of a command: each place of the source is tried.

The names are read from the source, so that a new one fails here until it is known how to get there. That the place was
reached is told by a file, written there before the death.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from census import Census, is_there
from commands import alive
from launch import ROOT, clean_environment
from standins import BOUND, until
from warding import tag

from turnctl.processes import capabilities, leftovers

pytestmark = [
    pytest.mark.gauntlet,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="wardens need Linux"),
]
#: promised: two seconds
GONE_S = 20.0
_SOURCE = Path(ROOT, "turnctl", "processes")

#: how to get to each place: what is done, and what holds the command
HELPERS = {
    "launcher-born": ("stop", "warden"),
    "launcher-ready": ("stop", "warden"),
    "launcher-asked": ("stop", "warden"),
    "launcher-forked": ("stop", "warden"),
    "launcher-leaving": ("idle", "warden"),
    "launcher-bereaved": ("kill the warden", "warden"),
    "launcher-killed": ("kill the warden", "warden"),
    "warden-born": ("stop", "warden"),
    "warden-asked": ("stop", "warden"),
    "warden-made": ("stop", "namespace"),
    "warden-leaf": ("stop", "cgroup"),
    "warden-started": ("stop", "warden"),
    "warden-told": ("stop", "warden"),
    "warden-exited": ("leave", "warden"),
    "warden-asked-tree": ("stop", "warden"),
    "warden-ladder": ("stop", "warden"),
    "warden-killed": ("stop", "warden"),
    "warden-empty": ("stop", "warden"),
    "warden-leaving": ("idle", "warden"),
    "init-born": ("stop", "namespace"),
    "init-armed": ("stop", "namespace"),
    "init-started": ("stop", "namespace"),
    "init-empty": ("exit", "namespace"),
}
HOST = {
    "processes.run.admitted": ("stop", "warden"),
    "processes.run.recorded": ("task", "warden"),
    "processes.launch.composed": ("stop", "warden"),
    "processes.launch.asked": ("stop", "warden"),
    "processes.launch.started": ("stop", "warden"),
    "processes.run.spawned": ("stop", "warden"),
    "processes.ladder.asked": ("stop", "warden"),
    "processes.ladder.killed": ("stop", "group"),
    "processes.attending.asked": ("stand-in", "warden"),
    "processes.exit.observed": ("leave", "warden"),
    "processes.exit.draining": ("leave", "warden"),
    "processes.drive.leaving": ("leave", "warden"),
    "processes.run.over": ("leave", "warden"),
    "processes.move.deciding": ("detach", "warden"),
    "processes.move.stored": ("detach", "warden"),
}
#: where the warden was killed before: the two who hold a command die one after the other, and it may live on
_BOTH_KILLED = ("launcher-bereaved", "launcher-killed")

#: in every run; the others have a test of the launcher's own there, and are tried here with --stress
_ALWAYS = {
    *("launcher-bereaved", "launcher-killed", "launcher-leaving", "warden-leaf", "warden-exited", "init-empty"),
    *(
        "processes.run.admitted",
        "processes.run.recorded",
        "processes.run.spawned",
        "processes.ladder.asked",
        "processes.exit.observed",
    ),
    *("processes.attending.asked", "processes.move.deciding", "processes.move.stored", "processes.run.over"),
}

_PROGRAM = """
import os, signal, sys, time
told, name, what, hold, tag = sys.argv[1:6]
sys.path[:0] = sys.argv[6:]
import turnctl
from shapes import shape
from turnctl import points
from turnctl.processes import upkeep
from warding import parent_of

TELLING = f'''
import os
import turnctl.processes.kernel as kernel
strike = kernel.failpoint
def failpoint(name):
    if name == kernel._failing_at: os.close(os.open({told!r}, os.O_CREAT | os.O_WRONLY))
    strike(name)
kernel.failpoint = failpoint
from turnctl.processes.launcher import main
import turnctl.processes.launcher as launcher, turnctl.processes.warden as warden
launcher.IDLE_S = warden.IDLE_S = 0.3
'''
upkeep._BOOT = upkeep._BOOT.replace("from turnctl.processes.launcher import main", TELLING)

def hook(at):
    if at == name:
        open(told, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
points.hook = hook

def reached(within=10):
    end = time.monotonic() + within
    while not os.path.exists(told) and time.monotonic() < end: time.sleep(0.005)

options = {"containment": hold} | ({} if hold == "group" else {"require": "complete"})
try:
    task = turnctl.open_ledger("memory:").submit("acme", "job") if what == "task" else None
    with turnctl.turn(grace="200ms", task=task) as turn:
        if what == "idle":
            turn.run(["true"], **options)
            reached()
        elif what == "exit":
            turn.run(["sh", "-c", "exit 0", tag], **options)
        elif what == "stand-in":
            from turnctl.processes import subprocess
            with subprocess.Popen(shape("deaf daemon", tag), stdout=subprocess.PIPE) as process:
                process.stdout.readline()
                process.wait(5)
        elif what == "leave":
            turn.run(shape("leaves a daemon", tag), **options)
        else:
            process = turn.popen(shape("deaf daemon", tag), **options)
            next(iter(process))
            if what == "kill the warden":
                os.kill(parent_of(process.pid), signal.SIGKILL)
                reached()
            elif what == "detach":
                with turnctl.turn("other", inherit=False, grace="200ms") as other:
                    turn.detach(process, owner=other)
            process.stop()
except (turnctl.TurnctlError, OSError, StopIteration) as error:
    print("refused:", error)
print("on", flush=True)
sys.stdin.readline()
"""


def _some(names: dict[str, tuple[str, str]]) -> list[Any]:
    return [pytest.param(name, marks=() if name in _ALWAYS else pytest.mark.stress) for name in sorted(names)]


def _names(pattern: str) -> set[str]:
    return {name for path in _SOURCE.glob("*.py") for name in re.findall(pattern, path.read_text(encoding="utf-8"))}


def test_way_to_each_place_is_known() -> None:
    """Each named place in the source is in one of the tables here."""
    assert _names(r'\bfailpoint\("([\w-]+)"\)') == set(HELPERS)
    assert _names(r'\breach\("(processes\.[\w.]+)"\)') == set(HOST)


def _start(told: Path, name: str, what: str, hold: str, mark: str) -> subprocess.Popen[bytes]:
    if hold in ("namespace", "cgroup"):
        (one,) = [one for one in capabilities() if one.name == hold]
        if not one.is_available:
            pytest.skip(f"{hold}: {one.reason}")
    path = [ROOT, str(Path(__file__).parents[1] / "support"), *[one for one in sys.path if "site-packages" in one]]
    return subprocess.Popen(
        [sys.executable, "-I", "-B", "-c", _PROGRAM, str(told), name, what, hold, mark, *path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env=clean_environment(TURNCTL_FAILPOINT=name),
    )


@pytest.mark.parametrize("name", _some(HELPERS))
def test_helper_killed_at_a_place_leaves_nothing(name: str, tmp_path: Path) -> None:
    """A launcher, a warden or a namespace's first process that is killed there leaves nothing of the command."""
    told, mark = tmp_path / "told", tag()
    census = Census(mark)
    with _start(told, name, *HELPERS[name], mark) as host:
        try:
            assert host.stdout is not None
            assert select.select([host.stdout], [], [], 2 * BOUND)[0], "the program hangs"
            said = host.stdout.read1()
            census.look(but=host.pid)

            assert told.exists(), f"{name} was not reached; the program said {said!r}"
            if name in _BOTH_KILLED:
                there = {pid for pid, _ in census.look(but=host.pid)[0]}
                assert there <= {one.pid for one in leftovers()}
            else:
                assert until(lambda: not census.look(but=host.pid)[0], within=GONE_S)
            host.communicate(b"\n", timeout=BOUND)
            assert 0 == host.returncode
        finally:
            host.kill()
            census.end_all(but=host.pid)
    assert [] == alive(mark)


@pytest.mark.parametrize("name", _some(HOST))
def test_host_killed_at_a_place_leaves_nothing(name: str, tmp_path: Path) -> None:
    """A program that is killed by SIGKILL there leaves no process of its commands, no warden and no launcher."""
    told, mark = tmp_path / "told", tag()
    census = Census(mark)
    what, hold = HOST[name]
    with _start(told, name, what, hold, mark) as host:
        try:
            while host.poll() is None:
                census.look(but=host.pid)
                census.look_above()

            assert told.exists()
            assert -signal.SIGKILL == host.returncode
            if hold != "group":  # of which nothing is promised once the program is killed
                assert until(lambda: not census.look()[0] and not census.helpers_left(), within=GONE_S)
        finally:
            if host.poll() is None:
                host.kill()
            census.end_all()
    assert [] == alive(mark)


def test_launcher_and_warden_killed_at_once_are_told_of() -> None:
    """If the two die at one moment the command may live on: it is found by its identity, and is not a secret."""
    mark = tag()
    code = (
        "import sys, turnctl; sys.path[:0] = sys.argv[2:]; from shapes import shape\n"
        "with turnctl.popen(shape('deaf daemon', sys.argv[1]), grace=0.2) as process:\n"
        "    next(iter(process)); print(process.pid, flush=True); sys.stdin.readline()\n"
        "print(process.outcome().empty_proven, len(process.outcome().survivors) > 0)\n"
    )
    census = Census(mark)
    with subprocess.Popen(
        [sys.executable, "-c", code, mark, str(Path(__file__).parents[1] / "support")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=clean_environment(PYTHONPATH=ROOT),
    ) as host:
        try:
            assert host.stdout is not None
            host.stdout.readline()
            census.look(but=host.pid)
            census.look_above()
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid, _ in census.helpers:
                    os.kill(pid, number)

            assert 2 == len(census.helpers)
            assert until(lambda: not any(is_there(one) for one in census.helpers))
            there = {pid for pid, _ in census.look(but=host.pid)[0]}
            assert 2 == len(there)
            assert there == {one.pid for one in leftovers() if mark in one.argv}
            out, _ = host.communicate(b"\n", timeout=2 * BOUND)
            assert b"False True\n" == out
        finally:
            host.kill()
            census.end_all(but=host.pid)
