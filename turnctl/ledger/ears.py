"""Hearing a doorbell file: who waits costs nothing until somebody has written to it, from whatever process.

By ``inotify`` (Linux) or ``kqueue``; where neither can be had, by looking again after a while. Never by the log of
SQLite, which is written to before what it says can be seen.
"""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress
from typing import Protocol

from turnctl.ledger.ownfiles import own_file

__all__ = ["Ear", "open_ear", "ring"]

_IN_MODIFY, _IN_ATTRIB, _IN_DELETE_SELF, _IN_MOVE_SELF, _IN_IGNORED = 0x2, 0x4, 0x400, 0x800, 0x8000
_GONE = _IN_DELETE_SELF | _IN_MOVE_SELF | _IN_IGNORED
#: seconds after which an ear that cannot hear looks again
_BLIND_S = 0.05


class Ear(Protocol):
    """Hears one file. Used by one thread; ``rouse`` by any."""

    def wait(self, seconds: float) -> bool:
        """Wait for the bell, ``rouse``, or the end of the time; whether there is a reason to look."""

    def rouse(self) -> None:
        """Have ``wait`` come back."""

    def close(self) -> None:
        """Give its descriptors back."""


def open_ear(file: str) -> Ear:
    """An ear for ``file``, which is made if it is not there."""
    with suppress(OSError, AttributeError, ImportError):  # none left for this user, or a system that has none
        return _Listening(file)
    return _Blind()


def ring(file: str) -> None:
    """Ring the bell ``file``, by its name, since somebody may have removed the one that was there."""
    fd = own_file(file, os.O_WRONLY)
    try:
        os.pwrite(fd, b"!", 0)
    finally:
        os.close(fd)


def _touch(file: str) -> None:
    os.close(own_file(file, os.O_WRONLY))


class _Roused:
    """A pipe that ends a wait."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def rouse(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._write, b"!")

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._read, 64)

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)


class _Blind(_Roused):
    def wait(self, seconds: float) -> bool:
        ready = select.select([self._read], [], [], min(seconds, _BLIND_S))[0]
        if ready:
            self._drain()
        return True  # who cannot hear has to look


if sys.platform.startswith("linux"):

    class _Listening(_Roused):
        def __init__(self, file: str) -> None:
            import ctypes

            self._file, self._deaf = os.fsencode(file), False
            libc = ctypes.CDLL(None, use_errno=True)
            self._add = libc.inotify_add_watch
            self._errno = ctypes.get_errno
            self._fd = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
            if self._fd < 0:
                raise OSError(ctypes.get_errno(), "inotify_init1")
            try:
                self._arm()
                super().__init__()
            except BaseException:
                os.close(self._fd)
                raise

        def _arm(self) -> None:
            _touch(os.fsdecode(self._file))
            if self._add(self._fd, self._file, _IN_MODIFY | _IN_ATTRIB | _IN_DELETE_SELF | _IN_MOVE_SELF) < 0:
                raise OSError(self._errno(), "inotify_add_watch")

        def wait(self, seconds: float) -> bool:
            if self._deaf:
                self._hang_again()
            poll = select.poll()
            poll.register(self._fd, select.POLLIN)
            poll.register(self._read, select.POLLIN)
            ready = {fd for fd, _ in poll.poll(seconds * 1000)}
            if self._read in ready:
                self._drain()
            if self._fd in ready:
                self._hear(os.read(self._fd, 4096))
            return bool(ready) or self._deaf

        def _hang_again(self) -> None:
            try:
                self._arm()
            except OSError:  # its folder is gone, closed or full: who is deaf has to look, and tries at the next wait
                self._deaf = True
            else:
                self._deaf = False

        def _hear(self, data: bytes) -> None:
            at = 0
            while at + 16 <= len(data):
                mask = int.from_bytes(data[at + 4 : at + 8], sys.byteorder)
                if mask & _GONE:  # somebody removed the bell: who rings makes another one
                    self._hang_again()
                    return
                at += 16 + int.from_bytes(data[at + 12 : at + 16], sys.byteorder)

        def close(self) -> None:
            os.close(self._fd)
            super().close()

else:

    class _Listening(_Roused):
        def __init__(self, file: str) -> None:
            self._file = file
            self._queue = select.kqueue()
            self._bell, self._deaf = -1, False
            super().__init__()
            self._queue.control([select.kevent(self._read, select.KQ_FILTER_READ, select.KQ_EV_ADD)], 0)
            self._arm()

        def _arm(self) -> None:
            if self._bell >= 0:
                os.close(self._bell)
                self._bell = -1
            _touch(self._file)
            self._bell = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC)
            noted = select.KQ_NOTE_WRITE | select.KQ_NOTE_ATTRIB | select.KQ_NOTE_DELETE | select.KQ_NOTE_RENAME
            flags = select.KQ_EV_ADD | select.KQ_EV_CLEAR
            self._queue.control([select.kevent(self._bell, select.KQ_FILTER_VNODE, flags, noted)], 0)

        def wait(self, seconds: float) -> bool:
            if self._deaf:
                self._hang_again()
            heard = self._queue.control(None, 8, seconds)
            for event in heard:
                if event.ident == self._read:
                    self._drain()
                elif event.fflags & (select.KQ_NOTE_DELETE | select.KQ_NOTE_RENAME):
                    self._hang_again()
            return bool(heard) or self._deaf

        def _hang_again(self) -> None:
            try:
                self._arm()
            except OSError:  # its folder is gone, closed or full: who is deaf has to look, and tries at the next wait
                self._deaf = True
            else:
                self._deaf = False

        def close(self) -> None:
            self._queue.close()
            if self._bell >= 0:
                os.close(self._bell)
            super().close()
