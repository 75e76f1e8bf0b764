"""A file that is there whole or not at all: written beside its place, on the disk, and then put there in one step.

For every file that turnctl writes as a whole, but for databases, whose makers need names.

Invariants
  B1  The place holds the old file, whole, until one rename puts the new one there, whole, on the disk already; where
      nothing is to be replaced, a link, which replaces nothing.
  B2  What was not put there has no name where the system can have it so (``O_TMPFILE``), so a kill leaves nothing.
      Where it has one, by need or for the moment before the rename, it is locked while its writer lives.
  B3  Who writes the same file next takes away what nobody holds: only regular files of our own name for it that are
      this user's. So a writer that was killed leaves one file at most, and that until then.

Blocks for the disk. Not promised: that what a writer on a file system without locks left is ever taken away; that hard
links, access lists and extended attributes of the old file are those of the new one, or its permissions on a file
system that keeps none; on a file system without links, that a file that somebody else makes at the very moment is not
replaced.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import stat
from collections.abc import Iterator
from typing import Any

__all__ = ["Beside", "put_whole"]

fcntl: Any
try:
    fcntl = importlib.import_module("fcntl")
except ImportError:  # pragma: no cover - not on Windows: what a kill left there stays
    fcntl = None

_MARK = ".staged-"
_RANDOM = 6  # bytes in a name
#: what a system or a file system says that has no files without a name
_NO_NAMELESS = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
#: what is said where an owner or permissions cannot be given: not by this user, not to that one, not there
_NOT_GIVEN = (errno.EPERM, errno.EACCES, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)


def put_whole(path: str, data: bytes, *, is_new: bool = False, mode: int | None = None) -> None:
    """Write the file ``path``: all of it, or nothing. Raises ``OSError``, which names ``path`` alone.

    With ``is_new`` it replaces nothing (``FileExistsError``). Its permissions are ``mode``, whatever the mask is; by
    default those of the file that it replaces, or of a new file.
    """
    try:
        beside = Beside(path, is_new=is_new, mode=mode)
        with beside.opened() as file:
            file.write(data)
            file.flush()
            beside.sync()
            beside.land()
    except OSError as error:
        raise type(error)(error.errno, error.strerror, path) from None  # the file beside it means nothing to anybody


class Beside:
    """Where a file is to be, and what is written beside it meanwhile. For one writer, used once."""

    def __init__(
        self, path: str, *, is_new: bool = False, mode: int | None = None, before: os.stat_result | None = None
    ) -> None:
        """``before`` is the file that is replaced, whose owner and permissions the new one gets; with ``mode`` none is
        looked at."""
        self.path = path
        self.folder, self.base = os.path.split(path)
        self.folder = self.folder or os.curdir
        self.is_new = is_new
        self._name: str | None = None
        self._fd = -1
        self._mode = mode
        if before is None and mode is None and not is_new:
            with contextlib.suppress(FileNotFoundError):
                before = os.stat(path)
        self._before = before

    @contextlib.contextmanager
    def opened(self, *, named: bool = False) -> Iterator[io.BufferedWriter]:
        """A file to write to, gone again at the end unless ``land`` has moved it. Raises ``OSError``."""
        _clear(self.folder, self.base)
        try:
            self._open(named)
            # by its name, where it has one: ``file.name`` is then good for a program that is to write it. A descriptor
            # of its own, so that the body may close it
            with open(self._name or "", "wb", opener=lambda *_: os.dup(self._fd)) as file:
                yield file
        finally:
            self._let_go()

    def _let_go(self) -> None:
        fd, self._fd = self._fd, -1
        try:
            if fd >= 0:
                os.close(fd)
        finally:
            if self._name is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._name)
                self._name = None

    def _open(self, named: bool) -> None:
        fd = None if named else _nameless(self.folder)
        if fd is not None:
            self._fd = fd
            _lock(fd)
        else:
            while not self._open_named():
                self._let_go()
        if hasattr(os, "fchown"):  # not on Windows
            if self._mode is not None:
                _permit(self._fd, self._mode)
            elif self._before is not None:
                _take_after(self._fd, self._before)

    def _open_named(self) -> bool:
        """Whether it is ours: who clears up (B3) takes one away that is made and not locked yet."""
        # what replaces a file is shown to nobody before it has the permissions of that
        mode = self._mode if self._mode is not None else 0o666 if self._before is None else 0o600
        name = self._beside()
        self._fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), mode)
        self._name = name
        return _lock(self._fd) and os.path.lexists(name)

    def _beside(self) -> str:
        return os.path.join(self.folder, f"{_begin(self.base)}{os.urandom(_RANDOM).hex()}")

    def sync(self) -> None:
        """Have what was written be on the disk."""
        os.fsync(self._fd)

    def land(self) -> None:
        """Put what was written in its place, in one step (B1). Raises ``OSError``."""
        if self._name is None:
            if self.is_new:
                self._link(self.path)
                self._sync_folder()
                return
            self._name = self._beside()
            self._link(self._name)
        if self.is_new:
            self._put_new(self._name)
        else:
            os.replace(self._name, self.path)
            self._name = None
        self._sync_folder()

    def _put_new(self, name: str) -> None:
        try:
            os.link(name, self.path)  # unlike a rename it replaces nothing
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            if os.path.lexists(self.path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path) from None
            os.rename(name, self.path)
            self._name = None

    def _link(self, to: str) -> None:
        # os.link follows the link of /proc only when it is given a folder's descriptor, which an absolute path ignores
        os.link(f"/proc/self/fd/{self._fd}", to, src_dir_fd=self._fd, follow_symlinks=True)

    def _sync_folder(self) -> None:
        # without it a crash of the machine may still show the old file
        try:
            fd = os.open(self.folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        except OSError:  # a folder that may be written and not read
            return
        try:
            with contextlib.suppress(OSError):  # a file system that does not do this for folders
                os.fsync(fd)
        finally:
            os.close(fd)


def _take_after(fd: int, before: os.stat_result) -> None:
    """The owner and the permissions of the file that is replaced, as far as this user may give them."""
    mine = os.fstat(fd)
    if (mine.st_uid, mine.st_gid) != (before.st_uid, before.st_gid):
        for owner in ((before.st_uid, before.st_gid), (-1, before.st_gid)):
            try:
                os.fchown(fd, *owner)
                break
            except OSError as error:
                if error.errno not in _NOT_GIVEN:
                    raise
    _permit(fd, stat.S_IMODE(before.st_mode))


def _permit(fd: int, mode: int) -> None:
    """Give it those permissions, where its file system keeps any."""
    try:
        os.fchmod(fd, mode)
    except OSError as error:
        if error.errno not in _NOT_GIVEN:
            raise


def _lock(fd: int) -> bool:
    """Lock it for its writer; False where somebody who clears up has locked it."""
    if fcntl is not None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks: then nobody clears up
            pass
    return True


def _begin(base: str) -> str:
    # the longest name that there may be has 255 bytes
    return f".{os.fsdecode(os.fsencode(base)[:100])}{_MARK}"


def _is_random(text: str) -> bool:
    return len(text) == 2 * _RANDOM and not text.strip("0123456789abcdef")


def _nameless(folder: str) -> int | None:
    """A file without a name in ``folder``; None where that cannot be had, or could not be given a name later."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.open(folder, os.O_RDWR | flag | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in _NO_NAMELESS:
            return None  # a folder that is missing is told by the next open, which names it
        raise


def _clear(folder: str, base: str) -> None:
    """Take away what writers of the same file left behind who were killed (B3)."""
    if fcntl is None:
        return
    begin = _begin(base)
    try:
        found = [name for name in os.listdir(folder) if name.startswith(begin) and _is_random(name[len(begin) :])]
    except OSError:
        return  # the open that follows says what is wrong with the folder
    for name in found:
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):  # held, gone or not ours: it is left
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                there = os.fstat(fd)
                if stat.S_ISREG(there.st_mode) and there.st_uid == os.geteuid():
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(path)
            finally:
                os.close(fd)
