"""The end of a supervised command: its pipes are closed, who is given its output takes the rest, its account is closed.

Invariants
  L1  The command is let go of, and the time of its end taken, before anybody is waited for who is given its output.
  L2  That wait is a phase of the loop, ``handing``: bounded by ``consumers``, cut short by a stop, and a command that
      left something behind gets the ladder in it at once when a stop is wanted.
  L3  The activity is closed last: an owner that ends waits for all of this.

Only the thread that drives calls what is here. Nothing blocks, but for a thread of ours that is at its end.
"""

from __future__ import annotations

from time import monotonic

from turnctl import points
from turnctl.processes.account import Account
from turnctl.processes.consumers import Consumers
from turnctl.processes.custody import Custody, Found
from turnctl.processes.drive import Phase
from turnctl.processes.moving import Movable, Move
from turnctl.processes.output import Pump
from turnctl.processes.pty import Pty

__all__ = ["UNKNOWN", "Closing"]

#: what stands for a status that is not known, where there has to be one; asyncio has the same
UNKNOWN = 255


class Closing(Movable):
    """What ``Supervision`` does when nothing of its command is left, or what is left is kept or given up."""

    account: Account
    interrupted: bool
    _custody: Custody | None
    _consumers: Consumers
    _there: list[Found]
    _keeps_leftovers: bool
    #: set when it is started, before anything can ask for it
    _pump: Pump
    _handing_to: Phase = "over"
    #: the terminal that was made for it
    pty: Pty | None

    @property
    def _held(self) -> Custody:
        raise NotImplementedError

    def _tell(self) -> None:
        raise NotImplementedError

    def _is_over(self) -> None:
        """The end of the program need not look after it any more."""
        raise NotImplementedError

    def _begin_ending(self, now: float, cause: str) -> float | None:
        raise NotImplementedError

    def _finish(self, survivors: list[Found]) -> float | None:
        """Nothing is left, or what is there is given up: close the account and all that is open."""
        custody = self._held
        self._pump.drain()
        self._pump.close()
        if self.pty is not None:
            self.pty.close()
        self._there = survivors
        self.account.survivors = tuple(one.survivor for one in survivors)
        custody.finish()
        self.account.ended_at = monotonic()
        return self._hand_out("over")

    def _hand_out(self, then: Phase) -> float | None:
        """The output is in: have those who are given it take it, for a bounded time, and then be ``then``."""
        self.phase, self._handing_to = "handing", then
        if self._wakeup is not None:
            self._pump.watch(self._wakeup.fd)
        return self._while_handing(monotonic())

    def _while_handing(self, now: float) -> float | None:
        wanted = self._is_stop_wanted()
        if wanted and self._handing_to == "left":
            return self._begin_ending(now, "stop")
        until = self._consumers.hand_over(now, is_hurried=wanted or self.account.was_ended)
        if until is not None:
            return self._sooner(until)
        if self._handing_to == "left":
            return self._leave(now)
        self._close()
        self.phase = "over"
        self._tell()
        points.reach("processes.run.over")
        return None

    def _close(self) -> None:
        custody = self._held
        self._unwatch()
        self._activity.close(*self.account.verdict(custody.returncode))
        self._is_over()
        if self._wakeup is not None:
            self._wakeup.close()

    def _leave(self, now: float) -> float | None:
        """What is left belongs to the owner, or to the heir, from now on; nobody drives."""
        heir = self.spec.heir
        self.phase = "left"
        if self.spec.leftovers == "detach" and heir is not None:
            why = self._hand_over(heir)
            if why:
                self.account.note(f"its leftovers could not be detached, and stay with this turn: {why}")
                if not self._keeps_leftovers:
                    return self._begin_ending(now, "leftovers")
        self.foresee_anew()  # nobody waits for it here any more
        self._tell()
        return None

    def _why_not(self, move: Move) -> str:
        return "it has ended already" if self.account.ended_at is not None else super()._why_not(move)

    def _look_at_what_is_left(self) -> None:
        if self._held.look() and self._held.leftovers() == []:
            self._finish([])

    def is_stopped(self) -> bool:
        """Whether a stop ends it, or has ended it."""
        return self.interrupted or self._is_stop_wanted()

    def status(self) -> int | None:
        """The status of the main process, None before its end; ``UNKNOWN`` where it ended and that is not known."""
        found = None if self._custody is None else self._custody.returncode
        return UNKNOWN if found is None and self.phase == "over" else found
