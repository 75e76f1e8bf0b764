"""Holding Python signal handlers back while a process is born, so that none of them raises where its pid would be lost.

Between the return of the fork and the next bytecode, which stores the pid, the interpreter runs handlers that are due.
Python's own for Ctrl-C raises there; the child then lives on and nobody knows of it. A signal mask would do, but the
child inherits it; another thread would do, but costs a tenth of a millisecond for each command.

Only Python handlers are held, on the main thread, for the fork and exec alone; the signals that came meanwhile are
handed to them afterwards, in order. Signals without a Python handler do what they always do.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found,unused-ignore]
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

from turnctl.waiting.attention import is_main

__all__ = ["Undisturbed"]

# without the look-up in an enumeration that the module signal adds, sixty times for each command
_handler_of: Callable[[int], Any] = _signal.getsignal
_set_handler: Callable[[int, Any], Any] = _signal.signal
_NUMBERS = range(1, signal.NSIG)


class Undisturbed:
    """In force from ``begin`` to ``end``; ``end`` runs what was held back, and lets it raise."""

    __slots__ = ("_came", "_held")

    def __init__(self) -> None:
        self._held: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._came: list[tuple[int, FrameType | None]] = []

    def begin(self) -> None:
        """Hold the handlers of this process; nothing off the main thread, where no handler runs."""
        if not is_main():
            return
        for number in [n for n, handler in enumerate(map(_handler_of, _NUMBERS), 1) if callable(handler)]:
            self._held[number] = _handler_of(number)
            _set_handler(number, self._note)

    def let_in(self) -> None:
        """Run what came up to now, and go on holding; raises what that raises, and then holds nothing any more."""
        if self._came:
            self.end()
            self.begin()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.append((number, frame))

    def end(self) -> None:
        """Put the handlers back and run them for what came. May be called twice; raises what they raise."""
        held, self._held = self._held, {}
        for number, handler in held.items():
            if _handler_of(number) == self._note:
                _set_handler(number, handler)
        while self._came:
            number, frame = self._came.pop(0)
            held[number](number, frame)
