"""The options of every command: where they may stand, their variables, what each of them does."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from commandtree import every
from launch import Ended, ask, call
from shelf import IDS

from turnctl.cli.colour import Colour, is_coloured
from turnctl.cli.common import GROUPS, common_options, group_of, key_of, path_of, variables_of
from turnctl.cli.group import COMMANDS

RUNNING = IDS[-1]
Capture = pytest.CaptureFixture[str]
COMMON = {one.opts[-1] for one in common_options([])}


def test_every_command_has_the_common_options() -> None:
    """State directory, quiet, verbose, colour, times and settings can be given to each of them."""
    lacking = {path_of(one): COMMON - {name for param in one.params for name in param.opts} for one in every()}

    assert {} == {path: names for path, names in lacking.items() if names}
    assert set(COMMANDS) <= {path[0] for path in lacking}


def test_every_option_has_a_variable() -> None:
    """TURNCTL_<COMMAND>_<OPTION>, or TURNCTL_<OPTION> where every command has it; no two are the same."""
    found = {}
    for command in every():
        for param in command.params:
            key = key_of(param)
            if key is not None and group_of(param) != "common":
                words = "_".join((*path_of(command), key)).replace("-", "_").upper()
                found[(path_of(command), key)] = (f"TURNCTL_{words}", variables_of(param)[0])

    assert [] == [place for place, (wanted, name) in found.items() if wanted != name]
    assert len(found) == len({name for _, name in found.values()})


def test_no_option_is_there_twice() -> None:
    """No two options of a command have one name."""
    twice = {}
    for command in every():
        names = [name for param in command.params for name in (*param.opts, *param.secondary_opts)]
        twice[path_of(command)] = [name for name in names if names.count(name) > 1]

    assert {} == {path: names for path, names in twice.items() if names}


def test_help_has_its_options_in_groups(capfd: Capture) -> None:
    """What, how long, output, and last what every command has; each with its variable."""
    for name in ("run", "stop"):
        out = ask(capfd, name, "--help").out
        places = [out.index(f"\n{title}:\n") for _, title in GROUPS if f"\n{title}:\n" in out]

        assert sorted(places) == places
        assert places[-1] == out.index("\nCommon options:\n")
    assert "(default: 5s; env: TURNCTL_STOP_GRACE)" in " ".join(out.split())


@pytest.mark.parametrize(
    "args",
    [
        ["-q", "ps"],
        ["--quiet", "--color=never", "ps"],
        ["--color", "always", "ps", "-q"],
        ["-q", "--no-config", "ps"],
    ],
)
def test_common_options_may_stand_before(shelf: Path, capfd: Capture, args: list[str]) -> None:
    """Before the name of a command they are the command's."""

    assert Ended(0, f"{RUNNING}\n", "") == ask(capfd, *args, "-n", "1")


def test_what_stands_after_is_stronger(shelf: Path, capfd: Capture) -> None:
    """Of two the one after the name of the command counts, and how often -q is given is counted together."""
    nowhere = str(shelf / "nowhere")

    assert RUNNING in ask(capfd, "--state-dir", nowhere, "ps", "--state-dir", str(shelf)).out
    assert "no turn is on record" in ask(capfd, "--state-dir", nowhere, "ps").err
    assert f"{RUNNING} running, since " not in ask(capfd, "-q", "status", "@", "-q").out


def test_before_a_command_of_a_command(shelf: Path, capfd: Capture) -> None:
    """It is handed on to the last one."""

    assert Ended(0, "", "") == ask(capfd, "-q", "ledger", "verify")
    assert Ended(0, "", "") == ask(capfd, "ledger", "-q", "verify")


def test_bad_value_before_is_told_by_its_command(shelf: Path, capfd: Capture) -> None:
    """What cannot be used is told once, with the help that says more."""
    status, out, err = ask(capfd, "--color", "blue", "ps")

    assert (2, "") == (status, out)
    assert err.startswith("turnctl: error: --color: 'blue' is not one of ")
    assert err.endswith("turnctl: hint: turnctl ps --help shows how it is used\n")


def test_variable_is_weaker_than_an_option(shelf: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable counts where the option is not given, and a wrong one is told with its name."""
    monkeypatch.setenv("TURNCTL_PS_ALL", "1")
    monkeypatch.setenv("TURNCTL_PS_NUMBER", "2")

    assert 2 == len(ask(capfd, "ps", "-q").out.splitlines())
    assert 3 == len(ask(capfd, "ps", "-q", "-n", "3").out.splitlines())
    monkeypatch.setenv("TURNCTL_PS_WATCH", "5")
    said = "--watch: --watch '5' cannot be used: it has no unit; write it like 5s"
    assert ask(capfd, "ps").err.startswith(
        f"turnctl: error: {said[9:]} (it comes from the environment: TURNCTL_PS_WATCH)\n"
    )


def test_steps_are_said(shelf: Path, capfd: Capture) -> None:
    """-v says on stderr what is done, and changes nothing of the answer."""
    plain, told = ask(capfd, "ps", "-a"), ask(capfd, "ps", "-a", "-v")

    assert plain.out == told.out
    assert "" == plain.err
    assert f"turnctl: reads {shelf / 'ledger.sqlite3'}\n" == told.err


@pytest.mark.parametrize("how", ["console", "json"])
def test_own_log_is_written(shelf: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """TURNCTL_LOG writes turnctl's own log to stderr, as text or as JSON, until the command ends."""
    from turnctl import log

    monkeypatch.setenv("TURNCTL_LOG", "info")
    monkeypatch.setenv("TURNCTL_LOG_FORMAT", how)

    def logs() -> float:
        log.debug("no")
        log.event("turn.begun", turn="t 1")
        return 0.0

    monkeypatch.setattr("turnctl.cli.ps.wall", logs)
    err = ask(capfd, "ps").err
    log.event("later")

    begun, line, ended = err.splitlines()
    if how == "json":
        value = json.loads(line)
        assert {"level": "info", "event": "turn.begun", "turn": "t 1"} == {k: v for k, v in value.items() if k != "at"}
        assert ["command.begun", "command.ended"] == [json.loads(one)["event"] for one in (begun, ended)]
    else:
        assert line.endswith('Z info    turn.begun turn="t 1"')
    assert "" == capfd.readouterr().err


def test_steps_are_in_the_log(shelf: Path, capfd: Capture) -> None:
    """-vv writes it too, with each step that -v says; when the command has ended nothing is left of it."""
    err = ask(capfd, "-vv", "ps").err

    assert f' debug   step text="reads {shelf}/ledger.sqlite3"\n' in err
    assert "" == ask(capfd, "ps").err


def test_run_is_in_the_log() -> None:
    """What becomes of a command, and of a stop, each with its turn."""
    ended = call(
        *("run", "--no-record", "-q", "--grace", "0s", "--timeout", "100ms", "--", "sleep", "9"),
        env={"TURNCTL_LOG": "info", "TURNCTL_LOG_FORMAT": "json"},
    )
    lines = [json.loads(line) for line in ended.err.splitlines()]
    turns = {one["turn"] for one in lines if "turn" in one}

    assert 124 == ended.status
    assert ["command.begun", "run.started", "run.stopped", "run.over", "command.ended"] == [
        one["event"] for one in lines
    ]
    assert 1 == len(turns)
    assert ("deadline", 124) == (lines[2]["cause"], lines[3]["status"])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("TURNCTL_LOG", "inof", "TURNCTL_LOG is 'inof'; did you mean info?"),
        ("TURNCTL_LOG", "5", "TURNCTL_LOG is '5'; use info or debug"),
        ("TURNCTL_LOG_FORMAT", "jsno", "TURNCTL_LOG_FORMAT is 'jsno'; did you mean json?"),
    ],
)
def test_bad_variable_of_the_log_is_told(
    shelf: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch, name: str, text: str, said: str
) -> None:
    """A word that is none is told with the nearest that is one."""
    monkeypatch.setenv("TURNCTL_LOG", "info")
    monkeypatch.setenv(name, text)
    status, out, err = ask(capfd, "ps")

    assert (2, "") == (status, out)
    assert f"turnctl: error: {said}\n" in err


@pytest.mark.parametrize(
    ("env", "choice", "coloured"),
    [
        ({}, "auto", False),
        ({}, "always", True),
        ({"FORCE_COLOR": "1"}, "auto", True),
        ({"CLICOLOR_FORCE": "1"}, "auto", True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, "auto", True),
        ({"FORCE_COLOR": ""}, "auto", False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, "auto", False),
        ({"NO_COLOR": "", "FORCE_COLOR": "1"}, "auto", True),
        ({"NO_COLOR": "1"}, "always", True),
        ({"FORCE_COLOR": "1"}, "never", False),
    ],
)
def test_which_says_whether_to_colour(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], choice: Colour, coloured: bool
) -> None:
    """What was chosen, else NO_COLOR, else FORCE_COLOR or CLICOLOR_FORCE, else the terminal; there is none here."""
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("turnctl.cli.colour.is_terminal", lambda: False)

    assert coloured == is_coloured(choice)


def test_common_options_are_in_one_order() -> None:
    """In the help of every command they come one after the other as in that of turnctl."""
    wanted = [one.name for one in common_options([])]
    found = {path_of(one): [param.name for param in one.params if group_of(param) == "common"] for one in every()}

    assert {} == {path: names for path, names in found.items() if [name for name in names if name in wanted] != wanted}


def test_empty_state_directory_is_refused(shelf: Path, capfd: Capture) -> None:
    """It is a variable that is not set, and the turns of another directory are not shown in its place."""
    found = ask(capfd, "ps", "--state-dir", "")

    wanted = "turnctl: error: --state-dir: the name of the directory is empty; is a variable in it not set?\n"
    assert (2, "", wanted) == (found.status, found.out, found.err.splitlines(keepends=True)[0])


def test_statuses_of_help_are_all_listed() -> None:
    """What a table of a help text says of a status is in its list of them, and so in turnctl help exit-codes."""
    missing = {}
    for command in every():
        tables = dict(getattr(command, "tables", ()))
        listed = _statuses(tables.pop("Exit status", ()))
        missing[path_of(command)] = {one for rows in tables.values() for one in _statuses(rows)} - listed

    assert {} == {path: left for path, left in missing.items() if left}


def _statuses(rows: Iterable[tuple[str, str]]) -> set[str]:
    return {word for words, _ in rows for word in words.split(", ") if word.isdigit()}
