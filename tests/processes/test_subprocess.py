"""The stand-in for ``subprocess`` does what the standard library does, with a warden and without."""

from __future__ import annotations

import gc
import os
import signal
import subprocess as standard
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Gate, alive, nap, python, timed
from standins import BOUND, until

from turnctl.processes import subprocess


@pytest.fixture(autouse=True, params=["complete", "best-effort"])
def containment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test runs with a warden, and without one."""
    monkeypatch.delenv("TURNCTL_CONTAINMENT", raising=False)
    if request.param == "best-effort":
        monkeypatch.setenv("TURNCTL_CONTAINMENT", "group")
    return str(request.param)


def told(fn: Callable[[Any], object], module: Any) -> object:
    """What a call comes to: its value, or its error with all that a program can read of it."""
    try:
        return fn(module)
    except Exception as error:
        return type(error), str(error), getattr(error, "filename", None), getattr(error, "errno", None)


def test_every_public_name_is_there() -> None:
    """The stand-in has all names of the standard library's, and its exceptions and constants are the same objects."""
    same = [name for name in subprocess.__all__ if getattr(subprocess, name) is getattr(standard, name)]

    assert set(standard.__all__) <= set(subprocess.__all__)
    assert {"CalledProcessError", "CompletedProcess", "DEVNULL", "PIPE", "STDOUT", "SubprocessError"} < set(same)
    assert issubclass(subprocess.Popen, standard.Popen)


def test_private_ground_is_as_expected() -> None:
    """This Python's ``Popen`` has the methods that the stand-in replaces or calls."""
    needed = {"_execute_child", "_wait", "_internal_poll", "_communicate", "_stdin_write", "_close_pipe_fds"}

    assert set() == needed - set(vars(standard.Popen))
    assert {"args", "preexec_fn", "c2pwrite", "errwrite", "p2cread", "pass_fds", "process_group", "umask"} <= set(
        standard.Popen._execute_child.__code__.co_varnames  # type: ignore[attr-defined]
    )


BAD: dict[str, Callable[[Any], object]] = {
    "no such program": lambda m: m.run(["no-such-program-here"]),
    "no such program in a path": lambda m: m.run(["/no/such/program"]),
    "no such program in an empty path": lambda m: m.run(["true"], env={"PATH": "/nowhere"}),
    "a file that is no program": lambda m: m.run(["/etc/passwd"]),
    "a folder": lambda m: m.run(["/etc"]),
    "a file as a folder": lambda m: m.run(["/etc/passwd/x"]),
    "an executable that is not there": lambda m: m.run(["true"], executable="/no/such/program"),
    "a folder that is not there": lambda m: m.run(["true"], cwd="/no/such/folder"),
    "an empty folder": lambda m: m.run(["true"], cwd=""),
    "a file as cwd": lambda m: m.run(["true"], cwd="/etc/passwd"),
    "a number as cwd": lambda m: m.run(["true"], cwd=3),
    "no argument": lambda m: m.run([]),
    "a number as argument": lambda m: m.run(["true", 1]),
    "nothing": lambda m: m.run(None),
    "too much": lambda m: m.run(["true", "x" * 200_000]),
    "a null": lambda m: m.run(["tr\0ue"]),
    "a null in cwd": lambda m: m.run(["true"], cwd="a\0b"),
    "a null in the name of a variable": lambda m: m.run(["true"], env={"a\0": "b"}),
    "a null in a variable": lambda m: m.run(["true"], env={"a": "b\0"}),
    "= in the name of a variable": lambda m: m.run(["true"], env={"a=b": "c"}),
    "a number in a variable": lambda m: m.run(["true"], env={"a": 1}),
    "a list as environment": lambda m: m.run(["true"], env=[("a", "b")]),
    "a descriptor that is closed": lambda m: m.run(["true"], pass_fds=[9999]),
    "a negative descriptor": lambda m: m.run(["true"], pass_fds=[-1]),
    "a closed stdin": lambda m: m.run(["true"], stdin=9999),
    "a closed stdout": lambda m: m.run(["true"], stdout=9999),
    "a name as stdin": lambda m: m.run(["true"], stdin="file"),
    "STDOUT as stdin": lambda m: m.run(["true"], stdin=m.STDOUT),
    "a bad bufsize": lambda m: m.Popen(["true"], bufsize="big"),
    "startupinfo": lambda m: m.run(["true"], startupinfo=1),
    "creationflags": lambda m: m.run(["true"], creationflags=1),
    "text and not text": lambda m: m.run(["true"], text=True, universal_newlines=False),
    "an encoding that nobody knows": lambda m: m.run(["true"], encoding="none-such", stdout=m.PIPE),
    "input and stdin": lambda m: m.run(["true"], input=b"", stdin=m.PIPE),
    "capture_output and stdout": lambda m: m.run(["true"], capture_output=True, stdout=m.PIPE),
    "check_output and stdout": lambda m: m.check_output(["true"], stdout=1),
    "check_output and check": lambda m: m.check_output(["true"], check=True),
    "a user that nobody knows": lambda m: m.run(["true"], user="no-such-user"),
    "a negative user": lambda m: m.run(["true"], user=-1),
    "a user that is too great": lambda m: m.run(["true"], user=2**64),
    "groups that are too great": lambda m: m.run(["true"], extra_groups=[2**64]),
    "a name as umask": lambda m: m.run(["true"], umask="x"),
    "an argument that there is not": lambda m: m.run(["true"], bogus=1),
    "a path with a shell": lambda m: m.run(Path("/bin/true"), shell=True),
    "a preexec_fn that raises": lambda m: m.run(["true"], preexec_fn=lambda: 1 / 0),
    "status 3": lambda m: m.run(["sh", "-c", "exit 3"], check=True),
    "a signal": lambda m: m.check_call(["sh", "-c", "kill -9 $$"]),
    "a status of check_output": lambda m: m.check_output(["false"]),
}


def test_errors_are_those_of_the_standard_library() -> None:
    """Bad input is refused with the same type, text, file name and errno."""
    expected = {name: told(fn, standard) for name, fn in BAD.items()}

    assert expected == {name: told(fn, subprocess) for name, fn in BAD.items()}
    assert {tuple} == {type(one) for one in expected.values()}


GOOD: dict[str, Callable[[Any], object]] = {
    "bytes": lambda m: m.run(["sh", "-c", "echo out; echo err >&2"], capture_output=True).__dict__,
    "text": lambda m: m.run(["printf", "a\\r\\nb\\rc"], capture_output=True, text=True).__dict__,
    "merged": lambda m: m.run(["sh", "-c", "echo out; echo err >&2"], stdout=m.PIPE, stderr=m.STDOUT).stdout,
    "input": lambda m: m.run(["cat"], input=b"x" * 300_000, stdout=m.PIPE).stdout,
    "input and nobody who reads it": lambda m: m.run(["true"], input=b"x" * 300_000).returncode,
    "input as text": lambda m: m.run(["cat"], input="äö\r\n", stdout=m.PIPE, encoding="latin-1").stdout,
    "no input at all": lambda m: m.check_output(["cat"], input=None),
    "null device": lambda m: m.run(["cat"], stdin=m.DEVNULL, stdout=m.PIPE).stdout,
    "a shell": lambda m: m.run("echo $0 $1", shell=True, stdout=m.PIPE).stdout,
    "a shell with arguments": lambda m: m.run(["echo $0 $1", "a", "b"], shell=True, stdout=m.PIPE).stdout,
    "another shell": lambda m: m.run("echo $0", shell=True, executable="/bin/bash", stdout=m.PIPE).stdout,
    "another name": lambda m: m.run(["zzz", "-c", "echo $0"], executable="/bin/sh", stdout=m.PIPE).stdout,
    "a path": lambda m: m.run([Path("/bin/echo"), Path("a")], stdout=m.PIPE).stdout,
    "one string": lambda m: m.run("true").__dict__,
    "one path": lambda m: m.run(Path("/bin/true")).__dict__,
    "bytes of any kind": lambda m: m.run([b"printf", b"\xff"], stdout=m.PIPE).stdout,
    "environment": lambda m: m.run(["/usr/bin/env"], env={b"A": b"\xff", "B": "b"}, stdout=m.PIPE).stdout,
    "empty environment": lambda m: m.run(["/usr/bin/env"], env={}, stdout=m.PIPE).stdout,
    "cwd": lambda m: m.run(["pwd"], cwd="/", stdout=m.PIPE).stdout,
    "umask": lambda m: m.run(["sh", "-c", "umask"], umask=0o123, stdout=m.PIPE).stdout,
    "a session": lambda m: m.run(python(WHERE), start_new_session=True, stdout=m.PIPE).stdout,
    "a group of its own": lambda m: m.run(python(WHERE), process_group=0, stdout=m.PIPE).stdout.split()[1],
    "signals": lambda m: m.run(python(PIPE_SIGNAL), stdout=m.PIPE).stdout,
    "signals kept": lambda m: m.run(python(PIPE_SIGNAL), restore_signals=False, stdout=m.PIPE).stdout,
    "call": lambda m: m.call(["sh", "-c", "exit 3"]),
    "call of what a signal ends": lambda m: m.call(["sh", "-c", "kill -15 $$"]),
    "check_call": lambda m: m.check_call(args=["true"]),
    "check_output": lambda m: m.check_output(["cat"], input=b"x"),
    "getoutput": lambda m: m.getoutput("printf 'a\\n\\n'"),
    "getstatusoutput": lambda m: m.getstatusoutput("echo out; echo err >&2; exit 2"),
    "getstatusoutput of a signal": lambda m: m.getstatusoutput("kill -9 $$"),
    "list2cmdline": lambda m: m.list2cmdline(["a b", 'c"d']),
    "descriptors": lambda m: _handed_on(m),
}
WHERE = "import os; print(os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid())"
PIPE_SIGNAL = "print([line for line in open('/proc/self/status') if line.startswith('SigIgn')])"


def _handed_on(module: Any) -> object:
    """What is open in a command that is given one descriptor, and in one that is given all that is inheritable."""
    fds = (*os.pipe(), *os.pipe())
    os.set_inheritable(fds[2], True)
    try:
        code = "".join(f"test -e /proc/self/fd/{fd} && echo {number};" for number, fd in enumerate(fds))
        one = module.run(code, shell=True, pass_fds=[fds[1]], stdout=module.PIPE).stdout
        return one, module.run(code, shell=True, close_fds=False, stdout=module.PIPE).stdout
    finally:
        for fd in fds:
            os.close(fd)


def test_results_are_those_of_the_standard_library() -> None:
    """Arguments mean the same, and give the same output and status."""
    expected = {name: told(fn, standard) for name, fn in GOOD.items()}

    assert expected == {name: told(fn, subprocess) for name, fn in GOOD.items()}
    assert [] == [name for name, one in expected.items() if isinstance(one, tuple) and isinstance(one[0], type)]


def test_user_and_groups_are_the_commands(containment: str) -> None:
    """``user``, ``group`` and ``extra_groups`` are those of the command alone."""
    if os.getuid() != 0:
        pytest.skip("only root can give them")
    code = "id -u; id -g; id -G"
    ids = {"user": 65534, "group": 7, "extra_groups": [7, 8]}
    done = subprocess.run(["sh", "-c", code], stdout=subprocess.PIPE, text=True, **ids)  # type: ignore[call-overload]

    assert ["65534", "7", "7 8"] == done.stdout.splitlines()


# -- Popen ----------------------------------------------------------------------------------------------------------


def test_pipes_are_files_with_descriptors() -> None:
    """The three streams are binary or text files, can be polled, and are closed by the end of the ``with``."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(["cat"], **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"one\ntwo\n")
        process.stdin.flush()
        first = process.stdout.readline()
        process.stdin.close()
        rest = process.stdout.read()
        fds = [process.stdout.fileno(), process.stderr.fileno()]  # type: ignore[union-attr]
    with subprocess.Popen(["cat"], text=True, bufsize=1, **pipes) as process:
        assert process.stdin is not None
        process.stdin.write("lïne\n")  # line-buffered: it goes at once
        line = process.stdout.readline()  # type: ignore[union-attr]

    assert (b"one\n", b"two\n", "lïne\n") == (first, rest, line)
    assert 2 == len(set(fds))
    assert process.stdin.closed
    assert process.stdout.closed  # type: ignore[union-attr]
    assert 0 == process.returncode


def test_unbuffered_and_nonblocking_reads() -> None:
    """Without a buffer a read gives what is there; a descriptor that does not block says None."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        nothing = process.stdout.read()
        os.set_blocking(process.stdout.fileno(), True)
        process.stdin.write(b"abc")
        some = process.stdout.read(2)
        process.stdin.close()
        rest = process.stdout.read()

    assert (None, b"ab", b"c") == (nothing, some, rest)


def test_wait_and_poll(gate: Gate) -> None:
    """``returncode`` is set by ``poll`` and ``wait``; a wait that is too short raises with its own time."""
    process = subprocess.Popen(["sh", "-c", f"read x < {gate}; exit 4"])
    before = (process.poll(), process.returncode)
    with pytest.raises(standard.TimeoutExpired) as caught:
        process.wait(timeout=0.02)
    gate.open()

    assert (None, None) == before
    assert (["sh", "-c", f"read x < {gate}; exit 4"], 0.02) == (caught.value.cmd, caught.value.timeout)
    assert [4, 4, 4] == [process.wait(timeout=BOUND), process.wait(), process.poll()]
    assert f"returncode: 4 args: {process.args!r}"[:60] in repr(process)


def test_poll_learns_of_the_end_by_itself() -> None:
    """``poll`` alone comes to the status, with nobody who waits."""
    process = subprocess.Popen(["sh", "-c", "exit 5"])

    assert until(lambda: process.poll() is not None)
    assert 5 == process.returncode


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGUSR1])
def test_signals_reach_the_main_process(number: signal.Signals, gate: Gate) -> None:
    """``send_signal``, ``terminate`` and ``kill`` reach the main process, and the status is minus its number."""
    process = subprocess.Popen(["sh", "-c", f"echo > {gate}; exec sleep 60"])
    gate.wait()
    if number == signal.SIGTERM:
        process.terminate()
    elif number == signal.SIGKILL:
        process.kill()
    else:
        process.send_signal(number)

    assert -number == process.wait(BOUND)
    process.send_signal(number)
    process.kill()  # it is over: nothing happens


def test_bad_signals_are_refused() -> None:
    """What is no signal is refused as ``os.kill`` would."""
    with subprocess.Popen(["sleep", "60"]) as process:
        with pytest.raises(OSError, match="Invalid argument"):
            process.send_signal(999)
        with pytest.raises(TypeError, match="interpreted as an integer"):
            process.send_signal(None)  # type: ignore[arg-type]
        process.send_signal(0)
        process.kill()

    assert -signal.SIGKILL == process.returncode


def test_communicate_goes_on_after_a_timeout(gates: Callable[[], Gate]) -> None:
    """What was read stays, is in the error as bytes, and the next call returns all of it."""
    said, go = gates(), gates()
    code = f"cat; echo part; echo > {said}; read x < {go}; echo rest; echo err >&2"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(["sh", "-c", code], text=True, **pipes) as process:
        threading.Thread(target=said.wait).start()
        with pytest.raises(standard.TimeoutExpired) as caught:
            process.communicate("in\n", timeout=0.5)
        with pytest.raises(ValueError, match="Cannot send input after starting communication"):
            process.communicate("more")
        go.open()
        got = process.communicate(timeout=BOUND)

    assert 0.5 == caught.value.timeout
    assert b"in\npart\n" == caught.value.output
    assert (("in\npart\nrest\n", "err\n"), 0) == (got, process.returncode)


def test_communicate_takes_what_a_reader_left() -> None:
    """After a line was read, the rest is all that was not read, buffers included."""
    with subprocess.Popen(["printf", "one\\ntwo\\n"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        rest = process.communicate()

    assert (b"one\n", (b"two\n", None)) == (first, rest)


def test_large_streams_in_all_directions() -> None:
    """Three full pipes at once do not block each other."""
    code = "head -c 200000 /dev/zero >&2; wc -c; head -c 200000 /dev/zero"
    done = subprocess.run(code, shell=True, input=b"x" * 400_000, capture_output=True)

    assert b"400000\n" + bytes(200_000) == done.stdout
    assert 200_000 == len(done.stderr)


def test_timeout_has_the_output_so_far(gate: Gate) -> None:
    """``run`` raises with what was read, as bytes in text mode too, and the numeric time."""
    code = f"echo out; echo err >&2; echo > {gate}; exec sleep 60"
    with pytest.raises(standard.TimeoutExpired) as caught:
        subprocess.run(["sh", "-c", code], capture_output=True, text=True, timeout=0.5)

    assert (0.5, b"out\n", b"err\n") == (caught.value.timeout, caught.value.stdout, caught.value.stderr)
    assert "timed out after 0.5 seconds" in str(caught.value)


def test_dropped_handle_warns_and_changes_nothing() -> None:
    """A handle that nobody waited for warns as it goes; the command goes on until the program ends it."""
    tag = nap()
    process = subprocess.Popen(tag.split(), stdout=subprocess.DEVNULL)
    supervision = process._supervision  # type: ignore[attr-defined]
    pid = process.pid
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        del process
        gc.collect()

    assert [f"subprocess {pid} is still running"] == [str(one.message) for one in found]
    assert 1 == len(alive(tag))
    supervision.hurry(0.0)
    supervision.end(lambda: 0.0)
    assert [] == alive(tag)


def test_handle_that_was_waited_for_is_silent() -> None:
    """No warning, and nothing that refers to it, once its status was asked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        process = subprocess.Popen(["true"])
        process.wait()
        del process
        gc.collect()


def test_preexec_fn_runs_in_the_child(containment: str, tmp_path: Path) -> None:
    """It runs between fork and exec, which costs the proof: containment is best-effort, and the outcome says why."""
    process = subprocess.Popen(["pwd"], preexec_fn=lambda: os.chdir(tmp_path), stdout=subprocess.PIPE, text=True)
    got = process.communicate()[0]
    outcome = process.outcome()  # type: ignore[attr-defined]

    assert f"{tmp_path}\n" == got
    assert "best-effort" == outcome.containment
    assert containment == "best-effort" or any("runs in a fork of this program" in note for note in outcome.notes)


def test_containment_is_what_is_to_be_had(containment: str) -> None:
    """``outcome()`` tells of a command what ``turnctl.run`` tells."""
    process = subprocess.Popen(["true"])
    process.wait()

    assert containment == process.outcome().containment  # type: ignore[attr-defined]
    assert until(lambda: process.outcome().empty_proven == (containment == "complete"))  # type: ignore[attr-defined]


def test_audit_event_is_raised() -> None:
    """Who audits ``subprocess`` sees these commands too."""
    code = (
        "import sys; from turnctl.processes import subprocess\n"
        "sys.addaudithook(lambda name, args: name == 'subprocess.Popen' and print(args[0], args[1]))\n"
        "subprocess.run(['true', 'a'])"
    )
    done = standard.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=BOUND, check=True)

    assert "true ['true', 'a']" == done.stdout.splitlines()[0]


def test_timeout_kills_what_the_command_started() -> None:
    """Unlike the standard library: after its timeout ``run`` leaves nothing, though a shell's child holds the pipe."""
    tag = nap()
    with timed() as passed, pytest.raises(standard.TimeoutExpired):
        subprocess.run(f"{tag} & {tag}; echo", shell=True, stdout=subprocess.PIPE, timeout=0.3)

    assert [] == alive(tag)
    assert passed() < BOUND
