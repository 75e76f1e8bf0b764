"""Stopping turns from another process: what is accepted, who is helped, and what is said of processes and effects."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from commands import alive, state_of
from forked import ran
from launch import BOUND, ROOT, Ended, ask, readied, turnctl_argv
from schemas import fits
from shapes import shape
from shelf import IDS, gone, opened
from standins import until
from warding import ends, parent_of
from warding import tag as some_tag

from turnctl.cli import stopping
from turnctl.ledger.identity import identity_of, this_process
from turnctl.records.changes import evolve

COMPLETED, FAILED, CANCELLED, UNRESOLVED, LOST, RUNNING = IDS

Capture = pytest.CaptureFixture[str]

#: an agent that has told of one effect and waits for a command, in a turn that it names
_AGENT = f"""
import json, os, sys
sys.path.insert(0, {ROOT!r})
import turnctl
with turnctl.open_ledger() as ledger:
    task = ledger.submit("acme", sys.argv[1])
    with turnctl.turn("work", task=task, grace=os.environ["GRACE"], turn_id=sys.argv[1]) as turn:
        with turn.effect("mail.send", key="k", payload="x") as sent:
            sent.complete(receipt="250 ok")
        command = json.loads(os.environ["COMMAND"])
        BODY
"""
_WAITS = "turn.run(command, stdout=1)"
#: lets no thread of its own run
_COUNTS = "turn.popen(command, stdout=1); turn.sleep(0.5); print('counting', flush=True); sum(range(10**12))"


def agent(
    folder: Path, turn: str, command: list[str], body: str = _WAITS, grace: str = "300ms"
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """One whose command has said that it is there; the command is not in the argv of the agent."""
    argv = [sys.executable, "-c", _AGENT.replace("BODY", body), turn]
    return readied(argv, TURNCTL_STATE_DIR=str(folder), COMMAND=json.dumps(command), GRACE=grace)


def stop(folder: Path, *args: str) -> Ended:
    """The command as another process."""
    return ran("stop", "--state-dir", str(folder), *args)


def whole(text: str) -> str:
    """A text without its times."""
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)


def test_running_turn_is_stopped_and_accounted_for(tmp_path: Path) -> None:
    """Who and why are on record, the command has ended when it returns, and processes and effects are told apart."""
    tag = some_tag()
    with agent(tmp_path, "t-one", shape("plain", tag)):
        plan = stop(tmp_path, "--dry-run", "@")
        ended = stop(tmp_path, "--by", "ana", "--reason", "wrong repo", "t-o")
        left = alive(tag)
        again = stop(tmp_path, "t-one")

    assert 0 == plan.status
    ends = r"  ends      process .* \(pid \d+\), and what it started\n"
    expected = r"t-one \(running\) would be stopped\n" + ends + "  too late  mail"
    assert re.match(expected, plan.out)
    assert [] == left
    assert 0 == ended.status
    expected = """\
        Stop accepted for t-one (revision 2, by ana: wrong repo)
          work       closed TIME, no new actions admitted
          processes  1 ended, none left
          effects    1 completed
        Cancelled, settled.
        """
    assert textwrap.dedent(expected) == whole(ended.out)
    assert Ended(3, "t-one was not stopped: turn t-one is over (cancelled): nothing was stopped\n", "") == again


def test_stop_without_waiting_says_that_it_was_accepted(tmp_path: Path) -> None:
    """--no-wait comes back at once; repeating it gives the record of the first, whoever repeats it."""
    tag = some_tag()
    with agent(tmp_path, "t-two", shape("deaf", tag)):
        first = fits(json.loads(stop(tmp_path, "--json", "--no-wait", "--by", "ana", "@").out))["stops"][0]
        second = fits(json.loads(stop(tmp_path, "--json", "--by", "ben", "--reason", "me too", "@").out))["stops"][0]

    assert (True, True) == (first["accepted"], first["first"])
    if second["accepted"]:  # else it had ended by then
        assert (False, first["record"]) == (second["first"], second["record"])
    assert until(lambda: not alive(tag))


def test_program_that_stands_still_is_continued(tmp_path: Path) -> None:
    """A program that was stopped by a signal cannot hear of a stop: it is continued, which is said, and obeys."""
    tag = some_tag()
    with agent(tmp_path, "t-still", shape("plain", tag)) as process:
        process.send_signal(signal.SIGSTOP)
        ended = stop(tmp_path, "session:work")
        left = alive(tag)

    assert ([], 0) == (left, ended.status)
    assert f"process {process.pid}, which runs the turn, stood still and was continued" in ended.err


def test_who_is_waited_for_is_said_with_its_kill(tmp_path: Path) -> None:
    """A stop that takes its time names what it waits for, for how long at most, and when its own program kills it; that
    no other grace counts there is said as well."""
    tag = some_tag()
    with agent(tmp_path, "t-slow", shape("deaf", tag), _WAITS, grace="900ms"):
        ended = stop(tmp_path, "--grace", "100ms", "@")
        left = alive(tag)

    assert ([], 0) == (left, ended.status)
    said = r"turnctl: waiting, for (29|30)s at most: process .+ \(pid \d+\); KILL in \d+ms\n"
    assert re.search(said, ended.err), ended.err
    assert "its own program gives it 900ms, and hears of no other grace; --force kills at once\n" in ended.err


def test_all_are_waited_for_together(shelf: Path, capfd: Capture) -> None:
    """The time to wait is one for all turns: each has its word, and nobody's time begins with another's end."""
    with opened(shelf) as more:
        for n in range(4):
            more.turn(f"t5aaaaaaa{n}", task=f"more-{n}", holder=this_process())
    began = time.monotonic()
    ended = ask(capfd, "stop", "--all", "-y", "--json", "--wait", "500ms", "--grace", "0s")
    took = time.monotonic() - began
    stops = fits(json.loads(ended.out))["stops"]

    assert (6, 6) == (ended.status, len(stops))
    assert took < 2.4  # one after the other: 2.5 s
    assert "turnctl: t5aaaaaaa0: waiting, for 1s at most: " in ended.err


def test_several_are_ended_from_here_together(shelf: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """What two programs that are gone have left is ended at the same time; what goes wrong there is not kept quiet."""
    with opened(shelf) as more:
        more.turn("t5aaaaaaaa", task="more", holder=gone())
        more.turn("t5bbbbbbbb", task="again", holder=gone())
    met = threading.Barrier(2, timeout=BOUND)
    with monkeypatch.context() as patched:
        patched.setattr(stopping.Stopping, "_end_from_here", lambda *_, **__: met.wait())
        both = ask(capfd, "stop", "--wait", "10s", LOST, "t5aaaaaaaa")
    with monkeypatch.context() as patched:
        patched.setattr(stopping.Stopping, "_end_from_here", lambda *_, **__: 1 / 0)
        wrong = ask(capfd, "stop", "--wait", "5s", "t5b")

    assert (0, False) == (both.status, met.broken)
    assert (70, True) == (wrong.status, "ZeroDivisionError" in wrong.err)


def run(folder: Path, command: list[str]) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """The same as a run on the command line."""
    argv = turnctl_argv("run", "--grace", "300ms", "--", *command)
    return readied(argv, TURNCTL_STATE_DIR=str(folder), TURNCTL_RUN_RECORD="yes")


def test_run_that_stands_still_is_continued(tmp_path: Path) -> None:
    """Its turnctl was stopped by a signal: it is continued, ends its command, and exits as stopped."""
    tag = some_tag()
    with run(tmp_path, shape("plain", tag)) as process:
        process.send_signal(signal.SIGSTOP)
        ended = stop(tmp_path, "@")
        status = process.wait(BOUND)
        left = alive(tag)

    assert ([], 0, 122) == (left, ended.status, status)
    assert f"process {process.pid}, which runs the turn, stood still and was continued" in ended.err


def test_run_whose_turnctl_is_gone_settles(tmp_path: Path) -> None:
    """turnctl, launcher and warden of a run were killed at one moment: what it left is ended by identity."""
    tag = some_tag()
    with run(tmp_path, shape("deaf", tag)) as process:
        (pid,) = [one for one in alive(tag) if one != process.pid]
        assert until(lambda: f" {pid} " in ran("show", "--processes", "--state-dir", str(tmp_path), "@").out)
        helpers = [parent_of(pid), parent_of(parent_of(pid))]
        for one in helpers:
            os.kill(one, signal.SIGSTOP)
        process.kill()
        process.wait()
        for one in helpers:
            os.kill(one, signal.SIGKILL)
        assert all(ends(one) for one in helpers)
        ended = stop(tmp_path, "--grace", "100ms", "@")

    assert ([], 0) == (alive(tag), ended.status)
    assert f"ending what it started from here: {pid}" in ended.err


def test_turn_of_a_program_that_is_gone_is_ended_from_here(tmp_path: Path) -> None:
    """Program, launcher and warden were killed at one moment: what they left is ended by identity, and recorded."""
    tag = some_tag()
    with agent(tmp_path, "t-gone", shape("deaf", tag)) as process:
        (pid,) = alive(tag)
        helpers = [parent_of(pid), parent_of(parent_of(pid))]
        for one in helpers:
            os.kill(one, signal.SIGSTOP)
        process.kill()
        process.wait()
        for one in helpers:
            os.kill(one, signal.SIGKILL)
        assert all(ends(one) for one in helpers)
        before = alive(tag)
        ended = stop(tmp_path, "--json", "--grace", "100ms", "@")
    (found,) = fits(json.loads(ended.out))["stops"]

    assert [pid] == before
    assert [] == alive(tag)
    assert (0, "cancelled, settled", []) == (ended.status, found["state"], found["processes"]["left"])
    assert f"ending what it started from here: {pid}" in found["helped"][0]
    assert found["processes"]["empty_proven"] is False


def test_what_is_not_proven_is_not_claimed(tmp_path: Path) -> None:
    """A daemon that has left a command without a warden is found by nobody, so nobody is told that none is left."""
    tag = some_tag()
    command = ["bash", "-c", f"setsid -f sh -c 'echo ready; exec sleep {tag}'; sleep 60"]
    with agent(tmp_path, "t-free", command, "turn.run(command, stdout=1, containment='group')"):
        ended = stop(tmp_path, "t-free")
        left = alive(tag)
        for one in left:
            os.kill(one, signal.SIGKILL)

    assert 1 == len(left)
    assert " ended, none found left\n" in ended.out


def test_program_that_does_not_answer_is_helped(tmp_path: Path) -> None:
    """Its commands are ended from here although it sits in code that lets no thread of its own run."""
    tag = some_tag()
    with agent(tmp_path, "t-busy", shape("plain", tag), _COUNTS) as process:
        assert process.stdout is not None
        assert b"counting\n" == process.stdout.readline()
        ended = stop(tmp_path, "--force", "--wait", "2s", "@")
        left = alive(tag)

    assert [] == left
    assert (6, True) == (ended.status, "its program does not answer: ending what it started from here" in ended.err)
    assert "Stop accepted" in ended.out
    assert "settled" not in ended.out.lower()


def test_number_of_another_place_is_signalled_by_nobody(tmp_path: Path) -> None:
    """A holder from another pid namespace, or without its start, is not taken for who has that number here."""
    with subprocess.Popen(["sleep", "60"]) as stranger:
        try:
            here = identity_of(stranger.pid)
            stranger.send_signal(signal.SIGSTOP)
            assert until(lambda: state_of(stranger.pid) == "T")
            sent = [
                stopping._send(one, signal.SIGCONT) for one in (evolve(here, pid_ns="pid:[1]"), evolve(here, started=0))
            ]
            still = state_of(stranger.pid)
            own = stopping._send(here, signal.SIGCONT)
        finally:
            stranger.kill()

    assert ([False, False], "T", True) == (sent, still, own)


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        ([COMPLETED], 3, f"{COMPLETED} was not stopped: turn {COMPLETED} is over (completed): nothing was stopped\n"),
        (["--ok-if-finished", COMPLETED], 0, f"{COMPLETED} was not stopped: turn {COMPLETED} is over (completed): "),
        (["--expect-rev", "7", RUNNING], 3, f"{RUNNING} was not stopped: the task of turn {RUNNING} is at revision 1"),
        ([COMPLETED, FAILED, COMPLETED], 3, f"{COMPLETED} was not stopped: "),
        (["--no-wait", RUNNING], 0, f"Stop accepted for {RUNNING} (revision 2, by "),
        (["-s", "build", "--no-wait"], 0, f"Stop accepted for {RUNNING} (revision 2, by "),
        (["--all", "-y", "--no-wait"], 0, f"Stop accepted for {RUNNING} (revision 2, by "),
        (["--dry-run", COMPLETED], 0, f"{COMPLETED} would not be stopped: turn {COMPLETED} is over (completed)\n"),
        (["--dry-run", "--expect-rev", "7", RUNNING], 0, f"{RUNNING} would not be stopped: the task of turn "),
        (["--all", "--dry-run"], 0, f"{RUNNING} (running) would be stopped\n  too late  email.send 'k0': pending\n"),
    ],
)
def test_answers(shelf: Path, capfd: Capture, args: list[str], status: int, said: str) -> None:
    """What was over already, what has moved on, and what was accepted, each with its status."""
    ended = ask(capfd, "stop", *args)

    assert (status, "") == (ended.status, ended.err)
    assert ended.out.startswith(said)


def test_lost_turn_settles(shelf: Path, capfd: Capture) -> None:
    """A turn whose process is gone, and that left nothing, is settled by the stop, and is told as that from then on."""
    ended = ask(capfd, "stop", "--by", "ana", LOST)

    assert (0, "Cancelled, settled.") == (ended.status, ended.out.splitlines()[-1])
    assert f"{LOST} cancelled, settled, " == ask(capfd, "status", LOST).out[: len(LOST) + 21]


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        ([], 2, "say what to stop: one turn or more, --session NAME, or --all"),
        (["-s", "build", RUNNING], 2, "say what to stop: one turn or more, --session NAME, or --all"),
        (["t9z"], 4, "there is no turn t9z"),
        (["-s", "docs"], 4, "no turn runs in session 'docs'"),
        (["--reason", "a\nb", RUNNING], 2, "--reason is a line of text, not 'a\\nb'"),
        (["--by", " ", RUNNING], 2, "--by is a line of text, not ' '"),
        (["--wait", "0s", RUNNING], 2, "--wait"),
        (["--grace", "5", RUNNING], 2, "--grace"),
        (["--all"], 2, f"--all would stop 2 turns ({RUNNING}, {LOST}); say that you mean it: -y"),
    ],
)
def test_misuse_is_told(shelf: Path, capfd: Capture, args: list[str], status: int, message: str) -> None:
    """Wrong use stops nothing, and says what would be right."""
    ended = ask(capfd, "stop", *args)

    assert (status, "") == (ended.status, ended.out)
    assert ended.err.startswith(f"turnctl: error: {message}")
    assert "running" == ask(capfd, "status", RUNNING).out.split()[1].rstrip(",")


def test_plan_is_a_document_too(shelf: Path, capfd: Capture) -> None:
    """--dry-run with --json is the same object, of a stop that was not asked for."""
    plan, over = fits(json.loads(ask(capfd, "stop", "--dry-run", "--json", RUNNING, COMPLETED).out))["stops"]

    assert (False, False, None, "running") == (plan["accepted"], plan["first"], plan["record"], plan["state"])
    assert (None, "already_completed") == (plan["refused"], over["refused"]["code"])


def test_ledger_that_is_held_is_told(shelf: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another program holds the ledger for too long that is told with its number, and nothing is stopped."""
    from turnctl.cli import stopping
    from turnctl.ledger.opening import open_sqlite

    monkeypatch.setattr(stopping, "BUSY_S", 0.1)
    monkeypatch.setattr(stopping, "LOOK_S", 0.1)
    code = (
        f"import sys; sys.path.insert(0, {ROOT!r})\nfrom turnctl.ledger.opening import open_sqlite\n"
        f"open_sqlite({str(shelf / 'ledger.sqlite3')!r}).transact(lambda books: (print('in', flush=True), input()))\n"
    )
    pipe: Any = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as other:
        assert other.stdout is not None
        other.stdout.readline()
        ended = ask(capfd, "stop", RUNNING)
        other.kill()

    assert (5, "") == (ended.status, ended.out)
    assert f"process {other.pid}" in ended.err
    open_sqlite(shelf / "ledger.sqlite3").close()
