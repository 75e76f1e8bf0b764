"""Reading a store where nothing can be written: on a read-only medium, or in a folder that this user may not write to.

To read a store that may be in use SQLite needs an index of its log, which it cannot make there. It can read the file as
one that nobody changes, and then takes no locks and looks for no log or journal. That gives wrong answers beside a
writer.

Invariants
  R1  A store is read so only where it cannot be read in the usual way, and where either its file system is mounted
      such that nobody on this machine can write to it by any path, or nobody has it open: no log and no index of SQLite
      lie beside it, and no process of turnctl holds a lock as one of its users (``ledger.users``).
  R2  One whose log has anything in it is not read so, since that would leave out what was written last; nor one
      with the journal of a change that was not finished, which would be read half.
  R3  What was read holds if the file is afterwards the one that it was before, by its number, size and times, and
      has got no log meanwhile: ``Still.check``, which whoever has read asks at the end. That is for a writer who came
      later, by another path.

Not read so where other machines may write to it. Blocks for the disk.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3

from turnctl.errors import StoreBusy, StoreUnsafe
from turnctl.ledger.connections import connect
from turnctl.ledger.places import is_remote, is_stacked, is_unwritable
from turnctl.spelling import in_words

__all__ = ["Still", "connect_to_read"]

# SQLite's result codes, which are its ABI: PERM, READONLY, CANTOPEN
_NOT_WRITABLE = (3, 8, 14)
_COPY = "copy it, with its -wal, into a folder of your own while no program has it open, and read that"


class Still:
    """The evidence that a store does not change while it is read, and a look whether it has."""

    def __init__(self, path: str) -> None:
        """Raises ``StoreUnsafe`` where there is no evidence."""
        self._path = path
        self._before = _signature(path)  # before it is asked who uses it: who comes later shows
        #: for people
        self.words = f"{path} is read as an unchanging copy: nothing can be written there, and {_why_still(path)}"

    def check(self) -> None:
        """Raise ``StoreBusy`` if it has changed since."""
        if _signature(self._path) != self._before:
            raise StoreBusy(
                f"{self._path} was changed while it was read as an unchanging copy, so what was read may be "
                "wrong; read it again, or where it is written",
                path=self._path,
            )


def _signature(path: str) -> tuple[object, ...]:
    found = os.stat(path)
    names = tuple(os.path.lexists(path + ending) for ending in ("-wal", "-shm", "-journal"))
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, *names)


def connect_to_read(path: str, busy_s: float) -> tuple[sqlite3.Connection, Still | None]:
    """A connection that cannot write, and the evidence by which it reads an unchanging copy, if it does (R1).

    Raises SQLite's errors, and ``StoreUnsafe`` where it can be read in neither way.
    """
    connection = connect(path, "ro", busy_s)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()  # has it open its log
    except sqlite3.Error as error:
        connection.close()
        if (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF not in _NOT_WRITABLE:
            raise
        still = _still(path, error)
    except BaseException:
        connection.close()
        raise
    else:
        return connection, None
    return connect(path, "ro", busy_s, is_still=True), still


def _still(path: str, error: sqlite3.Error) -> Still:
    try:
        if os.access(os.path.dirname(path), os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise error  # it is not for want of that
        return Still(path)
    except FileNotFoundError:
        raise error from None


def _why_still(path: str) -> str:
    if is_remote(os.path.dirname(path)):
        raise _unreadable(path, "other machines may write to it")
    log = _size(f"{path}-wal")
    if log:
        raise _unreadable(path, f"its log {path}-wal holds what the file itself has not")
    if _size(f"{path}-journal"):
        raise _unreadable(path, f"its journal {path}-journal says that a change of it was not finished")
    if is_unwritable(path):
        return "nobody on this machine can write to its file system"
    if log is not None or os.path.lexists(f"{path}-shm"):
        raise _unreadable(path, "a program may have it open by another path, since it has left a log beside it")
    if _has_users(path):
        raise _unreadable(path, "a program has it open by another path")
    if is_stacked(path):
        return "no log beside it says that somebody has it open"
    return "nobody has it open"


def _size(name: str) -> int | None:
    try:
        return os.stat(name).st_size
    except FileNotFoundError:
        return None


def _has_users(path: str) -> bool:
    """Whether a process of turnctl has it open. The lock is given back at once, so it is in nobody's way."""
    try:
        with open(f"{path}.users", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except OSError as error:
        why = f"whether a program has it open cannot be seen ({in_words(error, of=f'{path}.users')})"
        raise _unreadable(path, why) from error
    return False


def _unreadable(path: str, why: str) -> StoreUnsafe:
    text = f"{path} lies where nothing can be written, and cannot be read as an unchanging copy: {why}; {_COPY}"
    return StoreUnsafe(text, path=path)
