"""Connections to the file of a SQLite ledger: how each is opened, and that none is ever used by two threads or forks.

Invariants
  N1  A connection belongs to one thread at a time: whoever has it lent, until the block ends.
  N2  No connection is there when the process forks: before a fork what is in use is waited for, a while, and all are
      closed. SQLite remembers which locks the process has; a child that inherits that, and opens the file anew, takes
      itself to have the locks of its parent, and has none: its log is deleted under it.
  N3  No file of a store is opened, copied or read but by SQLite: closing any descriptor of it would drop the locks
      that this process has on it, and with them what others may not do meanwhile.
  N4  A connection never makes a file (``mode=rw`` at most).

Thread-safe. Opening blocks for the disk, lending for a fork that is under way.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

__all__ = ["Connections", "breathe", "connect", "copy_into", "leaving_nothing"]

#: SQLite's log and its index
_BESIDE = ("-wal", "-shm")
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-_.~")


def connect(path: str, mode: str, busy_s: float, *, is_still: bool = False) -> sqlite3.Connection:
    """A connection to ``path``: ``ro`` or ``rw``, waiting up to ``busy_s`` for a lock of another program.

    With ``is_still`` nobody writes to it meanwhile, as ``ledger.reading`` alone can say.
    """
    name = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in os.fsencode(path))
    connection = sqlite3.connect(
        f"file:{name}?mode={mode}{'&immutable=1' if is_still else ''}",
        uri=True,
        timeout=busy_s,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=200,
    )
    try:
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON"):
            connection.execute(f"PRAGMA {pragma}")
        if mode == "rw":
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA wal_autocheckpoint=4000")  # some hundred commits, each of nine pages
            connection.execute("PRAGMA foreign_keys=ON")
            if sys.platform == "darwin":  # where fsync alone does not reach the disk
                connection.execute("PRAGMA fullfsync=ON")
                connection.execute("PRAGMA checkpoint_fullfsync=ON")
    except BaseException:
        connection.close()
        raise
    return connection


def breathe(connection: sqlite3.Connection) -> None:
    """Let Python run its signal handlers while SQLite works long on one statement."""
    connection.set_progress_handler(_go_on, 100_000)


@contextmanager
def leaving_nothing(path: str) -> Iterator[None]:
    """What is read in the block leaves nothing beside a store that nobody had open: a connection that cannot write
    makes the log and its index, and cannot take them away. One that could does so when it closes, unless others use it.
    """
    was_closed = not any(os.path.lexists(f"{path}{ending}") for ending in _BESIDE)
    try:
        yield
    finally:
        if was_closed and os.path.lexists(f"{path}-shm"):
            with suppress(sqlite3.Error, UnicodeError), closing(connect(path, "rw", 0.0)) as connection:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def copy_into(connection: sqlite3.Connection, path: str) -> None:
    """Write one state of it to the file ``path``, which is there and empty; its name need not be text (N3)."""
    connection.execute("VACUUM INTO CAST(? AS TEXT)", (os.fsencode(path),))


def _go_on() -> int:
    return 0


class Connections:
    """Those of one store: some that are kept under a name, and as many for reading as there are threads that do."""

    def __init__(self, path: str, busy_s: float) -> None:
        self._path, self._busy_s = path, busy_s
        self._changed = threading.Condition(threading.Lock())
        self._using: dict[int, int] = {}  # by thread
        self._held = False
        self._closed = False
        self._kept: dict[str, sqlite3.Connection] = {}
        self._idle: list[sqlite3.Connection] = []

    @contextmanager
    def _use(self) -> Iterator[None]:
        me = threading.get_ident()
        with self._changed:
            while self._held and me not in self._using:
                self._changed.wait()
            self._using[me] = self._using.get(me, 0) + 1
        try:
            yield
        finally:
            with self._changed:
                self._using[me] -= 1
                if not self._using[me]:
                    del self._using[me]
                if not self._using:
                    self._changed.notify_all()
                    if self._closed:
                        self._close_all()

    @contextmanager
    def kept(self, name: str, *, writes: bool = False) -> Iterator[sqlite3.Connection]:
        """The one of that name, which one thread uses at a time; another one after a fork."""
        with self._use():
            if name not in self._kept:
                self._kept[name] = self._connect(writes=writes)
            yield self._kept[name]

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One that nobody else has, within a transaction that reads one state."""
        with self._use():
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect(writes=False)
            try:
                connection.execute("BEGIN")
                try:
                    yield connection
                finally:
                    connection.execute("ROLLBACK")
            except BaseException:
                connection.close()  # whatever happened to it
                raise
            self._idle.append(connection)

    def _connect(self, *, writes: bool) -> sqlite3.Connection:
        connection = connect(self._path, "rw", self._busy_s)
        if not writes:
            connection.execute("PRAGMA query_only=ON")
        return connection

    def hold(self, within_s: float) -> bool:
        """Lend none from now on, and close all when they are given back (N2); False if some are not within the time."""
        with self._changed:
            self._held = True
            mine = threading.get_ident() in self._using  # this very thread would have to give it back
            if mine or not self._changed.wait_for(lambda: not self._using, within_s):
                return False
            self._close_all()
            return True

    def release(self) -> None:
        """Lend again."""
        with self._changed:
            self._held = False
            self._changed.notify_all()

    def close(self) -> None:
        """Close all, those that are in use when they are given back."""
        with self._changed:
            self._closed = True
            if not self._using:
                self._close_all()

    def _close_all(self) -> None:
        for connection in (*self._kept.values(), *self._idle):
            connection.close()
        self._kept.clear()
        self._idle.clear()
