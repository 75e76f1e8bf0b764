"""The controlling terminal: whose turn it is to read it, and how its driver is set.

A terminal has one foreground process group: that group reads from it and gets the signals of its keys. A
command in a group of its own has to be handed the foreground, or a read stops it (SIGTTIN) and Ctrl-C passes
it by.

Invariants
  T1  The foreground is handed over only by a process whose group holds it, or was handed it by us.
  T2  Nothing here stops this process: SIGTTOU is blocked for the length of each call that could raise it,
      and put back, since a command inherits the mask of the thread that starts it.
  T3  A terminal that has hung up makes every call do nothing.

Never blocks. Needs no lock: each call is one system call that the kernel serialises.
"""

from __future__ import annotations

import os
import signal
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from turnctl.processes.sentinel import NAME as SENTINEL
from turnctl.processes.table import read_entry, read_table

__all__ = ["Terminal"]

Modes = list[Any]


class Terminal:
    """The controlling terminal of this process; ``find`` opens it, ``close`` lets go of it."""

    __slots__ = ("_fd", "_group", "saved")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._group = os.getpgrp()
        #: the driver's settings as they were when the foreground was last handed over
        self.saved: Modes | None = None

    @classmethod
    def find(cls) -> Terminal | None:
        """The controlling terminal; None for a process that has none, such as one under cron or
        ``setsid``.
        """
        try:
            return cls(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
        except OSError:
            pass
        for fd in (0, 1, 2):  # no /dev here, but the terminal may be open all the same
            try:
                os.tcgetpgrp(fd)  # refused for a terminal that controls another session
                return cls(os.dup(fd))
            except OSError:
                continue
        return None

    @property
    def descriptor(self) -> int:
        """An open descriptor of it."""
        return self._fd

    def close(self) -> None:
        os.close(self._fd)

    # -- the foreground --------------------------------------------------------------------------------------

    def foreground(self) -> int | None:
        """The group that holds the foreground, None after a hang-up."""
        try:
            return os.tcgetpgrp(self._fd)
        except OSError:
            return None

    def is_ours(self) -> bool:
        """Whether our own group holds the foreground."""
        return self.foreground() == self._group

    def give(self, group: int) -> bool:
        """Hand the foreground to ``group``, and keep the driver's settings; whether it was done.

        Does nothing unless our group holds it, or ``group`` does already.
        """
        holder = self.foreground()
        if holder is None or holder not in (self._group, group):
            return False
        if holder == self._group:
            self.saved = self.modes()
        return holder == group or self._set_foreground(group)

    def claim(self) -> None:
        """Hand the foreground to the calling process's own group: for a child between its fork and its
        exec.
        """
        self._set_foreground(os.getpgrp())

    def take(self) -> None:
        """Take the foreground back for our own group, from whatever the command did with it."""
        self._set_foreground(self._group)

    def _set_foreground(self, group: int) -> bool:
        with _ttou_blocked():
            try:
                os.tcsetpgrp(self._fd, group)
            except OSError:
                return False  # hung up, or the group has gone
        return True

    # -- the driver's settings -------------------------------------------------------------------------------

    def modes(self) -> Modes | None:
        """The driver's settings now (echo, line editing, keys), None after a hang-up."""
        try:
            return termios.tcgetattr(self._fd)
        except (OSError, termios.error):
            return None

    def set_modes(self, modes: Modes | None) -> None:
        """Put settings back. What a program did by escape sequences (colours, other screen) is not among
        them.
        """
        if modes is None:
            return
        with _ttou_blocked():
            try:
                # not TCSADRAIN: output that was halted by Ctrl-S would make it wait for ever
                termios.tcsetattr(self._fd, termios.TCSANOW, modes)
            except (OSError, termios.error):
                pass

    # -- who else is there -----------------------------------------------------------------------------------

    def shell_group(self) -> int | None:
        """The group of the shell that can stop and continue our job; None if there is none.

        None means that our group is *orphaned*: once stopped, nobody would continue it.
        """
        pid, session = os.getppid(), os.getsid(0)
        while pid > 0:
            entry = read_entry(pid)
            if entry is None:
                return None
            if entry.pgrp != self._group:
                return entry.pgrp if entry.sid == session else None
            pid = entry.ppid
        return None

    def has_peers(self) -> bool:
        """Whether others work in our group that are neither above nor below us, such as the rest of a
        pipeline.
        """
        me = os.getpid()
        table = read_table()
        above = set()
        pid = me
        while pid in table and pid not in above:
            above.add(pid)
            pid = table[pid].ppid
        group = (entry for entry in table.values() if entry.pgrp == self._group and entry.name != SENTINEL)
        return any(e.pid not in above and e.ppid != me and not e.is_dead for e in group)


@contextmanager
def _ttou_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
