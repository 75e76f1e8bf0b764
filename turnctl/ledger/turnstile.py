"""Who may write next, across processes: a lane for cancellations, and a queue for all.

SQLite's own waiting is no queue: under load one of many writers gets nearly everything, and a cancellation waits for
seconds. So who wants to write stands in a queue of the kernel's (``flock``) before it asks SQLite.

Invariants
  W1  Who commits takes the room, passes the lane (takes and releases it), takes the desk, and leaves the room: so one
      of those who commit waits for the desk, and the others, in their order, for the room.
  W2  A cancellation holds the lane, and takes the desk without the room: before it come whoever is at the desk and the
      one who had passed the lane, and nobody else.
  W3  The locks are about fairness alone. What is right is held up by SQLite's lock: who finds no turnstile, since
      somebody removed its files, waits longer and breaks nothing.
  W4  The locks end with the process, and are not shared with a fork: the child opens its own.

Order: room, lane, desk, SQLite's write lock. ``enter`` blocks without a bound (``flock`` has none): it is called by a
thread that nobody waits for without one. Not thread-safe: it is used by whoever leads the writer.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from turnctl.ledger.ownfiles import own_file

__all__ = ["Turnstile"]

_ENDINGS = (".room", ".lane", ".desk")


class Turnstile:
    """The room, the lane and the desk of the store at ``path``."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fds: list[int] = []
        self._sign = b"%-10d\n" % os.getpid()

    def _locks(self) -> list[int]:
        if not self._fds:
            try:
                for ending in _ENDINGS:
                    self._fds.append(own_file(self._path + ending, os.O_RDWR))
            except BaseException:
                self.close()
                raise
        return self._fds

    def try_enter(self, *, urgent: bool) -> bool:
        """Enter if that needs no waiting."""
        room, lane, desk = self._locks()
        wanted = (lane, desk) if urgent else (room, lane, desk)
        held: list[int] = []
        for lock in wanted:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                for one in held:
                    fcntl.flock(one, fcntl.LOCK_UN)
                return False
            held.append(lock)
        self._entered(urgent=urgent)
        return True

    def enter(self, *, urgent: bool) -> None:
        """Enter when it is our turn."""
        room, lane, desk = self._locks()
        if urgent:
            fcntl.flock(lane, fcntl.LOCK_EX)
        else:
            fcntl.flock(room, fcntl.LOCK_EX)
            fcntl.flock(lane, fcntl.LOCK_EX)
            fcntl.flock(lane, fcntl.LOCK_UN)
        fcntl.flock(desk, fcntl.LOCK_EX)
        self._entered(urgent=urgent)

    def _entered(self, *, urgent: bool) -> None:
        room, lane, desk = self._fds
        if not urgent:
            fcntl.flock(lane, fcntl.LOCK_UN)
            fcntl.flock(room, fcntl.LOCK_UN)
        os.pwrite(desk, self._sign, 0)  # who it is, for those who wait too long

    def leave(self) -> None:
        """Let the next one in."""
        _, lane, desk = self._fds
        fcntl.flock(desk, fcntl.LOCK_UN)
        fcntl.flock(lane, fcntl.LOCK_UN)

    def holder(self) -> int | None:
        """The process that is at the desk, as it said itself; None where nobody is."""
        with suppress(OSError, ValueError):
            # by a descriptor of its own: the others are the writer's
            fd = os.open(f"{self._path}.desk", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(os.pread(fd, 16, 0))
            finally:
                os.close(fd)
        return None

    def close(self) -> None:
        """Close them, which is all that a forked child may do with what it inherited."""
        while self._fds:
            os.close(self._fds.pop())
