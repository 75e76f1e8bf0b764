"""Programs on a terminal of their own: what they show, the keys they get, who holds the foreground, how it is set."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import termios
from contextlib import suppress
from pathlib import Path
from typing import Any

import pexpect
from commands import alive
from launch import BOUND, clean_environment, turnctl_argv
from standins import until
from warding import parent_of

PROMPT = "@prompt> "
CTRL_C = "\x03"
CTRL_D = "\x04"
CTRL_Z = "\x1a"
CTRL_BACKSLASH = "\x1c"


class Screen(pexpect.spawn):  # type: ignore[misc]
    """A program that leads the session of a new terminal, without echo unless said otherwise.

    Leaving the ``with`` hangs up and kills.
    """

    def __init__(self, argv: list[str], size: tuple[int, int] = (24, 200), *, echo: bool = False, **env: str) -> None:
        super().__init__(
            argv[0],
            argv[1:],
            timeout=BOUND,
            encoding="utf-8",
            env=clean_environment(**{"TERM": "dumb"} | env),
            echo=echo,
            dimensions=size,
        )
        self.delaybeforesend = None
        self.delayafterclose = self.delayafterterminate = 0
        self.ptyproc.delayafterclose = self.ptyproc.delayafterterminate = 0

    def see(self, text: str) -> str:
        """Wait until ``text`` is shown; what was shown before it."""
        self.expect_exact(text)
        return str(self.before)

    def ended(self) -> int:
        """Wait for the program's end; its status, minus N for signal N."""
        self.expect(pexpect.EOF)
        self.shown = str(self.before)
        self.close()
        return -self.signalstatus if self.signalstatus else int(self.exitstatus)

    @property
    def foreground(self) -> int:
        """The group that holds the foreground."""
        return os.tcgetpgrp(self.child_fd)

    def modes(self) -> list[Any]:
        """How the terminal's driver is set."""
        return termios.tcgetattr(self.child_fd)

    def child(self, tag: str) -> int:
        """The child of the session's leader that has ``tag`` in its argv; numbers do not tell who came first."""
        [pid] = [pid for pid in alive(tag) if parent_of(pid) == self.pid]
        return pid

    def hang_up(self) -> None:
        """Take the terminal away."""
        self.ptyproc.fileobj.close()

    def __exit__(self, *_: object) -> None:
        # turnctl's helpers end what has left the session, and then themselves: to kill both at once is to let that go
        _kill([pid for pid in session_of(self.pid) if not is_helper(pid)])
        until(lambda: not session_of(self.pid))
        _kill(session_of(self.pid))
        if not self.ptyproc.terminated:
            self.ptyproc.wait()
        self.close()


class Shell(Screen):
    """An interactive bash with job control."""

    def __init__(self, folder: Path) -> None:
        self.script = folder / "turnctl"
        self.script.write_text(f'#!/bin/sh\nexec {shlex.join(turnctl_argv())} "$@"\n')
        self.script.chmod(0o755)
        path = f"{folder}:{os.environ['PATH']}"
        super().__init__(
            ["bash", "--norc", "--noprofile", "--noediting", "-i"], PS1=PROMPT, PATH=path, HISTFILE="", HOME=str(folder)
        )
        self.see(PROMPT)

    def line(self, text: str) -> None:
        """Type a line."""
        self.send(f"{text}\n")

    def prompt(self) -> str:
        """Wait for the shell's prompt; what was shown before it."""
        return self.see(PROMPT)

    def run(self, text: str) -> str:
        """Type a line and wait for the prompt; what was shown."""
        self.line(text)
        return self.prompt()

    def exit_status(self) -> int:
        """The status of what ran last, as the shell shows it. The shell must hold the foreground for this."""
        return int(self.run("echo status $?").split()[-1])

    def is_in_front(self) -> bool:
        """Whether the shell holds the foreground."""
        return self.foreground == os.getpgid(self.pid)


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_helper(pid: int) -> bool:
    """Whether it is a launcher or a warden of turnctl's."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"turnctl: ")
    except OSError:
        return False


def session_of(leader: int) -> list[int]:
    """The processes of a session, as /proc has them."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != b"Z":
            found.append(int(entry.name))
    return found


def on_terminal(*args: str, before: str = "pass") -> Screen:
    """turnctl itself as the leader of a terminal's session: there is no shell that could continue it."""
    return Screen(turnctl_argv(*args, before=before))


def program(folder: Path, code: str) -> str:
    """A Python program as words for a shell."""
    path = folder / f"program-{len(list(folder.iterdir()))}.py"
    path.write_text(code)
    return shlex.join([sys.executable, "-I", "-S", str(path)])
