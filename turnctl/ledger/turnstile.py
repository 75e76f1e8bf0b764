"""Who may write next, across processes: a lane for cancellations, and a queue for all.

SQLite's own waiting is no queue: under load one of many writers gets nearly everything, and a cancellation waits for
seconds. So who wants to write stands in a queue of the kernel's (``flock``) before it asks SQLite.

Invariants
  W1  Who commits passes the lane (takes and releases it), then holds the queue until its transaction has ended.
  W2  A cancellation holds the lane until its transaction has ended. Whoever was in the queue goes before it; nobody
      enters the queue after it.
  W3  The locks are about fairness alone. What is right is held up by SQLite's lock: who finds no turnstile, since
      somebody removed its files, waits longer and breaks nothing.
  W4  The locks end with the process, and are not shared with a fork: the child opens its own.

Order: lane, queue, SQLite's write lock. ``enter`` blocks without a bound (``flock`` has none): it is called by a thread
that nobody waits for without one. Not thread-safe: it is used by whoever leads the writer.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

__all__ = ["Turnstile"]


class Turnstile:
    """The lane and the queue of the store at ``path``."""

    def __init__(self, path: str) -> None:
        self._files = (f"{path}.lane", f"{path}.queue")
        self._lane = self._queue = -1
        self._sign = b"%-10d\n" % os.getpid()

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._lane = os.open(self._files[0], flags, 0o600)
        try:
            self._queue = os.open(self._files[1], flags, 0o600)
        except BaseException:
            self.close()
            raise

    def try_enter(self, *, urgent: bool) -> bool:
        """Enter if that needs no waiting."""
        if self._lane < 0:
            self._open()
        try:
            fcntl.flock(self._lane, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                fcntl.flock(self._queue, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BaseException:
                fcntl.flock(self._lane, fcntl.LOCK_UN)
                raise
        except BlockingIOError:
            return False
        self._entered(urgent=urgent)
        return True

    def enter(self, *, urgent: bool) -> None:
        """Enter when it is our turn."""
        if self._lane < 0:
            self._open()
        fcntl.flock(self._lane, fcntl.LOCK_EX)
        if not urgent:
            fcntl.flock(self._lane, fcntl.LOCK_UN)
        fcntl.flock(self._queue, fcntl.LOCK_EX)
        self._entered(urgent=urgent)

    def _entered(self, *, urgent: bool) -> None:
        os.pwrite(self._queue, self._sign, 0)  # who it is, for those who wait too long
        if urgent:
            os.pwrite(self._lane, self._sign, 0)
        else:
            fcntl.flock(self._lane, fcntl.LOCK_UN)

    def leave(self) -> None:
        """Let the next one in."""
        fcntl.flock(self._queue, fcntl.LOCK_UN)
        fcntl.flock(self._lane, fcntl.LOCK_UN)

    def holder(self) -> int | None:
        """The process that is in the queue now, as it said itself; None where nobody is."""
        for file in self._files[::-1]:  # a descriptor of our own: the others' are the writer's
            with suppress(OSError, ValueError):
                fd = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return int(os.pread(fd, 16, 0))
                finally:
                    os.close(fd)
        return None

    def close(self) -> None:
        """Close both, which is all that a forked child may do with what it inherited."""
        for fd in (self._lane, self._queue):
            if fd >= 0:
                os.close(fd)
        self._lane = self._queue = -1
