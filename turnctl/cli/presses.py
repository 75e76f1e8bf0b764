"""The signals that come to ``turnctl run``: first press stop, second kill, third leave.

| press | before the turn | while it runs or ends | when it is over |
|---|---|---|---|
| first | die of it | stop, with grace | nothing: the status is decided |
| second | | kill now | die of it |
| third | | say what is left, exit 123 | |

INT, TERM, HUP and QUIT are pressed alike, and counted together. A hang-up is one event that may be told twice, by
the kernel and by the shell: it counts once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Literal

from turnctl.cli.talk import say
from turnctl.signals import Placed, SignalStops
from turnctl.turns import Turn

__all__ = ["Presses"]


class Presses(SignalStops):
    """The handlers of one run. ``leave`` is called at the third press and does not return."""

    def __init__(self, turn: Turn, leave: Callable[[], None], *, quiet: bool) -> None:
        self._run = turn
        self._leave = leave
        self._quiet = quiet
        self._has_hung_up = False
        self._was_late = False
        super().__init__(turn, raises=False)

    def _place(self, number: int) -> Placed:
        if number == signal.SIGHUP:
            if self._has_hung_up:
                return Placed((), passes_on=False)
            self._has_hung_up = True
        return super()._place(number)

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
