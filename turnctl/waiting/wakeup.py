"""A descriptor that other threads make readable, to wake a loop that is blocked in ``poll``.

Invariants
  V1  A number is closed only when nobody holds its ``_Ends`` any more, and who writes holds them meanwhile. So
      ``ring`` never writes to a number that was closed and given to another file in between, and needs no lock: it
      may be called from a signal handler, a finalizer or a callback of a stop.
  V2  In a forked child ``ring`` does nothing: the file is shared with the parent, whose loop it would wake.
  V3  Both ends of a pipe are held and closed as one, the writing end first: nothing of ours is ever written to a pipe
      that nobody can read, which kills a process that has SIGPIPE at its default.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from turnctl import points
from turnctl.waiting.attention import Attention

__all__ = ["Wakeup"]


class _Ends:
    """Owns the two numbers, or the one that is both, and closes them when the last reference to this goes; not in a
    forked child, which may have closed all that it inherited and given the numbers to files of its own.
    """

    __slots__ = ("_home", "read", "write")

    def __init__(self, read: int, write: int) -> None:
        self.read = read
        self.write = write
        self._home = os.getpid()

    def __del__(self, getpid: Callable[[], int] = os.getpid, close: Callable[[int], None] = os.close) -> None:
        if getpid() != self._home:
            return
        try:
            close(self.write)  # V3
        finally:
            if self.read != self.write:
                close(self.read)


class Wakeup:
    """Wakes the one loop that polls ``fd``. ``ring`` never blocks nor raises, and does nothing once closed."""

    __slots__ = ("_attention", "_ends", "_home")

    def __init__(self, *, bytewise: bool = False) -> None:
        self._home = os.getpid()
        self._ends: _Ends | None
        if hasattr(os, "eventfd") and not bytewise:
            fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._ends = _Ends(fd, fd)
        else:
            read, write = os.pipe()
            self._ends = _Ends(read, write)
            os.set_blocking(read, False)
            os.set_blocking(write, False)
        self._attention = Attention(self._ends.write) if bytewise else None

    @property
    def fd(self) -> int:
        """What the loop polls; -1 once closed."""
        ends = self._ends
        return -1 if ends is None else ends.read

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
        ends = self._ends  # held until the end of this call (V1, V3)
        if ends is None or os.getpid() != self._home:
            return
        points.reach("wakeup.ringing")
        try:
            os.write(ends.write, b"\1\0\0\0\0\0\0\0")  # an eventfd takes eight bytes, a pipe any number
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
        self._ends = None
