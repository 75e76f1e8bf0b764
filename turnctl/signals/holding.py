"""Signals that wait for a moment, on the main thread: what must not be cut there is done, then each press is handled.

A handler may raise into whatever the main thread does, as Python's own does for a Ctrl-C. While handlers are taken
away, that would leave some of them in place, and a thread and its descriptors behind.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

__all__ = ["with_signals_held"]

Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None


def with_signals_held(after: Mapping[int, Handler], work: Callable[[], None]) -> None:
    """Do ``work`` while the signals of ``after`` wait; then put these handlers in place, and have them handle each.

    Main thread only. What a handler raises passes out when all is done; until the first signal is held it may cut in.
    """
    pressed: list[tuple[int, FrameType | None]] = []

    def wait(number: int, frame: FrameType | None) -> None:
        pressed.append((number, frame))

    before: dict[int, Handler] = {}
    try:
        for number in after:
            before[number] = signal.getsignal(number)
            signal.signal(number, wait)
    except BaseException:
        for number, handler in before.items():
            signal.signal(number, handler)
        raise
    try:
        work()
    finally:
        for number in sorted(after, key=lambda one: one == signal.SIGINT):  # the one whose handler raises comes last
            signal.signal(number, after[number])
        for number, frame in pressed:
            handler = after[number]
            if callable(handler):
                handler(number, frame)
            elif handler == signal.SIG_DFL:
                os.kill(os.getpid(), number)
