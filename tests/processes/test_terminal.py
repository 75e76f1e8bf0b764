"""The terminal's foreground and settings: handed over, taken back, restored, and no trouble after a hang-up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile

import pytest
from commands import nap
from launch import ROOT
from ptys import CTRL_C, Screen
from standins import until

from turnctl.processes.sentinel import reaction
from turnctl.processes.terminal import Terminal

HEAD = f"""
import os, signal, subprocess, sys, time
sys.path.insert(0, {ROOT!r})
from turnctl.processes.terminal import Terminal
terminal = Terminal.find()
def say(*words):
    os.write(1, (" ".join(map(str, words)) + ";").encode())
def child(code, **options):
    argv = [sys.executable, "-I", "-S", "-c", code]
    return subprocess.Popen(argv, process_group=0, stdout=subprocess.PIPE, **options)
"""


def on_a_terminal(code: str) -> Screen:
    """A Python program that leads the session of a terminal, and has found it."""
    return Screen([sys.executable, "-I", "-c", HEAD + code])


def test_without_a_terminal_there_is_none() -> None:
    """A process without a controlling terminal finds none, whatever its standard streams are."""
    code = f"""
import sys; sys.path.insert(0, {ROOT!r})
from turnctl.processes.terminal import Terminal
print(Terminal.find())
"""
    argv = [sys.executable, "-I", "-c", code]
    done = subprocess.run(argv, start_new_session=True, capture_output=True, text=True, timeout=30, check=True)

    assert "None\n" == done.stdout


def test_foreground_goes_there_and_back() -> None:
    """The foreground is handed to a child's group and taken back, and we are not stopped by doing so."""
    code = """
c = child("input()", stdin=subprocess.PIPE)
say(terminal.is_ours(), terminal.give(c.pid), terminal.foreground() == c.pid, terminal.is_ours())
terminal.take()
say(terminal.is_ours())
c.communicate(b"\\n")
"""
    with on_a_terminal(code) as screen:
        screen.see("True True True False;True;")

        assert 0 == screen.ended()


def test_foreground_of_others_is_not_given_away() -> None:
    """A group that does not hold the foreground hands nothing over: it belongs to somebody else."""
    code = """
c = child("input()", stdin=subprocess.PIPE)
terminal.give(c.pid)
d = child("input()", stdin=subprocess.PIPE)
say(terminal.give(d.pid), terminal.give(c.pid), terminal.foreground() == c.pid)
c.communicate(b"\\n"); d.communicate(b"\\n")
"""
    with on_a_terminal(code) as screen:
        screen.see("False True True;")

        assert 0 == screen.ended()


def test_child_claims_the_foreground_before_exec() -> None:
    """A child that claims the foreground between fork and exec has it in its first moment."""
    code = """
look = "import os; print(os.tcgetpgrp(0) == os.getpgrp())"
for _ in range(5):
    say(child(look, preexec_fn=terminal.claim).communicate()[0].decode().strip())
    terminal.take()
"""
    with on_a_terminal(code) as screen:
        screen.see("True;" * 5)

        assert 0 == screen.ended()


def test_settings_are_kept_and_put_back() -> None:
    """What the driver was set to at the hand-over can be put back, also from the background."""
    code = """
before = terminal.modes()
c = child("import time; time.sleep(60)")
terminal.give(c.pid)
terminal.set_modes([0, *before[1:]])
say(before == terminal.modes(), before == terminal.saved)
terminal.set_modes(terminal.saved)
say(before == terminal.modes(), terminal.is_ours())
c.kill(); c.wait()
"""
    with on_a_terminal(code) as screen:
        screen.see("False True;True False;")

        assert 0 == screen.ended()


def test_mask_is_as_it_was() -> None:
    """The signals that a command would inherit as blocked are the same afterwards."""
    code = """
c = child("input()", stdin=subprocess.PIPE)
before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
terminal.give(c.pid); terminal.set_modes(terminal.modes()); terminal.take()
say(before == signal.pthread_sigmask(signal.SIG_BLOCK, ()))
c.communicate(b"\\n")
"""
    with on_a_terminal(code) as screen:
        screen.see("True;")


def test_hang_up_makes_everything_do_nothing() -> None:
    """Once the terminal has gone away nothing raises, and nothing is claimed."""
    code = """
import pathlib
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
modes = terminal.modes()
say("ready")
signal.sigwait([signal.SIGHUP])
terminal.take(); terminal.set_modes(modes)
found = (terminal.foreground(), terminal.is_ours(), terminal.modes(), terminal.give(os.getpid()))
pathlib.Path(sys.argv[1]).write_text(repr(found))
"""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "found")
        with Screen([sys.executable, "-I", "-c", HEAD + code, path]) as screen:
            screen.see("ready")
            screen.hang_up()
            screen.ptyproc.wait()
        with open(path) as file:
            assert "(None, False, None, False)" == file.read()


def test_shell_that_could_continue_us_is_found() -> None:
    """The leader of a session has no shell above it; what a shell starts in a group of its own has that shell."""
    code = f"""
say(terminal.shell_group())
look = '''{HEAD}
say(terminal.shell_group() == os.getppid())
'''
say(subprocess.run([sys.executable, "-I", "-c", look], process_group=0).returncode)
"""
    with on_a_terminal(code) as screen:
        screen.see("None;")
        screen.see("True;0;")


def test_peers_are_those_beside_us() -> None:
    """The rest of a pipeline is in our group; who called us and whom we called is not meant."""
    code = f"""
look = '''{HEAD}
say(terminal.has_peers())
'''
mine = subprocess.Popen(["sleep", "60"])
say(terminal.has_peers())
subprocess.run([sys.executable, "-I", "-c", look])
mine.kill(); mine.wait()
subprocess.run([sys.executable, "-I", "-c", look])
"""
    with on_a_terminal(code) as screen:
        screen.see("False;True;False;")


@pytest.mark.parametrize("fd", [0, 1, 2])
def test_terminal_is_found_without_dev(fd: int) -> None:
    """Where /dev/tty is not to be had, a standard stream that is our terminal will do."""
    code = f"""
real = os.open
def refused(path, *rest):
    if path == "/dev/tty":
        raise FileNotFoundError(path)
    return real(path, *rest)
os.open = refused
null = real(os.devnull, os.O_RDWR)
out = os.dup(1)
for one in (0, 1, 2):
    if one != {fd}:
        os.dup2(null, one)
found = Terminal.find()
os.write(out, f"{{found.is_ours()}};".encode())
"""
    with on_a_terminal(code) as screen:
        screen.see("True;")


# -- the sentinel ---------------------------------------------------------------------------------------------

SENTINEL = """
from turnctl.processes.sentinel import Sentinel, helpers, reaction
sentinel = Sentinel.start()
"""


def test_sentinel_tells_of_keys_alone() -> None:
    """It reports the key that its group got, and not a signal that a program sent."""
    code = (
        SENTINEL
        + """
c = child("import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('up', flush=True); time.sleep(60)")
c.stdout.readline()
say(sentinel.join(c.pid), sentinel.pid in helpers)
terminal.give(c.pid)
os.kill(sentinel.pid, signal.SIGINT); os.kill(sentinel.pid, signal.SIGTERM)
# two signals of a kind that are pending at the same time are one
while int(open(f"/proc/{sentinel.pid}/status").read().split("ShdPnd:")[1].split()[0], 16) & 2:
    time.sleep(0.001)
say("press")
say(list(sentinel.read()), reaction(c.pid, signal.SIGINT), reaction(c.pid, signal.SIGQUIT))
sentinel.end()
say(list(sentinel.read()), helpers)
sentinel.end(); sentinel.close()
c.kill(); c.wait()
"""
    )
    with on_a_terminal(code) as screen:
        screen.see("True True;press;")
        screen.send(CTRL_C)
        screen.see("[2] ignored dying;[] set();")

        assert 0 == screen.ended()


def test_sentinel_ends_with_us() -> None:
    """When the process that started it is killed, it is gone as well."""
    with on_a_terminal(SENTINEL + "say(sentinel.pid, 'ready'); signal.pause()") as screen:
        sentinel = int(screen.see(" ready;"))
        os.kill(screen.pid, signal.SIGKILL)
        screen.ended()
        assert until(lambda: not os.path.exists(f"/proc/{sentinel}"))


def test_sentinel_of_a_dead_group_joins_nothing() -> None:
    """A group that is not there, or of another session, is refused, and the sentinel lives on."""
    code = (
        SENTINEL
        + """
c = child("pass"); c.communicate()
d = subprocess.Popen(["sleep", "60"], start_new_session=True)
say(sentinel.join(c.pid), sentinel.join(d.pid), sentinel.join(os.getpid()))
d.kill(); d.wait(); sentinel.end()
say(sentinel.join(os.getpid()))
"""
    )
    with on_a_terminal(code) as screen:
        screen.see("False False True;False;")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("exec {nap}", "dying"),
        ("trap '' INT; exec {nap}", "ignored"),
        ("trap '' INT; {nap}", "ignored"),
        ("trap : INT; {nap} & wait", "caught"),
        ("kill -STOP $$; exec {nap}", "ignored"),
    ],
)
def test_reaction_of_a_group(script: str, expected: str) -> None:
    """What becomes of a signal is told by what the group's members have set for it."""
    process = subprocess.Popen(["sh", "-c", script.format(nap=nap())], process_group=0)
    try:
        assert until(lambda: expected == reaction(process.pid, signal.SIGINT))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_terminal_object_is_closed() -> None:
    """Letting go of a terminal closes its descriptor."""
    fd = os.open(os.devnull, os.O_RDWR)
    Terminal(fd).close()

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
