"""The list of turns: which are in it, and how it is written for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launch import Ended, ask, finish, start
from schemas import fits
from shelf import IDS, opened

import turnctl
from turnctl.ledger import turnrows

COMPLETED, FAILED, CANCELLED, UNRESOLVED, LOST, RUNNING = IDS

ALL = """\
ID          SESSION  STATE                        BEGAN                 PROCS  EFFECTS  COMMAND
t3ffffffff  build    running                      2026-11-30T12:05:00Z  0      0+1?     make test 'all of it'
t3eeeeeeee  night    lost                         2026-11-30T12:04:00Z  0      0        sleep 99
t2dddddddd  mail     stopped, effects unresolved  2026-11-30T12:03:00Z  0      1+1?     weekly mail
t2cccccccc  -        cancelled, settled           2026-11-30T12:02:00Z  0      0        make all
t1bbbbbbbb  -        failed                       2026-11-30T12:01:00Z  0      0        make check
t1aaaaaaaa  docs     completed                    2026-11-30T12:00:00Z  0      4        sphinx-build docs out
"""
HEADER, *LINES = ALL.splitlines(keepends=True)

Capture = pytest.CaptureFixture[str]


def test_all_are_listed_the_newest_first(shelf: Path, capfd: Capture) -> None:
    """Everything that is on record, as columns, with whole ids and times where nobody looks."""

    assert Ended(0, ALL, "") == ask(capfd, "ps", "-a")


def test_what_goes_on_is_listed(shelf: Path, capfd: Capture) -> None:
    """Without options those that have not told their end: what runs, and what is lost and was noted by nobody."""
    narrow = [line.split("  ")[0] for line in ask(capfd, "ps").out.splitlines()]

    assert ["ID", RUNNING, LOST] == narrow


@pytest.mark.parametrize(
    ("args", "found"),
    [
        (["-a", "-s", "docs"], [COMPLETED]),
        (["-a", "-n", "2"], [RUNNING, LOST]),
        (["-a", "--state", "failed", "--state", "lost"], [LOST, FAILED]),
        (["-a", "--state", "cancelled"], [CANCELLED]),
        (["-a", "--state", "STOPPED_effects_unresolved"], [UNRESOLVED]),
        (["-a", "--since", "2m"], [RUNNING, LOST]),
        (["-a", "--since", "2026-11-30T13:03:00+01:00"], [RUNNING, LOST, UNRESOLVED]),
        (["--since", "31s"], [RUNNING]),
        (["-a", "-s", "nobody's"], []),
    ],
)
def test_some_are_chosen(shelf: Path, capfd: Capture, args: list[str], found: list[str]) -> None:
    """By session, number, state and time; with -q as ids alone."""

    assert Ended(0, "".join(f"{one}\n" for one in found), "") == ask(capfd, "ps", "-q", *args)


def test_times_are_as_asked_for(shelf: Path, capfd: Capture) -> None:
    """Relative, RFC 3339, or seconds."""
    relative = ask(capfd, "ps", "-n1", "--time-format", "relative").out.splitlines()
    epoch = ask(capfd, "ps", "-n1", "--time-format", "epoch").out.splitlines()

    assert "ID          SESSION  STATE    AGE  PROCS  EFFECTS  COMMAND" == relative[0]
    assert "t3ffffffff  build    running  30s  0      0+1?     make test 'all of it'" == relative[1]
    assert "1796040300.000" in epoch[1]


def test_document_and_lines_fit_their_schemas(shelf: Path, capfd: Capture) -> None:
    """--json is one document, --jsonl an object a line, of the same objects."""
    document = fits(json.loads(ask(capfd, "ps", "-a", "--json").out))
    lines = [fits(json.loads(one)) for one in ask(capfd, "ps", "-a", "--jsonl").out.splitlines()]

    assert lines == document["turns"]
    assert list(reversed(IDS)) == [one["turn_id"] for one in lines]
    stopped, lost = lines[2], lines[1]
    assert {"completed": 1, "unknown": 1} == stopped["effects"]["dispositions"]
    assert (True, "ben", "wrong list") == tuple(
        stopped["intent"][name] for name in ("cancel_requested", "by", "reason")
    )
    assert ("lost", "the machine was started again") == (lost["execution"]["state"], lost["execution"]["lost"])
    assert ("make", "test", "all of it") == tuple(lines[0]["command"])


def test_no_ledger_is_no_turns(tmp_path: Path, capfd: Capture) -> None:
    """Where nothing was recorded yet the list is empty, which is said on stderr, and nothing is made."""
    nowhere = tmp_path / "nowhere"
    said = f"turnctl: no turn is on record in {nowhere}\n"

    assert Ended(0, "ID  SESSION  STATE  BEGAN  PROCS  EFFECTS  COMMAND\n", said) == ask(
        capfd, "ps", "--state-dir", str(nowhere)
    )
    assert Ended(0, "", "") == ask(capfd, "ps", "-q", "--state-dir", str(nowhere))
    assert not nowhere.exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--state", "dead"], "--state: 'dead' is no word of state; write one of: running; "),
        (["--state", "comp"], "--state: 'comp' is several words of state; write one of: completed; completed, effects"),
        (["--since", "yesterday"], "--since: 'yesterday' is no time; write 42m for so long ago"),
        (["--since", "42"], "--since: '42' is no time"),
        (["-n", "0"], "--number: '0' is no whole number from 1 on"),
        (["--watch", "0s"], "--watch"),
        (["--json", "--jsonl"], "--json is one document and --jsonl a line for each; give one of them"),
        (["--json", "--watch", "1s"], "--json is one document; with --watch give --jsonl"),
        (["more"], "got unexpected extra argument (more)"),
    ],
)
def test_misuse_is_told(shelf: Path, capfd: Capture, args: list[str], message: str) -> None:
    """Wrong use is 2, with what would be right, and no data but a document that says so where JSON was asked for."""
    status, out, err = ask(capfd, "ps", *args)

    assert (2, "--json" in args) == (status, bool(out))
    assert err.startswith(f"turnctl: error: {message}")


def test_old_state_is_told_with_a_warning(shelf: Path, capfd: Capture) -> None:
    """What a ledger shows that forgot something is shown, and stderr says so; twice -q leaves that out."""
    ledger = shelf / "ledger.sqlite3"
    copy = ledger.read_bytes()
    with turnctl.open_ledger(str(ledger)) as more:
        more.submit("acme", "one more")
    ledger.write_bytes(copy)
    shown, quiet = ask(capfd, "ps"), ask(capfd, "ps", "-qq")
    ledger.unlink()
    gone = ask(capfd, "ps")

    assert (0, 0, "") == (shown.status, quiet.status, quiet.err)
    assert shown.err.startswith(f"turnctl: warning: the ledger {ledger} is behind what it had acknowledged")
    assert (5, "") == (gone.status, gone.out)
    assert "is gone, and its mark is there" in gone.err


def test_names_cannot_move_the_cursor(shelf: Path, capfd: Capture) -> None:
    """What a program calls itself is printed without control characters."""
    from turnctl.cli.table import lines

    assert ["A        B", r"\x1b[2J  x\ny"] == lines(("A", "B"), [("\x1b[2J", "x\ny")])


def test_colour_is_only_where_asked_for(shelf: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in a pipe, not with NO_COLOR, and with --color always; the words are the same."""
    plain = ask(capfd, "ps", "-a").out
    coloured = ask(capfd, "ps", "-a", "--color", "always").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    forced = ask(capfd, "ps", "-a").out
    monkeypatch.setenv("NO_COLOR", "1")

    assert "\x1b[32mcompleted                  \x1b[0m" in coloured
    assert coloured == forced
    assert plain == ask(capfd, "ps", "-a").out


@pytest.mark.parametrize("args", [[], ["--jsonl"]])
def test_watched_changes_are_told(shelf: Path, args: list[str]) -> None:
    """Where nobody looks --watch gives what there is, and then only what has changed, also what has ended."""
    process = start("ps", "--watch", "20ms", *args, env={"TURNCTL_STATE_DIR": str(shelf)})
    assert process.stdout is not None
    first = [process.stdout.readline() for _ in range(2 if args else 3)]
    with opened(shelf) as more:
        more.deal(turnrows.end, RUNNING, "completed")
    later = process.stdout.readline()
    process.terminate()
    rest = finish(process)

    assert [RUNNING, LOST] == [IDS[-1] if RUNNING in one else IDS[-2] for one in first[-2:]]
    assert (True, "") == ("completed, effects unresolved" in later, rest.out)
    assert RUNNING in later
