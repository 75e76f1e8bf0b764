"""Reading a whole ledger to see whether it is what was written: each log by its chain, each row by its log.

SQLite finds pages that are not as they should be, and no row in which one bit was changed. What is found here: a line
of a log that was changed, taken out or added; a row that is not as its log says, is missing, or was never written;
payloads and receipts that are not those whose hash is on record; a store that contradicts its own rules.

Limit: who can write the file, and writes log, heads and rows anew, leaves nothing to be found; only a hash that was
kept elsewhere would tell. Reads one state, beside whoever writes. Blocks, for as long as it takes to read all of it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from itertools import groupby
from os import PathLike
from typing import Any, NamedTuple

from turnctl.errors import StoreBusy, StoreError, StoreFull, StoreUnsafe
from turnctl.ledger.connections import breathe, leaving_nothing
from turnctl.ledger.highwater import Mark, marks_of, missing_from, read_marks
from turnctl.ledger.opening import identify
from turnctl.ledger.reading import Still, connect_to_read
from turnctl.ledger.refusals import FAULTS, told
from turnctl.ledger.rows import KEYS, KINDS, OF_INCARNATION, fields_of, verify_chain
from turnctl.ledger.sqlbooks import EVENT_COLUMNS, line_of
from turnctl.ledger.sqlite import BUSY_S
from turnctl.spelling import in_words

__all__ = ["Tell", "Verified", "quietly", "verify"]

#: whose log tells of a row of that kind; shared work stands in the logs of all who share it
_OWNERS = {
    "task": "inc",
    "cancellation": "inc",
    "lease": "inc",
    "activity": "inc",
    "child": "parent_inc",
    "interest": "inc",
    "detached": "from_inc",
    "effect": "inc",
    "turn": "inc",
    "receipt": "(SELECT inc FROM effect WHERE effect.effect_id = receipt.effect_id)",
}
_MOST = 100

#: what is done, how much of it, of how much
Tell = Callable[[str, int, int], object]
Rows = dict[tuple[str, tuple[Any, ...]], list[Any]]


class Verified(NamedTuple):
    """What was read, and what is wrong with it, one sentence each; nothing where all is as it was written."""

    incarnations: int
    lines: int
    findings: tuple[str, ...]
    #: where nothing can be written: that it was read as an unchanging copy, and how that is known; else None
    still: str | None = None

    def __bool__(self) -> bool:
        return not self.findings


def quietly(_what: str, _done: int, _total: int) -> None:
    """Tell nobody."""


def verify(path: str | PathLike[str], *, most: int = _MOST, tell: Tell = quietly) -> Verified:
    """Read all of the ledger at ``path``, and say what is wrong, ``most`` things at the most.

    ``tell`` is called with what is done now and how much of it, while it is read; 0 of 0 where that is not known.

    Raises the error of opening it where it is no ledger, or one that this turnctl does not know.
    """
    with leaving_nothing(os.path.realpath(os.fspath(path))):
        return _verified(path, most, tell)


def _verified(path: str | PathLike[str], most: int, tell: Tell) -> Verified:
    path, meta = identify(path, reads=True, writes=False)
    reader = _Reader(path, meta.store_uuid, tell)
    found = _marked(reader)
    still: Still | None = None
    try:
        connection, still = connect_to_read(path, BUSY_S)
        with closing(connection):
            breathe(connection)
            connection.execute("BEGIN")
            reader.connection = connection
            for one in reader.read():
                found.append(one)
                if len(found) >= most:
                    found.append(f"and maybe more: only the first {most} are told")
                    break
    except (sqlite3.Error, ValueError, TypeError) as error:  # bytes that are no text, no JSON, no row
        if still is not None:
            still.check()  # or a writer who came later is taken for damage
        said = told(error, path, "reading") if isinstance(error, FAULTS) else StoreError(f"{error}")
        if isinstance(said, (StoreBusy, StoreFull, StoreUnsafe)):  # which says nothing of what was written
            raise said from error
        found.append(f"it cannot be read any further: {said}")
    if still is not None:
        still.check()
    return Verified(reader.incarnations, reader.lines, tuple(found), None if still is None else still.words)


def _marked(reader: _Reader) -> list[str]:
    """Read how far it had come, before it is read itself; what is wrong with that."""
    try:
        reader.mark = read_marks(reader.path)
    except (ValueError, OSError) as error:
        why = in_words(error, of=f"{reader.path}.hwm")
        return [f"{reader.path}.hwm cannot be read ({why}), so nobody knows whether the ledger is all there"]
    return []


class _Reader:
    def __init__(self, path: str, authority: str, tell: Tell) -> None:
        self.path, self.authority, self.tell = path, authority, tell
        self.incarnations = self.lines = 0
        self.shared: dict[tuple[Any, ...], tuple[int, list[Any]]] = {}
        self.connection: sqlite3.Connection
        self.mark: Mark | None = None  # none beside a copy: there is nothing to hold it against

    def _rows(self, sql: str, *values: object) -> sqlite3.Cursor:
        return self.connection.execute(sql, values)

    def read(self) -> Iterator[str]:
        """Each thing that is wrong."""
        self.tell("reading the pages", 0, 0)
        for (said,) in self._rows("PRAGMA integrity_check(10)"):
            if said != "ok":
                yield f"SQLite: {said}"
        for table, _, parent, _ in self._rows("PRAGMA foreign_key_check"):
            yield f"a row of {table} belongs to a {parent} that is not there"
        yield from self._logs()
        self.tell("counting rows", 0, 0)
        yield from self._shared()
        yield from self._counts()
        yield from self._marks()
        self.tell("hashing payloads and receipts", 0, 0)
        yield from self._contents()
        yield from self._rules()

    # -- the logs, and the rows that they tell of -------------------------------------------------------------------

    def _logs(self) -> Iterator[str]:
        heads = {inc: (n, made) for inc, n, made in self._rows("SELECT inc, n, hash FROM head")}
        graves = dict(self._rows("SELECT inc, digest FROM remains JOIN tombstone USING (inc)"))
        lines = self._rows(f"SELECT pos, {EVENT_COLUMNS} FROM log ORDER BY inc, n")  # noqa: S608 - our own names
        done, total = 0, self._rows("SELECT count(*) FROM log").fetchone()[0]
        for inc, group in groupby(lines, key=lambda line: line[1]):
            self.tell("holding rows against their logs", done, total)
            rows: Rows = {}
            events = []
            for pos, *values in group:
                event = line_of(*values)
                events.append(event)
                self._note(pos, event.body, rows)
            done += len(events)
            if inc in graves:  # buried, and not all of it is gone: the beginning of its log goes first
                wrong = verify_chain(events, graves[inc], events[0])
                if wrong is not None:
                    yield wrong
                continue
            self.incarnations += 1
            self.lines += len(events)
            n, head = heads.pop(inc, (None, None))
            if head is None:
                yield f"the log of {inc} has no head"
            wrong = verify_chain(events, head)
            if wrong is not None:
                yield wrong
            elif n is not None and n != len(events):
                yield f"the head of {inc} says {n} lines, and there are {len(events)}"
            yield from self._compare(inc, rows)
        for inc in heads:
            yield f"the log of {inc} is gone, and its head is there"

    def _note(self, pos: int, body: str, rows: Rows) -> None:
        row = json.loads(body).get("row")
        if row is None:
            return
        kind, values = row
        key = tuple(values[fields_of(kind).index(name)] for name in KEYS[kind])
        if kind != "shared":
            rows[kind, key] = values
        elif key not in self.shared or self.shared[key][0] < pos:
            self.shared[key] = (pos, values)

    def _compare(self, inc: str, said: Rows) -> Iterator[str]:
        for kind, mine in OF_INCARNATION.items():
            sql = f"SELECT {', '.join(fields_of(kind))}, authority FROM {kind} WHERE {mine}"  # noqa: S608 - the same
            for *values, authority in self._rows(sql, inc):
                key = tuple(values[fields_of(kind).index(name)] for name in KEYS[kind])
                yield from self._against(kind, key, values, authority, said.pop((kind, key), None))
        for kind, key in said:
            yield f"{kind} {'/'.join(map(str, key))} is in the log, and not among the rows"

    def _against(
        self, kind: str, key: tuple[Any, ...], values: list[Any], authority: str, said: list[Any] | None
    ) -> Iterator[str]:
        name = f"{kind} {'/'.join(map(str, key))}"
        if authority != self.authority:
            yield f"{name} belongs to another store ({authority})"
        if said is None:
            yield f"{name} is among the rows, and no log tells of it"
        elif said != values:
            pairs = zip(fields_of(kind), values, said, strict=False)
            differs = [f"{one} is {now!r}, the log says {then!r}" for one, now, then in pairs if now != then]
            yield f"{name} is not as its log says: {'; '.join(differs)}"

    def _shared(self) -> Iterator[str]:
        for *values, authority in self._rows(f"SELECT {', '.join(fields_of('shared'))}, authority FROM shared"):  # noqa: S608
            _, said = self.shared.pop((values[0],), (0, None))
            yield from self._against("shared", (values[0],), values, authority, said)
        for (name,) in self.shared:
            yield f"shared {name} is in the log, and not among the rows"

    # -- the whole of it --------------------------------------------------------------------------------------------

    def _counts(self) -> Iterator[str]:
        for kind, owner in _OWNERS.items():
            sql = (
                f"SELECT count(*) FROM {kind} WHERE ifnull({owner}, '') NOT IN (SELECT inc FROM head) "  # noqa: S608
                f"AND ifnull({owner}, '') NOT IN (SELECT inc FROM remains)"
            )
            lost = self._rows(sql).fetchone()[0]
            if lost:
                yield f"{lost} rows of {kind} are of incarnations that have no log"
        _, last = marks_of(self.connection)
        kept = self._rows("SELECT count(*) FROM log WHERE inc NOT IN (SELECT inc FROM remains)").fetchone()[0]
        purged = self._rows("SELECT ifnull(sum(lines), 0) FROM tombstone").fetchone()[0]
        dropped = self._rows("SELECT ifnull(sum(lines), 0) FROM forgotten").fetchone()[0]
        if kept + purged + dropped != last:
            yield f"{last} lines were written, and {kept} are there, {purged + dropped} were purged"
        yield from self._graves()

    def _marks(self) -> Iterator[str]:
        missing = None if self.mark is None else missing_from(self.mark, self.authority, *marks_of(self.connection))
        if missing is not None:
            yield f"it {missing}"

    def _graves(self) -> Iterator[str]:
        """What was purged is gone, and what is gone was purged."""
        for (inc,) in self._rows("SELECT inc FROM tombstone WHERE inc IN (SELECT inc FROM task)"):
            yield f"incarnation {inc} was purged, and is there"
        for (inc,) in self._rows("SELECT inc FROM tombstone WHERE authority <> ?", self.authority):
            yield f"the tombstone of {inc} belongs to another store"
        if self._rows("SELECT count(*) FROM forgotten").fetchone()[0]:
            return  # the tombstones of children may be among those that were dropped
        sql = (
            "SELECT parent_inc, child_inc FROM child WHERE parent_inc IN (SELECT inc FROM head) "
            "AND child_inc NOT IN (SELECT inc FROM task) AND child_inc NOT IN (SELECT inc FROM tombstone)"
        )
        for parent, child in self._rows(sql):
            yield f"the child {child} of {parent} is gone, and was not purged"

    def _contents(self) -> Iterator[str]:
        sql = "SELECT effect_id, payload_sha, body FROM effect LEFT JOIN payload USING (effect_id)"
        for effect_id, sha, body in self._rows(sql):
            if body is None:
                yield f"the payload of effect {effect_id} is gone"
            elif _is_hash(sha) and sha256(body).hexdigest() != sha:
                yield f"the payload of effect {effect_id} is not the one that was admitted"
        for effect_id, sha, body in self._rows("SELECT effect_id, body_sha, body FROM receipt"):
            if _is_hash(sha) and sha256(body.encode()).hexdigest() != sha:
                yield f"a receipt of effect {effect_id} is not the one that was given"

    def _rules(self) -> Iterator[str]:
        sql = (
            "SELECT effect_id, cr FROM effect JOIN cancellation USING (inc) "
            "WHERE admitted_rev >= accepted_rev AND compensates IS NULL"
        )
        for effect_id, cr in self._rows(sql):
            yield f"effect {effect_id} was admitted after the cancellation {cr}"
        for inc, state in self._rows(
            "SELECT inc, state FROM task LEFT JOIN cancellation USING (inc) WHERE (cr IS NULL) = "
            "(state IN ('cancel_requested', 'draining', 'cancelled_settled', 'stopped_unresolved'))"
        ):
            yield f"task {inc} is {state}, which its cancellation does not bear out"


def _is_hash(text: object) -> bool:
    return isinstance(text, str) and len(text) == 64 and not text.strip("0123456789abcdef")


assert set(_OWNERS) | {"shared"} == set(KINDS)
