"""Having a signal wake the loop, when it runs on the main thread.

Python runs a handler when the main thread next executes bytecode. A signal that arrives after the last look at the
flags and before ``poll`` has blocked does not interrupt that block: a Ctrl-C would wait for the command to end. The
wake-up descriptor is written to by the interpreter's own C handler at that very moment, so the loop polls it.

A descriptor that the host has set stays: its own thread or event loop reads it. Where it is that of
``handle_signals``, its reader rings for us. Ours is taken back before it is closed, or the C handler could write to a
number that belongs to another file by then.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

from turnctl.tokens import registry

__all__ = ["Attention", "is_main"]


def is_main() -> bool:
    """Whether this is the thread that Python runs signal handlers on."""
    return threading.current_thread() is threading.main_thread()


class Attention:
    """While it is on, every signal writes a byte to ``fd``, or ``ring`` is called. Main thread only; elsewhere it does
    nothing.
    """

    __slots__ = ("_fd", "_is_on", "_ring")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._ring: Callable[[], None] | None = None
        self._is_on = False

    def begin(self, ring: Callable[[], None] | None = None) -> None:
        """Turn it on, unless somebody else's descriptor is set: then ask to be rung for."""
        if self._is_on or not is_main():
            return
        try:
            before = signal.set_wakeup_fd(self._fd, warn_on_full_buffer=False)
        except ValueError:
            return  # a sub-interpreter hears no signals
        self._is_on = True
        if before != -1:
            signal.set_wakeup_fd(before)
            if ring is not None:
                self._ring = ring
                registry.on_signal.append(ring)

    def end(self) -> None:
        """Turn it off. May be called twice."""
        if not self._is_on:
            return
        self._is_on = False
        ring, self._ring = self._ring, None
        if ring is not None:
            registry.on_signal.remove(ring)
            return
        now = signal.set_wakeup_fd(-1)
        if now not in (self._fd, -1):
            signal.set_wakeup_fd(now)  # somebody has set another one in the meantime
