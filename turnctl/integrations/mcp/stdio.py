"""The stdio transport of a server: one message per line, read and written without ever being stuck in it.

Invariants
  J1  A read and a write are preceded by a ``poll`` that stands beside a bell of ours, and a write takes no more than a
      pipe has room for when it is writable. So ``close`` ends both, whatever the client does.
  J2  Whole lines, in the order in which they were given: one thread at a time writes, the one that finds nobody
      writing; the others leave theirs with it and go on. The turnstile is tried, never waited for.
  J3  After ``close`` nothing is written any more, but for the rest of a line that has begun if the client takes it at
      once.
  J4  The thread that reads never waits for a client that does not: what does not go out at once is left with a thread
      that does. So a cancel is read also behind answers that nobody reads. Beyond ``_MOST`` lines it does wait.

May block: ``lines``, until there are some, the stop of the caller's turn, or ``close``; ``send``, while the client
does not read (a thread that is no work of a turn any more; for the one that reads see J4). Line and descriptor are the
transport's alone while it serves.
"""

from __future__ import annotations

import os
import sys
import threading
from _thread import LockType
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from turnctl import points
from turnctl.tokens.current import current_token
from turnctl.tokens.event import release_all
from turnctl.tokens.threads import needing_threads
from turnctl.waiting.descriptors import READ, WRITE, wait_ready
from turnctl.waiting.parking import end_of, wait_until
from turnctl.waiting.wakeup import Wakeup

__all__ = ["Lines", "standard_streams"]

_CHUNK = 4096  # PIPE_BUF: a pipe that is writable takes so many bytes at once
_READ = 1 << 16
_LONGEST = 64 << 20
_MOST = 1000  # lines that wait to be written while others are read


class Lines:
    """Lines from one descriptor and to another. ``send`` and ``close`` may be called from any thread."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._bell = Wakeup()
        self._out: deque[bytes] = deque()
        self._turnstile = threading.Lock()
        self._line = self._rest = memoryview(b"")  # what is being written, by whoever holds the turnstile
        self._room: list[LockType] = []
        self._reader = 0
        self._helpers: list[threading.Thread] = []
        self.is_closed = False
        #: why it ended, if not by the end of the input or by ``close``
        self.broken: str | None = None
        #: whether that is a line without an end, which the client can still be told of
        self.is_too_long = False

    # -- reading ----------------------------------------------------------------------------------------------

    def lines(self) -> Iterator[bytes]:
        """Each line as it comes, without its end; ends with the input or with ``close``. A checkpoint for each read."""
        self._reader = threading.get_ident()
        kept: list[bytes] = []
        length = 0
        while (data := self._read()) is not None:
            first, *others = data.split(b"\n")
            kept.append(first)
            length += len(first)
            for rest in others:
                line = b"".join(kept)
                kept, length = [rest], len(rest)
                if line.strip():
                    yield line
                if self.is_closed:
                    return
            if length > _LONGEST:
                self.broken = f"a line of more than {_LONGEST} bytes"
                self.is_too_long = True
                return

    def _read(self) -> bytes | None:
        bell = self._bell.fd
        ready = wait_ready(current_token(), {self._read_fd: READ, bell: READ}, None)
        if bell in ready:
            return None  # rung by ``close``, and nobody else
        try:
            return os.read(self._read_fd, _READ) or None
        except (BlockingIOError, InterruptedError):
            return b""
        except OSError as error:
            self.broken = f"{type(error).__name__}: {error}"
            return None

    # -- writing ----------------------------------------------------------------------------------------------

    def send(self, line: bytes) -> None:
        """Write ``line`` and its end, after those that were given before; nothing once it is closed."""
        if self.is_closed:
            return
        self._out.append(line + b"\n")
        points.reach("mcp.stdio.given")
        if threading.get_ident() != self._reader:
            self._push(waits=True)
            return
        if not self._push(waits=False):
            self._push_elsewhere()
        if len(self._out) > _MOST:
            wait_until(current_token(), lambda: self.is_closed or len(self._out) <= _MOST, None, self._room)

    def _push(self, *, waits: bool) -> bool:
        """Write what there is, unless somebody does; False if the client does not take it now, and nobody else does."""
        is_out = True
        while (self._out or not is_out) and self._turnstile.acquire(blocking=False):
            try:
                is_out = self._write_all(waits=waits)
            finally:
                self._turnstile.release()  # and *then* look again: one who came meanwhile has left its line here
            if not is_out:
                return False
        return True

    def _push_elsewhere(self) -> None:
        """On a thread that may wait."""
        thread = threading.Thread(target=self._push_rest, name="turnctl-mcp-writer", daemon=True)
        self._helpers = [*(one for one in self._helpers if one.is_alive()), thread]
        try:
            with needing_threads(thread.name):
                thread.start()
        except OSError:  # there is none
            self._helpers.remove(thread)
            self._push_rest()

    def _push_rest(self) -> None:
        if self._turnstile.acquire(blocking=False):  # else another has it, and goes on with what is left
            try:
                self._write_all(waits=True)
            finally:
                self._turnstile.release()
            self._push(waits=True)

    def _write_all(self, *, waits: bool) -> bool:
        while self._write(waits=waits):
            if len(self._out) <= _MOST:
                release_all(self._room)
            try:
                self._line = self._rest = memoryview(self._out.popleft())
            except IndexError:
                return True  # all is out, or ``close`` has emptied it
        return False

    def _write(self, *, waits: bool) -> bool:
        """Write the line in hand to its end; False if it has to wait and must not."""
        ends_at = None if waits else end_of(0)
        while self._rest:
            bell = self._bell.fd
            if bell < 0 or (self.is_closed and len(self._rest) == len(self._line)):
                break  # J3
            try:
                ready = wait_ready(None, {self._write_fd: WRITE, bell: READ}, ends_at)
                if self._write_fd not in ready:
                    if not ready:
                        return False
                    break  # it was closed
                self._rest = self._rest[os.write(self._write_fd, self._rest[:_CHUNK]) :]
            except (BlockingIOError, InterruptedError):
                continue
            except OSError as error:
                self._break(f"{type(error).__name__}: {error}")
                break
        self._line = self._rest = memoryview(b"")
        return True

    def _break(self, why: str) -> None:
        self.broken = self.broken or f"the client does not read: {why}"
        self.close()

    def close(self) -> None:
        """End it: nothing more is read or written. Never blocks; signal-safe; may be called twice."""
        self.is_closed = True
        self._out.clear()
        self._bell.ring()
        release_all(self._room)

    def release(self) -> None:
        """Give its own descriptor back; afterwards only ``send`` and ``close`` may be called, which do nothing.

        It is closed first, so that whoever writes comes back.
        """
        for helper in self._helpers:
            helper.join()
        self._bell.close()


@contextmanager
def standard_streams() -> Iterator[tuple[int, int]]:
    """Descriptors of the process's stdin and stdout for the transport alone, for the length of the ``with``.

    Meanwhile descriptor 0 is empty and 1 is where stderr goes: a tool that prints, or a command that inherits them,
    neither reads nor writes messages.
    """
    _flush()
    read_fd = _set_aside(0)
    try:
        write_fd = _set_aside(1)
        try:
            _point(0, os.open(os.devnull, os.O_RDONLY))
            try:
                os.dup2(2, 1)
            except OSError:  # there is no stderr
                _point(1, os.open(os.devnull, os.O_WRONLY))
            try:
                yield read_fd, write_fd
            finally:
                _flush()
                os.dup2(write_fd, 1)
                os.dup2(read_fd, 0)
        finally:
            os.close(write_fd)
    finally:
        os.close(read_fd)


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _set_aside(fd: int) -> int:
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _point(fd: int, at: int) -> None:
    os.dup2(at, fd)
    os.close(at)
