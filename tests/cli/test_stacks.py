"""``turnctl show --stacks``: a running turn's program tells where it stands, and of its commands the kernel does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from commands import state_of
from launch import ROOT, ask, readied, turnctl_argv
from schemas import fits
from shelf import IDS
from standins import until

from turnctl.cli import stacks

COMPLETED, FAILED, CANCELLED, UNRESOLVED, LOST, RUNNING = IDS

Capture = pytest.CaptureFixture[str]

_AGENT = f"""
import sys, time
sys.path.insert(0, {ROOT!r})
import turnctl
def tool(secret):
    time.sleep(60)  # in C
with turnctl.open_ledger() as ledger:
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task, turn_id="t-agent") as turn:
        turn.popen(["sh", "-c", "echo ready; exec sleep 60"], stdout=1)
        tool("hunter2")
"""


def started(folder: Path, argv: list[str]) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A program whose command has said that it is there, and is on record."""
    return readied(argv, TURNCTL_STATE_DIR=str(folder), TURNCTL_RUN_RECORD="yes")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TURNCTL_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def test_program_tells_where_it_stands(folder: Path, tmp_path: Path, capfd: Capture) -> None:
    """The body of the turn, blocked in C, with its lines and no value; and the command, with what it waits in."""
    file = tmp_path / "agent.py"
    file.write_text(_AGENT)
    with started(folder, [sys.executable, str(file)]) as process:
        assert until(lambda: "sleep" in ask(capfd, "show", "--stacks", "@").out)
        shown = ask(capfd, "show", "--stacks", "@")
        found = fits(json.loads(ask(capfd, "show", "--stacks", "--json", "@").out))
    lines = shown.out.splitlines()
    at = lines.index("thread MainThread (body of the turn)")

    assert (0, "") == (shown.status, shown.err)
    assert f"t-agent  running, process {process.pid}" == lines[0]
    expected = [
        *(f"  {file}:6 in tool", "    time.sleep(60)  # in C"),
        *(f"  {file}:11 in <module>", '    tool("hunter2")'),
    ]
    assert expected == lines[at + 1 : at + 5]
    assert any(line.startswith("threads with nothing but turnctl on their stacks: ") for line in lines)
    (command,) = found["processes"]
    assert f"process {command['pid']} sleep: S, sleeping" in shown.out
    assert ("sleep", True, True) == (command["name"], command["is_command"], found["answered"])


def test_run_tells_where_it_stands(folder: Path, capfd: Capture) -> None:
    """Of a run turnctl tells where it waits itself, and the kernel of the command and of what that has started."""
    with started(folder, turnctl_argv("run", "--", "sh", "-c", "sleep 60 & echo ready; wait")) as process:
        assert until(lambda: "  process " in ask(capfd, "show", "--stacks", "@").out)
        shown = ask(capfd, "show", "--stacks", "@")

    assert f"running, process {process.pid}\nthread MainThread (body of the turn)\n" in shown.out
    assert " in _run_command\n" in shown.out
    assert [" sh: S, sleeping", " sleep: S, sleeping"] == [
        line[line.index(" ", line.index("process ") + 8) :].partition(", in")[0]
        for line in shown.out.splitlines()
        if line.lstrip().startswith("process ")
    ]


def test_program_that_stands_still_is_told(folder: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer in time is told with what the kernel says: stopped, and gone; nothing of it is made up."""
    monkeypatch.setattr(stacks, "WITHIN_S", 0.2)
    with started(folder, turnctl_argv("run", "--", "sh", "-c", "echo ready; exec sleep 60")) as process:
        os.kill(process.pid, signal.SIGSTOP)
        assert until(lambda: "T" == state_of(process.pid))
        still = ask(capfd, "show", "--stacks", "@")
        document = fits(json.loads(ask(capfd, "show", "--stacks", "--json", "@").out))
        process.kill()
        process.wait()
        gone = ask(capfd, "show", "--stacks", "@")

    text = f"no answer within 0.2s: the program is stopped (T): kill -CONT {process.pid} has it go on"
    assert (6, f"turnctl: error: {text}\n") == (still.status, still.err.splitlines(keepends=True)[0])
    assert (text, [], False) == (document["why"], document["threads"], document["answered"])
    assert (1, True) == (gone.status, "has no stacks: its program is gone: there is no process" in gone.err)


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        ([COMPLETED], 3, f"turn {COMPLETED} has no stacks: it is over"),
        ([LOST], 1, f"turn {LOST} has no stacks: its program is gone: the machine was started again"),
        (["t9z"], 4, "there is no turn t9z"),
        (["--events", RUNNING], 2, "--stacks is of this moment, and the others are of the record; give one of them"),
        (
            [RUNNING],
            6,
            "no answer within 0.1s: the program (R, running) lets no other thread of its own run, as C code",
        ),
    ],
)
def test_what_has_no_stacks_is_told(
    shelf: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch, args: list[str], status: int, message: str
) -> None:
    """A turn that is over, lost or not there, and a program that does not know of this: each is told, with its code."""
    monkeypatch.setattr(stacks, "WITHIN_S", 0.1)
    ended = ask(capfd, "show", "--stacks", *args)

    assert status == ended.status
    assert ended.err.startswith(f"turnctl: error: {message}"), ended.err
    assert not (shelf / "ledger.sqlite3.asks").exists()
