"""Ending what earlier commands have left: by identity, only these, with what became of each; and nobody else, ever."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from commands import alive, state_of
from launch import BOUND, ask, clean_environment, turnctl_argv
from schemas import fits
from shapes import shape_of
from standins import until
from warding import tag as some_tag

from turnctl.cli import clearing
from turnctl.processes import clearing as ending
from turnctl.processes import remains
from turnctl.processes.clearing import end_leftovers
from turnctl.processes.marks import own_namespace
from turnctl.processes.remains import Leftover

Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="leftovers are found in Linux's /proc")

#: numbers that no process has, beyond the largest that Linux gives out
NOBODY, NOBODY_ELSE = 1 << 23, (1 << 23) + 1
_DEAF = "deaf(); ready(); time.sleep(60)"
_LEAVES_MORE = """
def more(*_):
    away()
    os._exit(0)
signal.signal(signal.SIGTERM, more)
ready(); time.sleep(60)
"""


def mark(warden: int = NOBODY, start: int = 1) -> str:
    return f"{warden}.{start}.{NOBODY}.1.{own_namespace()}"


@contextmanager
def left(tag: str, body: str = "ready(); stay()", held_by: str | None = None) -> Iterator[int]:
    """A process that looks as one that a killed warden has left; it and what it starts end with this."""
    env = clean_environment(TURNCTL_HELD_BY=mark() if held_by is None else held_by)
    process = subprocess.Popen(shape_of(body, tag), stdout=subprocess.PIPE, env=env)
    try:
        assert process.stdout is not None
        assert b"ready\n" == process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        for one in alive(tag):
            os.kill(one, signal.SIGKILL)
        process.communicate(timeout=BOUND)
        assert until(lambda: not alive(tag))


@pytest.fixture(autouse=True)
def tag(monkeypatch: pytest.MonkeyPatch) -> str:
    """In the argv of this test's own processes: those of others on this machine are not seen by it."""
    mine = some_tag()

    def leftovers() -> tuple[Leftover, ...]:
        return tuple(one for one in remains.leftovers() if mine in one.argv)

    monkeypatch.setattr(clearing, "leftovers", leftovers)
    monkeypatch.setattr(ending, "leftovers", leftovers)
    return mine


def found(tag: str) -> list[Leftover]:
    return [one for one in remains.leftovers() if tag in one.argv]


def test_leftovers_are_asked_and_killed(tag: str, capfd: Capture) -> None:
    """One that obeys ends by TERM, also where it stood still, a deaf one by KILL; what has no mark is left alone."""
    with left(tag) as plain, left(tag, _DEAF) as deaf, left(tag) as still, left(tag, held_by="") as beside:
        os.kill(still, signal.SIGSTOP)
        assert until(lambda: "T" == state_of(still))
        ended = ask(capfd, "doctor", "--end-leftovers", "-y", "--json", "--grace", "300ms")
        fates = {one["pid"]: one["fate"] for one in fits(json.loads(ended.out))["processes"]}
        again = ask(capfd, "doctor", "--end-leftovers")

        assert [beside] == alive(tag)
    assert {plain: "term", still: "term", deaf: "kill"} == fates
    assert (0, 0) == (ended.status, again.status)
    assert "no command has left a process that nobody holds, as far as can be found\n" == again.out


def test_what_is_started_meanwhile_is_ended_too(tag: str) -> None:
    """A process that starts another one in its end has not got away: that one has the mark of the same command."""
    with left(tag, _LEAVES_MORE) as pid:
        done = end_leftovers(found(tag), grace_s=5.0)

        assert [] == alive(tag)
    assert [(pid, "term"), "kill"] == [(done[0].leftover.pid, done[0].fate), done[1].fate]


def test_who_is_born_during_a_look_is_ended_too(tag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that passes over it, since it comes up behind it, is followed by another one."""
    looks = []

    def passing_over() -> tuple[Leftover, ...]:
        looks.append(tuple(one for one in remains.leftovers() if tag in one.argv))
        return () if len(looks) == 1 else looks[-1]

    with left(tag, _LEAVES_MORE) as pid:
        given = found(tag)
        monkeypatch.setattr(ending, "leftovers", passing_over)
        done = end_leftovers(given, grace_s=5.0)

        assert [] == alive(tag)
    assert [(pid, "term"), "kill"] == [(done[0].leftover.pid, done[0].fate), done[1].fate]


def test_only_what_was_named_is_ended(tag: str) -> None:
    """Of another command that was left nobody is touched, though it comes up while this one is ended."""
    with left(tag) as pid, left(tag, held_by=mark(NOBODY_ELSE)) as other:
        done = end_leftovers([one for one in found(tag) if one.pid == pid], grace_s=5.0)

        assert [other] == alive(tag)
    assert [(pid, "term")] == [(one.leftover.pid, one.fate) for one in done]


def test_identity_comes_before_any_signal(tag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process with its number, one that is held, another user's, one that runs this, one that has ended: none
    is signalled, and each is called what it is."""
    sent: list[Any] = []
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *args: sent.append(args))
    with (
        left(tag) as pid,
        left(tag, held_by=mark(os.getpid(), _start(os.getpid()))) as held,
    ):
        (one,) = found(tag)
        theirs = one._replace(pid=held, start=_start(held), warden=os.getpid())
        parent = one._replace(pid=os.getppid(), start=_start(os.getppid()), user=os.geteuid())
        given = [
            *(one._replace(start=one.start + 1), one._replace(warden=5), theirs, one._replace(user=one.user + 1)),
            *(parent, one._replace(pid=NOBODY)),
        ]
        fates = [each.fate for each in end_leftovers(given, grace_s=0.1)]

        assert {pid, held} == set(alive(tag))
    assert ["not ours", "not ours", "not ours", "other user", "caller", "gone"] == fates
    assert [] == sent


def _start(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])


def test_what_cannot_be_ended_is_named(tag: str, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is there after the kill is called that, and the status is 1."""
    monkeypatch.setattr(ending, "_KILL_S", 0.1)
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *_: None)  # as one that hangs in the kernel
    with left(tag) as pid:
        ended = ask(capfd, "doctor", "--end-leftovers", "-y", "--grace", "0s")

    assert (1, True) == (ended.status, f"process {pid} (" in ended.out and ended.out.endswith("is there still\n"))


def test_nobody_is_ended_unasked(tag: str, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without -y a person is asked; where there is none it is wrong use; a no ends nothing. A dry run only tells."""
    asked: list[str] = []
    with left(tag) as pid:
        alone = ask(capfd, "doctor", "--end-leftovers")
        dry = ask(capfd, "doctor", "--end-leftovers", "--dry-run")
        document = fits(json.loads(ask(capfd, "doctor", "--end-leftovers", "--dry-run", "--json").out))
        with monkeypatch.context() as patched:
            patched.setattr(sys.stdin, "isatty", lambda: True, raising=False)
            patched.setattr(sys.stderr, "isatty", lambda: True, raising=False)
            patched.setattr(click, "confirm", lambda text, **_: asked.append(text) or False)
            no = ask(capfd, "doctor", "--end-leftovers")

        assert [pid] == alive(tag)
    assert (2, True) == (alone.status, "--end-leftovers would end a process (process " in alone.err)
    assert dry.out.endswith("found by mark: would be asked by SIGTERM, and killed after 5s\n")
    assert (0, [(pid, None)]) == (dry.status, [(one["pid"], one["fate"]) for one in document["processes"]])
    assert (1, True) == (no.status, "turnctl: error: nothing was ended\n" in no.err)
    assert [f"turnctl: end {found_words(dry.out)}?"] == asked


def found_words(text: str) -> str:
    return text.rpartition(": would be")[0]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--dry-run"], "--dry-run goes with --end-leftovers"),
        (["-y"], "--yes goes with --end-leftovers"),
        (["--grace", "1s"], "--grace goes with --end-leftovers"),
        (
            ["--end-leftovers", "--fix"],
            "--end-leftovers is for itself: give it with --dry-run, --yes",
        ),
        (["--end-leftovers", "--grace", "5"], "--grace '5' cannot be used: it has no unit; write it like 5s"),
    ],
)
def test_misuse_is_told(capfd: Capture, args: list[str], message: str) -> None:
    """What does not go together is refused before anything is looked at."""
    ended = ask(capfd, "doctor", *args)

    assert (2, "", True) == (ended.status, ended.out, f"error: {message}" in ended.err)


def test_processes_that_cannot_be_seen_are_told(capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody can be seen it does not say that nobody is there."""
    monkeypatch.setattr(clearing, "shows_us", lambda: False)
    ended = ask(capfd, "doctor", "--end-leftovers")

    assert (5, "") == (ended.status, ended.out)
    assert "the processes of this machine cannot be seen here" in ended.err


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed: no system call can be watched")
def test_doctor_signals_nobody(tag: str, tmp_path: Path, shelf: Path) -> None:
    """By its system calls: the doctor and all that it starts signal none but processes that they have started, though
    there is a leftover."""
    log = tmp_path / "calls"
    watched = ["strace", "-f", "-qq", "-o", str(log), "-e", "trace=kill,tkill,tgkill,pidfd_send_signal,pidfd_open,"]
    watched[-1] += "clone,clone3,fork,vfork"
    with left(tag) as pid:
        argv = turnctl_argv("doctor", "--state-dir", str(shelf))
        ended = subprocess.run(
            [*watched, *argv], capture_output=True, text=True, timeout=60, check=False, env=clean_environment()
        )
        if not log.exists() or "Operation not permitted" in ended.stderr:
            pytest.skip("strace may not trace here")

        assert [pid] == alive(tag)
    text = log.read_text()
    started = {line.split()[0] for line in text.splitlines()}  # each that has called anything, the first one included
    started |= set(re.findall(r"(?:clone3?|fork|vfork)\b.*= (\d+)$", text, re.MULTILINE))
    struck = set(re.findall(r"\b(?:kill|tkill)\(-?(\d+), SIG", text))
    struck |= set(re.findall(r"pidfd_open\((\d+)", text))  # the only ones that could be reached by a pidfd

    assert ended.returncode in (0, 1)
    assert set() == struck - started
