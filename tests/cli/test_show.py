"""All that is known of one turn, intent, execution and effects apart."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from forked import ran
from launch import Ended, ask, start
from schemas import fits
from shelf import IDS

COMPLETED, FAILED, CANCELLED, UNRESOLVED, LOST, RUNNING = IDS

Capture = pytest.CaptureFixture[str]

WHOLE = """\
t2dddddddd  stopped, effects unresolved
  name       weekly mail
  session    mail
  task       acme/job-4 (incarnation i-4), promise no-new-actions
  began      2026-11-30T12:03:00Z
  ended      2026-11-30T12:03:10Z
intent
  stop requested by ben: wrong list, 2026-11-30T12:03:06Z
execution
  process PID has told its end: ended
activities: none on record
effects
  e-d0  email.send 'k0', admitted 2026-11-30T12:03:01Z: completed, msg-e-d0
  e-d1  email.send 'k1', admitted 2026-11-30T12:03:04Z: unknown; somebody has to decide (page)
events (the last 10 of 19)
  2026-11-30T12:03:05Z  effect.claimed e-d1 by worker
  2026-11-30T12:03:06Z  effect.unknown e-d1 by worker
  2026-11-30T12:03:06Z  cancel.accepted cr-i-4 by ben
  2026-11-30T12:03:06Z  task.cancel_requested i-4 by ben
  2026-11-30T12:03:08Z  worker.acknowledged lease 1 by worker
  2026-11-30T12:03:08Z  task.draining i-4 by worker
  2026-11-30T12:03:09Z  lease.given_back lease 1 by worker
  2026-11-30T12:03:09Z  task.left i-4 by worker
  2026-11-30T12:03:09Z  task.stopped_unresolved i-4 by worker
  2026-11-30T12:03:10Z  turn.ended t2dddddddd by worker
"""


def test_turn_is_shown_whole(shelf: Path, capfd: Capture) -> None:
    """Who asked for the stop, what ended, what got out and who has to decide, and what happened last."""

    assert Ended(7, WHOLE.replace("PID", str(os.getpid())), "") == ask(capfd, "show", "t2d")


@pytest.mark.parametrize(
    ("turn", "status", "words"),
    [
        (RUNNING, 0, ["no stop was asked for", f"process {os.getpid()} works on it", "  folder     /srv/app"]),
        (LOST, 1, ["no stop was asked for", "ended without a word: the machine was started again"]),
        (CANCELLED, 3, ["stop requested by ana: wrong repo", "effects: none on record"]),
        (COMPLETED, 0, ["  command    sphinx-build docs out", "completed, msg-e-a2", "rejected, msg-e-a3"]),
    ],
)
def test_three_facts_are_apart(shelf: Path, capfd: Capture, turn: str, status: int, words: list[str]) -> None:
    """Intent, execution and effects each say what is on record of them alone; the status is that of ``status``."""
    ended = ask(capfd, "show", turn)

    assert status == ended.status
    assert all(word in ended.out for word in words), ended.out


@pytest.mark.parametrize(
    ("option", "first", "lines"),
    [("--events", "events", 20), ("--effects", "effects", 3), ("--processes", "activities: none on record", 1)],
)
def test_one_block_is_shown(shelf: Path, capfd: Capture, option: str, first: str, lines: int) -> None:
    """Each option shows its block alone; of the events all."""
    shown = ask(capfd, "show", option, "t2d").out.splitlines()

    assert (first, lines) == (shown[0], len(shown))


def test_document_fits_its_schema(shelf: Path, capfd: Capture) -> None:
    """--json has all of it, for each of the turns."""
    for turn in IDS:
        found = fits(json.loads(ask(capfd, "show", "--json", turn).out))

        assert turn == found["turn"]["turn_id"]
        assert fits(found["turn"])
    assert list(range(1, len(found["events"]) + 1)) == [one["n"] for one in found["events"]]


def test_run_is_shown_with_its_process_and_output(tmp_path: Path) -> None:
    """A command that was run is shown with its process, how that ended, and how much of its output is kept."""
    env = {"TURNCTL_STATE_DIR": str(tmp_path / "state"), "TURNCTL_RUN_RECORD": "yes"}
    ran("run", "--", "sh", "-c", "echo hello; exit 3", env=env)
    ended = ran("show", "@", env=env)
    found = fits(json.loads(ran("show", "@", "--json", env=env).out))
    (process,) = found["activities"]

    assert "  output     stdout 6 bytes" in ended.out
    assert f"  process {process['process']} sh" in ended.out
    assert "has told its end: ended; its command exited with 3\n" in ended.out
    assert ("process", True) == (process["kind"], process["stopped"])
    assert 3 == found["report"]["processes"][0]["returncode"]
    assert "turnctl.turn/1" == found["report"]["schema"]


def test_output_of_a_killed_run_is_shown(tmp_path: Path) -> None:
    """What is kept of a turn that never told its end is read from its files, for people and for programs."""
    env = {"TURNCTL_STATE_DIR": str(tmp_path / "state"), "TURNCTL_RUN_RECORD": "yes"}
    with start("run", "--", "sh", "-c", "echo hello; exec sleep 60", env=env) as process:
        assert process.stdout is not None
        assert "hello\n" == process.stdout.readline()
        running = ran("show", "@", env=env).out
        process.kill()
        process.communicate(timeout=15)
    killed = ran("show", "@", env=env).out
    found = fits(json.loads(ran("show", "@", "--json", env=env).out))

    assert ["  output     stdout 6 bytes" in one for one in (running, killed)] == [True, True]
    assert {"stdout": {"bytes": 6}} == found["output"]["kept"]


@pytest.mark.parametrize(("args", "status"), [(["t9z"], 4), ([], 2), (["@", "@"], 2)])
def test_misuse_is_told(shelf: Path, capfd: Capture, args: list[str], status: int) -> None:
    """What is not there is 4, wrong use is 2."""
    ended = ask(capfd, "show", *args)

    assert (status, "") == (ended.status, ended.out)


def test_joint_streams_of_a_lost_run_are_not_told_twice(shelf: Path, capfd: Capture) -> None:
    """That stdout and stderr were one pipe is no output; where nothing is kept, that is what is said."""
    told = json.dumps({"streams": {"stdout": "stdout+stderr", "stderr": "stdout+stderr"}})
    with closing(sqlite3.connect(shelf / "ledger.sqlite3")) as there, there:
        there.execute("UPDATE turn SET output = ? WHERE turn_id = ?", (told, LOST))

    assert "  output     none was kept\n" in ask(capfd, "show", LOST).out
