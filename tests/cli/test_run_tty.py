"""``--tty``: a terminal in between, or none; and a terminal is as it was whoever dies."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import alive, nap, python
from launch import call, turnctl_argv
from ptys import CTRL_C, CTRL_D, Screen, Shell, on_terminal, program
from standins import until

pytestmark = pytest.mark.slow

RAW = "import os, time, tty; tty.setraw(0); os.write(1, b'raw;'); time.sleep(60)"
LISTENER = """
import os, signal
def tell():
    columns, rows = os.get_terminal_size(0)
    os.write(1, b"size %d %d;" % (rows, columns))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
tell()
signal.sigwait([signal.SIGWINCH])
tell()
print(open("/dev/tty").readline().strip(), flush=True)
"""


@pytest.fixture
def shell(tmp_path: Path, leak_check: object) -> Iterator[Shell]:
    """A shell with job control, and turnctl on its PATH."""
    with Shell(tmp_path) as shell:
        yield shell


def test_new_one_without_a_terminal() -> None:
    """From a pipe, the command has a terminal of 24 rows of 80 all the same, and all of its output comes through."""
    done = call(
        "run", "--tty", "new", "--", "sh", "-c", "stty size; test -t 0 -a -t 1 -a -t 2; echo $?; seq 30000; exit 4"
    )

    assert 4 == done.status
    assert ["24", "80", "0", "1"] == done.out.split()[:4]
    assert 30003 == len(done.out.split())
    assert "" == done.err


def test_stdin_is_typed_there(tmp_path: Path) -> None:
    """What comes on stdin is typed without an echo, and its end is the end of the command's input."""
    path = tmp_path / "in"
    path.write_bytes(b"one\ntwo")
    with path.open() as file:
        done = call("run", "--tty", "new", "--", "cat", stdin=file)

    assert (0, "one\ntwo") == (done.status, done.out)


def test_new_one_is_a_window_to_ours() -> None:
    """On a terminal the command has another one of the same size; keys go through, and so do changes of the size."""
    with on_terminal("run", "--tty", "new", "--", *python(LISTENER)) as screen:
        screen.see("size 24 200;")
        screen.setwinsize(33, 99)
        screen.see("size 33 99;")
        screen.send("typed\r")
        screen.see("typed")
        screen.see("typed")

        assert 0 == screen.ended()


def test_new_one_leaves_ours_as_it_was(shell: Shell, tmp_path: Path) -> None:
    """While it runs ours is raw; afterwards it is as before, and the shell has it."""
    before = shell.modes()
    shell.line("turnctl run --tty new cat")
    assert until(lambda: before != shell.modes())
    shell.send("typed\r")
    shell.see("typed\r\ntyped")
    shell.send(CTRL_D)
    shell.prompt()

    assert before == shell.modes()
    assert 0 == shell.exit_status()
    assert shell.is_in_front()


def test_ctrl_c_goes_through_to_the_command(shell: Shell) -> None:
    """Ctrl-C is a byte to us and a signal to the command; what it does not handle it dies of, and so do we."""
    tag = nap()
    before = shell.modes()
    shell.line(f"turnctl run --tty new -- sh -c 'echo ready; exec {tag}'")
    shell.see("ready")
    assert until(lambda: before != shell.modes())
    shell.send(CTRL_C)
    shown = shell.prompt()

    assert "turnctl" not in shown
    assert 128 + signal.SIGINT == shell.exit_status()
    assert [] == alive(tag)
    assert before == shell.modes()


def test_ignored_ctrl_c_is_a_press(shell: Shell) -> None:
    """What the command ignores stops the turn, and a second one kills; what is said stands at the left edge."""
    tag = nap()
    before = shell.modes()
    shell.line(f"turnctl run --grace 10m --tty new -- sh -c 'trap \"\" INT TERM; echo ready; {tag}'")
    shell.see("ready")
    assert until(lambda: before != shell.modes())
    shell.send(CTRL_C)
    shown = shell.see("KILL in 10m")
    shell.send(CTRL_C)
    shell.prompt()

    assert "turnctl: stop accepted (Ctrl-C)\r\nturnctl: waiting" in shown
    assert 128 + signal.SIGINT == shell.exit_status()
    assert [] == alive(tag)
    assert before == shell.modes()


@pytest.mark.parametrize("tty", ["inherit", "new"])
def test_terminal_is_restored_when_turnctl_is_killed(tty: str, tmp_path: Path) -> None:
    """SIGKILL of turnctl: its warden puts the terminal right, and a script without job control goes on reading."""
    raw = program(tmp_path, RAW)
    job = f"{shlex.join(turnctl_argv('run', '--tty', tty, '--'))} {raw} {nap()}"
    tag = job.rpartition(" ")[2]
    # a read in the moment before the foreground is the script's again fails
    with Screen(["sh", "-c", f"{job}; until read x; do :; done; echo was $x"]) as screen:
        before = screen.modes()
        screen.see("raw;")
        assert until(lambda: before != screen.modes())
        os.kill(screen.child(tag), signal.SIGKILL)
        assert until(lambda: before == screen.modes())
        assert until(lambda: screen.foreground == os.getpgid(screen.pid))
        screen.send("said\n")
        screen.see("was said")

        assert 0 == screen.ended()
    assert until(lambda: [] == alive(tag))


def test_killed_command_leaves_ours_as_it_was(shell: Shell, tmp_path: Path) -> None:
    """A command that is killed on a terminal of its own does nothing to ours."""
    before = shell.modes()
    shown = shell.run(f"turnctl run --tty new --grace 0s --timeout 2s -- {program(tmp_path, RAW)}")

    assert "raw;" in shown
    assert before == shell.modes()
    assert 124 == shell.exit_status()


def test_none_is_a_session_without_a_terminal(shell: Shell) -> None:
    """With none the command cannot open the terminal, and Ctrl-C is a press for turnctl."""
    tag = nap()
    shell.line(f"turnctl run --tty none -- sh -c '(: </dev/tty) 2>/dev/null || echo ready; exec {tag}'")
    shell.see("ready")
    shell.send(CTRL_C)
    shown = shell.prompt()

    assert "turnctl: stop accepted (Ctrl-C)" in shown
    assert 128 + signal.SIGINT == shell.exit_status()
    assert [] == alive(tag)


def test_background_job_with_a_new_one_waits_for_the_front(shell: Shell) -> None:
    """In the background it is stopped, as all that set the terminal are; brought to the front it begins."""
    before = shell.modes()
    shell.run("turnctl run --tty new -- sh -c 'echo begun; read x; echo was $x' &")
    assert until(lambda: "Stopped" in shell.run("jobs"))
    is_left_alone = before == shell.modes()
    shell.line("fg")
    shell.see("begun")
    assert until(lambda: before != shell.modes())
    shell.send("typed\r")
    shell.see("was typed")
    shell.prompt()

    assert is_left_alone
    assert 0 == shell.exit_status()
    assert before == shell.modes()


def test_new_one_in_a_scripts_background_runs_without_keys() -> None:
    """Where no shell could bring it to the front it runs, reads nothing and leaves the terminal to the script."""
    job = shlex.join(turnctl_argv("run", "--tty", "new", "--", "sh", "-c", "stty size; echo ended"))
    with Screen(["sh", "-c", f"{job} & read x; echo got $x; wait $!"]) as screen:
        screen.see("ended")
        screen.send("typed\n")
        screen.see("got typed")

        assert 0 == screen.ended()


def test_unknown_one_is_refused() -> None:
    """What is not known is refused, and the choices are named."""
    done = call("run", "--tty", "pty", "true")

    assert 2 == done.status
    assert "inherit" in done.err
