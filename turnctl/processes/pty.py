"""A terminal that is made for one command: its size, its settings at first, and how its input ends.

The command reads and writes one end (``end``), this program the other. What the command writes comes with the driver's
changes: a newline as CR LF. When the last process has closed its end, the other one reads an error, which is the end.

Invariants
  P1  ``close`` comes once, and ``resize`` never touches a number that was closed: both are under ``_lock``.
  P2  The end of input is the driver's own character for it, sent where the driver would act on it. It ends one read, or
      one line and a read; a command that reads again waits, as on every terminal.

Lock: ``_lock``, held for system calls that do not block; re-entrant, for handlers. Nothing here blocks.
"""

from __future__ import annotations

import os
import termios
import threading

from turnctl.processes.ttys import NewTty

__all__ = ["Pty"]


class Pty:
    """Made open; ``end`` is the caller's to close."""

    __slots__ = ("_fd", "_lock", "end")

    def __init__(self, wanted: NewTty) -> None:
        self._lock = threading.RLock()
        # neither is inherited, and neither becomes the controlling terminal of this program
        self._fd, self.end = os.openpty()
        try:
            termios.tcsetwinsize(self._fd, wanted.size)
            if not wanted.echo:
                modes = termios.tcgetattr(self.end)
                modes[3] &= ~termios.ECHO
                termios.tcsetattr(self.end, termios.TCSANOW, modes)
        except BaseException:
            os.close(self.end)
            self.close()
            raise

    def open(self) -> int:
        """A descriptor of our side, which is the caller's."""
        return os.dup(self._fd)

    def resize(self, rows: int, columns: int) -> None:
        """Set the size; the kernel sends SIGWINCH to the group that has the foreground there. Any thread."""
        with self._lock:
            if self._fd >= 0:
                termios.tcsetwinsize(self._fd, (rows, columns))

    def last_words(self, *, in_line: bool) -> bytes:
        """What to type to say that no more comes: nothing where a program reads single keys."""
        with self._lock:
            if self._fd < 0:
                return b""
            try:
                modes = termios.tcgetattr(self._fd)
            except termios.error:
                return b""
        end: bytes = modes[6][termios.VEOF]
        if not modes[3] & termios.ICANON or end == b"\0":
            return b""
        return end * 2 if in_line else end  # the first one only hands over a line that was begun

    def close(self) -> None:
        """Let go of it. May be called twice."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
