"""A stdout that takes nothing, in every command: closed, full, or with a reader that has gone."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from everycommand import CALLS, NEED_NO_STATE, argv
from forked import waited
from launch import Ended, clean_environment, turnctl_argv

HINT = "turnctl: hint: the answer goes there; give it a place, such as a file or a pager\n"
CLOSED = f"turnctl: error: could not write to stdout: it is closed\n{HINT}"
FULL = f"turnctl: error: could not write to stdout: No space left on device\n{HINT}"
#: its stdout is its command's
ANSWERING = sorted({*CALLS, *NEED_NO_STATE} - {"run"})


@pytest.fixture
def full() -> Iterator[int]:
    fd = os.open("/dev/full", os.O_WRONLY)
    yield fd
    os.close(fd)


@pytest.fixture
def unread() -> Iterator[int]:
    """A pipe whose reader has gone."""
    read, write = os.pipe()
    os.close(read)
    yield write
    os.close(write)


@pytest.mark.parametrize("command", ANSWERING)
def test_stdout_that_takes_nothing_is_told(shelf: Path, tmp_path: Path, full: int, unread: int, command: str) -> None:
    """Closed or full is 5, and said once; a reader that has gone ends it as SIGPIPE does, without a word."""
    outs = iter(str(tmp_path / f"out{n}") for n in range(3))
    turn = "t1b" if command == "logs" else None  # the one that has printed something
    if command in ("bundle", "report"):
        outs = itertools.repeat("-")
    found = [waited(*argv(command, turn=turn, out=next(outs)), stdout=stdout) for stdout in ("closed", full, unread)]
    helped = [one._replace(err=_without_notes(one.err)) for one in found]

    assert [Ended(5, "", CLOSED), Ended(5, "", FULL), Ended(-13, "", "")] == helped


def _without_notes(said: str) -> str:
    return "".join(line for line in said.splitlines(keepends=True) if not line.startswith("turnctl: note: "))


def test_error_is_told_though_its_document_is_not_taken(shelf: Path, full: int, unread: int) -> None:
    """An error keeps its own words and status, where the document that says it as well finds no room."""
    said = "turnctl: error: there is no turn zzz\nturnctl: hint: turnctl ps -a lists those that are on record\n"

    assert [Ended(4, "", said)] * 3 == [waited("status", "zzz", "--json", stdout=to) for to in ("closed", full, unread)]
    assert 2 == waited("ps", "--json", "--bogus", stdout=full).status


def test_as_shells_do_it(shelf: Path) -> None:
    """The same from a shell, in processes that were started: closed, full, and a pager that has seen enough."""
    ps = shlex.join(turnctl_argv("ps", "-a", "--jsonl"))
    env = clean_environment()
    script = f"{ps} >&-; echo $?; {ps} >/dev/full; echo $?; {ps} | head -1 | cut -c 1-30; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=env, timeout=60, check=False)
    status = done.stdout.splitlines()

    assert ["5", "5", '{"schema":"turnctl.turn-line/1'] == status[:3]
    assert status[3] in ("0", "141")  # six lines go into the pipe at once, or do not
    assert CLOSED + FULL == done.stderr
