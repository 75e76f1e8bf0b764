"""What code without a ``turn`` argument calls: each function finds the current turn by itself."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Unpack

from turnctl.clock import parse_duration
from turnctl.tokens.current import current_token
from turnctl.turns import current_turn

if TYPE_CHECKING:
    from turnctl.processes.options import PopenOptions, RunOptions
    from turnctl.processes.process import Process
    from turnctl.records.process import Completed
    from turnctl.turns import Argv

__all__ = ["popen", "run", "shield", "sleep"]


def sleep(duration: float | str) -> None:
    """Block for ``duration`` (seconds or "1m30s"), or raise ``CancelledError`` as soon as the current turn stops.

    A checkpoint at both ends. Outside any turn a plain sleep. Fits wherever a ``sleep(seconds)`` is asked for,
    such as a retry library's ``sleep=``.
    """
    from turnctl.waiting.wait import sleep

    sleep(current_token(), duration)


def shield(max: float | str = "5s") -> AbstractContextManager[object]:
    """Hold a stop of the current turn back for the length of a ``with``, at most ``max``; nothing outside a turn."""
    parse_duration(max, what="max")
    token = current_token()
    return nullcontext() if token is None else token.shield(max)


def run(args: Argv, **options: Unpack[RunOptions]) -> Completed:
    """Run a command to its end inside the current turn, with its whole process tree, and return what became of it.

    Outside any turn it is supervised all the same (timeout, leftovers), but nothing can stop it. Arguments that
    have the same name as in ``subprocess.run`` have the same meaning. A checkpoint. Blocks until the command has
    ended, its timeout or a stop has been carried out.
    """
    from turnctl.processes.command import Unowned
    from turnctl.processes.command import run as run_command

    turn = current_turn()
    return run_command(Unowned() if turn is None else turn, args, **options)


def popen(args: Argv, **options: Unpack[PopenOptions]) -> Process:
    """Start a command inside the current turn and return a handle; it ends with the turn at the latest."""
    from turnctl.processes.command import Unowned
    from turnctl.processes.command import popen as popen_command

    turn = current_turn()
    return popen_command(Unowned() if turn is None else turn, args, **options)
