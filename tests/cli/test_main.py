"""The command itself: help, version, misuse and faults, each in a line or two, loading as little as it can."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launch import ask, call, clean_environment, turnctl_argv
from lean import NEVER, NOT_FOR_LOOKING, loaded_by

import turnctl
from turnctl.cli.group import COMMANDS

LISTED = ", ".join(sorted(COMMANDS))
NOT_FOR_HELP = [*NEVER, "subprocess", "attrs", "turnctl.turns", "turnctl.cli.run", "turnctl.cli.execute"]
#: of what click imports: the parser of Python, the names of systems, languages; and paths, with their networks
OF_INSPECT = {"ast", "dis", "tokenize"}
UNUSED_BY_CLICK = {"platform", "pathlib", "ipaddress", "urllib.parse", "gettext", "locale", "difflib"}
if sys.version_info < (3, 12):  # from then on typing itself wants that parser, and datetime makes nothing twice
    UNUSED_BY_CLICK |= OF_INSPECT | {"datetime"}
IS_OLD = importlib.metadata.version("click").startswith("8.0.")
if IS_OLD:  # which asks what encoding there is before it runs anything
    UNUSED_BY_CLICK -= {"locale"}
#: what changes how signals are taken, or waits
NOT_TO_LOOK = {"signal", "select", "turnctl.cli.status", "turnctl.cli.options"}


def test_help_shows_the_commands() -> None:
    """Help goes to stdout and names every command with its summary."""
    for flag in ("-h", "--help"):
        status, out, err = call(flag)

        assert (0, "") == (status, err)
        shown = " ".join(out.split())
        assert all(f" {name} {summary}" in shown for name, (_, summary) in COMMANDS.items())


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_has_its_help(capfd: pytest.CaptureFixture[str], name: str) -> None:
    """Help of a command begins with the summary that the list of commands shows for it, and examples come first."""
    status, out, err = ask(capfd, name, "--help")
    lines = out.splitlines()

    assert (0, "") == (status, err)
    assert COMMANDS[name][1] == lines[0]
    assert f"Usage: turnctl {name} [OPTIONS]" in lines[2]
    common = next(n for n, line in enumerate(lines) if line.startswith("Common options"))
    assert lines.index("Examples:") < common < lines.index("Exit status:")


def test_version_is_one_line() -> None:
    """The version is one line on stdout."""
    for flag in ("-V", "--version"):
        assert (0, f"turnctl {turnctl.__version__}\n", "") == call(flag)


@pytest.mark.parametrize("args", [["--help"], ["--version"]])
def test_help_and_version_are_lean(tmp_path: Path, args: list[str]) -> None:
    """Help and version load no command, and nothing that a command would need."""
    assert set() == loaded_by(tmp_path, *args) & {*NOT_FOR_HELP, *UNUSED_BY_CLICK}


@pytest.mark.parametrize("args", [["ps", "-a"], ["status", "@"], ["ps", "--json"]])
def test_looking_is_lean(tmp_path: Path, shelf: Path, args: list[str]) -> None:
    """Looking loads SQLite and no more: no records, no store, no table of processes."""
    loaded = loaded_by(tmp_path, *args, env={"TURNCTL_STATE_DIR": str(shelf)})

    assert "turnctl.ledger.glance" in loaded
    assert set() == loaded & {"turnctl.turns", "turnctl.ledger.sqlite", "attr", "attrs", *NOT_TO_LOOK, *NOT_FOR_LOOKING}
    unused = UNUSED_BY_CLICK - OF_INSPECT if IS_OLD else UNUSED_BY_CLICK
    assert set() == loaded & unused  # click 8.0 asks inspect for the text of each command


def test_run_is_lean(tmp_path: Path) -> None:
    """Running a command loads nothing that is for others: no logging, no event loop, no other process table."""
    loaded = loaded_by(tmp_path, "run", "true")

    assert "turnctl.processes.supervise" in loaded
    assert set() == loaded & {*NEVER, "attr.validators", "unicodedata"}
    assert set() == loaded & UNUSED_BY_CLICK & {"platform", "locale", "tokenize"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], f"no command was given; it has: {LISTED}"),
        (["rnu"], "there is no command 'rnu'; did you mean run?"),
        (["fly"], f"there is no command 'fly'; it has: {LISTED}"),
        (["--versoin"], "there is no option --versoin; did you mean --version?"),
    ],
)
def test_misuse_is_told_with_a_hint(capfd: pytest.CaptureFixture[str], args: list[str], message: str) -> None:
    """What turnctl does not know is an error with the nearest thing it knows, on stderr, with status 2."""
    status, out, err = ask(capfd, *args)

    assert (2, "") == (status, out)
    assert f"turnctl: error: {message}\nturnctl: hint: turnctl --help shows how it is used\n" == err


def test_fault_before_the_start_is_one_line() -> None:
    """A fault of ours before the command runs is one line and a hint, and status 125: nothing was run."""
    status, out, err = call("run", "true", before="import turnctl.turns as t; t.Turn.run = lambda *a, **k: 1 / 0")

    assert (125, "") == (status, out)
    assert "turnctl: internal error: ZeroDivisionError: division by zero\n" in err
    assert "turnctl: hint: " in err
    assert "Traceback" not in err


def test_fault_after_the_start_has_its_own_status() -> None:
    """A fault after the command has run is told apart from one before: status 70."""
    before = "import turnctl.cli.execute as e; e.Execution._account = lambda self: 1 / 0"

    assert 70 == call("run", "true", before=before).status


@pytest.mark.parametrize("how", ["option", "environment"])
def test_traceback_only_if_asked_for(how: str) -> None:
    """With --debug, or TURNCTL_DEBUG=1, a fault shows where it arose."""
    args = ["--debug"] if how == "option" else []
    env = {} if how == "option" else {"TURNCTL_DEBUG": "1"}
    before = "import turnctl.turns as t; t.Turn.run = lambda *a, **k: 1 / 0"
    err = call(*args, "run", "true", env=env, before=before).err

    assert "turnctl: Traceback (most recent call last):" in err
    assert err.splitlines()[-2].startswith("turnctl: internal error: ZeroDivisionError")


def test_reader_of_help_may_leave() -> None:
    """A help text whose reader has gone ends quietly, as other programs do."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        turnctl_argv("--help"), stdout=write, stderr=subprocess.PIPE, env=clean_environment(), timeout=30, check=False
    )
    os.close(write)

    assert (1, b"") == (done.returncode, done.stderr)


def test_interrupt_while_loading_is_quiet() -> None:
    """Ctrl-C before anything has begun: dead of it, without a word."""
    before = """
import os, signal
class Loading:
    def find_spec(self, name, *_):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Loading())
"""

    assert (-signal.SIGINT, "", "") == call("run", "true", before=before)
