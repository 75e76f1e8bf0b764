"""A program that does not run while its commands do still has them stopped in time.

The program is held inside a call to C that keeps the interpreter, or is stopped by SIGSTOP. Whether its command lives
is seen from outside.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path
from termios import FIONREAD
from typing import Any

import pytest
from commands import alive
from standins import until
from warding import tag

pytestmark = [
    pytest.mark.usefixtures("wardens"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="wardens need Linux"),
]

PROGRAM = """
import ctypes, json, os, select, sys, threading
import turnctl

timeout, grace, shield, ignores, fd = sys.argv[1:5] + [int(sys.argv[5])]
mark = os.environ["MARK"]
libc = ctypes.PyDLL(None)  # its functions keep the interpreter
libc.fdopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fdopen(fd, b"r"))
buffer = ctypes.create_string_buffer(2)

def hold():
    select.select([fd], [], [])
    libc.fread(buffer, 1, 2, file)  # one byte tells that it waits, the end of the pipe lets it go on

def started(pid):
    thread.start()
    print(pid, flush=True)

thread = threading.Thread(target=hold)
if os.environ.get("HANDLES"):
    turnctl.handle_signals(raises=False)
script = "trap '' TERM; " if ignores == "yes" else ""
found = {}
with turnctl.turn(timeout=None if timeout == "none" else timeout, grace=grace) as turn:
    def run():
        argv = ["sh", "-c", script + "echo ready >&2; while :; do sleep 30; done", mark]
        return turn.run(argv, capture=False, on_stop="return", on_start=started).outcome
    if shield == "none":
        outcome = run()
    else:
        with turn.shield(shield):
            outcome = run()
    found["outcome"] = outcome.as_dict()
    found["returned"] = True
thread.join()
found["turn"] = [turn.report.outcome, turn.report.cause if hasattr(turn.report, "cause") else None]
print(json.dumps(found), flush=True)
"""


class Held:
    """The program with its command, and the pipe that holds it inside C."""

    def __init__(
        self, folder: Path, *, timeout: str = "none", grace: str = "30s", shield: str = "none", ignores: bool = False
    ) -> None:
        path = folder / "program.py"
        path.write_text(PROGRAM)
        self.mark = tag()
        reading, self._hold = os.pipe()
        ignoring = "yes" if ignores else "no"
        argv = [sys.executable, str(path), timeout, grace, shield, ignoring, str(reading)]
        self.program = subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(reading,),
            text=True,
            env={**os.environ, "HANDLES": "yes", "MARK": self.mark},
        )
        self._reading = reading

    def await_start(self) -> None:
        assert self.program.stdout is not None
        assert self.program.stderr is not None
        said = self.program.stderr.readline()
        assert "ready\n" == said, said + self.program.stderr.read()
        assert self.program.stdout.readline().strip().isdigit()

    def hold(self) -> None:
        """Have it inside C when this returns."""
        os.write(self._hold, b"x")
        assert until(lambda: ioctl(self._reading, FIONREAD, b"\0\0\0\0") == b"\0\0\0\0")

    def is_gone(self) -> bool:
        return alive(self.mark) == []

    def go_on(self) -> dict[str, Any]:
        """Let it go on, and what it says at the end."""
        os.close(self._hold)
        self._hold = -1
        out, err = self.program.communicate(timeout=20)
        assert "" == err
        found: dict[str, Any] = json.loads(out)
        return found

    def close(self) -> None:
        self.program.kill()
        self.program.communicate()
        os.close(self._reading)
        if self._hold >= 0:
            os.close(self._hold)
        assert until(self.is_gone)


@pytest.fixture
def held(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Held]:
    one = Held(tmp_path, **request.param)
    try:
        one.await_start()
        yield one
    finally:
        one.close()


@pytest.mark.parametrize("held", [{}], indirect=True)
def test_signal_to_a_held_program_stops_its_command(held: Held) -> None:
    """A SIGINT while the interpreter is held ends the command then, and the turn when the program goes on."""
    held.hold()
    held.program.send_signal(signal.SIGINT)

    assert until(held.is_gone), "the command went on while its program was held"
    found = held.go_on()
    outcome = found["outcome"]
    assert (True, True, "cancelled") == (outcome["stopped"], outcome["empty_proven"], found["turn"][0])
    assert outcome["asked_after_s"] < outcome["learned_after_s"]


@pytest.mark.parametrize("held", [{"ignores": True}], indirect=True)
def test_second_signal_to_a_held_program_kills(held: Held) -> None:
    """Two presses spend no more grace, though nobody reads them."""
    held.hold()
    held.program.send_signal(signal.SIGINT)
    held.program.send_signal(signal.SIGTERM)

    assert until(held.is_gone), "a command that ignores TERM was not killed"
    assert -signal.SIGKILL == held.go_on()["outcome"]["returncode"]


@pytest.mark.parametrize("held", [{"timeout": "2s"}], indirect=True)
def test_deadline_of_a_stopped_program_ends_its_command(held: Held) -> None:
    """A program that was stopped by SIGSTOP has its command ended by the turn's deadline all the same."""
    held.program.send_signal(signal.SIGSTOP)

    assert until(held.is_gone), "the command went on past the deadline"
    held.program.send_signal(signal.SIGCONT)
    found = held.go_on()
    assert (True, "cancelled") == (found["outcome"]["stopped"], found["turn"][0])


@pytest.mark.parametrize("held", [{"timeout": "2s", "ignores": True, "grace": "200ms"}], indirect=True)
def test_grace_passes_for_a_held_program(held: Held) -> None:
    """Deadline and grace are held outside the program: a command that ignores TERM is killed on time."""
    held.hold()

    assert until(held.is_gone), "the command went on past deadline and grace"
    assert -signal.SIGKILL == held.go_on()["outcome"]["returncode"]


@pytest.mark.parametrize("held", [{"shield": "3s"}], indirect=True)
def test_shield_holds_an_unread_signal_back(held: Held) -> None:
    """A command that was started under a shield is not ended by a signal that its program has not read."""
    held.hold()
    held.program.send_signal(signal.SIGINT)
    ended_early = until(held.is_gone, within=0.3)

    assert not ended_early
    assert "cancelled" == held.go_on()["turn"][0]


@pytest.mark.parametrize("held", [{}], indirect=True)
def test_program_that_runs_stops_it_by_itself(held: Held) -> None:
    """A program that reads its signals is not anticipated: there is nothing it learns late."""
    began = time.monotonic()
    held.program.send_signal(signal.SIGTERM)

    assert until(held.is_gone)
    held.hold()
    outcome = held.go_on()["outcome"]
    assert None is outcome["learned_after_s"], f"it took {time.monotonic() - began:.2f} s"
