"""A descriptor that other threads make readable, to wake a loop that is blocked in ``poll``."""

from __future__ import annotations

import os
import threading

from turnctl.processes.attention import Attention

__all__ = ["Wakeup"]


class Wakeup:
    """Wakes the one loop that polls ``fd``. ``ring`` never blocks and does nothing once closed.

    The lock keeps ``ring`` from writing to a number that was closed and given to another file in between. It
    is held for one system call and is re-entrant, so a signal handler or finalizer that rings while its own
    thread is in here goes through.
    """

    __slots__ = ("_attention", "_lock", "_read", "_write")

    def __init__(self, *, bytewise: bool = False) -> None:
        self._lock = threading.RLock()
        if hasattr(os, "eventfd") and not bytewise:
            self._read = self._write = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        else:
            self._read, self._write = os.pipe()
            os.set_blocking(self._read, False)
            os.set_blocking(self._write, False)
        self._attention = Attention(self._write) if bytewise else None

    @property
    def fd(self) -> int:
        return self._read

    def listen(self) -> None:
        """Have signals wake the loop as well, where it was made ``bytewise``: an eventfd takes eight at a time."""
        if self._attention is not None:
            self._attention.begin()

    def deafen(self) -> None:
        """End what ``listen`` began. May be called twice."""
        if self._attention is not None:
            self._attention.end()

    def ring(self) -> None:
        """Make ``fd`` readable. Any thread; never blocks."""
        with self._lock:
            if self._write >= 0:
                try:
                    os.write(self._write, b"\1\0\0\0\0\0\0\0")  # an eventfd takes eight bytes, a pipe any number
                except BlockingIOError:
                    pass  # full, hence readable already

    def clear(self) -> None:
        """Take back every ring so far. Only the loop calls this, before it looks at what it was rung for."""
        try:
            os.read(self._read, 4096)
        except BlockingIOError:
            pass

    def close(self) -> None:
        self.deafen()
        with self._lock:
            fds = {self._read, self._write}
            self._read = self._write = -1
        for fd in fds:
            if fd >= 0:
                os.close(fd)
