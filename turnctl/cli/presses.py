"""The signals that come to ``turnctl run``: first press stop, second kill, third leave.

| press | before the turn | while it runs or ends | when it is over |
|---|---|---|---|
| first | die of it | stop, with grace | nothing: the status is decided |
| second | | kill now | die of it |
| third | | say what is left, exit 123 | |

INT, TERM, HUP and QUIT are pressed alike, and counted together; so is every other signal that would end this process
and can be caught, since the command would live on: USR1, ALRM, XCPU, the real-time ones and so on. Those that tell of
a fault of this process (SEGV and the like) are left alone, and so is PIPE. A hang-up is one event that may be told
twice, by the kernel and by the shell: it counts once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Literal

from turnctl.cli.talk import say
from turnctl.processes.signames import name_of
from turnctl.signals import Placed, SignalStops
from turnctl.turns import Turn

__all__ = ["Presses"]

#: what ends a process by default, besides the four of every turn; IO (or POLL) does so on Linux alone
_DEADLY = ("USR1", "USR2", "ALRM", "VTALRM", "PROF", "XCPU", "ABRT", "TRAP", "SYS", "PWR", "STKFLT")
_DEADLY_ON_LINUX = ("IO",)


class Presses(SignalStops):
    """The handlers of one run. ``leave`` is called at the third press and does not return."""

    def __init__(self, turn: Turn, leave: Callable[[], None], *, quiet: bool) -> None:
        self._run = turn
        self._leave = leave
        self._quiet = quiet
        self._has_hung_up = False
        self._was_late = False
        super().__init__(turn, raises=False)
        if not self._before:  # the four are ignored, so that nothing is in place yet
            self._install()

    def _install(self) -> None:
        for number in _deadly():
            if signal.getsignal(number) is signal.SIG_DFL:
                self._before[number] = signal.SIG_DFL
        if self._before:
            super()._install()

    def _place(self, number: int) -> Placed:
        if number == signal.SIGHUP:
            if self._has_hung_up:
                return Placed((), passes_on=False)
            self._has_hung_up = True
        if number in signal.Signals.__members__.values():
            return super()._place(number)
        # Python has no name for most real-time signals: numbered as another one, and told as what it is
        placed = super()._place(signal.SIGTERM)
        for order in placed.orders:
            order._reason = name_of(number)  # type: ignore[attr-defined]
        return placed

    def _told(self, levels: list[Literal["cancel", "kill"]]) -> None:
        """Say what the second press does, on whichever thread has heard it."""
        if "kill" in levels and not self._quiet:
            say("killing what is left now; once more to stop waiting for it")

    def pass_on(self, number: int, frame: FrameType | None) -> None:
        """Leave at the third press; where no turn is running, die of the signal."""
        if os.getpid() == self._pid and self._run._token is not None:
            if not self._run.is_over:
                self._leave()
            if not self._was_late:
                self._was_late = True
                return
        super().pass_on(number, frame)


def _deadly() -> list[int]:
    names = (*_DEADLY, *(_DEADLY_ON_LINUX if sys.platform == "linux" else ()))
    found = [int(getattr(signal, f"SIG{name}")) for name in names if hasattr(signal, f"SIG{name}")]
    first = getattr(signal, "SIGRTMIN", None)
    return found + ([] if first is None else [int(n) for n in signal.valid_signals() if n >= first])
