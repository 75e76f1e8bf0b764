"""``turnctl run`` without a terminal: what the command gets, what is said, the status, and that nothing is left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from commands import Gate, alive, nap
from forked import ran
from launch import ask, call, clean_environment, finish, start, turnctl_argv
from standins import until

#: a machine that gives no descriptor for a command
NO_DESCRIPTORS = """
import errno, subprocess
def no(*_, **__): raise OSError(errno.EMFILE, "Too many open files")
subprocess.Popen.__init__ = no
"""
#: a machine that gives no thread
NO_THREADS = """
import threading
def no(*_, **__): raise RuntimeError("can't start new thread")
threading._start_new_thread = threading._start_joinable_thread = no
"""

# -- what it is for -------------------------------------------------------------------------------------------


def test_timeout_ends_the_whole_tree() -> None:
    """A shell with a child in the background is gone soon after its timeout, and the status is 124."""
    tag = nap()
    began = time.monotonic()
    status, out, err = ran("run", "--timeout", "1s", "--", "bash", "-c", f"{tag} & {tag}")
    took = time.monotonic() - began

    assert 124 == status
    assert 10 > took >= 1
    assert [] == alive(tag)
    assert "" == out
    assert err.startswith("turnctl: stop accepted (timeout of 1 s passed)\n")
    assert "turnctl: stopped by its deadline (timeout of 1 s passed), which took" in err.splitlines()[-1]


def test_stop_says_whom_it_waits_for() -> None:
    """While it waits it names the processes and when they will be killed, and afterwards what was done."""
    # the child is a shell itself until it has become what it is to be
    line = f"trap '' TERM; {nap()} & until [ \"$(cat /proc/$!/comm)\" = sleep ]; do :; done; echo ready; wait"
    process = start("run", "--grace", "1500ms", "--", "sh", "-c", line)
    assert process.stdout is not None
    assert "ready\n" == process.stdout.readline()
    process.terminate()
    lines = finish(process).err.splitlines()

    assert "turnctl: stop accepted (SIGTERM)" == lines[0]
    assert lines[1].startswith("turnctl: waiting for 2 processes (sh ")
    assert ", sleep " in lines[1]
    assert re.search(r", SIGTERM first, KILL in (1\.?\ds|1s|\d00ms)$", lines[1])
    assert lines[2].endswith("2 processes ended, 2 needed SIGKILL, none left")
    assert 3 == len(lines)


def test_leftovers_end_with_the_command() -> None:
    """A command that ends and leaves a process behind keeps its status; the process is named and ended."""
    tag = nap()
    status, _, err = ran("run", "--", "sh", "-c", f"{tag} & exit 3")

    assert 3 == status
    assert [] == alive(tag)
    assert "turnctl: the command has ended and left 1 process (" in err
    assert "turnctl: failed: 1 process ended, none left" in err


def test_leftovers_can_be_waited_for() -> None:
    """With ``--leftovers wait`` turnctl goes on until they have ended by themselves, and says nothing of it."""
    status, out, err = call(
        "run", "--leftovers", "wait", "--", "sh", "-c", "(sleep 0.5; echo late) & echo early; exit 3"
    )

    assert (3, "early\nlate\n", "") == (status, out, err)


def test_waiting_for_leftovers_ends_with_the_timeout() -> None:
    """The timeout and a stop end what is waited for, and decide the status."""
    tag = nap()
    status, _, err = ran("run", "--leftovers", "wait", "--timeout", "700ms", "--", "sh", "-c", f"{tag} & exit 3")

    assert 124 == status
    assert [] == alive(tag)
    assert "1 process ended, none left" in err


@pytest.mark.parametrize(
    ("script", "status"),
    [("true", 0), ("exit 1", 1), ("exit 77", 77), ("exit 255", 255), ("kill -TERM $$", 143), ("kill -KILL $$", 137)],
)
def test_status_is_the_commands_own(script: str, status: int) -> None:
    """A command that ends by itself gives its status, or 128 and the signal that ended it."""
    assert status == ran("run", "--", "sh", "-c", script).status


def test_nothing_is_said_without_need() -> None:
    """When the command ends by itself with nothing left, only it has written."""
    assert (5, "out\n", "err\n") == ran("run", "--", "sh", "-c", "echo out; echo err >&2; exit 5")


def test_death_by_signal_is_named() -> None:
    """A status over 128 is told apart from a signal: stderr names the signal that ended the command."""
    assert "turnctl: the command was ended by SIGSEGV (status 139)\n" == ran("run", "sh", "-c", "kill -SEGV $$").err
    assert "" == ran("run", "sh", "-c", "exit 139").err
    assert "" == ran("run", "sh", "-c", "kill -PIPE $$").err


def test_quiet_says_nothing_of_a_stop() -> None:
    """With -q a stop is not talked about; errors are."""
    assert (124, "", "") == ran("run", "-q", "--timeout", "200ms", "sleep", "60")
    assert "command not found" in ran("run", "-q", "no-such-command").err


# -- what the command gets ------------------------------------------------------------------------------------


def test_standard_streams_are_the_callers(tmp_path: Path) -> None:
    """Where nothing is kept the command has the very descriptors 0 to 2 that turnctl was given; stdin it always has."""
    (tmp_path / "in").write_text("one\ntwo\n")
    with open(tmp_path / "in") as stdin, open(tmp_path / "out", "w") as out, open(tmp_path / "err", "w") as err:
        look = "import os; [print(os.fstat(fd).st_ino) for fd in (0, 1, 2)]; print(input())"
        argv = turnctl_argv("run", "--no-log", sys.executable, "-c", look)
        subprocess.run(argv, stdin=stdin, stdout=out, stderr=err, timeout=30, check=True)
        numbers = [str(os.fstat(file.fileno()).st_ino) for file in (stdin, out, err)]

    assert [*numbers, "one"] == (tmp_path / "out").read_text().split()


def test_inherited_descriptors_are_passed_on(tmp_path: Path) -> None:
    """What the caller left open reaches the command, as with a shell's <(...); nothing of turnctl does."""
    (tmp_path / "text").write_text("from afar")
    look = (
        "import os, sys; fd = int(sys.argv[1]); print(sorted(int(n) for n in os.listdir('/proc/self/fd')));"
        "print(os.read(fd, 99).decode())"
    )
    with open(tmp_path / "text") as file:
        out = finish(start("run", sys.executable, "-c", look, str(file.fileno()), pass_fds=[file.fileno()])).out
        # 3 is the listing itself
        expected = f"{sorted([0, 1, 2, 3, file.fileno()])}\nfrom afar\n"

    assert expected == out


def test_words_after_the_command_are_its_own() -> None:
    """Options end at the first operand, also without --: what follows belongs to the command."""
    words = ["--timeout", "-q", "--", "", "a b", "-h"]
    show = "import sys; print(sys.argv[1:])"

    assert f"{words}\n" == ran("run", sys.executable, "-c", show, *words).out
    assert f"{words}\n" == ran("run", "-q", "--", sys.executable, "-c", show, *words).out


def test_folder_of_the_command(tmp_path: Path) -> None:
    """-C chooses the folder of the command; the summary's path is still seen from the caller's."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "tool").write_text("#!/bin/sh\npwd\n")
    (tmp_path / "there" / "tool").chmod(0o755)
    ended = ran("run", "-C", "there", "--summary", "s.json", "./tool", cwd=tmp_path)

    assert (0, f"{tmp_path / 'there'}\n") == (ended.status, ended.out)
    assert (tmp_path / "s.json").exists()


def test_signal_that_asks_can_be_chosen(tmp_path: Path) -> None:
    """--signal says how a stop begins: by name, with SIG, or by number."""
    gate = Gate(tmp_path / "gate")
    script = f"trap 'echo asked; exit 0' INT; echo ready >{gate}; while :; do sleep 0.01; done"
    for name in ("INT", "sigint", "2"):
        process = start("run", "--signal", name, "--", "bash", "-c", script)
        gate.wait()
        process.terminate()
        status, out, _ = finish(process)

        assert (-signal.SIGTERM, "asked\n") == (status, out)
    gate.close()


def test_options_have_twins_in_the_environment() -> None:
    """An option can be given as TURNCTL_RUN_...; the option itself is stronger."""
    env = {"TURNCTL_RUN_TIMEOUT": "200ms", "TURNCTL_RUN_GRACE": "0s"}

    assert 124 == ran("run", "sleep", "60", env=env).status
    assert 0 == ran("run", "--timeout", "none", "sleep", "0.3", env=env).status
    bad = ran("run", "true", env={"TURNCTL_RUN_TIMEOUT": "3"})
    assert 2 == bad.status
    assert "TURNCTL_RUN_TIMEOUT" in bad.err


def test_status_survives_an_ignored_sigchld() -> None:
    """A caller that ignores SIGCHLD, which loses statuses, does not make turnctl lose them."""
    argv = ["sh", "-c", 'trap "" CHLD; exec "$@"', "sh", *turnctl_argv("run", "sh", "-c", "exit 9")]

    assert 9 == subprocess.run(argv, env=clean_environment(), timeout=30, check=False).returncode


# -- misuse ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "no command was given; say what to run, such as: turnctl run -- make test"),
        (["--"], "no command was given; say what to run, such as: turnctl run -- make test"),
        (["--timout", "3s", "true"], "there is no option --timout; did you mean --"),
        (["-x", "true"], "there is no option -x"),
        (["--kill-after", "3s", "true"], "there is no option --kill-after; here it is --grace"),
        (["--preserve-status", "true"], "there is no option --preserve-status; it is not needed: without a stop"),
        (["--timeout"], "option '--timeout' requires an argument"),
        (["--timeout", "30", "true"], "--timeout '30' cannot be used: it has no unit; write it like 30s"),
        (["--timeout", "-3s", "true"], "--timeout '-3s' cannot be used: it is negative; write it like 30s"),
        (["--timeout", "0s", "true"], "--timeout '0s' cannot be used: it must be more than 0; write it like 500ms"),
        (["--grace", "0", "true"], "--grace '0' cannot be used: it has no unit; write it like 0s"),
        (["--grace", "none", "true"], "--grace 'none' cannot be used: a limit is needed here; write it like 30s"),
        (["--signal", "TREM", "true"], "--signal: unknown signal 'TREM'; write it like TERM, SIGTERM or 15"),
        (["--signal", "99", "true"], "--signal: unknown signal '99'; the numbers of signals go from"),
        (["-C", "no/where", "true"], "--chdir: there is no folder 'no/where'"),
        (["-C", "/dev/null", "true"], "--chdir: '/dev/null' is not a folder"),
        (["--leftovers", "keep", "true"], "--leftovers: 'keep' is not possible; use end or wait"),
        (
            ["--leftovers", "end-now", "true"],
            "--leftovers: 'end-now' is not possible; here they are ended at once by end",
        ),
        (["--leftovers", "detach", "true"], "--leftovers: 'detach' is not possible; nothing of turnctl is left to own"),
        (["--summary", "-", "true"], "--summary: stdout belongs to the command, so the summary needs a file"),
        (["--summary", "/no/where/s", "true"], "--summary: cannot write in /no/where: No such file or directory"),
        (["--summary", "/", "true"], "--summary: / is a directory"),
        (["--summary", "/dev/null", "true"], "--summary: /dev/null is not a regular file"),
    ],
)
def test_misuse_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], args: list[str], message: str
) -> None:
    """Wrong use is status 2 with the reason and a hint, and nothing was run."""
    if args and args[-1] == "true":
        args = [*args[:-1], "touch", str(tmp_path / "ran")]
    monkeypatch.chdir(tmp_path)
    status, out, err = ask(capfd, "run", *args)

    assert (2, "") == (status, out)
    assert err.startswith(f"turnctl: error: {message}")
    assert "\nturnctl: hint: turnctl run --help" in err
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("argv", "status", "message", "hint"),
    [
        (["no-such-command"], 127, "command not found: no-such-command", "bash -c 'no-such-command'"),
        (["./no-such-file", "x"], 127, "command not found: ./no-such-file", "there is no such file, seen from "),
        (["./no such file"], 127, "command not found: ./no such file", "there is no such file, seen from "),
        (["sleep 5"], 127, "command not found: 'sleep 5'", "turnctl run -- sleep 5"),
        (["./lost"], 127, "cannot execute ./lost: its interpreter was not found", "head -1 "),
        (["./plain"], 126, "cannot execute ./plain: Permission denied", "chmod +x ./plain"),
        (["./folder"], 126, "cannot execute ./folder: Permission denied", "it is a folder"),
        (["./unmarked"], 126, "cannot execute ./unmarked: Exec format error", "sh ./unmarked"),
        (["./plain/tool"], 126, "cannot execute ./plain/tool: Not a directory", "ls -ld ./plain/tool"),
    ],
)
def test_command_that_cannot_start(tmp_path: Path, argv: list[str], status: int, message: str, hint: str) -> None:
    """What cannot be started has the status that shells give for it, the reason, and a way out."""
    for name, text, mode in (
        ("lost", "#!/no/such/interpreter\n", 0o755),
        ("plain", "text\n", 0o644),
        ("unmarked", "echo no first line\n", 0o755),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    (tmp_path / "folder").mkdir()
    ended = ran("run", *argv, cwd=tmp_path)

    assert (status, "") == (ended.status, ended.out)
    assert f"turnctl: error: {message}\n" in ended.err
    assert hint in ended.err.splitlines()[1]


# -- the summary ----------------------------------------------------------------------------------------------


def summary_of(tmp_path: Path, *args: str) -> dict[str, object]:
    path = tmp_path / "summary.json"
    ran("run", "--summary", str(path), *args)
    assert 0o600 == path.stat().st_mode & 0o777
    assert [path] == list(tmp_path.iterdir())
    found: dict[str, object] = json.loads(path.read_text())
    return found


def test_summary_is_the_report(tmp_path: Path) -> None:
    """The file holds the report of the turn, the command and its status, and is its owner's alone."""
    found = summary_of(tmp_path, "--", "sh", "-c", "exit 4")

    assert "turnctl.turn/1" == found["schema"]
    assert (["sh", "-c", "exit 4"], 4, None) == (found["command"], found["command_status"], found["command_signal"])
    assert (4, None) == (found["exit_status"], found["exit_signal"])
    assert "failed" == found["outcome"]


def test_summary_of_a_stop(tmp_path: Path) -> None:
    """After a stop it says why, and how the command ended, signal and status apart."""
    found = summary_of(tmp_path, "--timeout", "200ms", "sleep", "60")

    assert (None, "SIGTERM") == (found["command_status"], found["command_signal"])
    assert (124, None) == (found["exit_status"], found["exit_signal"])
    assert "deadline" == found["intent"]["record"]["cause"]  # type: ignore[index]
    assert str(found["summary"]).startswith("stopped by its deadline")


def test_summary_replaces_what_a_link_leads_to(tmp_path: Path) -> None:
    """An old summary is replaced; a link to it stays a link."""
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    ran("run", "--summary", str(tmp_path / "link"), "true")

    assert (tmp_path / "link").is_symlink()
    assert 0 == json.loads((tmp_path / "real").read_text())["exit_status"]


@pytest.mark.parametrize("name", ["ledger.sqlite3", "ledger.sqlite3-wal", "copy.db"])
def test_summary_replaces_no_ledger(tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str) -> None:
    """A path that leads to a ledger by mistake costs no record: nothing is run."""
    for file in ("ledger.sqlite3", "ledger.sqlite3-wal", "copy.db"):
        (tmp_path / file).write_bytes(b"SQLite format 3\0...")
    status = ask(capfd, "run", "--no-record", "--summary", str(tmp_path / name), "true")

    assert 2 == status.status
    assert "is a database, or a part of one, which no summary replaces" in status.err
    assert b"SQLite format 3\0..." == (tmp_path / name).read_bytes()


def test_summary_of_an_earlier_run_is_taken_away(tmp_path: Path) -> None:
    """While the command runs there is no summary that could be taken for its own."""
    path = tmp_path / "s.json"
    path.write_text("{}")
    status, out, _ = ran("run", "--summary", str(path), "--", "sh", "-c", f"ls {tmp_path}; exit 3")

    assert (3, "") == (status, out)
    assert 3 == json.loads(path.read_text())["exit_status"]


def test_summary_of_an_earlier_run_outlives_a_misuse(tmp_path: Path) -> None:
    """Where the command line is not understood, nothing is lost."""
    path = tmp_path / "s.json"
    path.write_text("{}")
    ran("run", "--summary", str(path), "--grace", "1", "true")

    assert "{}" == path.read_text()


@pytest.mark.parametrize(
    ("command", "before", "status"),
    [
        ("/no/such/command", "pass", 127),
        ("/etc/passwd", "pass", 126),
        ("true", "import os; os.environ['TURNCTL_CONTAINMENT'] = 'group'\n" + NO_DESCRIPTORS, 125),
    ],
)
def test_summary_of_a_command_that_could_not_be_started(tmp_path: Path, command: str, before: str, status: int) -> None:
    """It replaces that of an earlier run, and says why nothing was run and how turnctl ended."""
    path = tmp_path / "s.json"
    path.write_text("{}")
    ended = call("run", "--summary", str(path), "--", command, before=before)
    found = json.loads(path.read_text())

    assert (status, status) == (ended.status, found["exit_status"])
    assert f"turnctl: error: {found['not_started']}\n" in ended.err
    assert (None, []) == (found["command_status"], found["processes"])


def test_summary_that_cannot_be_taken_away_is_refused(tmp_path: Path) -> None:
    """Where that of an earlier run would stay, nothing is run."""
    path = tmp_path / "s.json"
    path.write_text("{}")
    before = (
        "import os; real = os.unlink\n"
        "def no(path, *_):\n    if path.endswith('s.json'): raise PermissionError(1, 'Operation not permitted')\n"
        "    real(path)\nos.unlink = no"
    )
    status, out, err = call("run", "--summary", str(path), "echo", "ran", before=before)

    assert (2, "") == (status, out)
    assert "--summary: " in err
    assert "s.json, of an earlier run, cannot be replaced: Operation not permitted" in err


def test_summary_is_taken_away_where_turnctl_fails(tmp_path: Path) -> None:
    """Also a failure before the start leaves no earlier summary that could be taken for this run's."""
    path = tmp_path / "s.json"
    path.write_text("{}")
    status = call("run", "--summary", str(path), "true", before=NO_THREADS).status

    assert 125 == status
    assert not path.exists()


def test_exhausted_threads_are_no_fault() -> None:
    """A limit on threads is told as the exhausted limit that it is, with 125 and nothing run."""
    status, out, err = call("run", "echo", "ran", before=NO_THREADS)

    assert (125, "") == (status, out)
    assert "turnctl: error: could not start echo: no thread is to be had\n" in err
    assert "ulimit -u" in err
    assert "fault of turnctl" not in err


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({}, None),
        ({"LC_CTYPE": "C"}, "C"),
        ({"LC_CTYPE": ""}, ""),
        ({"LC_CTYPE": "C.UTF-8"}, "C.UTF-8"),
        ({"LANG": "C"}, None),
    ],
)
def test_locale_of_the_command_is_the_callers(given: dict[str, str], seen: str | None) -> None:
    """What Python does to LC_CTYPE for itself does not reach the command: it has the caller's, and a mark."""
    show = (
        "items = open('/proc/self/environ').read().split(chr(0)); "
        "print([item for item in items if item and not item.startswith('TURNCTL_HELD_BY=')])"
    )
    argv = turnctl_argv("run", "--no-record", sys.executable, "-I", "-S", "-c", show)
    done = subprocess.run(argv, env=given, capture_output=True, text=True, check=True, timeout=15)
    expected = [f"{name}={value}" for name, value in given.items()]

    assert f"{expected}\n" == done.stdout
    assert ("LC_CTYPE" in given) == (seen is not None)


def test_removed_folder_is_named(tmp_path: Path) -> None:
    """Where the current folder was removed, what is relative to it is refused with that reason."""

    def gone(*args: str) -> tuple[int, str]:
        folder = tmp_path / "gone"
        folder.mkdir()
        code = f"import os; os.chdir({str(folder)!r}); os.rmdir({str(folder)!r})"
        ended = call("run", *args, before=code)
        return ended.status, ended.err.splitlines()[-2] + ended.err.splitlines()[-1]

    status, err = gone("./x")
    assert (127, True) == (status, "./x" in err and "seen from the current folder, which has been removed" in err)
    status, err = gone("--summary", "x.json", "true")
    assert (2, True) == (status, "--summary: x.json: the current folder has been removed; give a path" in err)
    status, err = gone("-C", "sub", "true")
    assert (2, True) == (status, "--chdir: there is no folder 'sub': the current folder has been removed" in err)


def test_no_grace_is_told_as_what_it_is() -> None:
    """With no grace nobody is asked, and nothing says so."""
    err = ran("run", "--timeout", "300ms", "--grace", "0s", "--", "sh", "-c", f"{nap()} & wait").err
    left = ran("run", "--grace", "0s", "--", "sh", "-c", f"{nap()} & true").err

    # they may be gone before anybody could be named
    assert [] == [line for line in err.splitlines() if "waiting for" in line and not line.endswith("), KILL now")]
    assert "SIGTERM" not in err + left
    assert left.splitlines()[0].endswith(": killing them now")


@pytest.mark.parametrize("name", ["36", "RTMIN+2", "SIGRTMIN+2", "rtmax-28"])
def test_real_time_signal_can_ask(tmp_path: Path, name: str) -> None:
    """A real-time signal can ask, by number or from either end of their range."""
    path, gate = tmp_path / "s.json", Gate(tmp_path / "gate")
    command = f"echo ready >{gate}; exec sleep 60"
    process = start("run", "--signal", name, "--summary", str(path), "--", "sh", "-c", command)
    gate.wait()
    process.terminate()
    finish(process)
    gate.close()
    found: Any = json.loads(path.read_text())

    assert "SIGRTMIN+2" == found["command_signal"]
    assert "SIGRTMIN+2" == found["processes"][0]["signals"][0]["signal"]


def test_death_by_real_time_signal_is_named() -> None:
    """A command that dies of a real-time signal is told of by its name."""
    ended = ran("run", "sh", "-c", "kill -35 $$")

    assert (163, "turnctl: the command was ended by SIGRTMIN+1 (status 163)\n") == (ended.status, ended.err)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("0", "the numbers of signals go from 1 to 64"),
        ("99", "the numbers of signals go from 1 to 64"),
        ("-1", "the numbers of signals go from 1 to 64"),
        ("RTMIN+99", "real-time signals go from RTMIN to RTMAX, which is RTMIN+30"),
        ("TREM", "write it like TERM, SIGTERM or 15 (did you mean TERM?)"),
        ("stop please", "write it like TERM, SIGTERM or 15"),
    ],
)
def test_wrong_signal_is_told_what_is_right(capfd: pytest.CaptureFixture[str], given: str, hint: str) -> None:
    """A hint is given where one is near, and no silly one."""
    status, _, err = ask(capfd, "run", "--signal", given, "true")

    assert 2 == status
    assert f"turnctl: error: --signal: unknown signal {given!r}; {hint}" == err.splitlines()[0]


def test_processes_that_cannot_be_seen_are_not_made_up() -> None:
    """In a namespace with the /proc of the one around it no foreign process is named or waited for."""
    argv = ["unshare", "-Urpf", *turnctl_argv("run", "--timeout", "500ms", "--grace", "1s", "--", "sleep", "60")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=15, env=clean_environment())
    if done.stderr.startswith("unshare"):
        pytest.skip(f"this machine gives no namespaces: {done.stderr}")

    assert 124 == done.returncode, done.stderr
    assert "waiting for" not in done.stderr
    assert "cannot be seen here: only the command's own group was ended" in done.stderr.splitlines()[-1]


def test_summary_that_fails_late_is_told(tmp_path: Path) -> None:
    """A folder that goes away meanwhile loses the summary, not the status; stderr says so."""
    folder = tmp_path / "gone"
    folder.mkdir()
    status, _, err = ran("run", "--summary", str(folder / "s"), "--", "sh", "-c", f"rmdir {folder}; exit 6")

    assert 6 == status
    assert "turnctl: error: the summary could not be written" in err


# -- stderr that does not take what is said -------------------------------------------------------------------


def test_full_stderr_hangs_nothing() -> None:
    """Where nobody reads stderr the words are lost, and nothing waits for them."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"x" * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(write, True)
    argv = turnctl_argv("run", "--timeout", "200ms", "sleep", "60")
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stderr=write, timeout=20, check=False)
    os.close(read)
    os.close(write)

    assert 124 == done.returncode


def test_closed_stderr_is_no_trouble() -> None:
    """With stderr closed, or its reader gone, the status is right and nothing else is written to."""
    argv = turnctl_argv("run", "--timeout", "200ms", "sleep", "60")
    closed = subprocess.run(["sh", "-c", 'exec "$@" 2>&-', "sh", *argv], timeout=30, check=False)
    process = start("run", "--timeout", "200ms", "sleep", "60")
    assert process.stderr is not None
    process.stderr.close()

    assert 124 == closed.returncode
    assert until(lambda: process.poll() is not None)
    process.communicate()
    assert 124 == process.returncode


def test_names_cannot_move_the_cursor(tmp_path: Path) -> None:
    """A process whose name holds control characters is shown without them."""
    tool = tmp_path / "a\x1b[2Jb"
    tool.symlink_to("/bin/sleep")
    err = ran("run", "--timeout", "300ms", "--grace", "0s", "--", str(tool), "60").err

    assert "\x1b" not in err
    assert "stopped by its deadline" in err


@pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/2", "log"])
def test_summary_over_the_commands_own_output_is_refused(name: str, tmp_path: Path) -> None:
    """Replacing the file that the command writes to would lose what it wrote; nothing is run."""
    log = tmp_path / "log"
    target = str(log) if name == "log" else name
    argv = turnctl_argv("run", "--summary", target, "--", "sh", "-c", "echo precious")
    with log.open("w") as file:
        done = subprocess.run(argv, stdout=file, stderr=file, stdin=subprocess.DEVNULL, check=False, timeout=15)

    assert 2 == done.returncode
    assert "give a file of its own" in log.read_text()
    assert "precious" not in log.read_text()


@pytest.mark.parametrize(("close", "status"), [(">&-", 3), ("2>&-", 3), ("<&- >&- 2>&-", 3)])
def test_closed_streams_keep_the_status(close: str, status: int) -> None:
    """A caller that closed stdin, stdout or stderr gets the command's status, and no internal error."""
    argv = turnctl_argv("run", "--", "sh", "-c", f"exit {status}")
    line = " ".join(f"'{part}'" if "'" not in part else f'"{part}"' for part in argv)
    done = subprocess.run(["sh", "-c", f"{line} {close}"], capture_output=True, text=True, check=False, timeout=15)

    assert (status, "") == (done.returncode, done.stdout)
    assert "internal error" not in done.stderr


def test_what_the_machine_refuses_is_no_internal_error() -> None:
    """A full disk under a help text is told as what it is."""
    argv = turnctl_argv("--help")
    with open("/dev/full", "w") as full:
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=15)

    assert 125 == done.returncode
    assert "turnctl: error: could not write to stdout: No space left on device\n" in done.stderr
    assert "nothing was run" not in done.stderr


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["run", "--help"]])
def test_closed_stdout_is_told(words: list[str]) -> None:
    """With nowhere to write to, a text that was asked for is not lost in silence."""
    argv = ["sh", "-c", 'exec "$@" >&-', "sh", *turnctl_argv(*words)]
    done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, check=False, timeout=15)

    assert 125 == done.returncode
    assert "turnctl: error: could not write to stdout: it is closed\n" in done.stderr


@pytest.mark.parametrize("words", [["--", ""], ["--summary", "", "--", "true"]])
def test_empty_words_are_told_as_what_they_are(words: list[str]) -> None:
    """A variable that was not set is the usual cause, and the message says so; nothing is run."""
    status, out, err = ran("run", *words)

    assert (2, "") == (status, out)
    assert "is a variable in it not set?" in err
