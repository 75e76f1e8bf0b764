"""Running a command to its end: results, output, arguments and errors."""

from __future__ import annotations

import errno
import inspect
import io
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from commands import FakeTurn, Gate, alive, nap, notes_of, python, timed
from standins import BOUND, Background, until

import turnctl
from turnctl.errors import BadArgument, BadDuration, CancelledError, CommandError, TurnctlError, TurnOver
from turnctl.processes import CommandFailed, CommandTimedOut
from turnctl.processes.arguments import read_options
from turnctl.processes.command import Unowned, popen, run
from turnctl.processes.options import PopenOptions, RunOptions

# -- results --------------------------------------------------------------------------------------------------


def test_both_streams_are_captured_apart(owner: FakeTurn) -> None:
    """By default stdout and stderr come back as bytes, with the exit status."""
    done = run(owner, "echo out; echo err >&2; exit 3", shell=True)

    assert (b"out\n", b"err\n", 3) == (done.stdout, done.stderr, done.returncode)
    assert (True, False, False) == (done.outcome.exited, done.outcome.stopped, done.outcome.timed_out)
    assert "echo out; echo err >&2; exit 3" == done.args


@pytest.mark.usefixtures("wardens")
def test_success_is_accounted_for(owner: FakeTurn) -> None:
    """A command that ends by itself was signalled by nobody; its activity is closed, its watch undone."""
    done = run(owner, ["true"])
    (activity,) = owner.activities

    assert () == done.outcome.signals + done.outcome.leftovers + done.outcome.survivors + notes_of(done.outcome)
    assert ("complete", True) == (done.outcome.containment, done.outcome.empty_proven)
    assert ("process", "true", "completed") == (activity.kind, activity.name, activity.record().state)
    assert 0 == owner.watched


def test_death_by_signal_has_a_negative_status(owner: FakeTurn) -> None:
    """A command that signal N ended has the status -N, as in subprocess, and was not stopped by us."""
    done = run(owner, "kill -USR1 $$", shell=True)

    assert -signal.SIGUSR1 == done.returncode
    assert signal.SIGUSR1 == done.outcome.signal
    assert not done.outcome.stopped


def test_merged_output_keeps_its_order(owner: FakeTurn) -> None:
    """With merge_stderr both streams are one, in the order they were written."""
    done = run(owner, "echo a; echo b >&2; echo c", shell=True, merge_stderr=True)

    assert (b"a\nb\nc\n", None) == (done.stdout, done.stderr)


def test_text_is_decoded_with_plain_newlines(owner: FakeTurn) -> None:
    """With text the streams are str, with every newline as \\n."""
    done = run(owner, r"printf 'a\r\nb\rc\n\303\244'", shell=True, encoding="utf-8")

    assert "a\nb\nc\nä" == done.stdout


def test_malformed_text_raises_as_in_subprocess(owner: FakeTurn) -> None:
    """Strict decoding raises for a command that ended by itself; errors= decides."""
    with pytest.raises(UnicodeDecodeError):
        run(owner, r"printf '\377'", shell=True, encoding="utf-8")

    assert "\ufffd" == run(owner, r"printf '\377'", shell=True, encoding="utf-8", errors="replace").stdout


def test_input_goes_through_in_full(owner: FakeTurn) -> None:
    """More input than a pipe holds is written and read at the same time."""
    data = os.urandom(1_000_000)

    assert data == run(owner, ["cat"], input=data).stdout


def test_text_input_is_encoded(owner: FakeTurn) -> None:
    """With text the input is a str in the same encoding."""
    assert "äöü\n" == run(owner, ["cat"], input="äöü\n", encoding="latin-1").stdout


def test_unread_input_is_no_error(owner: FakeTurn) -> None:
    """A command that closes its stdin early, or ends without reading, is nobody's error."""
    big = b"x" * 1_000_000

    assert 0 == run(owner, ["true"], input=big).returncode
    assert b"ok\n" == run(owner, "exec <&-; echo ok", shell=True, input=big).stdout


def test_stdin_is_the_null_device(owner: FakeTurn) -> None:
    """A command that reads stdin finds the end of it, not the terminal of the host."""
    assert b"/dev/null\n" == run(owner, ["readlink", "/proc/self/fd/0"]).stdout


def test_streams_can_be_sent_elsewhere(owner: FakeTurn, tmp_path: Path) -> None:
    """A file, a descriptor, the null device and subprocess's own constants are taken as streams."""
    with open(tmp_path / "out", "wb") as file:
        done = run(owner, "cat; echo err >&2", shell=True, stdout=file, stderr=subprocess.STDOUT, input=b"in\n")
    with open(tmp_path / "out", "rb") as file:
        again = run(owner, ["cat"], stdin=file.fileno(), stderr="null")
    nothing = run(owner, "echo lost", shell=True, stdout=subprocess.DEVNULL)

    assert (None, None) == (done.stdout, done.stderr)
    assert (b"in\nerr\n", None) == (again.stdout, again.stderr)
    assert (None, b"") == (nothing.stdout, nothing.stderr)


def test_without_capture_streams_are_inherited(owner: FakeTurn, capfd: pytest.CaptureFixture[str]) -> None:
    """capture=False leaves stdout and stderr where the host has them."""
    done = run(owner, "echo shown; echo told >&2", shell=True, capture=False)

    assert (None, None) == (done.stdout, done.stderr)
    assert ("shown\n", "told\n") == capfd.readouterr()


def test_cwd_and_env_are_the_commands(owner: FakeTurn, tmp_path: Path) -> None:
    """cwd and env mean what they mean to subprocess."""
    done = run(owner, ["/bin/sh", "-c", "pwd; echo $ONLY"], cwd=tmp_path, env={"ONLY": "this"}, text=True)

    assert f"{tmp_path}\nthis\n" == done.stdout


def test_host_descriptors_stay_at_home(owner: FakeTurn) -> None:
    """The command has no descriptor but its three."""
    read, write = os.pipe()
    os.set_inheritable(read, True)
    try:
        done = run(owner, ["ls", "/proc/self/fd"], text=True)
    finally:
        os.close(read)
        os.close(write)

    # the fourth is the directory that ls reads
    assert ["0", "1", "2", "3"] == done.stdout.split()  # type: ignore[union-attr]


def test_command_has_its_own_session(owner: FakeTurn) -> None:
    """Its session and group are its own, whatever the host's are."""
    done = run(owner, python("import os; print(os.getpid(), os.getpgrp(), os.getsid(0))"), text=True)
    pid, group, session = done.stdout.split()  # type: ignore[union-attr]

    assert pid == group == session == str(done.outcome.pid)


def test_group_mode_stays_in_the_session(owner: FakeTurn) -> None:
    """For a terminal the command gets a group of its own in the host's session."""
    done = run(owner, python("import os; print(os.getpid(), os.getpgrp(), os.getsid(0))"), text=True, tty="inherit")
    pid, group, session = done.stdout.split()  # type: ignore[union-attr]

    assert pid == group
    assert str(os.getsid(0)) == session


def test_default_signals_are_restored(owner: FakeTurn) -> None:
    """SIGPIPE, which Python ignores, is back to its default in the command, as with subprocess."""
    done = run(owner, ["grep", "SigIgn", "/proc/self/status"], text=True)
    ignored = int(done.stdout.split()[1], 16)  # type: ignore[union-attr]

    assert 0 == ignored & (1 << (signal.SIGPIPE - 1))


def test_start_is_told_with_the_pid(owner: FakeTurn) -> None:
    """on_start gets the pid of the running command."""
    told: list[int] = []
    done = run(owner, ["true"], on_start=told.append)

    assert [done.outcome.pid] == told


def test_failing_on_start_leaves_nothing(owner: FakeTurn) -> None:
    """An exception of on_start passes out after the command has been ended."""
    tag = nap()

    def fail(pid: int) -> None:
        raise KeyError(pid)

    with pytest.raises(KeyError):
        run(owner, f"{tag}; true", shell=True, on_start=fail)

    assert [] == alive(tag)
    assert "cancelled" == owner.activities[0].record().state


# -- check ----------------------------------------------------------------------------------------------------


def test_check_raises_ours_and_theirs(owner: FakeTurn) -> None:
    """A status other than 0 is a CommandError that code for subprocess catches too, with all that was written."""
    with pytest.raises(CommandError) as caught:
        run(owner, "echo out; echo why >&2; exit 4", shell=True, check=True)
    error = caught.value

    assert isinstance(error, CommandFailed)
    assert isinstance(error, subprocess.CalledProcessError)
    assert (4, b"out\n", b"why\n") == (error.returncode, error.stdout, error.stderr)
    assert 4 == error.completed.returncode
    assert "command 'echo out; echo why >&2; exit 4': exit status 4; stderr ends with 'why'" == str(error)


def test_check_passes_success(owner: FakeTurn) -> None:
    """With status 0 check changes nothing."""
    assert b"x\n" == run(owner, ["echo", "x"], check=True).stdout


def test_command_errors_survive_pickling(owner: FakeTurn) -> None:
    """Both errors come through a pickle with what they hold."""
    with pytest.raises(CommandFailed) as failed:
        run(owner, ["false"], check=True)
    with pytest.raises(CommandTimedOut) as late:
        run(owner, ["sleep", "60"], check=True, timeout=0.05)
    copies = [pickle.loads(pickle.dumps(error.value)) for error in (failed, late)]

    assert [str(failed.value), str(late.value)] == [str(copy) for copy in copies]
    assert failed.value.completed == copies[0].completed
    assert 0.05 == copies[1].timeout


# -- what cannot be run ---------------------------------------------------------------------------------------


def test_missing_binary_is_named(owner: FakeTurn) -> None:
    """A program that is not there is FileNotFoundError with its name, and the activity is closed as failed."""
    with pytest.raises(FileNotFoundError) as caught:
        run(owner, ["no-such-program-here", "x"])

    assert "no-such-program-here" == caught.value.filename
    assert "failed" == owner.activities[0].record().state
    assert owner.activities[0].owned is not None
    assert None is owner.activities[0].owned.outcome()
    assert 0 == owner.watched


def test_line_given_as_program_gets_a_hint(owner: FakeTurn) -> None:
    """A whole command line without shell=True says how to pass it."""
    with pytest.raises(FileNotFoundError) as caught:
        run(owner, "ls -l /")

    assert [
        "a command given as one string is the name of a program; pass a list, or shell=True"
    ] == caught.value.__notes__


def test_directory_as_binary_is_refused(owner: FakeTurn, tmp_path: Path) -> None:
    """A directory is PermissionError, as in subprocess."""
    with pytest.raises(PermissionError) as caught:
        run(owner, [tmp_path])

    assert str(tmp_path) == caught.value.filename


def test_file_without_x_bit_is_refused(owner: FakeTurn, tmp_path: Path) -> None:
    """A file that may not be executed is PermissionError, as in subprocess."""
    (tmp_path / "plain").write_text("echo no\n")
    with pytest.raises(PermissionError) as caught:
        run(owner, [tmp_path / "plain"])

    assert str(tmp_path / "plain") == caught.value.filename


def test_missing_cwd_is_named(owner: FakeTurn, tmp_path: Path) -> None:
    """A directory that is not there is FileNotFoundError with its name, not the program's."""
    with pytest.raises(FileNotFoundError) as caught:
        run(owner, ["true"], cwd=tmp_path / "gone")

    assert str(tmp_path / "gone") == os.fspath(caught.value.filename)


@pytest.mark.parametrize(
    ("args", "shell", "message"),
    [
        ([], False, "argv is empty; give at least the program to run, such as ['ls', '-l']"),
        ("", True, "the command is empty; give a program and its arguments, such as ['ls', '-l']"),
        (["echo", "a\0b"], False, "argv[1] has a NUL character at position 1, which the system cannot hand on"),
        (["echo", b"\0"], False, "argv[1] has a NUL character at position 0, which the system cannot hand on"),
        ("echo \0", True, "the command has a NUL character at position 5, which the system cannot hand on"),
    ],
)
def test_impossible_argv_is_refused(owner: FakeTurn, args: object, shell: bool, message: str) -> None:
    """An empty argv and a NUL are ValueErrors that say where and what to do; nothing was admitted."""
    with pytest.raises(ValueError) as caught:
        run(owner, args, shell=shell)  # type: ignore[arg-type]

    assert isinstance(caught.value, TurnctlError)
    assert str(caught.value).startswith(message)
    assert [] == owner.activities


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"cwd": "a\0b"}, ValueError, "cwd has a NUL character at position 1"),
        ({"cwd": ""}, ValueError, "cwd is empty; give a folder, or None for the current one"),
        ({"cwd": 5}, TypeError, "cwd is 5, of type int; give the folder as a str"),
        ({"env": 5}, TypeError, "env is of type int; give names and values"),
        ({"env": {"A": 1}}, TypeError, "the value of 'A' in env is 1, of type int; convert it with str()"),
        ({"env": {1: "a"}}, TypeError, "a name in env is 1, of type int; convert it with str()"),
        ({"env": {"A": "\0"}}, ValueError, "the value of 'A' in env has a NUL character at position 0"),
        ({"env": {"A=B": "c"}}, ValueError, "env has the name 'A=B', which none can have"),
        ({"env": {"": "c"}}, ValueError, "env has the name '', which none can have"),
        ({"input": 1.5}, TypeError, "input is 1.5, of type float; give bytes, or a str with text=True"),
    ],
)
def test_impossible_option_is_refused(
    owner: FakeTurn, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    """A folder, a variable or an input that cannot be is named, and nothing was admitted."""
    with pytest.raises(error) as caught:
        run(owner, ["true"], **options)

    assert str(caught.value).startswith(message)
    assert [] == owner.activities


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["sleep", 1], "argv[1] is 1, of type int; each argument of a command is a str, bytes or a path"),
        (None, "the command is None, of type NoneType; each argument"),
        (7, "the command is 7, of type int; each argument"),
    ],
)
def test_argument_of_wrong_type_is_named(owner: FakeTurn, args: object, message: str) -> None:
    """An argument that is no text is a TypeError that names it."""
    with pytest.raises(TypeError) as caught:
        run(owner, args)  # type: ignore[arg-type]

    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("options", "error", "word"),
    [
        ({"timeout": 0}, BadDuration, "timeout"),
        ({"timeout": -1}, BadDuration, "timeout"),
        ({"grace": -1}, BadDuration, "grace"),
        ({"stop_signal": "TREM"}, BadArgument, "unknown stop_signal 'TREM'"),
        ({"stop_signal": 0}, BadArgument, "unknown stop_signal 0"),
        ({"on_stop": "ignore"}, BadArgument, "unknown on_stop 'ignore'"),
        ({"tty": "yes"}, BadArgument, "unknown tty 'yes'"),
        ({"stdin": "pipe"}, BadArgument, "stdin='pipe' is not possible here; use one of null, inherit"),
        ({"stdout": "stdout"}, BadArgument, "stdout='stdout' is not possible here"),
        ({"input": b"", "stdin": "null"}, BadArgument, "stdin and input cannot both be given"),
        ({"stderr": "null", "merge_stderr": True}, BadArgument, "stderr and merge_stderr cannot both"),
        ({"input": "text"}, TypeError, "input is a str; give bytes, or text=True"),
        ({"input": b"bytes", "text": True}, TypeError, "input is of type bytes; with text=True give a str"),
        ({"encoding": "no-such"}, LookupError, "no-such"),
    ],
)
def test_wrong_option_is_refused(
    owner: FakeTurn, options: dict[str, object], error: type[Exception], word: str
) -> None:
    """A wrong option is refused before anything is started, with a message that names it."""
    with pytest.raises(error) as caught:
        run(owner, ["true"], **options)  # type: ignore[arg-type]

    assert word in str(caught.value)
    assert [] == owner.activities


# -- before the start -----------------------------------------------------------------------------------------


def test_stopped_owner_starts_nothing(owner: FakeTurn, tmp_path: Path) -> None:
    """Once a stop is wanted nothing is started, and the call raises without a partial."""
    owner.stop()
    with pytest.raises(CancelledError) as caught:
        run(owner, ["touch", tmp_path / "made"])

    assert None is caught.value.partial
    assert not (tmp_path / "made").exists()


def test_refused_admission_starts_nothing(owner: FakeTurn, tmp_path: Path) -> None:
    """An owner that has been decided takes no command, and none is started."""
    owner.is_closed = True
    with pytest.raises(TurnOver):
        run(owner, ["touch", tmp_path / "made"])

    assert not (tmp_path / "made").exists()


# -- leftovers ------------------------------------------------------------------------------------------------


def test_leftover_that_holds_stdout_is_named(owner: FakeTurn) -> None:
    """The call comes back soon after the command, with the leftover in the outcome; it ends with the owner."""
    tag = nap()
    with timed() as passed:
        done = run(owner, f"echo said; {tag} &", shell=True)

    assert 1.0 > passed()
    assert (b"said\n", 0) == (done.stdout, done.returncode)
    (left,) = done.outcome.leftovers
    assert ("sleep", "still running when the command had ended") == (left.name, left.reason)
    assert [left.pid] == alive(tag)
    assert [f"process {left.pid} (sleep)"] == list(owner.activities[0].owned.alive())  # type: ignore[union-attr]
    owner.end()
    assert [] == alive(tag)
    assert "completed" == owner.activities[0].record().state
    outcome = owner.activities[0].owned.outcome()  # type: ignore[union-attr]
    assert outcome is not None
    assert (1, 0, ("SIGTERM",)) == (outcome.ended, outcome.killed, tuple(s.signal for s in outcome.signals))


def test_leftover_with_its_own_streams_is_found(owner: FakeTurn) -> None:
    """A leftover that holds no pipe costs no waiting and is named all the same."""
    tag = nap()
    with timed() as passed:
        done = run(owner, f"{tag} >/dev/null 2>&1 &", shell=True)

    assert 1.0 > passed()
    assert alive(tag) == [left.pid for left in done.outcome.leftovers]


def test_background_job_in_its_own_group_is_found(owner: FakeTurn) -> None:
    """A job that the shell put into a group of its own is found by the session."""
    tag = nap()
    done = run(owner, ["bash", "-c", f"set -m; {tag} >/dev/null 2>&1 & true"])

    assert alive(tag) == [left.pid for left in done.outcome.leftovers]
    owner.end()
    assert [] == alive(tag)


def test_stop_after_the_call_ends_leftovers_at_once(owner: FakeTurn) -> None:
    """A stop of the owner starts the ladder on leftovers, before the owner's end."""
    tag = nap()
    run(owner, f"trap '' TERM; {tag} &", shell=True)
    owner.stop(grace_s=0.2)

    assert until(lambda: not alive(tag))
    assert until(lambda: not owner.activities[0].is_open)


def test_noisy_leftover_does_not_hold_the_call(owner: FakeTurn) -> None:
    """A leftover that never stops writing delays the call by a second at most, and no longer."""
    with timed() as passed:
        done = run(owner, "yes & sleep 0.05", shell=True)

    assert BOUND > passed()
    assert (done.stdout or b"").startswith(b"y\n")  # type: ignore[arg-type]
    assert 1 == len(done.outcome.leftovers)
    assert any("held open" in note for note in done.outcome.notes)


def test_without_owner_leftovers_end_at_once(leak_check: object) -> None:
    """Without a turn a command is supervised and leaves nothing behind."""
    tag = nap()
    done = run(Unowned(), f"{tag} & echo x", shell=True)

    assert (b"x\n", 0) == (done.stdout, done.returncode)
    assert (1, 1) == (len(done.outcome.leftovers), done.outcome.ended)
    assert [] == alive(tag)


def test_without_owner_the_timeout_holds(leak_check: object) -> None:
    """Without a turn a command has its own timeout."""
    tag = nap()
    done = run(Unowned(), f"{tag} & {tag}", shell=True, timeout="100ms")

    assert done.outcome.timed_out
    assert [] == alive(tag)


# -- being interrupted ----------------------------------------------------------------------------------------


def test_exception_in_the_wait_ends_the_command(gate: Gate) -> None:
    """A KeyboardInterrupt that strikes while the call waits passes out after the tree has been ended."""
    tag = nap()
    code = (
        "import signal, sys\n"
        "from turnctl.processes.command import Unowned, run\n"
        f"run(Unowned(), 'echo > {gate}; {tag} & {tag}', shell=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) as host:
        gate.wait()
        assert until(lambda: len(alive(tag)) >= 2)
        host.send_signal(signal.SIGINT)
        _, err = host.communicate(timeout=BOUND)

    assert b"KeyboardInterrupt" in err
    assert -signal.SIGINT == host.returncode
    assert [] == alive(tag)


def test_second_exception_in_the_wait_kills(gate: Gate) -> None:
    """A second Ctrl-C spends the grace: the tree is killed before the exception passes out."""
    tag = nap()
    code = (
        "from turnctl.processes.command import Unowned, run\n"
        "from turnctl import points\n"
        "import os\n"
        "points.hook = lambda name: '.launch.' in name or os.write(1, name[-7:].encode())\n"
        f"run(Unowned(), \"trap '' TERM; echo > {gate}; {tag}; {tag}\", shell=True, grace=60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as host:
        assert host.stdout is not None
        assert b"dmittedspawned" == host.stdout.read(14)
        gate.wait()
        host.send_signal(signal.SIGINT)
        assert b"r.asked" == host.stdout.read(7)
        host.send_signal(signal.SIGINT)
        host.communicate(timeout=BOUND)

    assert -signal.SIGINT == host.returncode
    assert [] == alive(tag)


def test_many_commands_at_once_stay_apart(owner: FakeTurn) -> None:
    """Commands on eight threads of one turn each get their own output and status."""
    calls = [
        Background(lambda n=n: [run(owner, f"echo {n}; exit {n}", shell=True, text=True) for _ in range(10)])
        for n in range(8)
    ]
    found = [{(done.stdout, done.returncode) for done in call.result()} for call in calls]

    assert [{(f"{n}\n", n)} for n in range(8)] == found


@pytest.mark.parametrize("name", ["stdin", "stdout", "stderr"])
@pytest.mark.parametrize(
    ("given", "kind", "what"),
    [
        (5000, BadArgument, "=5000 is no open descriptor"),
        (2**40, BadArgument, "=1099511627776 is no open descriptor"),
        (float("nan"), TypeError, " is nan, of type float"),
        (b"null", TypeError, " is b'null', of type bytes"),
        (True, TypeError, "=True is not possible"),
        (io.StringIO(), BadArgument, "has no descriptor (fileno)"),
        ("nul", BadArgument, "='nul' is not possible here"),
        (-9, BadArgument, "=-9 is not possible here"),
    ],
)
def test_wrong_stream_is_named(owner: FakeTurn, name: str, given: object, kind: type[Exception], what: str) -> None:
    """A stream that cannot be one is refused before the start, by the name of the argument and with what can be."""
    with pytest.raises(kind) as caught:
        run(owner, ["true"], **{name: given})  # type: ignore[arg-type]

    assert str(caught.value).startswith(name)
    assert what in str(caught.value)
    assert "use one of" in str(caught.value)
    assert [] == owner.activities


def test_closed_file_is_named(owner: FakeTurn, tmp_path: Path) -> None:
    """A file that has been closed is refused as what it is."""
    with open(tmp_path / "f", "w") as file:
        pass
    with pytest.raises(BadArgument, match="stdout=.* has no descriptor .*closed file"):
        run(owner, ["true"], stdout=file)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("capture_output", "capture=True is the default"),
        ("universal_newlines", "here it is text=True"),
        ("timout", "did you mean timeout?"),
        ("start_new_session", 'it is the default; tty="inherit" leaves the command in this session'),
        ("xyzzy", "it has: before_exec, capture, check, "),
    ],
)
def test_unknown_option_is_told_the_near_one(owner: FakeTurn, name: str, hint: str) -> None:
    """An option that is not there is a TypeError that says what it is called here."""
    with pytest.raises(TypeError) as caught:
        run(owner, ["true"], **{name: True})

    assert str(caught.value).startswith(f"run() has no option {name}; {hint}")


def test_option_of_run_is_told_what_popen_has(owner: FakeTurn) -> None:
    """What only run takes is answered with what a handle has for it."""
    with pytest.raises(TypeError, match=re.escape('popen() has no option input; start it with stdin="pipe"')):
        popen(owner, ["cat"], input=b"x")


def test_options_are_the_parameters() -> None:
    """The names that type checkers and error messages know are those that the functions take."""
    read = set(inspect.signature(read_options).parameters) - {"function", "holder", "args", "data", "unknown"}
    for function, options in ((run, RunOptions), (popen, PopenOptions)):
        taken = set(inspect.signature(function).parameters) - {"holder", "args", "options"}

        assert taken | read == set(options.__annotations__)


@pytest.mark.parametrize(("given", "number"), [("RTMIN+1", 35), (35, 35), ("sigrtmax-29", 35)])
def test_real_time_signal_can_ask(owner: FakeTurn, given: int | str, number: int) -> None:
    """A stop can begin with a real-time signal, and the outcome names it."""
    done = run(owner, ["sleep", "60"], timeout=0.1, stop_signal=given)

    assert -number == done.returncode
    assert ["SIGRTMIN+1"] == [sent.signal for sent in done.outcome.signals]


@pytest.mark.parametrize("start", [run, popen])
def test_refused_thread_is_an_exhausted_limit(monkeypatch: pytest.MonkeyPatch, start: Any) -> None:
    """Where no thread is to be had the error is that of an exhausted limit, by the command's name; nothing is left."""

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    tag = nap()
    turn = turnctl.turn()
    with turn:
        for name in ("_start_new_thread", "_start_joinable_thread"):
            monkeypatch.setattr(threading, name, refuse, raising=False)
        with pytest.raises(BlockingIOError) as caught:
            start(turn, tag.split())
        monkeypatch.undo()

    assert errno.EAGAIN == caught.value.errno
    assert f"{tag}: no thread is to be had" in str(caught.value)
    assert [] == alive(tag)
