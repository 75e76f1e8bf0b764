"""The books of a purge in memory; see ``ledger.graves``. Part of the books of ``ledger.memory``.

Everything of an incarnation goes at once: nothing waits for a disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turnctl.ledger.graves import Removed
from turnctl.ledger.rows import values_of
from turnctl.records.changes import By, Change, Note
from turnctl.records.retention import Tombstone
from turnctl.records.tasks import Detached

if TYPE_CHECKING:
    from turnctl.ledger.store import Books
    from turnctl.records.effects import LedgerEvent

__all__ = ["MemoryGraves"]


class MemoryGraves:
    """The part of the books in memory that buries."""

    page_size = 0

    def __init__(self) -> None:
        self.rows: dict[str, dict[tuple[str, ...], Any]] = {}
        self.owned: dict[tuple[str, str], dict[tuple[str, ...], None]] = {}
        self.newest: dict[tuple[str, str], str] = {}
        self.log: dict[str, list[LedgerEvent]] = {}
        #: for each line the position in the store
        self.places: dict[str, list[int]] = {}
        self.last_pos = 0
        self.payloads: dict[str, bytes] = {}
        self.graves: dict[str, Tombstone] = {}
        #: for each task id what was purged of it: by ``seq`` which
        self.buried: dict[tuple[str, str], dict[int, str]] = {}
        self.undo: list[Callable[[], object]] = []

    def tombstone(self, inc: str) -> Tombstone | None:
        return self.graves.get(inc)

    def last_buried(self, tenant: str, task_id: str) -> int:
        """The highest ``seq`` of those that were purged."""
        seqs = self.buried.get((tenant, task_id))
        return max(seqs) if seqs else 0

    def detached_of(self, inc: str) -> list[Detached]:
        return [row for key, row in self.rows.get("detached", {}).items() if key[0] == inc]

    def roots_over(self, before: float, after: int, most: int) -> list[tuple[int, str]]:
        found = [
            (self.places[task.inc][0], task.inc)
            for task in self.rows.get("task", {}).values()
            if task.parent_inc is None and task.is_over and task.ended_at is not None and task.ended_at <= before
        ]
        return sorted(one for one in found if one[0] > after)[:most]

    def bury(self, inc: str, at: float, most: int) -> Removed:  # noqa: ARG002 - it goes at once
        task, cr = self.rows["task"][inc,], self.rows.get("cancellation", {}).get((inc,))
        lines = self.log[inc]
        grave = Tombstone(
            inc,
            task.tenant,
            task.task_id,
            task.seq,
            task.state,
            cr and cr.cr,
            cr and cr.accepted_rev,
            None,
            len(lines),
            self.places[inc][-1],
            lines[-1].hash,
            at,
        )
        self._set(self.graves, inc, grave)
        self._set(self.buried.setdefault((task.tenant, task.task_id), {}), task.seq, inc)
        self._leave_shared(inc, at)
        effects = list(self.owned.get(("effect", inc), ()))
        intents = {f"intent {self.rows['effect'][key].intent_key}" for key in effects}
        gone = len(lines)
        for (effect_id,) in effects:
            for key in list(self.owned.get(("receipt", effect_id), ())):
                self._take(self.rows["receipt"], key)
            self._take(self.payloads, effect_id)
            self._take(self.owned, ("receipt", effect_id))
            self._take(self.rows["effect"], (effect_id,))
        keys = {kind: list(self.owned.get((kind, inc), ())) for kind in ("activity", "child", "turn")}
        keys |= {kind: [(inc,)] for kind in ("task", "cancellation", "lease")}
        keys["detached"] = [key for key in self.rows.get("detached", {}) if key[0] == inc]
        for kind, found in keys.items():
            gone += len(found)
            for key in found:
                self._take(self.rows.get(kind, {}), key)
        for place in ("effect", "open", *keys, *intents):
            self._take(self.owned, (place, inc))
        if self.newest.get((task.tenant, task.task_id)) == inc:
            self._take(self.newest, (task.tenant, task.task_id))
        self._take(self.log, inc)
        self._take(self.places, inc)
        return Removed(gone, is_all=True)

    def _leave_shared(self, inc: str, at: float) -> None:
        interests = self.rows.get("interest", {})
        books: Books = self  # type: ignore[assignment]
        for key in [key for key in interests if key[1] == inc]:
            name = key[0]
            self._take(interests, key)
            self._take(self.owned.get(("interest", name), {}), key)
            others = [one for one in self.owned.get(("interest", name), ()) if one in interests]
            if others:
                note = Note(others[0][1], "shared.carried_on", name, self.rows["shared"][name,], {"purged": inc})
                books.write(Change((note,), None), By("turnctl", "system", at))
            else:
                self._take(self.rows["shared"], (name,))

    def remains(self) -> list[str]:
        return []

    def clear(self, inc: str, most: int) -> Removed:  # noqa: ARG002 - nothing is ever left
        return Removed(0, is_all=True)

    def forget(self, before: float, most: int) -> int:
        old = sorted((one.at, one.inc) for one in self.graves.values() if one.at <= before)[:most]
        for _, inc in old:
            grave = self.graves[inc]
            seqs = self.buried[grave.tenant, grave.task_id]
            self._take(self.graves, inc)
            self._take(seqs, grave.seq)
            if not seqs:
                self._take(self.buried, (grave.tenant, grave.task_id))
        return len(old)

    def give_back(self, pages: int) -> tuple[int, int]:  # noqa: ARG002 - there are none
        return 0, 0

    # -- for bundles ------------------------------------------------------------------------------------------------

    def rows_of(self, inc: str) -> list[tuple[str, list[Any]]]:
        found = [(kind, self.rows.get(kind, {}).get((inc,))) for kind in ("task", "cancellation", "lease")]
        for kind in ("activity", "child", "turn", "effect"):
            found += [(kind, self.rows[kind][key]) for key in self.owned.get((kind, inc), ())]
        found += [("interest", row) for key, row in self.rows.get("interest", {}).items() if key[1] == inc]
        found += [("detached", row) for key, row in self.rows.get("detached", {}).items() if key[0] == inc]
        for (effect_id,) in self.owned.get(("effect", inc), ()):
            found += [("receipt", self.rows["receipt"][key]) for key in self.owned.get(("receipt", effect_id), ())]
        return [(kind, values_of(row)) for kind, row in found if row is not None]

    def positions(self, inc: str) -> list[int]:
        return list(self.places.get(inc, ()))

    def named(self, beginning: str, most: int) -> list[tuple[str, str]]:
        incs = [(inc, inc) for (inc,) in self.rows.get("task", {}) if inc.startswith(beginning)]
        turns = self.rows.get("turn", {})
        return sorted(incs + [(key[0], row.inc) for key, row in turns.items() if key[0].startswith(beginning)])[:most]

    # -- so that it can be taken back -----------------------------------------------------------------------------

    def _set(self, of: dict[Any, Any], key: Any, value: Any) -> None:
        of[key] = value
        self.undo.append(lambda: of.pop(key))

    def _take(self, of: dict[Any, Any], key: Any) -> None:
        """Out of ``of``; where that is taken back it is there again, at the end."""
        if key in of:
            value = of.pop(key)
            self.undo.append(lambda: of.update({key: value}))
