"""What a turn has printed: in its order, byte for byte or harmless, with what is missing said; and what comes."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from launch import BOUND, Ended, ask, call, finish, start
from schemas import fits
from shelf import IDS, START, At, opened, prints

from turnctl import clock
from turnctl.ledger import turnrows
from turnctl.ledger.spool import Spool, folder_of

COMPLETED, FAILED, CANCELLED, UNRESOLVED, LOST, RUNNING = IDS
Capture = pytest.CaptureFixture[str]


ALL = "compiling a.c\na.c:3: warning\nld: error\nlinking... failed\n"


def test_lines_stand_as_they_came(shelf: Path, capfd: Capture) -> None:
    """Both streams in the order in which their lines were ended."""

    assert Ended(0, ALL, "") == ask(capfd, "logs", FAILED)


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        (["--stream", "err"], "a.c:3: warning\nld: error\n"),
        (["--stream", "stdout"], "compiling a.c\nlinking... failed\n"),
        (["-n", "2"], "ld: error\nlinking... failed\n"),
        (["-n", "0"], ""),
        (["-n", "all"], ALL),
        (["--since", "2026-11-30T12:01:04Z"], "ld: error\nlinking... failed\n"),
        (["--until", "2026-11-30T12:01:02Z"], "compiling a.c\na.c:3: warning\n"),
        (["-t", "-n", "1"], "2026-11-30T12:01:05.000Z linking... failed\n"),
        (["-t", "-n", "1", "--time-format", "epoch"], "1796040065.000 linking... failed\n"),
        (["-f", "-n", "1", "-q"], "linking... failed\n"),
    ],
)
def test_some_are_chosen(shelf: Path, capfd: Capture, args: list[str], shown: str) -> None:
    """By stream, number and time."""

    assert Ended(0, shown, "") == ask(capfd, "logs", *args, FAILED)


def test_events_stand_between_lines(shelf: Path, capfd: Capture) -> None:
    """What the ledger has of the turn, at its time, with the names of streams."""
    lines = ask(capfd, "logs", "-t", "--stream", "events", "--stream", "out", FAILED).out.splitlines()

    assert "2026-11-30T12:01:00.000Z events | turn.begun t1bbbbbbbb by worker" in lines
    assert "2026-11-30T12:01:01.000Z stdout | compiling a.c" in lines
    assert sorted(line[:24] for line in lines) == [line[:24] for line in lines]


def test_document_and_lines_fit_their_schemas(shelf: Path, capfd: Capture) -> None:
    """--json is one document, --jsonl an object a line, of the same objects."""
    args = ["logs", "--stream", "events", "--stream", "err", FAILED]
    document = fits(json.loads(ask(capfd, *args, "--json").out))
    lines = [fits(json.loads(one)) for one in ask(capfd, *args, "--jsonl").out.splitlines()]

    assert lines == document["lines"]
    assert ["stderr", "stdout", "events"] == document["streams"]
    assert ("2026-11-30T12:01:02.000Z", "a.c:3: warning", True, None) == tuple(
        next(one for one in lines if one["stream"] == "stderr")[name] for name in ("at", "text", "is_ended", "event")
    )
    assert {"turn.begun"} <= {one["event"]["kind"] for one in lines if one["stream"] == "events"}


def test_cut_is_told_where_it_is(shelf: Path, capfd: Capture) -> None:
    """The beginning and the end are never one text: between them stands how much is missing."""
    prints(shelf, COMPLETED, ("stdout", b"beginning" * 2 + b"lost" * 50 + b"the end\n"), limit=32)
    mark = "[turnctl: 200 bytes of stdout are missing here: they were not kept]"
    lines = [fits(json.loads(one)) for one in ask(capfd, "logs", COMPLETED, "--jsonl").out.splitlines()]

    assert f"beginningbeginni\n{mark}\nstthe end\n" == ask(capfd, "logs", COMPLETED).out
    assert [(0, False), (200, True), (0, True)] == [(one["missing"], one["is_ended"]) for one in lines]


def test_bytes_are_as_they_came(shelf: Path) -> None:
    """Where no person looks nothing is changed, added or left out, also what is no text."""
    data = bytes(range(256)) * 300 + b"no end"
    prints(shelf, COMPLETED, ("stdout", data))
    out = shelf / "out"
    before = f"import os; os.dup2(os.open({str(out)!r}, os.O_WRONLY | os.O_CREAT, 0o600), 1)"

    assert 0 == call("logs", COMPLETED, before=before, env={"TURNCTL_STATE_DIR": str(shelf)}).status
    assert data == out.read_bytes()


def test_what_is_no_text_is_told_in_json(shelf: Path, capfd: Capture) -> None:
    """As text that can be read, and as the bytes."""
    prints(shelf, COMPLETED, ("stdout", b"\xff\x1b[2J no end"))
    found = fits(json.loads(ask(capfd, "logs", COMPLETED, "--jsonl").out))

    assert ("\\xff\x1b[2J no end", False, "/xtbMkogbm8gZW5k") == (found["text"], found["is_ended"], found["base64"])


@pytest.mark.parametrize(
    ("data", "plain", "coloured"),
    [
        (b"tab\tand \xc3\xa9\xe2\x9c\x93", "tab\tand é✓", "tab\tand é✓"),
        (b"a\x1b]0;title\x07b", "a\\x1b]0;title\\x07b", "a\\x1b]0;title\\x07b"),
        (b"\x1b[2J\x1b[31mred", "\\x1b[2Jred", "\\x1b[2J\x1b[31mred\x1b[0m"),
        (b"10%\r20%\r", "10%\\x0d20%", "10%\\x0d20%"),
        (b"\xc2\x9b2J\xff", "\\x9b2J\\xff", "\\x9b2J\\xff"),
        ("rm \u202etxt\u2028".encode(), "rm \\u202etxt\\u2028", "rm \\u202etxt\\u2028"),
        (b"\x1b[31\x1b[0m;m", "\\x1b[31;m", "\\x1b[31\x1b[0m;m\x1b[0m"),
    ],
)
def test_terminal_cannot_be_moved(data: bytes, plain: str, coloured: str) -> None:
    """What can be seen and colours go to a terminal; all else stands there as what it is."""
    from turnctl.cli.logtext import harmless

    assert (plain, coloured) == (harmless(data, is_coloured=False), harmless(data, is_coloured=True))


def test_unknown_times_are_told(shelf: Path, capfd: Capture) -> None:
    """Output that an earlier version kept is shown whole, stream by stream, and that times do not count is said."""
    folder = Path(folder_of(str(shelf), FAILED))
    for file in folder.glob("*.times.*"):
        file.unlink()

    whole = "a.c:3: warning\nld: error\ncompiling a.c\nlinking... failed\n"
    assert Ended(0, whole, "") == ask(capfd, "logs", FAILED)
    assert "- ld: error\n" == ask(capfd, "logs", "-t", "--stream", "err", "-n1", FAILED).out
    assert Ended(
        0,
        whole,
        "turnctl: note: not all times of stderr are known, and what has none is shown\n"
        "turnctl: note: not all times of stdout are known, and what has none is shown\n",
    ) == ask(capfd, "logs", "--since", "1s", FAILED)


def _change(folder: Path, sql: str, *values: object) -> None:
    connection = sqlite3.connect(folder / "ledger.sqlite3")
    connection.execute("DROP TRIGGER turn_stays")
    connection.execute(sql, values)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("args", "output", "word", "message"),
    [
        ([], None, "no_log", "nothing of what t1aaaaaaaa printed is kept: it was run with --no-log"),
        (
            [],
            {"streams": {"stdout": "a terminal, which is not kept", "stderr": "closed"}},
            "no_log",
            "nothing of what t1aaaaaaaa printed is kept (stdout: a terminal, which is not kept; stderr: closed)",
        ),
        (
            ["--stream", "err"],
            {"streams": {"stdout": "stdout", "stderr": "closed"}},
            "no_log",
            "stderr of t1aaaaaaaa is not kept: closed",
        ),
        (["--stream", "model"], {"streams": {"stdout": "stdout"}}, "no_such_log", "t1aaaaaaaa has no stream 'model'"),
    ],
)
def test_what_is_not_kept_is_told(
    shelf: Path, capfd: Capture, args: list[str], output: Any, word: str, message: str
) -> None:
    """Why there is nothing to show, at once, also for who would wait; 4, and a word for programs."""
    _change(shelf, "UPDATE turn SET output = ? WHERE turn_id = ?", output and json.dumps(output), COMPLETED)
    status, out, err = ask(capfd, "logs", "-f", "--jsonl", *args, COMPLETED)

    assert (4, word, message) == (status, *(fits(json.loads(out))[name] for name in ("code", "message")))
    assert err.startswith(f"turnctl: error: {message}\nturnctl: hint: ")


def test_nothing_shelf_is_nothing(shelf: Path, capfd: Capture) -> None:
    """A turn whose streams are kept and empty, and a program's own turn: no output, no error."""
    _change(shelf, "UPDATE turn SET output = ? WHERE turn_id = ?", '{"streams": {"stdout": "stdout"}}', COMPLETED)

    assert Ended(0, "", "") == ask(capfd, "logs", COMPLETED)
    assert Ended(0, "", "") == ask(capfd, "logs", UNRESOLVED)


def test_what_was_lost_is_told(shelf: Path, capfd: Capture) -> None:
    """Bytes that came and found no room, files that somebody has removed, a stream that is not kept: each is said."""
    kept = {"stdout": {"bytes": 50, "not_kept": 18, "problem": "No space left on device"}, "stderr": {"bytes": 25}}
    output = {"streams": {"stdout": "stdout", "stderr": "stderr", "other": "closed"}, "kept": kept}
    _change(shelf, "UPDATE turn SET output = ? WHERE turn_id = ?", json.dumps(output), FAILED)
    shown = ask(capfd, "logs", FAILED)

    assert shown.out == ALL + "[turnctl: 18 bytes of stdout are missing here: they were not kept]\n"
    assert (
        "turnctl: note: other is not kept: closed\n"
        "turnctl: note: 18 bytes of stdout found no room: No space left on device\n"
    ) == shown.err
    shutil.rmtree(folder_of(str(shelf), FAILED))

    assert (
        "[turnctl: 50 bytes of stdout are missing here: they were not kept]\n"
        "[turnctl: 25 bytes of stderr are missing here: they were not kept]\n"
    ) == ask(capfd, "logs", "-q", FAILED).out


def test_pruned_is_told(shelf: Path, capfd: Capture) -> None:
    """A turn whose record was taken away is not just unknown."""
    with clock.use(At(START + 10**8)):
        assert 0 == ask(capfd, "ledger", "prune", "--older-than", "30d").status
    status, out, err = ask(capfd, "logs", "i-2")

    assert (4, "") == (status, out)
    assert err.startswith("turnctl: error: i-2 was purged, and what it printed with it\n")
    assert 4 == ask(capfd, "logs", FAILED).status


# -- what comes -------------------------------------------------------------------------------------------------------


def _end(folder: Path, outcome: Any = "completed") -> None:
    with opened(folder) as shelf:
        shelf.deal(turnrows.end, RUNNING, outcome)


def test_following_ends_with_the_turn(shelf: Path, capfd: Capture, beside: Any) -> None:
    """What is printed while it is followed comes, the first of it in a new folder, and then how the turn stands."""
    made = Spool(str(shelf), RUNNING)

    def go_on() -> None:
        stream = made.stream("stdout")
        for data in (b"one\ntw", b"o\nlast"):
            stream.write(data)
        made.close()
        _end(shelf)

    beside(go_on)

    assert Ended(0, "one\ntwo\nlast", f"turnctl: {RUNNING} completed, effects unresolved\n") == ask(
        capfd, "logs", "-f", RUNNING
    )


def test_following_ends_with_a_lost_process(shelf: Path, capfd: Capture) -> None:
    """Where the agent is gone nothing more can come, and why is said."""
    prints(shelf, LOST, ("stdout", b"working\n"))

    assert Ended(0, "working\n", f"turnctl: {LOST} lost: the machine was started again\n") == ask(
        capfd, "logs", "-f", LOST
    )


@pytest.mark.parametrize("args", [["logs", "-f"], ["watch"]])
def test_following_ends_with_its_reader(shelf: Path, args: list[str]) -> None:
    """``| grep -m1 ready`` does not wait for the next line."""
    prints(shelf, RUNNING, ("stdout", b"ready\n"))
    follower = start(*args, "@", env={"TURNCTL_STATE_DIR": str(shelf)})
    assert follower.stdout is not None
    follower.stdout.readline()
    follower.stdout.close()
    follower.stdout = None

    assert -signal.SIGPIPE == follower.wait(BOUND)
    assert follower.stderr is not None
    assert "" == follower.stderr.read()
    follower.stderr.close()


def test_following_is_told_of_a_purge(shelf: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn whose record goes while it is followed is told of, after what it had printed."""
    prints(shelf, RUNNING, ("stdout", b"working\n"))
    monkeypatch.setattr("turnctl.ledger.glance.Glances.named", lambda *_: [])
    status, out, err = ask(capfd, "logs", "-f", "session:build")

    assert (4, "working\n") == (status, out)
    assert err.startswith(f"turnctl: error: {RUNNING} was purged while it was shown\n")


def test_following_sees_the_agent_killed(shelf: Path) -> None:
    """With a real run that is killed: what it had printed, and that it is lost, soon."""
    env = {"TURNCTL_STATE_DIR": str(shelf), "TURNCTL_RUN_RECORD": "required"}
    agent = start("run", "-q", "--", "bash", "-c", "echo working; sleep 30", env=env)
    assert agent.stdout is not None
    agent.stdout.readline()
    follower = start("logs", "-f", "--stream", "out", "@", env=env)
    assert follower.stdout is not None
    first = follower.stdout.readline()
    agent.kill()
    ended = finish(follower)
    finish(agent)

    assert ("working\n", 0, "") == (first, ended.status, ended.out)
    assert " lost: there is no process " in ended.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-n", "few"], "--lines: 'few' is no number of lines; write 50, or all"),
        (["--since", "42"], "--since: '42' is no time"),
        (["-f", "--json"], "--json is one document; with -f give --jsonl"),
        (["-f", "--until", "1m"], "-f goes on with what comes, and --until is of what came; give one of them"),
        (["--jsonl", "--json"], "--json is one document and --jsonl a line for each; give one of them"),
    ],
)
def test_misuse_is_told(shelf: Path, capfd: Capture, args: list[str], message: str) -> None:
    """Wrong use is 2, with what would be right, and no data but a document that says so where JSON was asked for."""
    status, out, err = ask(capfd, "logs", *args, RUNNING)

    assert (2, "--json" in args) == (status, bool(out))
    assert err.startswith(f"turnctl: error: {message}")


def test_no_such_turn_is_told(shelf: Path, capfd: Capture) -> None:
    """As by the other commands."""

    assert (4, "turnctl: error: there is no turn t9x\n") == (
        ask(capfd, "logs", "t9x").status,
        ask(capfd, "logs", "t9x").err.splitlines(keepends=True)[0],
    )
