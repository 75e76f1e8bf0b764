"""The books of a purge over one SQLite connection; see ``ledger.graves``. Part of ``SqlBooks``.

An incarnation is buried in one transaction: its tombstone comes, its task, cancellation, lease and head go. Its other
rows go in the same one as far as they are few, and else in later ones, a piece each (table ``remains``): the log from
its beginning, so that what is left of it still ends with the hash that the tombstone names.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from turnctl.digest import hex_of
from turnctl.errors import StoreDamaged
from turnctl.ledger.graves import Removed
from turnctl.ledger.highwater import marks_of
from turnctl.ledger.refusals import SALVAGE
from turnctl.ledger.rows import FIRST_HASH, OF_INCARNATION, fields_of, make
from turnctl.records.changes import By, Change, Note
from turnctl.records.tasks import Detached

if TYPE_CHECKING:
    from sqlite3 import Connection

    from turnctl.ledger.store import Books
    from turnctl.records.retention import Tombstone

__all__ = ["SqlGraves"]

_OVER = "state IN ('completed', 'failed', 'cancelled_settled')"
_TOMBSTONE = "inc, tenant, task_id, seq, state, cr, accepted_rev, told, lines, last_pos, digest, at"
_BURY = (
    f"INSERT INTO tombstone ({_TOMBSTONE}, authority) "  # noqa: S608 - our own names
    "SELECT task.inc, tenant, task_id, seq, state, cr, accepted_rev, told, head.n, log.pos, head.hash, ?, "
    "task.authority FROM task JOIN head ON head.inc = task.inc JOIN log ON log.inc = task.inc AND log.n = head.n "
    "LEFT JOIN cancellation ON cancellation.inc = task.inc WHERE task.inc = ?"
)
#: the rows of an incarnation that may be many, and how a piece of them is found
_PIECES = {
    "child": "SELECT pos FROM child WHERE parent_inc = ? LIMIT ?",
    "detached": "SELECT pos FROM detached WHERE from_inc = ? LIMIT ?",
    "activity": "SELECT pos FROM activity WHERE inc = ? LIMIT ?",
    "turn": "SELECT pos FROM turn WHERE inc = ? LIMIT ?",
    "effect": "SELECT pos FROM effect WHERE inc = ? LIMIT ?",
    "log": "SELECT pos FROM log WHERE inc = ? ORDER BY n LIMIT ?",
}
_LEAST = "(SELECT 1 FROM interest WHERE interest.shared_id = shared.shared_id)"


class SqlGraves:
    """The part of ``SqlBooks`` that buries."""

    _connection: Connection
    marks: tuple[int, int] | None

    def _wrote(self) -> None:
        """There is something to commit, although no line was written."""
        self.marks = self.marks or marks_of(self._connection)

    def _rows(self, sql: str, *values: object) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()

    def tombstone(self, inc: str) -> Tombstone | None:
        from turnctl.records.retention import Tombstone  # for a purge alone

        found = self._rows(f"SELECT {_TOMBSTONE} FROM tombstone WHERE inc = ?", inc)  # noqa: S608
        return Tombstone(*found[0]) if found else None

    def detached_of(self, inc: str) -> list[Detached]:
        sql = f"SELECT {', '.join(fields_of('detached'))} FROM detached WHERE from_inc = ? ORDER BY pos"  # noqa: S608
        return [make("detached", row) for row in self._rows(sql, inc)]

    def roots_over(self, before: float, after: int, most: int) -> list[tuple[int, str]]:
        sql = (
            f"SELECT pos, inc FROM task WHERE pos > ? AND parent_inc IS NULL AND {_OVER} AND ended_at <= ? "  # noqa: S608
            "ORDER BY pos LIMIT ?"
        )
        return self._rows(sql, after, before, most)

    def bury(self, inc: str, at: float, most: int) -> Removed:
        if self._connection.execute(_BURY, (at, inc)).rowcount != 1:
            raise StoreDamaged(f"the log of {inc} has no end, so it cannot be purged: {SALVAGE}")
        self._wrote()
        self._leave_shared(inc, at)
        self._connection.execute("INSERT INTO remains VALUES (?)", (inc,))
        for table in ("cancellation", "lease", "head", "task"):
            self._connection.execute(f"DELETE FROM {table} WHERE inc = ?", (inc,))  # noqa: S608
        return self.clear(inc, most)

    def _leave_shared(self, inc: str, at: float) -> None:
        """Have shared work stand in the log of somebody who stays, or go with the last one."""
        shared = self._rows("SELECT shared_id FROM interest WHERE inc = ?", inc)
        self._connection.execute("DELETE FROM interest WHERE inc = ?", (inc,))
        books: Books = self  # type: ignore[assignment]
        for (name,) in shared:
            others = self._rows("SELECT inc FROM interest WHERE shared_id = ? LIMIT 1", name)
            if others:
                note = Note(others[0][0], "shared.carried_on", name, books.shared(name), {"purged": inc})
                books.write(Change((note,), None), By("turnctl", "system", at))
            else:
                self._connection.execute(f"DELETE FROM shared WHERE shared_id = ? AND NOT EXISTS {_LEAST}", (name,))  # noqa: S608

    def remains(self) -> list[str]:
        return [inc for (inc,) in self._rows("SELECT inc FROM remains")]

    def clear(self, inc: str, most: int) -> Removed:
        self._wrote()
        gone = 0
        for table, piece in _PIECES.items():
            if gone >= most:
                return Removed(gone, is_all=False)
            sql = f"DELETE FROM {table} WHERE pos IN ({piece})"  # noqa: S608 - receipts and payloads go with effects
            gone += self._connection.execute(sql, (inc, most - gone)).rowcount
        if gone >= most:
            return Removed(gone, is_all=False)
        self._connection.execute("DELETE FROM remains WHERE inc = ?", (inc,))
        return Removed(gone, is_all=True)

    def forget(self, before: float, most: int) -> int:
        from turnctl.records.retention import Tombstone

        sql = (
            f"SELECT {_TOMBSTONE} FROM tombstone WHERE at <= ? AND inc NOT IN (SELECT inc FROM remains) "  # noqa: S608
            "ORDER BY at, inc LIMIT ?"
        )
        found = [Tombstone(*row) for row in self._rows(sql, before, most)]
        if not found:
            return 0
        self._wrote()
        had = self._rows("SELECT tombstones, lines, told, last_pos, digest FROM forgotten") or [
            (0, 0, 0, 0, FIRST_HASH)
        ]
        count, lines, told, last_pos, digest = had[0]
        for one in found:
            digest = hex_of(json.dumps([digest, *_values(one)]).encode())
            lines += one.lines
            told, last_pos = max(told, one.told or 0), max(last_pos, one.last_pos)
        values = (count + len(found), lines, told, last_pos, digest, max(one.at for one in found))
        self._connection.execute(
            "INSERT INTO forgotten VALUES (1, ?, ?, ?, ?, ?, ?) ON CONFLICT (one) DO UPDATE SET "
            "tombstones = excluded.tombstones, lines = excluded.lines, told = excluded.told, "
            "last_pos = excluded.last_pos, digest = excluded.digest, at = excluded.at",
            values,
        )
        self._connection.executemany("DELETE FROM tombstone WHERE inc = ?", [(one.inc,) for one in found])
        return len(found)

    def give_back(self, pages: int) -> tuple[int, int]:
        free = int(self._rows("PRAGMA freelist_count")[0][0])
        if not free:
            return 0, 0
        self._wrote()
        self._rows(f"PRAGMA incremental_vacuum({int(pages)})")
        left = int(self._rows("PRAGMA freelist_count")[0][0])
        return free - left, left

    # -- for bundles ------------------------------------------------------------------------------------------------

    def rows_of(self, inc: str) -> list[tuple[str, list[Any]]]:
        found: list[tuple[str, list[Any]]] = []
        for kind, mine in OF_INCARNATION.items():
            sql = f"SELECT {', '.join(fields_of(kind))} FROM {kind} WHERE {mine} ORDER BY pos"  # noqa: S608
            found += [(kind, list(row)) for row in self._rows(sql, inc)]
        return found

    def positions(self, inc: str) -> list[int]:
        return [pos for (pos,) in self._rows("SELECT pos FROM log WHERE inc = ? ORDER BY n", inc)]

    def named(self, beginning: str, most: int) -> list[tuple[str, str]]:
        sql = (
            "SELECT inc, inc FROM task WHERE inc >= ? AND inc < ? "
            "UNION SELECT turn_id, inc FROM turn WHERE turn_id >= ? AND turn_id < ? ORDER BY 1 LIMIT ?"
        )
        ends = (beginning, beginning + chr(0x10FFFF))
        return self._rows(sql, *ends, *ends, most)

    @property
    def page_size(self) -> int:
        return int(self._rows("PRAGMA page_size")[0][0])


def _values(one: Tombstone) -> list[Any]:
    return [getattr(one, name) for name in _TOMBSTONE.split(", ")]
