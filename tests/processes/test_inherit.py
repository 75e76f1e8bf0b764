"""``tty="inherit"``: a program's command has the program's terminal, and afterwards the terminal is as it was."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import alive, nap, state_of
from launch import ROOT
from ptys import CTRL_C, CTRL_D, CTRL_Z, Screen, Shell, program
from standins import until

HEAD = f"""
import os, signal, sys, threading
sys.path.insert(0, {ROOT!r})
import turnctl
def say(*words):
    os.write(1, (" ".join(map(str, words)) + ";").encode())
def front():
    return os.tcgetpgrp(0) == os.getpgrp()
def run(argv, **options):
    with turnctl.turn(threading.current_thread().name, grace=0) as turn:
        return turn.run(argv, tty="inherit", stdin="inherit", capture=False, **options)
"""
RAW = "import os, time, tty; tty.setraw(0); os.write(1, b'raw;'); time.sleep(60)"


def host(code: str, *args: str) -> list[str]:
    return [sys.executable, "-I", "-c", HEAD + code, *args]


@pytest.fixture
def shell(tmp_path: Path, leak_check: object) -> Iterator[Shell]:
    """A shell with job control."""
    with Shell(tmp_path) as shell:
        yield shell


@pytest.mark.parametrize("custody", ["warden", "group"])
def test_command_has_the_foreground_while_it_runs(custody: str) -> None:
    """It has it from the start, in our session, and we have it again when it has ended."""
    look = "import os, sys; input(); print(os.tcgetpgrp(0) == os.getpgrp(), os.getsid(0) == int(sys.argv[1]))"
    code = f"""
done = run([sys.executable, "-I", "-S", "-c", {look!r}, str(os.getsid(0))])
say(done.returncode, front(), done.outcome.containment)
"""
    env = {"TURNCTL_CONTAINMENT": "group"} if custody == "group" else {}
    with Screen(host(code), **env) as screen:
        screen.send("x\n")
        screen.see("True True")
        screen.see(f"0 True {'best-effort' if custody == 'group' else 'complete'};")

        assert 0 == screen.ended()


def test_settings_are_put_back_after_a_death() -> None:
    """A command that made the terminal raw and was killed leaves it as before; what was set on purpose stays."""
    code = f"""
import termios
before = termios.tcgetattr(0)
done = run([sys.executable, "-I", "-S", "-c", {RAW!r}])
say(done.returncode == -9, front(), termios.tcgetattr(0) == before)
run(["stty", "-ixon"])
say(termios.tcgetattr(0) == before)
"""
    with Screen(host(code)) as screen:
        screen.see("raw;")
        os.kill(screen.foreground, signal.SIGKILL)
        screen.see("True True True;False;")

        assert 0 == screen.ended()


def test_warden_puts_them_back_when_the_program_is_killed() -> None:
    """SIGKILL of the program while its command has the terminal raw: it is as before, and its shell's again."""
    raw = shlex.join([sys.executable, "-I", "-S", "-c", RAW])
    code = f"say(os.getpid(), 'pid'); run({shlex.split(raw)!r})"
    # no job control: nobody but the warden puts anything right
    with Screen(["sh", "-c", f"{shlex.join(host(code))}; until read x; do :; done; echo was $x"]) as screen:
        before = screen.modes()
        pid = int(screen.see(" pid;").split()[-1])
        screen.see("raw;")
        changed = screen.modes()
        os.kill(pid, signal.SIGKILL)
        assert until(lambda: before == screen.modes())
        assert until(lambda: screen.foreground == os.getpgid(screen.pid))
        screen.send("said\n")
        screen.see("was said")

        assert 0 == screen.ended()
    assert before != changed


def test_ctrl_z_stops_program_and_command(shell: Shell, tmp_path: Path) -> None:
    """Ctrl-Z stops the command and the program that waits for it; fg continues both, and it reads again."""
    path = program(tmp_path, HEAD + "done = run(['cat']); say('status', done.returncode)").replace("-S ", "")
    shell.line(path)
    shell.send("one\n")
    shell.see("one")
    shell.send(CTRL_Z)
    stopped = shell.prompt()
    in_front = shell.is_in_front()
    shell.line("fg")
    shell.send("two\n")
    shell.see("two")
    shell.send(CTRL_D)
    shell.see("status 0;")
    shell.prompt()

    assert "Stopped" in stopped
    assert in_front
    assert shell.is_in_front()


def test_ctrl_z_stops_a_thread_of_the_program_too(shell: Shell, tmp_path: Path) -> None:
    """The same where the command was started with popen, and a thread runs it."""
    code = """
with turnctl.turn("test", grace=0) as turn:
    with turn.popen(["cat"], tty="inherit", stdin="inherit", capture=False) as process:
        say("status", process.wait())
"""
    shell.line(program(tmp_path, HEAD + code).replace("-S ", ""))
    shell.send("one\n")
    shell.see("one")
    shell.send(CTRL_Z)
    stopped = shell.prompt()
    shell.line("fg")
    shell.send("two\n")
    shell.see("two")
    shell.send(CTRL_D)
    shell.see("status 0;")
    shell.prompt()

    assert "Stopped" in stopped


def test_second_one_waits_for_the_terminal(tmp_path: Path) -> None:
    """Of two commands that want the terminal at the same time the second reads when the first has ended."""
    code = """
def first():
    run(["sh", "-c", "echo first; : >GATE; read x; echo first had $x"])
thread = threading.Thread(target=first)
thread.start()
while not os.path.exists("GATE"): pass
run(["sh", "-c", "echo second; read x; echo second had $x"])
thread.join()
say(front())
""".replace("GATE", str(tmp_path / "gate"))
    with Screen(host(code)) as screen:
        screen.see("first")
        screen.see("second")
        pids = [p for p in alive("second had $x") if os.getppid() != p]
        assert until(lambda: any(state_of(p) == "T" for p in pids))
        screen.send("one\n")
        screen.see("first had one")
        screen.send("two\n")
        screen.see("second had two")
        screen.see("True;")

        assert 0 == screen.ended()


def test_stopped_reader_is_named_and_ended() -> None:
    """In the background of a script nobody can let it go on: its timeout ends it, and the report says why it hung."""
    job = shlex.join(host("done = run(['sh', '-c', 'read x </dev/tty'], timeout='700ms'); say(*done.outcome.notes)"))
    with Screen(["sh", "-c", f"{job} & wait $!"]) as screen:
        screen.see("it was stopped by SIGTTIN, and there was nobody who could let it go on;")

        assert 0 == screen.ended()


def test_size_changes_reach_the_command() -> None:
    """The terminal tells the command itself of another size."""
    tell = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
os.write(1, b"up;")
signal.sigwait([signal.SIGWINCH])
os.write(1, b"%d,%d;" % os.get_terminal_size(0))
"""
    code = f"run([sys.executable, '-I', '-S', '-c', {tell!r}])"
    with Screen(host(code)) as screen:
        screen.see("up;")
        screen.setwinsize(33, 99)
        screen.see("99,33;")

        assert 0 == screen.ended()


def test_without_a_terminal_nothing_is_handed_over() -> None:
    """A program without a terminal can ask for it all the same."""
    import subprocess

    done = subprocess.run(
        host("say(run(['echo', 'said']).returncode)".replace("front()", "0")),
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert "said\n0;" == done.stdout


def test_ctrl_c_is_the_commands() -> None:
    """Ctrl-C interrupts the command, not the program that waits for it."""
    tag = nap()
    code = f"done = run(['sh', '-c', 'echo ready; exec {tag}']); say(done.returncode, front())"
    with Screen(host(code)) as screen:
        screen.see("ready")
        screen.send(CTRL_C)
        screen.see(f"{-signal.SIGINT} True;")

        assert 0 == screen.ended()
