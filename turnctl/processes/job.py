"""A command that is a job on a terminal: what a warden has to know to start it as one, and tells of it.

Given as ``before_exec``: where there is no warden it is called in the child, and does there what it can.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

__all__ = ["Job"]


class Job:
    """One job. All but ``claim`` is called on the thread that runs the command."""

    def __init__(
        self,
        claim: Callable[[], None],
        on_stop: Callable[[], None],
        *,
        foreground: int | None = None,
        announce: tuple[int, int] | None = None,
        controlling: int | None = None,
        console: tuple[int, int, list[Any], bool] | None = None,
        on_end: Callable[[], object] = lambda: None,
    ) -> None:
        self._claim = claim
        self._on_end = on_end
        self._on_stop = on_stop
        #: the descriptor of the terminal whose foreground it is to have from the start
        self.foreground = foreground
        #: where its pid is to be written before it is loaded, and whence a byte comes in answer
        self.announce = announce
        #: the descriptor of a terminal that is to control its session
        self.controlling = controlling
        #: what the warden puts right when this process is lost, as in ``request``
        self.console = console
        #: whether a warden has it; then ``send`` sends a signal to its group, and ``stops`` has those that stopped it
        self.is_guarded = False
        self.send: Callable[[int], None] | None = None
        self.stops: deque[int] = deque()
        #: whether this program looks after it itself, without the command line, and so cannot in the child
        self.is_ours = False
        #: where to write what the report has to say
        self.note: Callable[[str], None] = _nowhere

    def begun(self, pid: int) -> None:
        """It runs. Called where it is this program's own matter, not where the command line looks after it."""

    def look(self) -> None:
        """Something may have happened to it or its terminal."""

    def ending(self) -> None:
        """It is being ended: nothing of it stays stopped from now on."""

    def over(self, *, is_violent: bool) -> None:
        """Its main process has ended, or never began; ``is_violent``: not by itself. May be called again."""

    def __call__(self) -> None:
        self._claim()

    def stopped(self, signum: int) -> None:
        """The main process has been stopped by that signal."""
        self.stops.append(signum)
        self._on_stop()

    def ended(self) -> None:
        """The main process has ended, and its group must be left by who is in there from outside its namespace."""
        self._on_end()

    def go_on(self) -> None:
        """It is sent SIGCONT: what was told of stops before is over."""
        self.stops.clear()


def _nowhere(_text: str) -> None:
    pass
