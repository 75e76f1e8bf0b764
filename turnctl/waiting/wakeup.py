"""A descriptor that other threads make readable, to wake a loop that is blocked in ``poll``.

Invariants
  V1  A number is closed only when nobody holds its ``_Descriptor`` any more, and who writes holds it meanwhile. So
      ``ring`` never writes to a number that was closed and given to another file in between, and needs no lock: it
      may be called from a signal handler, a finalizer or a callback of a stop.
  V2  In a forked child ``ring`` does nothing: the file is shared with the parent, whose loop it would wake.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from turnctl.waiting.attention import Attention

__all__ = ["Wakeup"]


class _Descriptor:
    """Owns one number, and closes it when the last reference to this goes; not in a forked child, which may have
    closed all that it inherited and given the number to a file of its own.
    """

    __slots__ = ("_home", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._home = os.getpid()

    def __del__(self, getpid: Callable[[], int] = os.getpid, close: Callable[[int], None] = os.close) -> None:
        if getpid() == self._home:
            close(self.fd)


class Wakeup:
    """Wakes the one loop that polls ``fd``. ``ring`` never blocks nor raises, and does nothing once closed."""

    __slots__ = ("_attention", "_home", "_read", "_write")

    def __init__(self, *, bytewise: bool = False) -> None:
        self._home = os.getpid()
        self._read: _Descriptor | None
        self._write: _Descriptor | None
        if hasattr(os, "eventfd") and not bytewise:
            self._read = self._write = _Descriptor(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        else:
            read, write = os.pipe()
            os.set_blocking(read, False)
            os.set_blocking(write, False)
            self._read, self._write = _Descriptor(read), _Descriptor(write)
        self._attention = Attention(self._write.fd) if bytewise else None

    @property
    def fd(self) -> int:
        """What the loop polls; -1 once closed."""
        read = self._read
        return -1 if read is None else read.fd

    def listen(self) -> None:
        """Have signals wake the loop as well, where it was made ``bytewise``: an eventfd takes eight at a time."""
        if self._attention is not None:
            self._attention.begin(self.ring)

    def deafen(self) -> None:
        """End what ``listen`` began. May be called twice."""
        if self._attention is not None:
            self._attention.end()

    def ring(self) -> None:
        """Make ``fd`` readable. Any thread, any moment; never blocks, never raises."""
        write = self._write  # held until the end of this call (V1)
        if write is None or os.getpid() != self._home:
            return
        try:
            os.write(write.fd, b"\1\0\0\0\0\0\0\0")  # an eventfd takes eight bytes, a pipe any number
        except OSError:
            pass  # full, hence readable already; or closed by somebody else, which the loop finds out by itself

    def clear(self) -> None:
        """Take back every ring so far. Only the loop calls this, before it looks at what it was rung for."""
        try:
            os.read(self.fd, 4096)
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Close it, as soon as nobody rings any more. May be called twice."""
        self.deafen()
        self._read = self._write = None
