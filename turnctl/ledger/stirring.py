"""Being woken when a ledger, or a folder of output, may have changed: for commands that watch.

Invariants
  S1  ``wait`` comes back soon after a file in one of the folders was written to, made or taken away, in whatever
      process (``inotify``), when the process that is watched has ended, and when nobody reads a pipe any more that is
      watched; else after ``most_s`` at the latest.
  S2  SQLite writes before what it writes can be seen. So after something was heard the next waits are short, and
      become longer again: 50 ms, 100 ms and so on.
  S3  It comes back at most every ``_REST_S``, however much is written.

Where there is no ``inotify`` it comes back every ``_BLIND_S``. ``has_changed`` says whether it is worth reading the
ledger again; it reads a few bytes of shared memory. For one thread.
"""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from turnctl.ledger.reading import connect_to_read
from turnctl.ledger.refusals import FAULTS, told

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Stirring"]

_REST_S = 0.02
_BLIND_S = 0.25
_SHORT_S = 0.05
_BUSY_S = 2.0
# IN_MODIFY, IN_MOVED_TO, IN_CREATE, IN_DELETE
_HEARD = 0x2 | 0x80 | 0x100 | 0x200


class Stirring:
    """What stirs in the ledger at ``path``. Closing gives its descriptors back."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._next = _SHORT_S
        self._last = 0.0
        self._folders: set[str] = set()
        self._pidfd = -1
        #: whether the process that is watched has ended
        self.has_seen_end = False
        #: whether nobody reads the pipe that is watched
        self.has_lost_reader = False
        self._pipe = -1
        self._add, self._fd = _listen()
        try:
            self._connection, _ = connect_to_read(path, _BUSY_S)
        except BaseException as error:
            self._let_go()
            if isinstance(error, FAULTS):
                raise told(error, path, "reading") from error
            raise
        self._version: int | None = None
        self.add(os.path.dirname(path))

    def add(self, folder: str) -> bool:
        """Listen to that folder as well; whether that is new."""
        if self._fd < 0 or folder in self._folders or self._add(self._fd, os.fsencode(folder), _HEARD) < 0:
            return False  # it is not there yet, or cannot be heard: S1 by the time alone
        self._folders.add(folder)
        return True

    def watch_process(self, pid: int) -> None:
        """Be woken when the process that has that number now ends. Once."""
        if self._pidfd < 0:
            with suppress(OSError, AttributeError):  # it has ended already, or the system has no such thing
                self._pidfd = os.pidfd_open(pid)

    def watch_reader(self, fd: int) -> None:
        """Be woken when nobody reads that pipe any more; anything else than a pipe is left alone."""
        with suppress(OSError):
            if stat.S_ISFIFO(os.fstat(fd).st_mode):
                self._pipe = fd

    def has_changed(self) -> bool:
        """Whether somebody has written to the ledger since the last call; True at the first one."""
        before = self._version
        try:
            self._version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except FAULTS as error:
            raise told(error, self._path, "reading") from error
        return before != self._version

    def wait(self, most_s: float = 1.0, *fds: int) -> set[int]:
        """Wait for something that stirs, or one of these descriptors; those of them that are ready."""
        rest = _REST_S - (time.monotonic() - self._last)
        found: set[int] = set()
        if rest > 0:  # S3: what comes meanwhile is heard by the one wait below
            found = self._ready(min(rest, most_s), fds)
        if not found and not self.has_lost_reader:
            net = min(most_s, self._next if self._fd >= 0 else _BLIND_S)
            found = self._ready(net, [*fds, *(fd for fd in (self._fd, self._pidfd) if fd >= 0)])
        self._next = _SHORT_S if found else min(self._next * 2, 1.0)
        if self._fd in found:
            with suppress(BlockingIOError):
                while len(os.read(self._fd, 65536)) > 60000:
                    pass
        if self._pidfd in found:  # it stays ready: once is enough
            os.close(self._pidfd)
            self._pidfd = -1
            self.has_seen_end = True
        self._last = time.monotonic()
        return found.intersection(fds)

    def _ready(self, seconds: float, fds: tuple[int, ...] | list[int]) -> set[int]:
        poll = select.poll()
        for fd in fds:
            poll.register(fd, select.POLLIN)
        if self._pipe >= 0:
            poll.register(self._pipe, 0)  # its error alone
        found = {fd for fd, _ in poll.poll(max(1.0, seconds * 1000))}
        self.has_lost_reader = self._pipe in found
        return found

    def close(self) -> None:
        """Give its descriptors back."""
        self._connection.close()
        self._let_go()

    def _let_go(self) -> None:
        for fd in (self._fd, self._pidfd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._pidfd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _deaf(*_: object) -> int:
    return -1


if sys.platform.startswith("linux"):
    from collections.abc import Callable

    def _listen() -> tuple[Callable[[int, bytes, int], int], int]:
        """What adds a folder, and what tells of it; -1 where nothing can."""
        import ctypes

        try:
            libc = ctypes.CDLL(None, use_errno=True)
            fd = int(libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
        except (OSError, AttributeError):
            return _deaf, -1
        return libc.inotify_add_watch, fd

else:

    def _listen() -> tuple[Callable[[int, bytes, int], int], int]:
        return _deaf, -1
