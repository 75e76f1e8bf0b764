"""Wrong use of every command: what it says, in words and in JSON, and status 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from everycommand import IN_JSON, argv
from launch import Ended, ask
from schemas import fits

Capture = pytest.CaptureFixture[str]

BOTH = "--json is one document and --jsonl a line for each; give one of them"


@pytest.mark.parametrize("command", IN_JSON)
def test_unknown_option_is_told(shelf: Path, capfd: Capture, command: str) -> None:
    """With the one that is near, and where to look; nothing was done, and nothing is on stdout."""
    hint = f"turnctl: hint: turnctl {command} --help shows how it is used\n"
    for option, near in (("--quite", "; did you mean --quiet?"), ("--bogus-option", "")):
        found = ask(capfd, *argv(command, option))
        if "--json" in argv(command):
            found = found._replace(out="")

        assert Ended(2, "", f"turnctl: error: there is no option {option}{near}\n{hint}") == found


@pytest.mark.parametrize("command", IN_JSON)
def test_misuse_is_told_in_json(shelf: Path, capfd: Capture, command: str) -> None:
    """With --json misuse is a document as well, of the same words; also where both forms were asked for."""
    found = ask(capfd, *argv(command, "--json", "--bogus-option"))
    told = fits(json.loads(found.out))

    assert (2, "usage", "there is no option --bogus-option") == (found.status, told["code"], told["message"])
    assert f"turnctl: error: {told['message']}\nturnctl: hint: {told['hint']}\n" == found.err
    found = ask(capfd, *argv(command, "--json", "--jsonl"))
    told = fits(json.loads(found.out))
    assert (2, "usage") == (found.status, told["code"])
    assert told["message"] in (BOTH, "there is no option --jsonl; did you mean --json?")


def test_words_behind_two_dashes_ask_for_nothing(shelf: Path, capfd: Capture) -> None:
    """``--json`` behind ``--`` is a name."""
    found = ask(capfd, "status", "--bogus", "--", "--json")

    assert (2, "") == (found.status, found.out)


def test_variable_asks_for_json_as_well(shelf: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """So does the option's own variable."""
    monkeypatch.setenv("TURNCTL_STATUS_JSON", "1")
    found = ask(capfd, "status", "--bogus")

    assert (2, "usage") == (found.status, json.loads(found.out)["code"])


def test_missing_name_is_told(shelf: Path, capfd: Capture) -> None:
    """What has to be named is asked for."""
    asked = {
        "status": "missing argument 'TURN'",
        "show": "missing argument 'TURN'",
        "stop": "say what to stop: one turn or more, --session NAME, or --all",
        "bundle": "name a turn, and the file to write: turnctl bundle TURN -o FILE",
        "ledger": "no command was given; it has: backup, prune, verify",
        "ledger backup": "missing argument 'FILE'",
        "ledger prune": 'say how old: --older-than 30d; or keep = "30d", once and for all, in your settings',
        "logs": "missing argument 'TURN'",
        "report": "missing argument 'TURN'",
        "run": "no command was given; say what to run, such as: turnctl run -- make test",
    }
    for command, message in asked.items():
        found = ask(capfd, *command.split())

        assert Ended(2, "", f"turnctl: error: {message}\n") == found._replace(err=found.err.split("turnctl: hint")[0])


def test_all_need_a_word_where_nobody_can_be_asked(shelf: Path, capfd: Capture) -> None:
    """Without terminals at both ends nobody is asked, and nothing is stopped."""
    found = ask(capfd, "stop", "--all")
    said = "turnctl: error: --all would stop 2 turns (t3ffffffff, t3eeeeeeee); say that you mean it: -y\n"

    assert (2, "") == (found.status, found.out)
    assert found.err.startswith(said)
    assert "running" in ask(capfd, "status", "t3f").out


def test_far_option_is_not_offered(shelf: Path, capfd: Capture) -> None:
    """What is only a little alike is no help; the beginning of a name is."""
    found = [ask(capfd, "ps", one).err.splitlines()[0].removeprefix("turnctl: error: ") for one in ("--foo", "--time")]

    wanted = ["there is no option --foo", "there is no option --time; did you mean --time-format?"]
    assert wanted == found


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("ps", "-n", "-1"), "--number: '-1' is no whole number from 1 on"),
        (("stop", "--expect-rev", "x", "@"), "--expect-rev: 'x' is no whole number from 1 on"),
        (("trial", "--seed", "x", "true"), "--seed: 'x' is no whole number"),
        (("trial", "--max-stops", "1.5", "true"), "--max-stops: '1.5' is no whole number from 1 on"),
    ],
)
def test_what_is_no_number_is_told(shelf: Path, capfd: Capture, args: tuple[str, ...], message: str) -> None:
    """In words, and not as a range of x."""
    found = ask(capfd, *args)

    assert (2, f"turnctl: error: {message}") == (found.status, found.err.splitlines()[0])


def test_wrong_variables_are_told(shelf: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what is wrong, and where it comes from, in one sentence."""
    found = []
    for name, value in (("TURNCTL_QUIET", "maybe"), ("TURNCTL_COLOR", "blue")):
        with monkeypatch.context() as one:
            one.setenv(name, value)
            found.append(ask(capfd, "ps").err.splitlines()[0].removeprefix("turnctl: error: "))

    assert "--quiet: 'maybe' is no whole number from 0 on (it comes from the environment: TURNCTL_QUIET)" == found[0]
    assert found[1].endswith("'never' (it comes from the environment: TURNCTL_COLOR)")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("ps", "-s", ""), "--session: the name of the session is empty; is a variable in it not set?"),
        (("top", "--json", "-s", ""), "--session: the name of the session is empty; is a variable in it not set?"),
        (("stop", "-s", ""), "--session: the name of the session is empty; is a variable in it not set?"),
        (("status", "session:"), "'session:' names no session; is a variable in it not set?"),
    ],
)
def test_empty_session_is_refused(shelf: Path, capfd: Capture, args: tuple[str, ...], message: str) -> None:
    """That nothing runs in it would be taken for an answer."""
    found = ask(capfd, *args)

    assert (2, f"turnctl: error: {message}") == (found.status, found.err.splitlines()[0])
