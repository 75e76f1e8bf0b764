"""Opening a ledger: what is looked at, in which order, and what is refused before anything of it is changed.

The order: the file system; the owner and the modes; the file through a connection that cannot write (what it is, its
version, whether it is ours, how far it has come, its soundness where it was not closed well); the steps to the present
schema, after a copy; and only then connections that write.

Invariants
  O1  Opening makes no ledger: ``init`` does, under another name first, which it gets when it is whole. A file that is
      there is never made into one.
  O2  A refusal leaves every byte of the file as it was, and says what to do.
  O3  A store that is behind its mark, or is another one than its mark names, is not opened: what it had acknowledged
      is gone. A person decides (``take_as_it_is``).

Blocks for the disk. Not promised: that every damage is seen; ``ledger.verify`` reads it all.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import uuid
from contextlib import closing, suppress
from os import PathLike
from typing import NamedTuple, NoReturn

from turnctl._version import __version__
from turnctl.errors import (
    StoreBusy,
    StoreDamaged,
    StoreForeign,
    StoreLost,
    StoreMissing,
    StoreTooNew,
    StoreUnsafe,
)
from turnctl.ledger import schema
from turnctl.ledger.connections import connect, copy_into
from turnctl.ledger.highwater import HighWater, marks_of, missing_from, read_marks
from turnctl.ledger.ownfiles import NAME, describe, own_file
from turnctl.ledger.places import check_file_system, check_folder, check_owner, made_folder
from turnctl.ledger.reading import Still, connect_to_read
from turnctl.ledger.refusals import FAULTS, SALVAGE, system_told, told
from turnctl.ledger.sqlite import BUSY_S, SqliteStore, twin_of
from turnctl.ledger.users import Users
from turnctl.spelling import in_words

__all__ = ["identify", "init", "open_sqlite", "take_as_it_is"]

#: the smallest page that SQLite has; a file of less is no database
_LEAST = 512
_OLDEST = (3, 24, 0)  # upserts


class Meta(NamedTuple):
    """What a ledger says of itself."""

    store_uuid: str
    schema_version: int
    min_reader: int
    min_writer: int
    written_by: str


def _resolved(path: str | PathLike[str]) -> str:
    if sqlite3.sqlite_version_info < _OLDEST or sqlite3.threadsafety == 0:
        raise StoreUnsafe(f"SQLite {sqlite3.sqlite_version} of this Python is too old for a ledger: 3.24 is the oldest")
    return os.path.realpath(os.fspath(path))


# -- making one ---------------------------------------------------------------------------------------------------


def init(path: str | PathLike[str]) -> bool:
    """Make an empty ledger at ``path``, for this user alone; False where one was there already, which is left as it is.

    Refuses where there is anything else under that name, or what is left of a ledger that is gone. Blocks.
    """
    path = _resolved(path)
    made_folder(path)
    check_file_system(path)
    check_owner(path)
    if os.path.lexists(path):
        _identify(path)
        return False
    with system_told(path, "making"):
        return _make_alone(path)


def _make_alone(path: str) -> bool:
    """Make it while no other process does."""
    lock = own_file(f"{path}.making", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.lexists(path):
            _identify(path)
            return False
        if os.path.lexists(f"{path}.hwm"):
            raise _lost(path, "is gone, and what lies beside it says that it was there")
        for stale in (f"{path}-wal", f"{path}-shm"):
            if os.path.lexists(stale):
                raise _lost(path, f"is gone, and its {stale} is there")
        _clear_unmade(path)
        _make(path)
        if os.path.basename(path) == NAME:
            describe(os.path.dirname(path))
        return True
    finally:
        os.close(lock)


def _clear_unmade(path: str) -> None:
    """Take away what makers have left that were killed; none lives, since its lock is ours."""
    folder, name = os.path.split(path)
    unmade = re.compile(re.escape(name) + r"\.new-[0-9a-f]{8}(-wal|-shm|-journal)?")
    for one in os.listdir(folder):
        if unmade.fullmatch(one) and os.lstat(os.path.join(folder, one)).st_uid == os.geteuid():
            os.unlink(os.path.join(folder, one))


def _make(path: str) -> None:
    fresh, authority = f"{path}.new-{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
    os.close(own_file(fresh, os.O_RDWR | os.O_EXCL))
    try:
        with closing(connect(fresh, "rw", BUSY_S)) as connection:
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # so that a purge can give room back, in pieces
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("BEGIN IMMEDIATE")
            _step(connection, 0)
            by = f"turnctl {__version__}"
            values = (authority, schema.VERSION, schema.MIN_READER, schema.MIN_WRITER, by, by)
            connection.execute("INSERT INTO meta VALUES (1, ?, ?, ?, ?, ?, ?, 1)", values)
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # so that a log that is lost later can be seen
        os.rename(fresh, path)
    except FAULTS as error:
        raise told(error, path, "making") from error
    finally:
        with suppress(FileNotFoundError):
            for ending in ("", "-wal", "-shm"):
                os.unlink(fresh + ending)
    _flush(os.path.dirname(path))
    with closing(HighWater(path, authority)) as marks:
        marks.begin_anew(0, 0)


def _flush(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _step(connection: sqlite3.Connection, version: int) -> None:
    """Bring the schema from ``version`` to the present one, within a transaction."""
    for number, script in schema.migrations():
        if number > version:
            for statement in schema.statements(script):
                connection.execute(statement)
    connection.execute(f"PRAGMA application_id={schema.APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={schema.VERSION}")


# -- opening one --------------------------------------------------------------------------------------------------


def open_sqlite(path: str | PathLike[str], *, busy_s: float = BUSY_S) -> SqliteStore:
    """Open the ledger at ``path``, which is there, ours, whole and not behind; or say why not (O1, O2).

    ``busy_s`` is how long a transaction waits for others before it says which process it waits for. Blocks.
    """
    path, meta = identify(path)
    with system_told(path, "opening"):
        return _open(path, meta, busy_s)


def _open(path: str, meta: Meta, busy_s: float) -> SqliteStore:
    twin = twin_of(path, meta.store_uuid)
    if twin is not None:  # a stop that was accepted in the one would be unknown to the gate of the other
        text = (
            f"{path} and {twin}, which this process has open, are one ledger in two files; use one of them, or close "
            "that one first"
        )
        raise StoreUnsafe(text, path=path)
    users = Users(path)
    try:
        alone = users.are_none()
        if alone and _has_log(path):  # it was not closed well
            meta = _identify(path, sound=True)
        _check_marks(path, meta)
        if meta.schema_version < schema.VERSION:
            _migrate(path, meta, alone=alone)
        users.join()
        return SqliteStore(path, meta.store_uuid, users, busy_s=busy_s)
    except BaseException:
        users.close()
        raise


def take_as_it_is(path: str | PathLike[str]) -> None:
    """A person's decision: what is in the store holds, and what else it had acknowledged is not known any more.

    For a ledger that was refused with ``StoreLost``, after a backup was put in its place. It gets a new epoch. Blocks.
    """
    path, _ = identify(path)
    with system_told(path, "opening"), closing(Users(path)) as users:
        if not users.are_none():
            raise StoreBusy(f"{path} is in use; end the programs that have it open first", path=path)
        meta = _identify(path, sound=True)
        try:
            with closing(connect(path, "rw", BUSY_S)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("UPDATE meta SET epoch = epoch + 1")
                connection.execute("COMMIT")
                now = marks_of(connection)
        except FAULTS as error:
            raise told(error, path, "opening") from error
        with closing(HighWater(path, meta.store_uuid)) as marks:
            marks.begin_anew(*now)


def identify(path: str | PathLike[str], *, reads: bool = False, writes: bool = True) -> tuple[str, Meta]:
    """Where the ledger at ``path`` really is, and what it says of itself; raises what opening it would.

    ``reads`` is for who only reads it: the folder may be open to the eyes of others. Without ``writes`` it may lie
    where nothing can be written (``ledger.reading``).
    """
    path = _resolved(path)
    check_folder(path)
    _refuse_missing(path)
    check_file_system(path)
    check_owner(path, reads=reads)
    return path, _identify(path, writes=writes)


def _lost(path: str, what: str) -> StoreLost:
    text = (
        f"the ledger {path} {what}: what it had acknowledged is not all there; put the right files back, or decide "
        "that what is there now holds (turnctl.ledger.opening.take_as_it_is), which gives up what is gone"
    )
    return StoreLost(text, path=path)


def _refuse_missing(path: str) -> None:
    if os.path.lexists(path):
        return
    for ending in (".hwm", "-wal"):
        if os.path.lexists(path + ending):
            if os.path.lexists(path):
                return  # it was made in between, and then what lies beside it
            raise _lost(path, f"is gone, and its {path}{ending} is there")
    raise StoreMissing(
        f"there is no ledger {path}; open_ledger() and turnctl run make one, or name another file", path=path
    )


def _has_log(path: str) -> bool:
    """Whether SQLite has left a log behind: whoever closes last, and well, leaves none."""
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except FileNotFoundError:
        return False


def _identify(path: str, *, sound: bool = False, writes: bool = True) -> Meta:
    """What it is, by a connection that cannot write; with ``sound`` its pages are looked at as well."""
    if os.stat(path).st_size < _LEAST:
        _refuse_empty(path)  # before SQLite sees it, which would delete the log of such a file, even to read it
    try:
        still: Still | None = None
        if writes:
            connection = connect(path, "ro", BUSY_S)
        else:
            connection, still = connect_to_read(path, BUSY_S)
        with closing(connection):
            try:
                meta = _read_meta(connection, path, is_still=still is not None)
            except BaseException:
                if still is not None:
                    still.check()  # or a writer who came later is taken for damage
                raise
            if sound:
                found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
                if found != "ok":
                    raise StoreDamaged(f"{path} is damaged ({found}): {SALVAGE}", path=path)
            return meta
    except FAULTS as error:
        raise told(error, path, "reading") from error


def _refuse_empty(path: str) -> NoReturn:
    if os.path.lexists(f"{path}.hwm"):
        raise _lost(path, "is as good as empty")
    raise StoreForeign(f"{path} is as good as empty, and no ledger: it was left as it is; name another file", path=path)


def _read_meta(connection: sqlite3.Connection, path: str, *, is_still: bool) -> Meta:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if application != schema.APPLICATION_ID:
        if not tables:
            _refuse_empty(path)
        what = f"is a database of another program (application id {application})"
        raise StoreForeign(f"{path} {what}: it was left as it is; name another file", path=path)
    if "meta" not in tables:
        raise StoreDamaged(f"{path} says that it is a ledger, and has no table meta: {SALVAGE}", path=path)
    row = connection.execute(f"SELECT {', '.join(Meta._fields)} FROM meta").fetchone()  # noqa: S608
    if row is None or row[1] != version or [type(one) for one in row] != [str, int, int, int, str]:
        raise StoreDamaged(f"{path} contradicts itself about its version: {SALVAGE}", path=path)
    meta = Meta(*row)
    needs = max(meta.min_reader, meta.min_writer)
    if needs > schema.VERSION:
        text = (
            f"{path} was written by {meta.written_by} (schema {version}), and turnctl {__version__} knows schemas up "
            f"to {schema.VERSION}; use that version or a later one: nothing was changed"
        )
        raise StoreTooNew(text, path=path, needs=needs)
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    if mode != "wal" and not is_still:  # of a file that nobody changes SQLite says something else
        text = (
            f"somebody changed the journal of {path} to {mode}; put it back: sqlite3 {path} 'PRAGMA journal_mode=WAL'"
        )
        raise StoreUnsafe(text, path=path)
    return meta


def _check_marks(path: str, meta: Meta) -> None:
    try:
        marks = read_marks(path)
    except (ValueError, OSError) as error:
        why = in_words(error, of=f"{path}.hwm")
        text = (
            f"{path}.hwm cannot be read ({why}), so nobody knows whether the ledger is all there; look at it, then "
            "decide that it is (turnctl.ledger.opening.take_as_it_is)"
        )
        raise StoreDamaged(text, path=path) from error
    if marks is None:
        return  # a copy of the file alone: there is nothing to hold it against
    try:
        with closing(connect(path, "ro", BUSY_S)) as connection:
            now, pos = marks_of(connection)
    except FAULTS as error:
        raise told(error, path, "reading") from error
    missing = missing_from(marks, meta.store_uuid, now, pos)
    if missing is not None:
        raise _lost(path, missing)


def _copy(connection: sqlite3.Connection, copy: str) -> None:
    fresh = f"{copy}.new"
    with suppress(FileNotFoundError):
        os.unlink(fresh)  # of one that did not come to its end
    os.close(own_file(fresh, os.O_RDWR | os.O_EXCL))
    copy_into(connection, fresh)
    with closing(connect(fresh, "rw", BUSY_S)) as made:
        made.execute("PRAGMA journal_mode=WAL")  # as that of the ledger is
    os.rename(fresh, copy)
    _flush(os.path.dirname(copy))


def _migrate(path: str, meta: Meta, *, alone: bool) -> None:
    """The steps from an older schema, in one transaction, after a copy."""
    if not alone:
        text = f"{path} has to be brought to a newer schema, and other programs have it open: end them first"
        raise StoreBusy(text, path=path)
    copy = f"{path}.v{meta.schema_version}"
    try:
        with closing(connect(path, "rw", BUSY_S)) as connection:
            if not os.path.lexists(copy):
                _copy(connection, copy)
            connection.execute("BEGIN IMMEDIATE")
            _step(connection, meta.schema_version)
            values = (schema.VERSION, schema.MIN_READER, schema.MIN_WRITER, f"turnctl {__version__}")
            connection.execute(
                "UPDATE meta SET schema_version = ?, min_reader = ?, min_writer = ?, written_by = ?", values
            )
            connection.execute("COMMIT")
    except FAULTS as error:
        raise told(error, path, "bringing to the present schema") from error
