"""Telling, for the price of one look, whether a thing was made by this process or by the one it was forked from.

A thread exists in one process. What it was to set, to finish or to give back is never set, finished or given back in a
fork that was made meanwhile, so nobody may wait for it there.
"""

from __future__ import annotations

import os

from turnctl.tokens.event import TurnEvent

__all__ = ["Latch", "era", "refuse"]

#: An object that a forked child has another of: keep it, and compare with ``is``.
era = object()


def _begin_anew() -> None:
    global era
    era = object()


os.register_at_fork(after_in_child=_begin_anew)


def refuse(what: str) -> None:
    """Raise ``RuntimeError``: ``what`` is being done by a thread that this process does not have."""
    raise RuntimeError(
        f"{what} belongs to the process that this one was forked from, and goes on there; begin a turn of its own here"
    )


class Latch(TurnEvent):
    """An event that a thread of this process will set; in a fork that was made before, it counts as set."""

    __slots__ = ("_era",)

    def __init__(self) -> None:
        super().__init__()
        self._era = era

    def renew(self) -> None:
        """It is a thread of this process that will, also where another one has made it."""
        self._era = era

    def is_set(self) -> bool:
        """Whether there is nothing to wait for any more. Never blocks."""
        return self._flag or self._era is not era

    def wait(self, timeout: float | None = None) -> bool:
        """Block until it is set or ``timeout`` seconds have passed; whether it is. Not a checkpoint."""
        return self.is_set() or super().wait(timeout)
