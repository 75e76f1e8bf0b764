"""A command in a group of its own on our terminal: the foreground given and taken back, stops passed on to our own job.

Invariants
  E1  The foreground is handed over before the command is loaded, if we hold it and share it with nobody.
  E2  Where we share it with the rest of a pipeline, the command is handed it when it is stopped for wanting it.
  E3  When the command is stopped, we take the foreground back and stop our own job the same way, so that the shell
      sees it; when we are continued, both are undone. With no shell that could continue us we do not stop.
  E4  Nothing that is being ended stays stopped.

Used by one thread at a time. Nothing here blocks, but that E3 stops the process.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from turnctl.processes.job import Job
from turnctl.processes.terminal import Terminal

__all__ = ["WANTS_TERMINAL", "Handover"]

WANTS_TERMINAL = (signal.SIGTTIN, signal.SIGTTOU)


class Handover:
    """What the command line and a program of its own do alike with a terminal."""

    _job: Job

    def __init__(self, terminal: Terminal, is_stopping: Callable[[], bool]) -> None:
        self._terminal = terminal
        self._is_stopping = is_stopping
        self._command: int | None = None
        self._is_handed = False
        terminal.saved = terminal.modes()
        # a shell without job control marks what it runs in the background by this; its group is the shell's own
        self._may_hold = not all(signal.getsignal(n) is signal.SIG_IGN for n in (signal.SIGINT, signal.SIGQUIT))
        self._from_start = self._may_hold and terminal.is_ours() and not self._is_shared()

    def _is_shared(self) -> bool:
        # with both ends on the terminal there is no pipe, so no pipeline to look for
        return not (os.isatty(0) and os.isatty(1)) and self._terminal.has_peers()

    def _console(self) -> tuple[int, int, list[Any], bool] | None:
        """What a warden needs to put the terminal right when we are lost."""
        saved = self._terminal.saved
        return None if saved is None else (self._terminal.descriptor, os.getpgrp(), saved, False)

    # -- the foreground ---------------------------------------------------------------------------------------

    def _hand_over(self) -> None:
        assert self._command is not None
        self._is_handed = self._terminal.give(self._command)

    def _take_back(self) -> None:
        if self._is_handed:
            self._is_handed = False
            self._terminal.take()

    def _go_on(self) -> None:
        self._job.go_on()
        self._signal_command(signal.SIGCONT)

    def _signal_command(self, number: int) -> None:
        """Send to the command's group, as long as its number is certainly its own."""
        assert self._command is not None
        if self._job.send is not None:
            self._job.send(number)
            return
        try:
            os.waitid(os.P_PID, self._command, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            os.killpg(self._command, number)
        except (ChildProcessError, ProcessLookupError, PermissionError):
            pass  # over, or all of it belongs to another user

    # -- stopped and continued --------------------------------------------------------------------------------

    def _stopped(self, number: int) -> None:
        holder = self._terminal.foreground()
        if self._is_stopping() or holder is None:
            self._go_on()  # nothing that is being ended stays stopped
        elif number in WANTS_TERMINAL and holder == self._command:
            self._go_on()  # stopped in the moment before it was handed over
        elif number in WANTS_TERMINAL and self._may_hold and self._terminal.is_ours():
            self._hand_over()
            self._go_on()
        elif self._terminal.shell_group() is not None:
            self._stop_our_job(number)
        elif number == signal.SIGTSTP:
            self._go_on()  # nobody could continue us, so that the key does nothing, as in any such job
        else:
            self._job.note(
                f"it was stopped by {signal.Signals(number).name}, and there was nobody who could let it go on"
            )
            self._tell_of_stuck(number)

    def _tell_of_stuck(self, number: int) -> None:
        """It stays stopped until it is ended."""

    def _stop_our_job(self, number: int) -> None:
        was_handed = self._is_handed
        modes = self._terminal.modes()
        self._take_back()
        if was_handed:
            self._terminal.set_modes(self._terminal.saved)
        # not SIGSTOP: if our shell has gone meanwhile, the kernel drops these, and we go on
        number = number if number in WANTS_TERMINAL else signal.SIGTSTP
        # the whole of our job, as the key would have done: the shell waits for the script that called us, not for us
        self._stop_by(number, 0)
        self._resume(hand_over=was_handed or number in WANTS_TERMINAL, modes=modes if was_handed else None)

    def _stop_by(self, number: int, target: int) -> None:
        """Stop ourselves, or with 0 our job; comes back when somebody has continued us."""
        raise NotImplementedError

    def _resume(self, *, hand_over: bool, modes: list[Any] | None) -> None:
        if hand_over and self._terminal.is_ours():
            self._hand_over()
            self._terminal.set_modes(modes)
        self._go_on()
