"""What tests of launcher and warden share: a command with its messages, and who is there to be killed."""

from __future__ import annotations

import os
import random
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from standins import BOUND, until

from turnctl.processes import launch
from turnctl.processes.launch import Request, Warded

TERM, KILL = 15, 9


def tag() -> str:
    """Seconds for ``sleep`` that no other process has in its argv."""
    return f"60.{random.randrange(10**8, 10**9)}"


class Command:
    """A command that was started under a warden. Leaving its ``with`` kills it."""

    def __init__(self, argv: list[Any], *, piped: bool = True, **options: Any) -> None:
        self.out = -1
        ours = theirs = -1
        if piped:
            ours, theirs = os.pipe()
            options["stdout"] = theirs
        try:
            self.warded: Warded = launch.start(Request(argv, **options))
        except BaseException:
            if piped:
                os.close(ours)
            raise
        finally:
            if piped:
                os.close(theirs)
        self.out = ours
        self.messages: list[Any] = list(self.warded.read())

    @property
    def pid(self) -> int:
        assert self.warded.pid is not None
        return self.warded.pid

    def line(self) -> bytes:
        """What the command wrote next; waits for it, bounded."""
        assert select.select([self.out], [], [], BOUND)[0], "the command wrote nothing"
        return os.read(self.out, 65536)

    def all_output(self) -> bytes:
        """Everything that it writes until nobody holds its output any more."""
        parts = [self.line()]
        while parts[-1]:
            parts.append(self.line())
        return b"".join(parts)

    def until(self, kind: str, within: float = BOUND) -> Any:
        """The first message of that kind; waits for it, bounded."""
        give_up_at = time.monotonic() + within
        while True:
            for message in self.messages:
                if message[0] == kind:
                    return message
            assert not self.warded.is_over, f"it was over without {kind}: {self.messages}"
            left = give_up_at - time.monotonic()
            assert left > 0, f"no {kind} within {within} s: {self.messages}"
            select.select([self.warded], [], [], left)
            self.messages += self.warded.read()

    def ended(self, within: float = BOUND) -> dict[str, Any]:
        """The facts of its last message."""
        facts: dict[str, Any] = self.until("ended", within)[1]
        return facts

    def kinds(self) -> list[str]:
        return [message[0] for message in self.messages]

    def signals(self) -> list[tuple[int, str]]:
        """What was sent, in order: number and scope."""
        return [(sent[1], sent[2]) for message in self.messages if message[0] == "signals" for sent in message[1]]

    def close(self) -> None:
        self.warded.close()
        if self.out >= 0:
            os.close(self.out)
            self.out = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self.warded.is_over:
            self.warded.hurry(0.0)
        self.close()


def run(argv: list[Any], **options: Any) -> tuple[dict[str, Any], bytes]:
    """Run a command to its end: the facts, and what it wrote."""
    with Command(argv, **options) as command:
        facts = command.ended()
        return facts, command.all_output() if command.out >= 0 else b""


def parent_of(pid: int) -> int:
    """The parent of a process: of a command its warden, of a warden the launcher."""
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


def is_gone(pid: int) -> bool:
    """Whether nobody has that pid, but for a zombie that its parent has not reaped yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True


def ends(pid: int, within: float = BOUND) -> bool:
    """Whether the process ends within bounds."""
    return until(lambda: is_gone(pid), within=within)


class Host:
    """A program of its own that uses the launcher, to be killed or changed by a test."""

    def __init__(
        self, code: str, *args: str, interpreter: str | None = None, before: list[str] | None = None, **options: Any
    ) -> None:
        self.process = subprocess.Popen(
            [*(before or []), *program_of(code, *args, interpreter=interpreter)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )

    def line(self) -> str:
        """What it printed next; waits for it, bounded."""
        out = self.process.stdout
        assert out is not None
        assert select.select([out], [], [], BOUND)[0], "the program printed nothing"
        return out.readline().rstrip("\n")

    def finished(self) -> str:
        """All that it printed, when it has ended with status 0."""
        try:
            out, err = self.process.communicate(timeout=3 * BOUND)
        except BaseException:
            self.close()
            raise
        assert self.process.returncode == 0, err
        return str(out)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        for file in (self.process.stdin, self.process.stdout, self.process.stderr):
            if file is not None:
                file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


# not the standard library's: an ordinary user may have to take another interpreter
_PATH = [path for path in sys.path if "site-packages" in path or Path(path) == Path(__file__).parent]
_PATH.append(str(Path(launch.__file__).resolve().parents[2]))
_PROLOGUE = """
from turnctl import points
from turnctl.processes import launch
from warding import KILL, TERM, Command, parent_of, run
def say(*words): print(*words, flush=True)
"""


def program_of(code: str, *args: str, interpreter: str | None = None) -> list[str]:
    """The command of a program that runs ``code``."""
    program = f"import os, sys\nsys.path[:0] = {_PATH!r}\n" + _PROLOGUE + code + "\nlaunch.shutdown()\n"
    return [interpreter or sys.executable, "-I", "-B", "-c", program, *args]


def by_host(code: str, *args: str, **options: Any) -> Host:
    """Start a program that runs ``code``, with the names of this module and ``launch`` at hand, and shuts down."""
    return Host(code, *args, **options)


def everybodys_python() -> str:
    """An interpreter that an ordinary user may run, with what is tested where that user may read it; or skip."""
    source = Path(launch.__file__).parent / "launcher.py"
    for candidate in (sys.executable, "/usr/bin/python3"):
        check = [candidate, "-c", f"import sys; open({str(source)!r}).close(); sys.exit(sys.version_info < (3, 11))"]
        try:
            subprocess.run(check, user=65534, group=65534, extra_groups=[], capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return candidate
    pytest.skip(
        "no interpreter here can be run by an ordinary user, or turnctl is installed where only this one may read"
    )
