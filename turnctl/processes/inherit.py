"""``tty="inherit"``: a command of this program has our terminal while it runs.

What the command line does with signal handlers and a helper at the keys, a library cannot: here the keys are the
command's alone, and a stop that is sent to this program from elsewhere is not passed on to it.

Invariants
  I1  It begins with ``begun`` and ends with ``over``, both on the thread that runs the command; between them it is in
      ``_live``. ``over`` gives the terminal back, and wakes those who wait for it.
  I2  A command that wants the terminal while another one of ours has it waits, stopped, until that one is over.

Blocks only in that it stops this process, as the key would have done, and for ``PAUSE_S`` off the main thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from time import sleep

from turnctl.processes.handover import WANTS_TERMINAL, Handover
from turnctl.processes.job import Job
from turnctl.processes.terminal import Terminal
from turnctl.waiting.attention import is_main

__all__ = ["inherited"]

#: what a stop of this process needs to take effect where another thread than the main one asks for it
PAUSE_S = 0.05

_live: set[Inherited] = set()


def inherited(wake: Callable[[], None]) -> Job | None:
    """The job that a command is on our terminal; None where we have none. ``wake`` wakes the loop that runs it."""
    terminal = Terminal.find()
    return None if terminal is None else Inherited(terminal, wake)._job


class _Job(Job):
    def __init__(self, of: Inherited, foreground: int | None) -> None:
        super().__init__(_nothing, of.look, foreground=foreground, console=of._console())
        self.is_ours = True
        self._of = of

    def begun(self, pid: int) -> None:
        self._of.begun(pid)

    def look(self) -> None:
        self._of.look()

    def ending(self) -> None:
        self._of.is_ending = True

    def over(self, *, is_violent: bool) -> None:
        self._of.over(is_violent=is_violent)


class Inherited(Handover):
    """One command on our terminal."""

    def __init__(self, terminal: Terminal, wake: Callable[[], None]) -> None:
        super().__init__(terminal, lambda: self.is_ending)
        self.is_ending = False
        self._wake = wake
        self._is_over = False
        self._waits = False
        self._job = _Job(self, terminal.descriptor if self._from_start else None)

    def begun(self, pid: int) -> None:
        self._command = pid
        _live.add(self)
        if self._from_start and not self._job.is_guarded:
            self._hand_over()
            self._go_on()  # it may have wanted it before
        else:
            self._is_handed = self._from_start
        self._from_start = False
        self.look()

    def look(self) -> None:
        """Deal with what stopped the command, or with a terminal that has become free."""
        if self._command is None or self._is_over:
            return
        if self._waits and self._terminal.is_ours():
            self._waits = False
            self._hand_over()
            self._go_on()
        while self._job.stops:
            self._stopped(self._job.stops.popleft())

    def _stopped(self, number: int) -> None:
        if number in WANTS_TERMINAL and not self.is_ending:
            holder = self._terminal.foreground()
            if any(other._command == holder for other in list(_live) if other is not self):
                self._waits = True
                return
        super()._stopped(number)

    def _stop_by(self, number: int, _target: int) -> None:
        os.kill(0, number)
        if not is_main():
            sleep(PAUSE_S)  # the main thread takes it, and then all of us stand still

    def over(self, *, is_violent: bool) -> None:
        if self._is_over:
            return
        self._is_over = True
        _live.discard(self)
        if self._from_start or self._is_handed:
            self._terminal.take()
            if is_violent:
                self._terminal.set_modes(self._terminal.saved)
        self._terminal.close()
        for other in list(_live):
            other._wake()


def _nothing() -> None:
    pass


os.register_at_fork(after_in_child=_live.clear)
