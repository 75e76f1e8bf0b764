"""Every command where its surroundings are poor: no right, no room, no folder, no home, no locale, no terminal."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from everycommand import CALLS, TELL_IN_THEIR_WAY, argv
from forked import holding, waited
from launch import ROOT, Ended, ask, clean_environment
from shelf import opened

import turnctl
from turnctl.cli.group import COMMANDS

SUPPORT = str(Path(__file__).parent.parent / "support")
Capture = pytest.CaptureFixture[str]

DIRECTLY = sorted(set(CALLS) - set(TELL_IN_THEIR_WAY))
WRITING = ("ledger prune", "stop")
NOBODY = 54_321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.fixture(scope="module", autouse=True)
def _all_is_loaded() -> None:
    """What a fork may need is loaded already: the user that it becomes may not read Python's own files."""
    for name in ("difflib", "queue", "encodings.idna", "shlex", "subprocess", "tempfile", "shutil"):
        importlib.import_module(name)
    for room in ("cli", "ledger", "records"):
        for one in pkgutil.walk_packages([str(Path(turnctl.__file__).parent / room)], f"turnctl.{room}."):
            importlib.import_module(one.name)


def become_nobody() -> None:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def in_a_folder_that_is_gone() -> None:
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


def with_no_room_for_files() -> None:
    """As on a full disk: SQLite makes no index, and no file grows."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def said(message: str, hint: str) -> str:
    return f"turnctl: error: {message}\nturnctl: hint: {hint}\n"


@as_root
@pytest.mark.parametrize("command", DIRECTLY)
def test_no_right_and_no_home_are_told(shelf: Path, tmp_path: Path, command: str) -> None:
    """Where this user may not go in, where it may not write, and where it has no home to keep anything in."""
    (tmp_path / "private").mkdir(mode=0o700)
    state = tmp_path / "private" / "state"
    private = waited(*argv(command), before=become_nobody, env={"TURNCTL_STATE_DIR": str(state)})
    homeless = waited(
        *argv(command),
        before=become_nobody,
        env={"TURNCTL_STATE_DIR": None, "XDG_STATE_HOME": None, "HOME": None},
    )
    as_ever = None if command in WRITING else waited(*argv(command))
    for ending in ("-wal", "-shm"):  # by them it would be read as where it can be written
        (shelf / f"ledger.sqlite3{ending}").unlink(missing_ok=True)
    for one in [shelf, *shelf.iterdir()]:
        os.chown(one, NOBODY, NOBODY)
    shelf.chmod(0o500)
    _let_in(shelf)
    read_only = waited(*argv(command), before=become_nobody)
    path = shelf / "ledger.sqlite3"
    unwritable = f"reading {path} failed (SQLITE_READONLY_DIRECTORY: attempt to write a readonly database)"
    hint = "the file, its -wal and its folder must be writable for this user: look at their owner and mode"
    forbidden = f"the folder {state} cannot be looked at (Permission denied)"

    assert Ended(5, "", said(forbidden, "name another place for the ledger: TURNCTL_STATE_DIR")) == private
    assert (
        Ended(5, "", said("this user has no home directory", "name another place for the ledger: TURNCTL_STATE_DIR"))
        == homeless
    )
    note = f"turnctl: {path} is read as an unchanging copy: nothing can be written there, and nobody has it open\n"
    if command == "ledger prune":
        assert Ended(5, "", said(unwritable, hint)) == read_only
    elif command == "stop":
        more = f"; until then t3ffffffff goes on: kill {os.getpid()} ends it without a record of why"
        assert Ended(5, "", note + said(unwritable, hint + more)) == read_only
    else:
        assert as_ever == read_only._replace(err=read_only.err.removeprefix(note))
        assert (command != "ledger backup") == read_only.err.startswith(note)  # that one said that it copies nothing


@as_root
@pytest.mark.parametrize(
    ("call", "status", "said"),
    [
        ("help files", 0, "In the state directory (nowhere: this user has no home directory)"),
        (
            "run --dry-run --record yes true",
            0,
            "record        none: this user has no home directory; name another place",
        ),
        ("run --dry-run --record required true", 125, "record        none: this user has no home directory; name"),
        ("completion bash", 0, "complete -F _turnctl turnctl"),
        ("completion zsh --path", 2, "turnctl: error: this user has no home directory\n"),
        ("completion fish --install", 2, "turnctl: error: this user has no home directory\n"),
        ("doctor --print user-config", 1, "turnctl: error: this user has no home directory\n"),
        ("doctor --only state", 1, "fail  state.directory       this user has no home directory\n"),
    ],
)
@pytest.mark.parametrize("home", [None, "", "relative"])
def test_what_needs_no_home_is_told_without(call: str, status: int, said: str, home: str | None) -> None:
    """Help, plans and scripts come all the same; a HOME that is no place is none, and nothing is made there."""
    env = dict.fromkeys(("TURNCTL_STATE_DIR", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")) | {"HOME": home}
    found = waited(*call.split(), before=become_nobody, env=env)

    assert status == found.status, found
    assert said in found.out + found.err


def _let_in(folder: Path) -> None:
    """Let others go through the folders of the test, which are its user's alone."""
    for one in folder.parents:
        if one.stat().st_uid == os.geteuid() and one != Path("/"):
            one.chmod(one.stat().st_mode | 0o011)


@pytest.mark.parametrize("command", DIRECTLY)
def test_no_room_and_no_folder_are_told(shelf: Path, command: str) -> None:
    """A disk without room, or a limit; and a state directory that is seen from a folder that has been removed."""
    full = waited(*argv(command), before=with_no_room_for_files)
    gone = waited(*argv(command), before=in_a_folder_that_is_gone, env={"TURNCTL_STATE_DIR": "state"})
    path = shelf / "ledger.sqlite3"
    message = f"reading {path} failed (SQLITE_IOERR_SHMSIZE: disk I/O error)"
    hint = "free some space there, or raise the limit on the size of files (ulimit -f), and try again"
    nowhere = "the state directory 'state' is relative, and the current folder has been removed"

    assert Ended(5, "", said(message, hint)) == full
    assert Ended(5, "", said(nowhere, "give its whole path")) == gone


@pytest.mark.parametrize("command", [*WRITING, "ledger backup", "bundle"])
def test_no_room_while_in_use_is_told(shelf: Path, tmp_path: Path, capfd: Capture, command: str) -> None:
    """Where others have the ledger open it can be read, and what had to be written is refused, with nothing of it."""
    out = tmp_path / "out"
    with holding(shelf / "ledger.sqlite3"):
        call = [word.replace("1d", "1s") for word in argv(command, out=str(out))]  # so that there is something to do
        found = waited(*call, before=with_no_room_for_files)
        seen = waited("status", "@", before=with_no_room_for_files)

    path = shelf / "ledger.sqlite3"
    what = "copying" if command == "ledger backup" else "writing to"
    message = f"{what} {path} failed (SQLITE_IOERR_WRITE: disk I/O error)"
    hint = (
        "the disk failed, a quota or a limit (ulimit -f) was met, or the file or its -wal was cut or taken away: "
        "look at them and the system's log"
    )
    expected = Ended(5, "", said(message, hint))
    if command == "stop":  # what goes on can still be ended
        newest = json.loads(ask(capfd, "ps", "-n", "1", "--json").out)["turns"][0]
        whose, pid = newest["turn_id"], newest["execution"]["pid"]
        hint += f"; until then {whose} goes on: kill {pid} ends it without a record of why"
        expected = Ended(5, "", said(message, hint))
    if command == "bundle":
        message = f"{out} could not be written: File too large"
        expected = Ended(1, "", said(message, "give a file in a folder that has room"))

    assert expected == found
    assert not out.exists()
    assert 0 == seen.status
    assert "running" in seen.out


_DRIVER = """
import importlib, json, sys
sys.path[:0] = {paths!r}
from forked import waited
calls = json.load(sys.stdin)
for name in {modules!r}:
    importlib.import_module(name)
for call in calls:
    ended = waited(*call)
    print(json.dumps([ended.status, ended.out, ended.err]), flush=True)
"""
LOOKING = ["ps", "status"]


@pytest.mark.parametrize("flags", [["-O", "-W", "error"], ["-W", "error"]], ids=" ".join)
def test_poor_surroundings_change_nothing(shelf: Path, tmp_path: Path, capfd: Capture, flags: list[str]) -> None:
    """Without a home, a terminal's name, a locale or asserts, with warnings as errors and a width of one column: every
    command answers as ever, also of a command that is not ASCII."""
    with opened(shelf) as more:
        more.turn("t9dadadada", task="more", command=["echo", "é☃", "\udcff"], session="ö")
    names = LOOKING if "-O" in flags else sorted(set(DIRECTLY) - {"bundle", "ledger backup", "report", "stop", "watch"})
    calls = [argv(name, "--state-dir", str(shelf)) for name in names]
    calls += [["status", "zzz", "--json"], ["ps", "-a", "--json"], ["adapters"], ["--help"]]
    calls += [["stop", "--dry-run", "@"], ["run", "--help"]] * ("-O" not in flags)
    poor = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "COLUMNS": "1"}
    poor |= {"PYTHONDONTWRITEBYTECODE": "1"} if "-O" in flags else {}
    modules = [COMMANDS[name.split()[0]][0] for name in names]
    done = subprocess.run(
        [sys.executable, *flags, "-c", _DRIVER.format(paths=[ROOT, SUPPORT], modules=modules)],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        env={k: v for k, v in clean_environment(**poor).items() if k not in ("HOME", "TERM", "LANG", "TZ", "PATH")},
        timeout=60,
        check=False,
    )
    got = [json.loads(line) for line in done.stdout.splitlines()]

    assert ("", len(calls)) == (done.stderr, len(got))
    for call, other in zip(calls, got, strict=True):
        one = ask(capfd, *call)
        assert one.status == other[0], (call, other)
        if "--help" not in call:  # which is wrapped to the width
            assert list(one) == other, call
    assert any("é☃" in one[1] for one in got)


def test_turn_goes_on_without_the_folder(shelf: Path) -> None:
    """Whoever stands in a folder that is gone still sees, and stops, what the state directory knows."""
    found = waited("stop", "--no-wait", "@", before=in_a_folder_that_is_gone)

    assert (0, "") == (found.status, found.err)
    shutil.rmtree(shelf)


@pytest.mark.parametrize("command", WRITING)
def test_ledger_that_is_held_is_told(
    shelf: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Where another process does not let go of it, what has to write says which one, after a while; what looks does
    not even notice."""
    for name in ("LOOK_S", "BUSY_S"):
        monkeypatch.setattr(f"turnctl.cli.stopping.{name}", 0.1)
    monkeypatch.setattr("turnctl.ledger.opening.open_sqlite.__kwdefaults__", {"busy_s": 0.1})
    path = shelf / "ledger.sqlite3"
    with holding(path, "BEGIN IMMEDIATE") as pid:
        found = ask(capfd, *argv(command))
        statuses = {name: ask(capfd, *argv(name)).status for name in (*LOOKING, "ledger verify", "reconcile")}
    message = f"{path} was not free within 0.1s: process {pid} (python) holds it"

    assert Ended(5, "", said(message, f"continue it (kill -CONT {pid}) or end it, then try again")) == found
    assert dict.fromkeys(statuses, 0) == statuses


def test_ledger_that_is_locked_whole_is_told(shelf: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that keeps even those from it who look is told of too, in words of ours."""
    monkeypatch.setattr("turnctl.ledger.glance._BUSY_S", 0.1)
    path = shelf / "ledger.sqlite3"
    with holding(path, "PRAGMA locking_mode=EXCLUSIVE", "BEGIN EXCLUSIVE", "UPDATE meta SET epoch = epoch"):
        found = ask(capfd, "ps")
    message = f"reading {path} was not possible in time: another program holds it (SQLITE_BUSY)"

    assert Ended(5, "", said(message, "try again, or end that one")) == found


@pytest.mark.parametrize("most", [5, 6, 7])
def test_too_few_descriptors_are_told_of(shelf: Path, most: int) -> None:
    """Also where none is left to load with what tells of it."""
    code = f"import resource, runpy; resource.setrlimit(resource.RLIMIT_NOFILE, ({most}, {most})); "
    code += "runpy.run_module('turnctl.cli.main', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code, "ps"],
        env={**clean_environment(), "PYTHONPATH": ROOT, "TURNCTL_STATE_DIR": str(shelf)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode in (0, 5)
    assert "" == done.stderr or done.stderr.startswith("turnctl: ")
    assert "Traceback" not in done.stderr
