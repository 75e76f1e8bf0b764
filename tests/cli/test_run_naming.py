"""What a run is called: its session and its label, on record and in every command that shows or takes a turn."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from launch import Ended, ask, call, finish, start
from schemas import fits
from shelf import IDS, opened

Capture = pytest.CaptureFixture[str]


@contextmanager
def runs(state: Path, *names: str) -> Iterator[None]:
    """Runs of these sessions, which have begun, and end with this."""
    env = {"TURNCTL_STATE_DIR": str(state), "TURNCTL_RUN_RECORD": "yes"}
    with ExitStack() as stack:
        for name in names:
            process = start("run", "-s", name, "sh", "-c", "echo ready; read line", env=env, stdin=subprocess.PIPE)
            stack.enter_context(process)
            assert process.stdout is not None
            assert "ready\n" == process.stdout.readline()
            stack.callback(finish, process)
        yield


def test_session_and_label_are_shown(tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are on record, in lists, in ``show`` and in JSON; a failed command is a failed turn everywhere."""
    env = {"TURNCTL_STATE_DIR": str(tmp_path / "state"), "TURNCTL_RUN_RECORD": "yes"}
    ended = call("run", "-s", "build", "-n", "nightly job", "sh", "-c", "exit 3", env=env)
    monkeypatch.setenv("TURNCTL_STATE_DIR", str(tmp_path / "state"))
    listed = ask(capfd, "ps", "-a", "-s", "build").out.splitlines()
    shown = ask(capfd, "show", "@")
    status = ask(capfd, "status", "--json", "@")
    found = fits(json.loads(status.out))

    assert (3, "", "") == ended
    assert "failed" == listed[1].split()[2]
    assert listed[1].endswith("  nightly job: sh -c 'exit 3'")
    assert "  command    sh -c 'exit 3'\n  label      nightly job\n" in shown.out
    assert "  session    build\n" in shown.out
    assert (1, 1, "failed", "failed") == (shown.status, status.status, found["state"], found["outcome"])
    assert ("build", "nightly job") == (found["session_id"], found["label"])


def test_session_names_the_run_that_runs_there(tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session is a name and no lock: two run in it, by their ids; one that runs alone is found and stopped by it."""
    monkeypatch.setenv("TURNCTL_STATE_DIR", str(tmp_path / "state"))
    with runs(tmp_path / "state", "build", "build"):
        ids = ask(capfd, "ps", "-q", "-s", "build").out.split()
        both = ask(capfd, "status", "session:build")
        ask(capfd, "stop", ids[0])
        one = ask(capfd, "status", "session:build")
        stopped = ask(capfd, "stop", "-s", "build")
    after = ask(capfd, "status", "session:build")

    assert (2, 4, True) == (len(set(ids)), both.status, f"{ids[0]}, {ids[1]} run in session 'build'" in both.err)
    assert (0, True) == (one.status, one.out.startswith(f"{ids[1]} running, since "))
    assert (0, True) == (stopped.status, "Cancelled, settled." in stopped.out)
    assert (4, True) == (after.status, "no turn runs in session 'build'" in after.err)


@pytest.mark.parametrize("args", [("status", "session:build"), ("stop", "-s", "build"), ("show", "session:build")])
def test_session_of_two_runs_is_ambiguous(shelf: Path, capfd: Capture, args: tuple[str, ...]) -> None:
    """Two turns may run in one session; then the name is refused, with their ids, and nothing is done."""
    with opened(shelf) as more:
        more.turn("t4aaaaaaaa", task="more", session="build", command=["make", "again"])
    ended = ask(capfd, *args)

    assert (4, "") == (ended.status, ended.out)
    assert f"turnctl: error: t4aaaaaaaa, {IDS[5]} run in session 'build'\n" in ended.err
    assert "turnctl: hint: name one of them by its id\n" in ended.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-s", ""], "--session: the name of a session is empty; is a variable in it not set?"),
        (["-s", "my build"], "--session: 'my build' has a blank in it; write one word, such as my-build"),
        (["-s", "a\nb"], r"--session: 'a\nb' has a character in it that cannot be shown; take it out"),
        (["-s", "x" * 65], "--session: it has 65 characters; a name of a session has 64 at most"),
        (["-s", "--grace"], "--session: '--grace' begins with a dash, as an option does; was the name of a session"),
        (["-s", "INT"], "--session: INT is a signal, which --signal INT sets; call the session something else"),
        (["-n", " "], "--name: the label is empty; is a variable in it not set?"),
        (["-n", "x" * 129], "--name: it has 129 characters; a label has 128 at most"),
        (["--json"], "--json goes with --dry-run; of a run the JSON is in the file of --summary FILE"),
        (["-p"], "there is no option -p; it is not needed: without a stop the command's own status"),
    ],
)
def test_names_that_cannot_be_are_refused(tmp_path: Path, capfd: Capture, args: list[str], message: str) -> None:
    """Each is told with what would be right, and nothing is run."""
    status, out, err = ask(capfd, "run", *args, "touch", str(tmp_path / "ran"))

    assert (2, "--json" in args) == (status, bool(out))  # which is the error as a document
    assert err.startswith(f"turnctl: error: {message}"), err
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["build", "Größe", "a/b:c@d", "42", "io", "x" * 64])
def test_names_that_can_be(tmp_path: Path, capfd: Capture, name: str) -> None:
    """Any word that can be shown, also one that is a signal's but for its case."""
    ended = ask(capfd, "run", "--dry-run", "--state-dir", str(tmp_path / "s"), "-s", name, "true")

    assert (0, True) == (ended.status, f"session       {name}\n" in ended.out)


PLAN = """\
would run     sh -c 'exit 3'
program       SH
folder        FOLDER
session       build
label         nightly
held by       a warden, or else its process group
stopped       SIGINT first, SIGKILL after 2s
timeout       30s
leftovers     are waited for
limits        cpu=30s, umask 077, no core dumps
environment   A added, *_TOKEN taken
record        STATE/ledger.sqlite3
output        kept, 64KiB of each stream
"""
_ARGS = (
    *("run", "--dry-run", "-s", "build", "-n", "nightly", "--signal", "INT", "--grace", "2s", "--timeout", "30s"),
    *("--leftovers", "wait", "--limit", "cpu=30s", "--umask", "077", "--no-core-dumps", "--env", "A=secret"),
    *("--unset-env", "*_TOKEN", "--log-max", "64KiB"),
)


def test_plan_is_told_and_nothing_started(tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """--dry-run says what would be run, where, held, ended and recorded how; nothing is made, no value is shown."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", "bin:/nowhere")
    monkeypatch.setenv("TURNCTL_RUN_RECORD", "yes")
    state = tmp_path / "state"
    ended = ask(capfd, *_ARGS, "--state-dir", str(state), "--", "sh", "-c", "exit 3")
    expected = PLAN.replace("SH", f"{tmp_path}/bin/sh").replace("FOLDER", str(tmp_path)).replace("STATE", str(state))

    assert Ended(0, expected, "") == ended
    assert ["bin"] == [one.name for one in tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (("no-such-tool",), 127, "command not found: no-such-tool"),
        (("./there",), 126, "cannot execute ./there: Permission denied"),
        (("./nowhere",), 127, "command not found: ./nowhere"),
    ],
)
def test_plan_says_what_cannot_start(
    tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], status: int, said: str
) -> None:
    """What can be seen to fail is told as the run would, with its status, and the document says so too."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("")
    ended = ask(capfd, "run", "--dry-run", "--json", "--state-dir", str(tmp_path / "s"), *command)
    found = fits(json.loads(ended.out))

    assert (status, None) == (ended.status, found["program"])
    assert said in ended.err


def test_plan_says_that_there_can_be_no_record(tmp_path: Path, capfd: Capture) -> None:
    """Another program's file in the ledger's place: no record, and with --record required nothing would be run."""
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state/ledger.sqlite3").write_bytes(b"x" * 4096)
    (tmp_path / "state/ledger.sqlite3").chmod(0o600)
    args = ("run", "--dry-run", "--json", "--state-dir", str(tmp_path / "state"), "--record")
    either, required = ask(capfd, *args, "yes", "true"), ask(capfd, *args, "required", "true")
    found = fits(json.loads(either.out))["record"]

    assert (0, 125, None) == (either.status, required.status, found["ledger"])
    assert "ledger.sqlite3" in found["not_recorded"]
