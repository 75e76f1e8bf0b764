"""Programs on trial: stopped at each place in a run of its own, and what did not stop well is told with its place."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import alive
from launch import ROOT, ask, finish, start
from schemas import fits
from standins import until
from warding import tag as some_tag

from turnctl.cli.trials.places import Checkpoint, Delay, Line, chosen_checkpoints, chosen_moments
from turnctl.tokens.turn import TurnCore
from turnctl.waiting import trialled

Capture = pytest.CaptureFixture[str]

_HEAD = f"""\
import os, sys, time
sys.path.insert(0, {ROOT!r})
import turnctl
"""
_SWALLOWS = f"""{_HEAD}
def tool(turn):
    try:
        turn.check()  # line 7
    except BaseException:
        print("never mind", flush=True)

with turnctl.turn() as turn:
    assert "TURNCTL_TRIAL" not in os.environ
    turn.check()  # line 13
    tool(turn)
    turn.check()  # line 15
"""
_ILL = f"""{_HEAD}
import subprocess
with turnctl.open_ledger() as ledger:
    task = ledger.submit("acme", "job")  # new in each run, or it would be cancelled by then
    with turnctl.turn(task=task) as turn, turn.effect("mail.send", key="k", payload="x") as sent:
        try:
            turn.check()
        except turnctl.CancelledError:
            subprocess.Popen(["sleep", "60"])
            raise
        sent.complete(receipt="250 ok")
"""
_LATE = f"""{_HEAD}
with turnctl.turn() as turn:
    try:
        turn.check()
    except turnctl.CancelledError:
        time.sleep(60)
"""


def tried(capfd: Capture, *args: str, status: int) -> dict[str, Any]:
    """The document of a trial."""
    ended = ask(capfd, "trial", "--json", *args)
    found: dict[str, Any] = fits(json.loads(ended.out))

    assert status == ended.status, ended.err
    return found


def program(folder: Path, text: str) -> list[str]:
    (folder / "agent.py").write_text(text)
    return ["--", sys.executable, "agent.py"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# -- programs with turns ------------------------------------------------------------------------------------------


def test_each_checkpoint_is_tried(folder: Path, capfd: Capture) -> None:
    """Three places, three runs; where the stop was swallowed that is told, with the line that did it."""
    found = tried(capfd, *program(folder, _SWALLOWS), status=1)
    stops = found["stops"]

    assert ("checkpoints", 3, 1) == (found["stopped_at"], found["places"], found["problems"])
    assert [13, 7, 15] == [one["at"]["line"] for one in stops]
    assert [True] * 3 == [one["reached"] and one["over_s"] < 2 for one in stops]
    assert [[], ["swallowed"], []] == [[problem["kind"] for problem in one["problems"]] for one in stops]
    assert [0, 1, 0] == [one["after"]["checkpoints"] for one in stops]
    assert [0, 1, 0] == [one["after"]["lines"] for one in stops]
    text = stops[1]["problems"][0]["text"]
    assert re.search(r"^the stop was swallowed at \S+agent.py:8 in tool: raised at \S+:7 in tool, and it went on", text)
    assert "agent.py:7 in tool" == stops[1]["at"]["text"]


def test_what_is_left_is_told(folder: Path, capfd: Capture) -> None:
    """A process that goes on, and an effect of which nobody knows; and that each run has a ledger of its own."""
    found = tried(capfd, "--max-stops", "1", "--seed", "5", *program(folder, _ILL), status=1)
    (stop,) = found["stops"]

    assert (10, ["1 of 2 places are left out: more than --max-stops 1"]) == (stop["at"]["line"], found["notes"])
    assert ["leaking", "unresolved"] == [one["kind"] for one in stop["problems"]]
    assert "it ended and left something running: sleep" == stop["problems"][0]["text"]
    assert (1, 1, 0) == (stop["effects_unresolved"], len(stop["left"]), stop["exit"]["code"])


def test_ledger_that_cannot_be_read_is_told(folder: Path, capfd: Capture) -> None:
    """Nobody knows then how many effects are unresolved: that is a question mark and a null, and no nought."""
    text = f"{_HEAD}\nfolder = os.environ['TURNCTL_STATE_DIR']\nos.mkdir(folder, 0o700)\n"
    text += "open(os.open(f'{folder}/ledger.sqlite3', os.O_CREAT | os.O_WRONLY, 0o600), 'w').write('x' * 4096)\n"
    command = ("--max-stops", "1", *program(folder, f"{text}with turnctl.turn() as turn:\n    turn.check()\n"))
    (stop,) = tried(capfd, *command, status=1)["stops"]
    table = ask(capfd, "trial", *command).out
    said = "nobody knows what became of its effects: reading its ledger failed (SQLITE_NOTADB: file is not a database)"

    assert (None, [{"kind": "unresolved", "text": said}]) == (stop["effects_unresolved"], stop["problems"])
    assert re.search(r"\n\S+ +0 +0 +0 +\? +unresolved +agent.py:\d+ in <module>\n", table)
    assert f"\n  unresolved: {said}\n" in table


def test_turn_that_is_not_over_in_time_is_ended(folder: Path, capfd: Capture) -> None:
    """A turn that goes on for longer than the grace is late, and its program is ended from outside; as a table."""
    ended = ask(capfd, "trial", "--grace", "200ms", *program(folder, _LATE))
    expected = (
        "OVER  EXIT     LINES  LEFT  EFFECTS  PROBLEMS  STOPPED AT\n"
        "-     SIGTERM  0      0     0        late      agent.py:7 in <module>\n"
        "1 stop: 1 problem\n"
        "  late: its turn was not over 200ms after the stop\n"
        "    stopped at agent.py:7 in <module>\n"
    )

    assert (1, expected, "") == ended


def test_value_that_is_none_arms_nobody(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Whatever stands in the variable, a program is not harmed; a second process of a trial is not armed."""
    begin = TurnCore.begin
    (folder / "claim").touch()
    for value in ("", "nonsense", "[]", "{}", json.dumps({"claim": str(folder / "claim"), "pipe": "/nowhere"})):
        monkeypatch.setenv(trialled.VARIABLE, value)
        trialled.arm()

        assert begin is TurnCore.begin


# -- programs without turns ---------------------------------------------------------------------------------------


def test_program_without_turns_is_stopped_at_its_lines(folder: Path, capfd: Capture) -> None:
    """At its start, behind each line of its output, and at some moments; each line of JSON when it is known."""
    ended = ask(capfd, "trial", "--jsonl", "--", "sh", "-c", "echo one; sleep 0.2; echo two; sleep 0.2")
    stops = [fits(json.loads(line)) for line in ended.out.splitlines()]
    lines = [one for one in stops if one["at"]["kind"] == "line"]

    assert 0 == ended.status
    assert ["delay", "line", "line", *["delay"] * 3] == [one["at"]["kind"] for one in stops]
    assert [(True, "SIGTERM", 0)] * 2 == [
        (one["reached"], one["exit"]["signal"], one["after"]["lines"]) for one in lines
    ]
    assert all(one["ended_s"] < 2 for one in lines)


def test_moments_are_those_that_were_asked_for(capfd: Capture) -> None:
    """With --at nothing is run without a stop; one that has to be killed is a problem, one that ended before is not."""
    ended = ask(capfd, "trial", "--at", "1h", "--timeout", "2h", "--at", "300ms", "--grace", "100ms", "--", *_DEAF)
    expected = (
        r"OVER  +EXIT     LINES  LEFT  EFFECTS  PROBLEMS     STOPPED AT\n"
        r"\S+ +SIGKILL  0      0     0        killed       after 300ms\n"
        r"-  +-        -      -     -        not reached  after 1h\n"
        r"2 stops: 1 problem\n"
        r"  killed: 2 processes had to be killed: not ended 100ms after being asked by SIGTERM\n"
        r"    stopped after 300ms\n"
    )

    assert 1 == ended.status
    assert re.fullmatch(expected, ended.out), ended.out
    assert "turnctl: not reached again: after 1h\n" == ended.err


#: for some time deaf to SIGTERM
_DEAF = ("sh", "-c", "trap '' TERM; sleep 0.9; exit 0")


def test_setup_and_check_are_called_for_each_run(folder: Path, capfd: Capture) -> None:
    """Before and after each; a check that fails is a problem of that stop, one of the setup ends the trial."""
    args = ("--setup", "echo s >> log", "--check", "echo c >> log; echo torn; false", "--at", "50ms", "sleep", "9")
    (stop,) = tried(capfd, *args, status=1)["stops"]
    ended = ask(capfd, "trial", "--setup", "echo full; exit 4", "true")

    assert "s\nc\n" == (folder / "log").read_text()
    text = "echo c >> log; echo torn; false failed with 1: torn"
    assert [{"kind": "breaking", "text": text}] == stop["problems"]
    assert (1, True) == (ended.status, "error: --setup: echo full; exit 4 failed with 4: full\n" in ended.err)


def test_interrupted_trial_tells_what_it_has_found(folder: Path) -> None:
    """Ctrl-C ends the run that goes on, with its tree; what was found is told, nothing is left, and it dies of it."""
    tag = some_tag()
    (folder / "tmp").mkdir()
    argv = ("trial", "--at", "100ms", "--at", "50s", "--", "sh", "-c", f"echo up >> log; sleep {tag}; true")
    with start(*argv, cwd=folder, env={"TMPDIR": str(folder / "tmp")}) as process:
        assert until(lambda: (folder / "log").exists() and 2 == len((folder / "log").read_text().split()))
        process.send_signal(signal.SIGINT)
        ended = finish(process)

    assert (-signal.SIGINT, "turnctl: interrupted: 1 of 2 places were tried\n") == (ended.status, ended.err)
    assert "1 stop: no problem" == ended.out.splitlines()[-1]
    assert ([], []) == (alive(tag), list((folder / "tmp").iterdir()))


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        ([], 2, "no command was given; say what to try, such as: turnctl trial -- python agent.py"),
        (["--at", "2s", "--timeout", "1s", "true"], 2, "--at is not before --timeout, which is 1s; give it more"),
        (["--max-stops", "0", "true"], 2, "--max-stops"),
        (["no-such-tool"], 2, "command not found: no-such-tool"),
        (["--at", "5ms", "no-such-tool"], 2, "command not found: no-such-tool"),
        (["--at", "5ms", "/"], 2, "cannot execute /: "),
        (["/"], 2, "cannot execute /: Permission denied"),
        (["sh", "-c", "echo 'no model' >&2; exit 3"], 1, "it failed with 3 without any stop: no model"),
        (["sh", "-c", "kill -9 $$"], 1, "it died of SIGKILL without any stop"),
        (["--timeout", "200ms", "sleep", "9"], 6, "it had not ended 200ms after its start, without any stop"),
        (["--check", "false", "true"], 1, "the check fails without any stop: false failed with 1"),
    ],
)
def test_what_shows_nothing_is_refused(capfd: Capture, args: list[str], status: int, message: str) -> None:
    """A program that cannot be run, or does not come to a good end by itself, is told with what to do."""
    ended = ask(capfd, "trial", *args)

    assert (status, "") == (ended.status, ended.out)
    assert ended.err.startswith(f"turnctl: error: {message}"), ended.err


# -- which places -------------------------------------------------------------------------------------------------


def test_each_line_is_tried_before_any_again() -> None:
    """Of many checkpoints the distinct lines come first; the rest is chance, the same for a seed, in their order."""
    seen = [Checkpoint("a.py", line, "f", nth) for nth in range(1, 6) for line in (1, 2, 3)]
    five = chosen_checkpoints(seen, 5, 1)

    assert seen == chosen_checkpoints(seen, 15, 1)
    assert ([1, 2, 3], 5) == ([one.line for one in five if one.nth == 1], len(five))
    assert sorted(five, key=seen.index) == list(five) == list(chosen_checkpoints(seen, 5, 1))
    assert 2 == len(chosen_checkpoints(seen, 2, 1))


def test_moments_are_lines_and_some_by_chance() -> None:
    """The start, the lines, and three moments within its time; never more than were asked for."""
    moments = chosen_moments(3, 2.0, 50, 1)

    assert [Delay(0.0), Line(1), Line(2), Line(3)] == list(moments[:4])
    assert [True] * 3 == [isinstance(one, Delay) and 0 <= one.seconds <= 2 for one in moments[4:]]
    assert [3, 10] == [len(chosen_moments(100, 2.0, most, 1)) for most in (3, 10)]
    assert ["after line 1", "at its start", "after 1.5s"] == [str(one) for one in (Line(1), Delay(0.0), Delay(1.5))]
