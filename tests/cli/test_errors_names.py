"""Names of turns that mean none, several, or nothing at all, in every command that takes one: words, and status."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from everycommand import IN_JSON, OF_TURNS, argv, paths
from launch import Ended, ask
from schemas import fits
from shelf import opened

from turnctl.cli.group import cli

Capture = pytest.CaptureFixture[str]

LISTED = "turnctl ps -a lists those that are on record"
BUNDLE_LISTED = "turnctl ps -a lists the turns that are on record"
RUNS = "turnctl ps shows what runs, and where; turnctl ps -a -s NAME what ran in a session"
FORMS = "give an id or the beginning of one, @ for the newest, @2 for the one before, or session:NAME"
LONG = "x" * 100_000

#: name: (status, word, message, hint); a message that ends in ... begins so
NAMES = {
    "t9zzz": (4, "no_such_turn", "there is no turn t9zzz", LISTED),
    "t2": (2, "bad_name", "'t2' is too short: the beginning of an id needs 3 letters", LISTED),
    "%": (2, "bad_name", "'%' is too short: the beginning of an id needs 3 letters", LISTED),
    "": (2, "bad_name", "'' is no name of a turn", FORMS),
    "../../etc": (4, "no_such_turn", "there is no turn ../../etc", LISTED),
    "/etc/passwd": (4, "no_such_turn", "there is no turn /etc/passwd", LISTED),
    "t3' OR 1=1 --": (4, "no_such_turn", "there is no turn t3' OR 1=1 --", LISTED),
    "türn☃": (4, "no_such_turn", "there is no turn türn☃", LISTED),
    "a\0b": (2, "bad_name", "'a\\x00b' is no name of a turn", FORMS),
    "t3\x1b[2J": (2, "bad_name", "'t3\\x1b[2J' is no name of a turn", FORMS),
    "t3\nturnctl: fine": (2, "bad_name", "'t3\\nturnctl: fine' is no name of a turn", FORMS),
    "t3\u202e": (2, "bad_name", "'t3\\u202e' is no name of a turn", FORMS),
    "t\udcff3": (2, "bad_name", "'t\\udcff3' is no name of a turn", FORMS),
    LONG: (2, "bad_name", f"'{'x' * 40}...' is no name of a turn: it is too long", FORMS),
    "@9": (4, "no_such_turn", "fewer than 9 turns are on record", LISTED),
    "@0": (2, "bad_name", "'@0' is no name of a turn", FORMS),
    "@-1": (2, "bad_name", "'@-1' is no name of a turn", FORMS),
    "@²": (2, "bad_name", "'@²' is no name of a turn", FORMS),
    "@99999999999999999999": (4, "no_such_turn", "fewer than 99999999999999999999 turns are on record", LISTED),
    "session:docs": (*(4, "no_such_turn", "no turn runs in session 'docs'", RUNS),),
    "session:": (2, "bad_name", "'session:' names no session; is a variable in it not set?", FORMS),
    "session:\0": (*(4, "no_such_turn", "no turn runs in session '\\x00'", RUNS),),
    "tzz": (4, "ambiguous", "tzz fits several turns: tzz1, tzz0", "give more of its letters"),
}


def expected_of(command: str, name: str) -> tuple[int, str, str, str]:
    """``bundle`` takes incarnations as well, and says so."""
    status, word, message, hint = NAMES[name]
    if command == "bundle":
        message = message.replace("there is no turn ", "there is no turn or incarnation ")
        message = message.replace(" fits several turns: ", " fits several: ")
        hint = BUNDLE_LISTED if hint == LISTED and not name.startswith("@") else hint
    return status, word, message, hint


@pytest.mark.parametrize("command", OF_TURNS)
def test_bad_name_is_told(shelf: Path, capfd: Capture, command: str) -> None:
    """Each with its status and its word; the message is a line, whatever the name has in it."""
    with opened(shelf) as more:
        more.turn("tzz0", task="more-0")
        more.turn("tzz1", task="more-1")
    for name in NAMES:
        found = ask(capfd, *argv(command, "--json", turn=name))
        told = fits(json.loads(found.out))
        got = (found.status, *(told[key] for key in ("code", "message", "hint")))
        expected = expected_of(command, name)
        if expected[1] == "ambiguous":  # which one is named first is not promised
            got = (*got[:2], got[2].replace("tzz0, tzz1", "tzz1, tzz0"), got[3])

        assert expected == got
        assert f"turnctl: error: {told['message']}\nturnctl: hint: {told['hint']}\n" == found.err
    assert 2 == ask(capfd, *argv(command, turn="-x")).status
    assert not Path("/nowhere").exists()


def test_bad_names_are_told_without_a_ledger(tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no name is that before anybody looks for it."""
    monkeypatch.setenv("TURNCTL_STATE_DIR", str(tmp_path / "none"))
    for command in sorted(set(OF_TURNS) - {"bundle"}):
        found = ask(capfd, *argv(command, turn="a\0b"))

        assert Ended(2, "", f"turnctl: error: 'a\\x00b' is no name of a turn\nturnctl: hint: {FORMS}\n") == found


@pytest.mark.parametrize("command", ["effects show", "reconcile --effect"])
@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("e-zzz", 4, "there is no effect e-zzz"),
        ("e-", 2, "'e-' is too short: the beginning of an id needs 3 letters"),
        ("e-a", 4, "e-a fits several effects: e-a0, e-a1, e-a2, e-a3"),
        ("a\0b", 2, "'a\\x00b' is no name of an effect"),
        ("session:a\nb", 2, "'session:a\\nb' is no name of an effect"),
        (LONG, 2, f"'{'x' * 40}...' is no name of an effect: it is too long"),
    ],
)
def test_bad_effect_is_told(shelf: Path, capfd: Capture, command: str, name: str, status: int, message: str) -> None:
    """So is the name of an effect."""
    found = ask(capfd, *command.split(), name, "--json")

    assert (status, message) == (found.status, fits(json.loads(found.out))["message"])
    assert found.err.startswith(f"turnctl: error: {message}\nturnctl: hint: ")


@pytest.mark.parametrize("turn", ["t1a", "t1b", "t2c", "t2d", "t3e"])
def test_finished_turn_is_not_stopped(shelf: Path, capfd: Capture, turn: str) -> None:
    """A turn that is over is told as that, with status 3; asked for, 0. A lost one is stopped like one that runs."""
    found = ask(capfd, "stop", "--no-wait", turn)
    if turn == "t3e":
        assert 0 == found.status
        return

    assert (3, "") == (found.status, found.err)
    assert " was not stopped: turn " in found.out
    assert found.out.endswith(": nothing was stopped\n")
    assert 0 == ask(capfd, "stop", "--no-wait", "--ok-if-finished", turn).status


def test_all_that_answer_in_json_are_known() -> None:
    """The commands with ``--json`` are those that the tests take for such."""
    context = click.Context(cli)
    found = []
    for path in paths():
        command: click.Command | None = cli
        for word in path.split():
            assert isinstance(command, click.Group)
            command = command.get_command(context, word)
        assert command is not None
        found += [path] * any("--json" in param.opts for param in command.params)

    assert IN_JSON == found
