"""A ledger in one SQLite file: durable, shared by the processes of one machine.

Invariants
  S1  One transaction at a time writes, whoever asks for it: SQLite's write lock, taken by BEGIN IMMEDIATE. No reading
      transaction is ever made a writing one.
  S2  Nobody is told that it was kept before COMMIT has returned with synchronous=FULL, and the files were seen to be
      the ones that are in the folder.
  S3  A request that raises leaves nothing of its own, also where others were written in the same transaction.
  S4  What was acknowledged is in the sidecar ``.hwm`` too (how far the store had come), so that a store that was put
      back, or lost its log, is not taken for what it was.
  S5  The doorbell is rung after COMMIT.

Order: the writer's mutex (short), the turnstile, SQLite's lock. Blocks for other transactions and the disk. Not for
signal handlers. Not promised: a bound on one wait for the disk.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar
from weakref import WeakSet

from turnctl import log
from turnctl.errors import StoreBusy, StoreClosed, StoreError, StoreLost, StoreUnsafe
from turnctl.ledger.connections import Connections
from turnctl.ledger.failpoints import InjectedFault, reach
from turnctl.ledger.forking import FORK_S, each
from turnctl.ledger.highwater import HighWater
from turnctl.ledger.holders import described, who_writes
from turnctl.ledger.refusals import FAULTS, told, unkept_text
from turnctl.ledger.sqlbooks import SqlBooks
from turnctl.ledger.store import Books, Store
from turnctl.ledger.turnstile import Turnstile
from turnctl.ledger.users import Users
from turnctl.ledger.wake import Doorbell
from turnctl.ledger.writer import Request, Writer
from turnctl.spelling import in_words

__all__ = ["BUSY_S", "SqliteStore", "twin_of"]

T = TypeVar("T")
#: how long a transaction waits for others, before its own begins
BUSY_S = 10.0
_CLOSE_S = 2.0


class _Desk:
    """What the writer leads to: the turnstile, and the connection that writes."""

    def __init__(self, path: str, authority: str, busy_s: float, connections: Connections, bell: Doorbell) -> None:
        self.path, self._authority, self._busy_s = path, authority, busy_s
        self._connections, self._bell = connections, bell
        self._turnstile = Turnstile(path)
        self._marks = HighWater(path, authority)
        self._seen: sqlite3.Connection | None = None
        self._files: list[tuple[str, int]] = []
        self._broken: StoreError | None = None

    def try_enter(self, *, urgent: bool) -> bool:
        try:
            return self._turnstile.try_enter(urgent=urgent)
        except OSError as error:
            raise self.no_place(error) from error

    def enter(self, *, urgent: bool) -> None:
        self._turnstile.enter(urgent=urgent)

    def leave(self) -> None:
        self._turnstile.leave()

    # -- one transaction --------------------------------------------------------------------------------------

    def run(self, batch: list[Request]) -> None:
        if self._broken is not None:
            _give_all(batch, self._broken)
            return
        try:
            with self._connections.kept("writer", writes=True) as connection:
                self._write(connection, batch)
        except FAULTS as error:
            seen = told(error, self.path, "writing to")
            _give_all(batch, self.too_long() if isinstance(seen, StoreBusy) else seen)
        except StoreLost as error:
            self._broken = error
            _give_all(batch, error)
        except InjectedFault as error:
            _give_all(batch, error)
        for request in batch:
            if request.error is None:
                try:
                    reach(f"{request.point}.after_commit")
                except RuntimeError as error:
                    request.error = error

    def _write(self, connection: sqlite3.Connection, batch: list[Request]) -> None:
        if connection is not self._seen:
            connection.execute("SELECT 1 FROM meta").fetchone()  # has it open its log
            self._files = [(name, os.stat(name).st_ino) for name in (self.path, f"{self.path}-wal")]
            self._seen = connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            books = SqlBooks(connection, self._authority)
            for request in batch:
                self._one(connection, books, request, alone=len(batch) == 1)
            # where nothing was written there is nothing to wait for
            connection.execute("ROLLBACK" if books.marks is None else "COMMIT")
        except BaseException:
            if connection.in_transaction:
                with suppress(sqlite3.Error):  # it does so by itself where it can go no further
                    connection.execute("ROLLBACK")
            raise
        if books.marks is not None:
            self._kept(books, books.marks)

    def _one(self, connection: sqlite3.Connection, books: SqlBooks, request: Request, *, alone: bool) -> None:
        """Run one request; what it raises is its own affair, unless the transaction is gone with it (S3)."""
        before = (books.marks, books.accepted)
        if not alone:
            connection.execute("SAVEPOINT one")
        try:
            request.result = request.fn(books)
            reach(f"{request.point}.before_commit")
        except BaseException as error:
            if isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.IntegrityError):
                raise
            request.error = _told_of(error, self.path)
            books.marks, books.accepted = before
            connection.execute("ROLLBACK" if alone else "ROLLBACK TO one")
            if alone:
                connection.execute("BEGIN")  # for the end of it
        if not alone:
            connection.execute("RELEASE one")

    def _kept(self, books: SqlBooks, marks: tuple[int, int]) -> None:
        """What follows a COMMIT, before anybody is told (S2, S4, S5)."""
        for name, number in self._files:
            if _number_of(name) != number:
                text = (
                    f"{name} was removed or replaced while the ledger was open, so what was just written, and maybe "
                    "more, is lost; end every program that has the ledger open, then put the right files back"
                )
                raise StoreLost(text, path=self.path)
        reach("commit.before_mark")
        try:
            self._marks.write(*marks)
        except OSError as error:  # it was kept all the same; the mark is behind, which says less and nothing wrong
            log.warning("ledger.mark_not_written", path=self.path, error=str(error))
        if books.accepted:
            reach("commit.before_bell")
            self._bell.ring()

    # -- what goes wrong --------------------------------------------------------------------------------------

    def too_long(self) -> StoreError:
        holder = who_writes(self.path) or self._turnstile.holder()
        who = "another program" if holder is None else described(holder)
        what = "continue" if holder is None else f"continue it (kill -CONT {holder})"
        text = f"{self.path} was not free within {self._busy_s:g}s: {who} holds it; {what} or end it, then try again"
        return StoreBusy(text, path=self.path, holder=holder)

    def no_place(self, error: OSError) -> StoreError:
        why = in_words(error, of=self.path)
        text = f"{self.path} cannot be locked ({why}); put the ledger on a local file system that has locks"
        return StoreUnsafe(text, path=self.path)

    def ended(self) -> None:
        self._turnstile.close()
        self._marks.close()


def _number_of(name: str) -> int | None:
    try:
        return os.stat(name).st_ino
    except FileNotFoundError:
        return None


def _give_all(batch: list[Request], error: BaseException) -> None:
    for request in batch:
        if request.error is None:
            request.error = error


def _told_of(error: BaseException, path: str) -> BaseException:
    if isinstance(error, sqlite3.Error):
        return told(error, path, "writing to")
    if isinstance(error, (UnicodeEncodeError, OverflowError)):
        return unkept_text(error)
    return error


class SqliteStore(Store):
    """A ledger in the SQLite file at ``path``, which was looked at by ``ledger.opening``."""

    durable = True

    def __init__(self, path: str, authority: str, users: Users, *, busy_s: float = BUSY_S) -> None:
        self.path, self.authority = path, authority
        self._busy_s = busy_s
        self._users = users
        self._begin()
        _open_ones.add(self)

    def _begin(self) -> None:
        self._connections = Connections(self.path, self._busy_s)
        self._bell = Doorbell(self.path, self._connections)
        self._desk = _Desk(self.path, self.authority, self._busy_s, self._connections, self._bell)
        self._writer = Writer(self._desk, self._busy_s)
        self._closed = False
        self._spoilt = False

    def transact(self, fn: Callable[[Books], T], *, urgent: bool = False, point: str = "store") -> T:
        self._refuse_closed()
        reach(f"{point}.before_begin")
        result: T = self._writer.submit(Request(fn, urgent=urgent, point=point))
        return result

    def read(self, fn: Callable[[Books], T]) -> T:
        self._refuse_closed()
        try:
            with self._connections.reading() as connection:
                return fn(SqlBooks(connection, self.authority))
        except FAULTS as error:
            raise told(error, self.path, "reading from") from error

    def watch(self, inc: str, fn: Callable[[], object]) -> Callable[[], None]:
        self._refuse_closed()
        return self._bell.watch(inc, fn)

    def _refuse_closed(self) -> None:
        if self._spoilt:
            text = (
                f"this process was forked while the ledger {self.path} was in use, and SQLite cannot be used after "
                "that; fork before, or use it in a process that is started anew"
            )
            raise StoreClosed(text, path=self.path)
        if self._closed:
            raise StoreClosed(f"the ledger {self.path} was closed; open it again", path=self.path)
        if not self._users.joined:
            self._users.join()

    def close(self) -> None:
        """Give everything back. Waits for what was begun; a thread that waits for a stopped process ends by itself."""
        if self._closed:
            return
        self._closed = True
        _open_ones.discard(self)
        self._bell.close()
        if self._writer.close(_CLOSE_S):
            self._desk.ended()
        self._connections.close()
        self._users.close()

    # -- forks --------------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Have no connection that a child could inherit."""
        self._spoilt = not self._connections.hold(FORK_S)

    def after_fork(self) -> None:
        """In the parent: go on."""
        self._spoilt = False
        self._connections.release()

    def forked(self) -> None:
        """In the child: let go of what is the parent's, and begin anew; who watches is with the parent."""
        spoilt = self._spoilt
        self._bell.forget()
        self._desk.ended()
        self._begin()
        self._spoilt = spoilt
        self._users.again()


_open_ones: WeakSet[SqliteStore] = WeakSet()


def twin_of(path: str, authority: str) -> str | None:
    """Where this process has the same ledger open from another file than ``path``: one of the two is a copy."""
    for other in list(_open_ones):
        if other.authority == authority and other.path != path and os.path.exists(other.path):
            return None if os.path.samefile(other.path, path) else other.path
    return None


os.register_at_fork(
    before=each(_open_ones, SqliteStore.before_fork),
    after_in_parent=each(_open_ones, SqliteStore.after_fork),
    after_in_child=each(_open_ones, SqliteStore.forked),
)
