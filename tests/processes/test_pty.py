"""A terminal of its own for a command: size, echo, the end of its input, and all of its output."""

from __future__ import annotations

import os
import signal
import termios
from typing import Any

import pytest
from commands import FakeTurn, nap, python

from turnctl.errors import BadArgument, TurnctlError
from turnctl.processes.command import popen, run
from turnctl.processes.pty import Pty
from turnctl.processes.ttys import NewTty


def open_descriptors() -> list[str]:
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")]


LISTENER = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
print("ready", flush=True)
signal.sigwait([signal.SIGWINCH])
columns, rows = os.get_terminal_size(0)
print("size", rows, columns, flush=True)
for line in sys.stdin:
    print("got", line.strip(), flush=True)
"""


@pytest.fixture(params=["warden", "group"])
def custody(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way to hold a command."""
    monkeypatch.delenv("TURNCTL_CONTAINMENT", raising=False)
    if request.param == "group":
        monkeypatch.setenv("TURNCTL_CONTAINMENT", "group")
    return str(request.param)


@pytest.mark.usefixtures("custody")
def test_command_has_a_terminal_of_its_own(owner: FakeTurn) -> None:
    """All three streams are one terminal, which controls its session and has it in the foreground."""
    code = """
import os
same = os.ttyname(0) == os.ttyname(1) == os.ttyname(2)
me = os.getpid()
print(same, os.getsid(0) == os.getpgrp() == os.tcgetpgrp(0) == me, os.open("/dev/tty", os.O_RDWR) > 2)
os.write(2, b"also\\n")
"""
    done = run(owner, python(code), tty="new", text=True)

    assert (0, "True True True\nalso\n", None) == (done.returncode, done.stdout, done.stderr)


@pytest.mark.usefixtures("custody")
def test_size_is_as_given(owner: FakeTurn) -> None:
    """Its size is what was asked for, and what it writes comes as a terminal gives it."""
    assert b"31 97\r\n" == run(owner, ["stty", "size"], tty="new", tty_size=(31, 97)).stdout


def test_size_is_usual_without_a_terminal(owner: FakeTurn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where this program has no terminal it has 24 rows of 80."""
    monkeypatch.setattr(os, "get_terminal_size", lambda _: (_ for _ in ()).throw(OSError))

    assert b"24 80\r\n" == run(owner, ["stty", "size"], tty="new").stdout


@pytest.mark.usefixtures("custody")
@pytest.mark.parametrize("typed", [b"", b"one\n", b"one\ntwo"])
def test_input_ends_by_the_character_for_it(owner: FakeTurn, typed: bytes) -> None:
    """A command that reads to the end gets what was typed and then the end, also within a line; nothing is echoed."""
    done = run(owner, ["cat"], tty="new", input=typed or None, timeout=20)

    assert (0, typed.replace(b"\n", b"\r\n")) == (done.returncode, done.stdout)


def test_input_is_echoed_if_asked(owner: FakeTurn) -> None:
    """With tty_echo what is typed is shown as well."""
    done = run(owner, ["cat"], tty="new", tty_echo=True, text=True, input="x\n", timeout=20)

    assert "x\nx\n" == done.stdout


@pytest.mark.usefixtures("custody")
def test_output_after_the_exit_is_drained(owner: FakeTurn) -> None:
    """What a command wrote just before its end is there to the last byte."""
    done = run(owner, ["seq", "100000"], tty="new", text=True)

    assert ["99999", "100000"] == str(done.stdout).split()[-2:]
    assert 100000 == len(str(done.stdout).split())


@pytest.mark.usefixtures("custody")
def test_handle_resizes_and_types(owner: FakeTurn) -> None:
    """resize() is told by SIGWINCH, write() is typed, and close_stdin() ends the input."""
    with popen(owner, python(LISTENER), tty="new", stdin="pipe", text=True) as process:
        lines = iter(process)
        ready = next(lines)
        process.resize(40, 120)
        size = next(lines)
        process.write("hello\n")
        got = next(lines)
        process.close_stdin()
        status = process.wait(20)
        process.resize(1, 1)  # over: nothing happens

    assert ("ready\n", "size 40 120\n", "got hello\n", 0) == (ready, size, got, status)


def test_handle_without_stdin_has_no_input(owner: FakeTurn) -> None:
    """Without stdin="pipe" the input has ended from the start, and there is nothing to write to."""
    with popen(owner, ["cat"], tty="new") as process:
        assert 0 == process.wait(20)
        with pytest.raises(TurnctlError, match="closed"):
            process.write(b"x")


@pytest.mark.usefixtures("custody")
def test_stop_ends_it_and_keeps_its_output(owner: FakeTurn) -> None:
    """A timeout ends a command on a terminal of its own as any other."""
    done = run(owner, ["sh", "-c", f"echo begun; {nap()}"], tty="new", timeout="500ms", grace=0)

    assert (True, b"begun\r\n", -signal.SIGKILL) == (done.outcome.timed_out, done.stdout, done.returncode)


@pytest.mark.usefixtures("custody")
def test_background_reader_hangs_nothing(owner: FakeTurn) -> None:
    """A child in the background that was stopped for reading the terminal ends with the command."""
    code = f"set -m; cat & {nap()} & sleep 0.1; echo done"
    done = run(owner, ["bash", "-c", code], tty="new", text=True, grace=5, timeout=60)

    assert "done" in str(done.stdout)
    assert (False, ()) == (done.outcome.timed_out, done.outcome.survivors)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"tty": "pty"}, BadArgument, "unknown tty 'pty'; use inherit, new or None"),
        ({"tty_size": (24, 80)}, BadArgument, "tty_size and tty_echo are of a terminal that is made"),
        ({"tty_echo": True}, BadArgument, "tty_size and tty_echo are of a terminal that is made"),
        ({"tty": "new", "tty_echo": 1}, TypeError, "tty_echo is 1"),
        ({"tty": "new", "tty_size": 24}, TypeError, "tty_size is 24; give rows and columns"),
        ({"tty": "new", "tty_size": (0, 80)}, BadArgument, "rows and columns go from 1 to 65535"),
        ({"tty": "new", "tty_size": (2.0, 80)}, TypeError, "whole numbers"),
        ({"tty": "new", "stdout": "null"}, BadArgument, "all three streams are the new terminal"),
        ({"tty": "new", "stdin": "null"}, BadArgument, "all three streams are the new terminal"),
        ({"tty": "new", "capture": False}, BadArgument, "all three streams are the new terminal"),
    ],
)
def test_wrong_wishes_are_refused(owner: FakeTurn, options: Any, error: type[Exception], words: str) -> None:
    """What makes no sense for a terminal is refused before anything is started."""
    for start in (run, popen):
        with pytest.raises(error, match=words.replace("(", "[(]")):
            start(owner, ["true"], **options)


def test_only_its_own_terminal_is_resized(owner: FakeTurn) -> None:
    """A command without a terminal of its own has no size to set."""
    with popen(owner, nap().split()) as process:
        with pytest.raises(TurnctlError, match='start it with tty="new"'):
            process.resize(24, 80)
        with pytest.raises(BadArgument, match="the size of a terminal is"):
            process.resize(0, 80)


def test_program_that_reads_keys_is_told_of_no_end() -> None:
    """Where the driver hands over single keys, nothing is typed at the end."""
    pty = Pty(NewTty((24, 80), echo=False))
    cooked = (pty.last_words(in_line=False), pty.last_words(in_line=True))
    modes = termios.tcgetattr(pty.end)
    modes[3] &= ~termios.ICANON
    termios.tcsetattr(pty.end, termios.TCSANOW, modes)
    raw = pty.last_words(in_line=True)
    os.close(pty.end)
    pty.close()
    pty.close()

    assert ((b"\x04", b"\x04\x04"), b"", b"") == (cooked, raw, pty.last_words(in_line=True))


def test_failed_start_leaves_nothing_open(owner: FakeTurn) -> None:
    """A command that is not found leaves no terminal behind."""
    found = []
    for _ in range(3):
        with pytest.raises(FileNotFoundError):
            run(owner, ["no-such-command"], tty="new")
        found.append(sum(os.readlink(f"/proc/self/fd/{fd}").startswith("/dev/pt") for fd in open_descriptors()))

    assert found[0] == found[1] == found[2]
