"""Waiting for a command of the stand-in for ``subprocess``, or for its pipes, as a checkpoint of its owner and of
the turn that is current where it is waited for.

Invariants
  N1  The bell is hung up, *then* the owner and the command are looked at. It is cleared, *then* they are looked at. So
      a stop or an end at any moment either is seen or wakes the ``poll``.
  N2  Nothing is read or written here; what is ready is looked at after the stop was.
  N3  This refers to nothing that its user holds: a handle that is dropped is gone at once.

May block: ``until``, for the command, a descriptor, the stop or the time. Polls nothing by the clock. Thread-safe.
"""

from __future__ import annotations

import math
import os
import select
from collections.abc import Callable, Mapping
from time import monotonic

from turnctl import points
from turnctl.processes.scoped import Scoped
from turnctl.processes.unowned import Unowned
from turnctl.tokens.activities import Owner
from turnctl.tokens.current import current_token
from turnctl.tokens.turn import TurnCore
from turnctl.waiting.wakeup import Wakeup

__all__ = ["Attending"]

_LONGEST_MS = 2**31 - 1


class Attending:
    """Those who wait for one command and for its pipes."""

    __slots__ = ("_bells", "_home", "owner")

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self._bells: list[Wakeup] = []
        self._home = os.getpid()

    def go_to(self, owner: Owner) -> None:
        """Obey ``owner`` from now on, whose the command has become."""
        self.owner = owner
        self.ring()

    def ring(self) -> None:
        """Something has changed. Never blocks, never raises."""
        for bell in list(self._bells):
            bell.ring()

    def check(self) -> None:
        """Raise ``CancelledError`` if this frame has to stop."""
        self._here().check()

    def _here(self) -> Owner:
        """The owner as this frame has to obey it: with the stop of whatever is bound here, another turn's too."""
        owner, token = self.owner, current_token()
        if token is None or (token.retired and not token.cancelled):
            return owner
        return owner if isinstance(owner, TurnCore) and token is owner._token else Scoped(owner, token)

    def before_reading(self, fd: int, ready: select.poll) -> None:
        """Block until ``fd``, which ``ready`` polls, has something to be read, if it blocks at all. A checkpoint."""
        owner = self._here()
        if isinstance(owner, Unowned) or os.getpid() != self._home:
            return  # nothing can stop this frame, so that it may as well block in the system
        owner.check()
        if not ready.poll(0) and os.get_blocking(fd):
            self.until(lambda: False, None, {fd: select.POLLIN})

    def until(
        self, done: Callable[[], bool], ends_at: float | None, masks: Mapping[int, int] | None = None
    ) -> set[int]:
        """Block until ``done()``, one of the descriptors is ready for its mask, or ``ends_at``; those that are.

        A checkpoint, at the begin and whenever it is woken.
        """
        poller = select.poll()
        for fd, mask in (masks or {}).items():
            poller.register(fd, mask)
        bell = Wakeup()
        poller.register(bell.fd, select.POLLIN)
        owner = self._here()
        # the command's own owner is watched already, by whoever supervises the command
        undo = owner.watch(bell.ring) if owner is not self.owner else None
        try:
            self._bells.append(bell)
            while True:
                bell.clear()  # N1
                self.check()  # the command may have been handed over meanwhile
                points.reach("processes.attending.asked")
                ready = {fd for fd, _ in poller.poll(0)} - {bell.fd}
                left = None if ends_at is None else ends_at - monotonic()
                if ready or done() or (left is not None and left <= 0):
                    return ready
                held = owner.held_until() if owner.stop_wanted() else None
                limits = [one for one in (left, None if held is None else held - monotonic()) if one is not None]
                poller.poll(_ms(min(limits, default=None)))
        finally:
            if undo is not None:
                undo()
            if bell in self._bells:
                self._bells.remove(bell)
            bell.close()


def _ms(seconds: float | None) -> int | None:
    # rounded up: a wait that ends a little early would come back for nothing
    return None if seconds is None else max(0, min(math.ceil(seconds * 1000), _LONGEST_MS))
