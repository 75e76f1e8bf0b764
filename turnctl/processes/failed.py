"""The errors of ``check=True``: ours, and the ones that code written for ``subprocess`` catches.

They stand here and not in ``turnctl.errors`` because deriving from the classes of ``subprocess`` means
importing it, which costs 10 ms; a program that runs a command has paid for it already.
"""

from __future__ import annotations

import subprocess
from typing import Any

from turnctl.errors import CommandError
from turnctl.processes.account import status_words
from turnctl.records.process import Completed

__all__ = ["CommandFailed", "CommandTimedOut"]

_TAIL = 200


class CommandFailed(CommandError, subprocess.CalledProcessError):
    """A command ended with a status other than 0, or with one that is not known; ``completed`` holds it all.

    Also a ``subprocess.CalledProcessError`` with its attributes.
    """

    def __init__(self, completed: Completed) -> None:
        status = status_words(completed.returncode)
        # past the classes in between: each would take the others' arguments for its own
        Exception.__init__(self, f"{_shown(completed)}: {status}{_tail(completed)}")
        self.completed = completed
        self.returncode: Any = completed.returncode
        self.cmd = _cmd(completed)
        self.output = completed.stdout
        self.stderr = completed.stderr

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return (CommandFailed, (self.completed,))


class CommandTimedOut(CommandError, subprocess.TimeoutExpired):
    """A command's own timeout, or its ``idle_timeout``, passed before it had ended; ``completed`` holds what it had
    written, and says which.

    Also a ``subprocess.TimeoutExpired`` with its attributes.
    """

    def __init__(self, completed: Completed, timeout: float) -> None:
        if completed.outcome.timed_out_by == "idle":
            why = f"it wrote nothing for {timeout:g} s (idle_timeout)"
        else:
            why = f"its timeout of {timeout:g} s passed"
        text = f"{_shown(completed)}: ended because {why}{_tail(completed)}"
        Exception.__init__(self, text)
        self.completed = completed
        self.cmd = _cmd(completed)
        self.timeout = timeout
        self.output: Any = completed.stdout
        self.stderr: Any = completed.stderr

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return (CommandTimedOut, (self.completed, self.timeout))


def _cmd(completed: Completed) -> list[str] | str:
    return completed.args if isinstance(completed.args, str) else list(completed.args)


def _shown(completed: Completed) -> str:
    text = completed.args if isinstance(completed.args, str) else " ".join(completed.args)
    return f"command {text[:_TAIL]!r}"


def _tail(completed: Completed) -> str:
    """The end of what it wrote to stderr, else to stdout: that is where the reason stands."""
    for name in ("stderr", "stdout"):
        written = getattr(completed, name)
        if written:
            text = written.decode("utf-8", "replace") if isinstance(written, bytes) else written
            return f"; {name} ends with {text.strip()[-_TAIL:]!r}"
    return ""
