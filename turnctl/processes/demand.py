"""What is wanted of a command that runs: whether it is to be ended, by when, and when to look again.

Read by the loop that supervises it, each time anew. Three ask: the owner's stop, those who hold the command, and its
own grace. Nothing here blocks, or changes anything but what a warden is told ahead and the entry of a command that
is refused.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, NoReturn

from turnctl.errors import TurnOver
from turnctl.processes.drive import Driven
from turnctl.processes.foresight import Foresight, foresee
from turnctl.processes.ladder import DRAIN_S
from turnctl.processes.spec import Spec
from turnctl.tokens.activities import Activity, Owner

if TYPE_CHECKING:
    from turnctl.processes.custody import Custody

__all__ = ["Demanded"]


class Demanded(Driven):
    """The side of a supervised command that reads what others want of it."""

    _activity: Activity

    def __init__(self, spec: Spec, owner: Owner) -> None:
        super().__init__()
        self.spec = spec
        self._owner = owner
        self._asked_at = 0.0
        self._custody: Custody | None = None
        #: whether the frame that started it waits for it
        self._is_waited_for = True

    @property
    def grace_s(self) -> float:
        """The seconds between asking and killing: the command's own, else its owner's."""
        return self._owner.grace_s if self.spec.grace_s is None else self.spec.grace_s

    def _is_stop_wanted(self) -> bool:
        return self._asked or (self._owner.stop_wanted() and self._owner.held_until() is None)

    def _sooner(self, *times: float | None) -> float | None:
        """The earliest of the times, or the end of a shield that holds a stop back, if that is earlier."""
        found = [at for at in times if at is not None]
        if self._owner.stop_wanted():
            held = self._owner.held_until()
            if held is not None:
                found.append(held)
        return min(found, default=None)

    def _kill_at(self) -> float:
        ends = [self._asked_at + self.grace_s, *(limit() for limit in self._limits)]
        owners = self._owner.kill_at() if self._is_stop_wanted() else None
        if owners is not None:
            ends.append(owners)
        return min(ends)

    def _start_is_over_at(self) -> tuple[float | None, float | None]:
        """When to look again while it is being started, and when to give that up."""
        if not self._is_stop_wanted():
            return self._sooner(), None
        self._asked_at = self._asked_at or monotonic()
        return None, self._kill_at() + DRAIN_S

    def _refuse(self) -> NoReturn:
        """Raise for a stop that came before anything was started."""
        self._activity.close("cancelled", "stopped before it was started")
        self._owner.check()
        raise TurnOver("the turn has ended, so the command was not started", turn_id=self._owner.turn_id)

    def _on_bell(self) -> None:
        """Something about the owner's stop has changed. Runs on the owner's bridge thread."""
        self.foresee_anew()
        if self.phase == "left" and self._owner.stop_wanted():
            self.ask()

    # -- what its warden is told ahead -----------------------------------------------------------------------

    def _foresee(self) -> Foresight:
        return foresee(self._owner, is_here=self._is_waited_for and self.phase != "left")

    def _tell_foreseen(self) -> None:
        custody = self._custody
        # another thread may be telling what it saw before: the last to tell looks again
        while custody is not None and custody.foresee(self._foresee()):
            pass

    def foresee_anew(self) -> None:
        """What stops it may have changed: have its warden told. Any thread."""
        self.wake()
        if self.phase == "left":  # nobody drives
            self._tell_foreseen()
