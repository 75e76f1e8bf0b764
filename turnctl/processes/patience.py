"""How long the start of a command is waited for: until it is known or, once a stop is wanted, as long as that may take.

A warden that somebody has stopped (SIGSTOP), or a folder on storage that hangs, tells nothing. Without a stop there is
no limit, as there is none in ``subprocess``.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

__all__ = ["Patience", "StopWanted"]

_LONGEST_MS = 2**30  # what fits into an int of C; afterwards it is asked again


class StopWanted(Exception):
    """A stop came before anything was asked for: nothing was started."""


class Patience(NamedTuple):
    """What a wait for a start goes by besides what it waits for."""

    #: readable when something about the stop has changed, and what makes it quiet again
    fd: int
    clear: Callable[[], None]
    #: when to ask again, and when it is over (monotonic), None for no such time
    next_at: Callable[[], tuple[float | None, float | None]]

    def wait(self, poll: select.poll, hurry: Callable[[], None]) -> bool:
        """Block in ``poll`` until something came; False if it is over instead. ``poll`` has ``fd`` in it.

        ``hurry`` is called once a stop is wanted.
        """
        is_hurried = False
        while True:
            again, over = self.next_at()
            if over is not None and not is_hurried:
                is_hurried = True
                hurry()
            now = monotonic()
            if over is not None and now >= over:
                return bool([fd for fd, _ in poll.poll(0) if fd != self.fd])
            times = [at for at in (again, over) if at is not None]
            # the end of a shield may be infinitely far away
            ready = poll.poll(max(0, int(min((min(times) - now) * 1000, _LONGEST_MS)) + 1) if times else None)
            if any(fd == self.fd for fd, _ in ready):
                self.clear()
            if any(fd != self.fd for fd, _ in ready):
                return True

    def wait_unless_stopped(self, poll: select.poll, until: float) -> None:
        """Block in ``poll`` until something came, or the time ``until``. Raises ``StopWanted`` if a stop is wanted."""
        while True:
            again, over = self.next_at()
            if over is not None:
                raise StopWanted
            at = until if again is None else min(until, again)
            ready = poll.poll(max(0, int((at - monotonic()) * 1000) + 1))
            if any(fd == self.fd for fd, _ in ready):
                self.clear()
            if any(fd != self.fd for fd, _ in ready) or monotonic() >= until:
                return
