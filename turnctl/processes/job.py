"""A command that is a job on a terminal: what a warden has to know to start it as one, and tells of it.

Given as ``before_exec``: where there is no warden it is called in the child, and does there what it can.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

__all__ = ["Job"]


class Job:
    """One job. All but ``claim`` is called on the thread that runs the command."""

    __slots__ = ("_claim", "_on_end", "_on_stop", "announce", "foreground", "is_guarded", "send", "stops")

    def __init__(
        self,
        claim: Callable[[], None],
        on_stop: Callable[[], None],
        foreground: int | None,
        announce: tuple[int, int] | None,
        on_end: Callable[[], object] = lambda: None,
    ) -> None:
        self._claim = claim
        self._on_end = on_end
        self._on_stop = on_stop
        #: the descriptor of the terminal whose foreground it is to have from the start
        self.foreground = foreground
        #: where its pid is to be written before it is loaded, and whence a byte comes in answer
        self.announce = announce
        #: whether a warden has it; then ``send`` sends a signal to its group, and ``stops`` has those that stopped it
        self.is_guarded = False
        self.send: Callable[[int], None] | None = None
        self.stops: deque[int] = deque()

    def __call__(self) -> None:
        self._claim()

    def stopped(self, signum: int) -> None:
        """The main process has been stopped by that signal."""
        self.stops.append(signum)
        self._on_stop()

    def ended(self) -> None:
        """The main process has ended, and its group must be left by who is in there from outside its namespace."""
        self._on_end()
