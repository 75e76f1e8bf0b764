"""A ledger in memory: the same gate and the same records, not durable, and every face says so.

Invariants
  M1  One transaction at a time, under one lock that is held for a few dictionary operations.
  M2  A transaction that raises leaves nothing: each write notes what was there, and is taken back in reverse.
  M3  A fork waits a while for a transaction that is under way. A child of one that it could not wait for, such as of
      the very thread that makes it, has half of a transaction: there every use is refused.

May block: for the length of another transaction. Not for signal handlers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from weakref import WeakSet

from turnctl.errors import StoreClosed
from turnctl.ledger.failpoints import reach
from turnctl.ledger.forking import FORK_S, each
from turnctl.ledger.memgraves import MemoryGraves
from turnctl.ledger.rows import FIRST_HASH, chained, key_of, name_of, text_of
from turnctl.ledger.store import Books, Store
from turnctl.records.changes import By, Change, Incarnation, Row
from turnctl.records.effects import Effect, LedgerEvent, Receipt
from turnctl.records.tasks import Cancellation, Child, Detached, Interest, Lease, OwnedActivity, SharedWork, Task
from turnctl.records.turns import TurnRecord

__all__ = ["MemoryStore"]

T = TypeVar("T")
_OWNED = {
    "effect": "inc",
    "activity": "inc",
    "child": "parent_inc",
    "receipt": "effect_id",
    "interest": "shared_id",
    "turn": "inc",
    "detached": "from_inc",
}


class _Books(MemoryGraves):
    """The rows by kind and key, with who owns them, and the log of each incarnation."""

    # -- reading ----------------------------------------------------------------------------------------------

    def _get(self, kind: str, *key: str) -> Any:
        return self.rows.get(kind, {}).get(key)

    def _of(self, kind: str, owner: str) -> list[Any]:
        rows = self.rows.get(kind, {})
        return [rows[key] for key in self.owned.get((kind, owner), ())]

    def latest(self, tenant: str, task_id: str) -> Task | None:
        inc = self.newest.get((tenant, task_id))
        return None if inc is None else self.task(inc)

    def last_seq(self, tenant: str, task_id: str) -> int:
        task = self.latest(tenant, task_id)
        return max(self.last_buried(tenant, task_id), 0 if task is None else task.seq)

    def task(self, inc: str) -> Task | None:
        found: Task | None = self._get("task", inc)
        return found

    def at_gate(self, inc: str) -> Incarnation | None:
        task = self.task(inc)
        if task is None:
            return None
        cr: Cancellation | None = self._get("cancellation", inc)
        lease: Lease | None = self._get("lease", inc)
        return Incarnation(task, cr, lease)

    def incarnation(self, inc: str) -> Incarnation | None:
        found = self.at_gate(inc)
        if found is None:
            return None
        effects: list[Effect] = [self.rows["effect"][key] for key in self.owned.get(("open", inc), ())]
        activities: list[OwnedActivity] = self._of("activity", inc)
        children: list[Child] = self._of("child", inc)
        interests: list[Interest] = [one for one in self.rows.get("interest", {}).values() if one.inc == inc]
        return Incarnation(
            found.task,
            found.cr,
            found.lease,
            tuple(effects),
            tuple(one for one in activities if not one.stopped),
            tuple((one, its) for one in children if (its := self.task(one.child_inc)) is not None),
            tuple(one for one in interests if one.live),
        )

    def effect(self, effect_id: str) -> Effect | None:
        found: Effect | None = self._get("effect", effect_id)
        return found

    def effects_of(self, inc: str, intent_key: str | None = None) -> list[Effect]:
        if intent_key is None:
            return self._of("effect", inc)
        return [self.rows["effect"][key] for key in self.owned.get((f"intent {intent_key}", inc), ())]

    def payload(self, effect_id: str) -> bytes | None:
        return self.payloads.get(effect_id)

    def receipts(self, effect_id: str) -> list[Receipt]:
        return self._of("receipt", effect_id)

    def activity(self, inc: str, ref: str) -> OwnedActivity | None:
        found: OwnedActivity | None = self._get("activity", inc, ref)
        return found

    def activities_of(self, inc: str) -> list[OwnedActivity]:
        return self._of("activity", inc)

    def acting(self) -> set[str]:
        return {one.inc for one in self.rows.get("activity", {}).values() if one.may_act}

    def detached_of(self, inc: str) -> list[Detached]:
        return self._of("detached", inc)

    def shared(self, shared_id: str) -> SharedWork | None:
        found: SharedWork | None = self._get("shared", shared_id)
        return found

    def interests_in(self, shared_id: str) -> list[Interest]:
        return [one for one in self._of("interest", shared_id) if one.live]

    def turn(self, turn_id: str) -> TurnRecord | None:
        found: TurnRecord | None = self._get("turn", turn_id)
        return found

    def turns_of(self, inc: str) -> list[TurnRecord]:
        return self._of("turn", inc)

    def events(self, inc: str) -> list[LedgerEvent]:
        return list(self.log.get(inc, ()))

    def incarnations(self, *, tenant: str | None = None, is_open: bool | None = None) -> Iterable[Task]:
        for task in list(self.rows.get("task", {}).values()):
            if tenant in (None, task.tenant) and is_open in (None, not task.is_over):
                yield task

    # -- writing ----------------------------------------------------------------------------------------------

    def write(self, change: Change, by: By, *, payload: bytes | None = None) -> None:
        for note in change.notes:
            if note.row is not None:
                self._put(note.row)
                if payload is not None and isinstance(note.row, Effect) and note.row.effect_id not in self.payloads:
                    effect_id = note.row.effect_id
                    self.payloads[effect_id] = payload
                    self.undo.append(lambda effect_id=effect_id: self.payloads.pop(effect_id))  # type: ignore[misc]
            lines = self.log.setdefault(note.inc, [])
            before = lines[-1].hash if lines else FIRST_HASH
            body, n, read_only = text_of(note), len(lines) + 1, note.row is None
            values = (note.inc, n, note.kind, by.actor, by.authority, read_only, note.subject, body, by.at)
            lines.append(LedgerEvent(*values, before, chained(before, *values)))
            places = self.places.setdefault(note.inc, [])
            self.last_pos += 1
            places.append(self.last_pos)
            self.undo.append(lines.pop)
            self.undo.append(places.pop)

    def _put(self, row: Row) -> None:
        kind, key = name_of(row), key_of(row)
        rows = self.rows.setdefault(kind, {})
        had = rows.get(key)
        rows[key] = row
        owned = self.owned.setdefault((kind, getattr(row, _OWNED[kind])), {}) if kind in _OWNED else None
        newest = self.newest.get((row.tenant, row.task_id)) if isinstance(row, Task) else None
        if owned is not None:
            owned[key] = None
        if isinstance(row, Task):
            self.newest[row.tenant, row.task_id] = row.inc

        def undo() -> None:
            if had is not None:
                rows[key] = had
            else:
                del rows[key]
                if owned is not None:
                    owned.pop(key, None)
            if isinstance(row, Task):
                if newest is None:
                    self.newest.pop((row.tenant, row.task_id), None)
                else:
                    self.newest[row.tenant, row.task_id] = newest

        self.undo.append(undo)
        if isinstance(row, Effect):
            self._note_effect(row)

    def _note_effect(self, row: Effect) -> None:
        """Keep what a gate looks for where it is found at once, however many there are."""
        key = (row.effect_id,)
        for place, belongs in (("open", row.is_open), (f"intent {row.intent_key}", True)):
            found = self.owned.setdefault((place, row.inc), {})
            if belongs and key not in found:
                found[key] = None
                self.undo.append(lambda found=found: found.pop(key, None))  # type: ignore[misc]
            elif not belongs and key in found:
                was = dict(found)
                del found[key]
                self.undo.append(lambda found=found, was=was: (found.clear(), found.update(was)))  # type: ignore[misc]


class MemoryStore(Store):
    """Keeps a ledger for the life of the process."""

    durable = False

    def __init__(self, authority: str = "memory") -> None:
        self.authority = authority
        self._books = _Books()
        self._lock = threading.Lock()
        self._within = 0  # the ident of the thread whose transaction is under way
        self._forking = 0  # the ident of the thread that has the lock for its fork
        self._is_spoilt = False
        _open_ones.add(self)
        self._watchers: dict[object, tuple[str, Callable[[], object]]] = {}

    def transact(self, fn: Callable[[Books], T], *, urgent: bool = False, point: str = "store") -> T:
        reach(f"{point}.before_begin")
        with self._lock:
            self._refuse_spoilt()
            self._books.undo.clear()
            self._within = threading.get_ident()
            try:
                result = fn(self._books)
                reach(f"{point}.before_commit")
            except BaseException:
                for undo in reversed(self._books.undo):
                    undo()
                raise
            finally:
                self._within = 0
        reach(f"{point}.after_commit")
        if urgent:
            for _, ring in list(self._watchers.values()):
                ring()
        return result

    def read(self, fn: Callable[[Books], T]) -> T:
        with self._lock:
            self._refuse_spoilt()
            return fn(self._books)

    def watch(self, inc: str, fn: Callable[[], object]) -> Callable[[], None]:
        key = object()
        self._watchers[key] = (inc, fn)
        return lambda: self._watchers.pop(key, None) and None

    def close(self) -> None:
        self._watchers.clear()

    # -- forks (M3) ---------------------------------------------------------------------------------------------

    def _refuse_spoilt(self) -> None:
        if self._is_spoilt:
            raise StoreClosed(
                "this process was forked while its ledger in memory was in use, and has half of what was being "
                "written; fork before, or open another one"
            )

    def before_fork(self) -> None:
        """Let no other thread be in the middle of something."""
        me = threading.get_ident()
        if self._within != me and self._lock.acquire(timeout=FORK_S):
            self._forking = me

    def after_fork(self) -> None:
        """In the parent: go on."""
        if self._forking == threading.get_ident():  # of two threads that fork at once the one that has it
            self._forking = 0
            self._lock.release()

    def forked(self) -> None:
        """In the child: nobody else is here."""
        self._is_spoilt = self._is_spoilt or self._forking != threading.get_ident()
        self._forking = 0
        self._lock = threading.Lock()


_open_ones: WeakSet[MemoryStore] = WeakSet()
os.register_at_fork(
    before=each(_open_ones, MemoryStore.before_fork),
    after_in_parent=each(_open_ones, MemoryStore.after_fork),
    after_in_child=each(_open_ones, MemoryStore.forked),
)
