"""The books of a ledger over one SQLite connection, within a transaction that somebody else begins and ends.

Invariants
  Q1  Each note of a change gets its line of the log in the same transaction as its row, with the next number of its
      incarnation and the next position of the store; the head of the incarnation says where its log ends.
  Q2  A position is given out once, also where the lines that had the last ones were purged: their tombstone says so.

Not thread-safe: it belongs to whoever has the connection.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from turnctl.errors import StoreDamaged
from turnctl.ledger.highwater import marks_of
from turnctl.ledger.refusals import SALVAGE
from turnctl.ledger.rows import FIRST_HASH, chained, fields_of, make, name_of, text_of, values_of
from turnctl.ledger.schema import inserts, selects
from turnctl.ledger.sqlgraves import SqlGraves
from turnctl.records.changes import By, Change, Incarnation, Row
from turnctl.records.effects import Effect, LedgerEvent, Receipt
from turnctl.records.tasks import Cancellation, Detached, Interest, OwnedActivity, SharedWork, Task
from turnctl.records.turns import TurnRecord

if TYPE_CHECKING:
    from sqlite3 import Connection

__all__ = ["EVENT_COLUMNS", "SqlBooks", "line_of"]

_SELECT = selects()
_INSERT = inserts()
EVENT_COLUMNS = "inc, n, kind, actor, authority, read_only, subject, body, at, prev_hash, hash"
_LINE = "INSERT INTO log (pos, inc, n, kind, actor, authority, read_only, subject, body, at, prev_hash, hash)"
_LINE += " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_HEAD = "INSERT INTO head VALUES (?, ?, ?) ON CONFLICT (inc) DO UPDATE SET n = excluded.n, hash = excluded.hash"
_PAYLOAD = "INSERT INTO payload VALUES (?, ?) ON CONFLICT (effect_id) DO NOTHING"


def _columns(kind: str, table: str) -> str:
    return ", ".join(f"{table}.{name}" for name in fields_of(kind))


_GATE = (
    f"SELECT {_columns('task', 'task')}, {_columns('cancellation', 'cancellation')}, {_columns('lease', 'lease')} "  # noqa: S608
    "FROM task LEFT JOIN cancellation USING (inc) LEFT JOIN lease USING (inc) WHERE task.inc = ?"
)
_CHILDREN = (
    f"SELECT {_columns('child', 'child')}, {_columns('task', 'task')} FROM child "  # noqa: S608
    "JOIN task ON task.inc = child.child_inc WHERE child.parent_inc = ? ORDER BY child.pos"
)
_TASK_N, _CR_N, _CHILD_N = (len(fields_of(kind)) for kind in ("task", "cancellation", "child"))


def _made(kind: str, values: Any) -> Any:
    try:
        return make(kind, values)
    except (ValueError, TypeError) as error:
        raise StoreDamaged(f"a row of {kind} cannot be read ({error}): {SALVAGE}") from error


def line_of(*values: Any) -> LedgerEvent:
    """The line of the log with these values, in the order of ``EVENT_COLUMNS``."""
    return LedgerEvent(*values[:5], bool(values[5]), *values[6:])  # type: ignore[call-arg]


class SqlBooks(SqlGraves):
    """What one transaction over ``connection`` reads and writes."""

    def __init__(self, connection: Connection, authority: str) -> None:
        self._connection = connection
        self._authority = authority
        #: the marks of ``marks_of`` once this transaction has written, None before
        self.marks: tuple[int, int] | None = None
        #: whether a cancellation was written
        self.accepted = False

    # -- reading ----------------------------------------------------------------------------------------------

    def _one(self, sql: str, *values: object) -> Any:
        return self._connection.execute(sql, values).fetchone()

    def _get(self, kind: str, where: str, *values: object) -> Any:
        found = self._one(f"{_SELECT[kind]} WHERE {where}", *values)
        return None if found is None else _made(kind, found)

    def _all(self, kind: str, where: str, *values: object) -> list[Any]:
        rows = self._connection.execute(f"{_SELECT[kind]} WHERE {where} ORDER BY pos", values)
        return [_made(kind, row) for row in rows]

    def latest(self, tenant: str, task_id: str) -> Task | None:
        found: Task | None = self._get("task", "tenant = ? AND task_id = ? ORDER BY seq DESC LIMIT 1", tenant, task_id)
        return found

    def last_seq(self, tenant: str, task_id: str) -> int:
        sql = (
            "SELECT max(ifnull((SELECT max(seq) FROM task WHERE tenant = ? AND task_id = ?), 0), "
            "ifnull((SELECT max(seq) FROM tombstone WHERE tenant = ? AND task_id = ?), 0))"
        )
        return int(self._one(sql, tenant, task_id, tenant, task_id)[0])

    def task(self, inc: str) -> Task | None:
        found: Task | None = self._get("task", "inc = ?", inc)
        return found

    def at_gate(self, inc: str) -> Incarnation | None:
        row = self._one(_GATE, inc)
        if row is None:
            return None
        task, cr, lease = row[:_TASK_N], row[_TASK_N : _TASK_N + _CR_N], row[_TASK_N + _CR_N :]
        return Incarnation(
            _made("task", task),
            None if cr[0] is None else _made("cancellation", cr),
            None if lease[0] is None else _made("lease", lease),
        )

    def incarnation(self, inc: str) -> Incarnation | None:
        found = self.at_gate(inc)
        if found is None:
            return None
        children = self._connection.execute(_CHILDREN, (inc,)).fetchall()
        return Incarnation(
            found.task,
            found.cr,
            found.lease,
            tuple(
                one
                for one in self._all("effect", "inc = ? AND disposition IN ('pending', 'unknown')", inc)
                if one.is_open
            ),
            tuple(self._all("activity", "inc = ? AND stopped = 0", inc)),
            tuple((_made("child", row[:_CHILD_N]), _made("task", row[_CHILD_N:])) for row in children),
            tuple(self._all("interest", "inc = ? AND live = 1", inc)),
        )

    def effect(self, effect_id: str) -> Effect | None:
        found: Effect | None = self._get("effect", "effect_id = ?", effect_id)
        return found

    def effects_of(self, inc: str, intent_key: str | None = None) -> list[Effect]:
        if intent_key is None:
            return self._all("effect", "inc = ?", inc)
        return self._all("effect", "inc = ? AND intent_key = ?", inc, intent_key)

    def payload(self, effect_id: str) -> bytes | None:
        found = self._one("SELECT body FROM payload WHERE effect_id = ?", effect_id)
        return None if found is None else bytes(found[0])

    def receipts(self, effect_id: str) -> list[Receipt]:
        return self._all("receipt", "effect_id = ?", effect_id)

    def activity(self, inc: str, ref: str) -> OwnedActivity | None:
        found: OwnedActivity | None = self._get("activity", "inc = ? AND ref = ?", inc, ref)
        return found

    def activities_of(self, inc: str) -> list[OwnedActivity]:
        return self._all("activity", "inc = ?", inc)

    def acting(self) -> set[str]:
        rows = self._connection.execute("SELECT DISTINCT inc FROM activity WHERE stopped = 0 AND severed = 0")
        return {str(row[0]) for row in rows}

    def detached_of(self, inc: str) -> list[Detached]:
        return self._all("detached", "from_inc = ?", inc)

    def shared(self, shared_id: str) -> SharedWork | None:
        found: SharedWork | None = self._get("shared", "shared_id = ?", shared_id)
        return found

    def interests_in(self, shared_id: str) -> list[Interest]:
        return self._all("interest", "shared_id = ? AND live = 1", shared_id)

    def turn(self, turn_id: str) -> TurnRecord | None:
        found: TurnRecord | None = self._get("turn", "turn_id = ?", turn_id)
        return found

    def turns_of(self, inc: str) -> list[TurnRecord]:
        return self._all("turn", "inc = ?", inc)

    def events(self, inc: str) -> list[LedgerEvent]:
        rows = self._connection.execute(f"SELECT {EVENT_COLUMNS} FROM log WHERE inc = ? ORDER BY n", (inc,))  # noqa: S608
        return [line_of(*row) for row in rows]

    def incarnations(self, *, tenant: str | None = None, is_open: bool | None = None) -> Iterable[Task]:
        over = "state IN ('completed', 'failed', 'cancelled_settled')"
        wanted = {None: "1", True: f"NOT {over}", False: over}[is_open]
        sql = f"{_SELECT['task']} WHERE {wanted} AND (? IS NULL OR tenant = ?) ORDER BY pos"
        for row in self._connection.execute(sql, (tenant, tenant)):
            yield _made("task", row)

    # -- writing ----------------------------------------------------------------------------------------------

    def write(self, change: Change, by: By, *, payload: bytes | None = None) -> None:
        for note in change.notes:
            if note.row is not None:
                self._put(note.row)
                if payload is not None and isinstance(note.row, Effect):
                    self._connection.execute(_PAYLOAD, (note.row.effect_id, payload))
            told, pos = self.marks or marks_of(self._connection)
            head = self._one("SELECT n, hash FROM head WHERE inc = ?", note.inc)
            n, before = (1, FIRST_HASH) if head is None else (head[0] + 1, head[1])
            body, read_only = text_of(note), note.row is None
            values = (note.inc, n, note.kind, by.actor, by.authority, read_only, note.subject, body, float(by.at))
            made = chained(before, *values)
            self._connection.execute(_LINE, (pos + 1, *values, before, made))
            self._connection.execute(_HEAD, (note.inc, n, made))
            self.marks = (told, pos + 1)

    def _put(self, row: Row) -> None:
        kind, values = name_of(row), [*values_of(row), self._authority]
        if isinstance(row, Cancellation):
            told, pos = self.marks or marks_of(self._connection)
            self.marks = (told + 1, pos)
            self.accepted = True
            values.append(told + 1)
        self._connection.execute(_INSERT[kind], values)
