"""What SQLite and the system say of a store, in our own errors: what failed, on which file, what to do next."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from turnctl.errors import (
    BadArgument,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreRefused,
    StoreUnsafe,
)
from turnctl.spelling import in_words

__all__ = ["FAULTS", "SALVAGE", "system_told", "told", "unkept_text"]

#: what SQLite, by way of Python, makes of a file that cannot be read: also of text that is none, in its own messages
FAULTS: tuple[type[Exception], ...] = (sqlite3.Error, UnicodeDecodeError)

SALVAGE = (
    "nothing was changed, so keep the file and its -wal as they are: copy both away while no program has them open, "
    "try `sqlite3 COPY .recover` on the copy, or put a backup in their place"
)

_ELSEWHERE = "name another place for the ledger: TURNCTL_STATE_DIR, or the path that is opened"

#: the least that SQLite takes for the index of a log, in bytes
_INDEX = 32_768

# SQLite's result codes, which are its ABI
#: SQLITE_IOERR_SHMSIZE: the index could not be made so large, for want of room, by a quota or by a limit
_NO_INDEX = 4874
_PERM, _BUSY, _LOCKED, _READONLY, _IOERR, _CORRUPT, _FULL, _CANTOPEN, _CONSTRAINT, _NOTADB = (
    *(3, 5, 6, 8, 10, 11, 13, 14, 19, 26),
)


def told(error: Exception, path: str, doing: str) -> StoreError:
    """The error of ours for one of SQLite's, met while ``doing`` something."""
    extended = getattr(error, "sqlite_errorcode", 0) or 0
    code, name = extended & 0xFF, getattr(error, "sqlite_errorname", type(error).__name__)
    said = f"{doing} {path} failed ({name}: {error})"
    if code in (_BUSY, _LOCKED):
        text = f"{doing} {path} was not possible in time: another program holds it ({name}); try again, or end that one"
        return StoreBusy(text, path=path)
    if code == _NOTADB:
        return StoreForeign(
            f"{said}; this is no ledger of turnctl, and it was left as it is: name another file", path=path
        )
    if code == _CORRUPT or extended == 267 or isinstance(error, UnicodeError) or "decode" in str(error):
        return StoreDamaged(f"{said}; the file is damaged: {SALVAGE}", path=path)
    if extended == _NO_INDEX:
        text = f"{said}; free some space there, or raise the limit on the size of files (ulimit -f), and try again"
        return StoreFull(text, path=path)
    if code == _FULL or (code == _IOERR and _is_full(path)):
        return StoreFull(f"{said}; free some space there and try again", path=path)
    if code in (_PERM, _READONLY, _CANTOPEN):
        if _is_read_only(path):
            return StoreUnsafe(f"{said}: its file system can only be read; {_ELSEWHERE}", path=path)
        text = f"{said}; the file, its -wal and its folder must be writable for this user: look at their owner and mode"
        return StoreUnsafe(text, path=path)
    if code == _IOERR:
        text = (
            f"{said}; the disk failed, a quota or a limit (ulimit -f) was met, or the file or its -wal was cut or "
            "taken away: look at them and the system's log"
        )
        return StoreDamaged(text, path=path)
    if code == _CONSTRAINT:
        return StoreRefused(
            f"{said}; nothing of it was written: this is a fault of who asked, or of turnctl", path=path
        )
    return StoreError(f"{said}; nothing of it was written", path=path)


def _is_read_only(path: str) -> bool:
    try:
        return bool(os.statvfs(os.path.dirname(path) or ".").f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _is_full(path: str) -> bool:
    """Whether there is no room where it lies, which SQLite calls an I/O error when it makes its index."""
    try:
        found = os.statvfs(os.path.dirname(path) or ".")
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < _INDEX


@contextmanager
def system_told(path: str, doing: str) -> Iterator[None]:
    """Have what the system refuses in the block be told as an error of ours."""
    try:
        yield
    except OSError as error:
        said = f"{doing} {path} failed ({in_words(error, of=path)})"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(f"{said}; free some space there and try again", path=path) from error
        if error.errno in (errno.EMFILE, errno.ENFILE):
            text = f"{said}; close some, or raise the limit on them (ulimit -n), and try again"
            raise StoreError(text, path=path) from error
        if error.errno == errno.EROFS:
            text = f"{said}; {_ELSEWHERE}"
            raise StoreUnsafe(text, path=path) from error
        text = f"{said}; the folder and what is in it must be writable for this user: look at their owner and mode"
        raise StoreUnsafe(text, path=path) from error


def unkept_text(error: Exception) -> BadArgument:
    """For text or numbers that SQLite cannot hold, such as a lone surrogate."""
    return BadArgument(
        f"the ledger cannot keep this value: {error}; give text that has a UTF-8 form, and whole numbers of 64 bits"
    )
