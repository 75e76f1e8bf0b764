"""What has to hold after every recipe, whatever happened in it: judged by the store and by the receiver's journal.

I1  No ordinary effect was admitted at or after the cut-off of its incarnation.
I2  Each entry of the journal is one effect of the ledger, by id and by the hash of its payload, and is there once; a
    second arrival is an error too, unless the recipe says which effects may be sent again.
I3  Nothing that is rejected, suppressed or not claimed is in the journal.
I4  A definitive disposition has a receipt.
I5  There is one cancellation for each incarnation, and it never changed but by a higher level or a wider one over it.
I6  Each task went a legal path, and never was running again.
I7  The children of a cancelled incarnation are those of its inventory, each was registered before the cut-off, and with
    scope "subtree" each has a cancellation of its own that is covered, unless it was over or detached.
I8  The log of every incarnation verifies, and every row is as its log says.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any

from scene import Receiver

import turnctl
from turnctl.ledger.rows import fields_of
from turnctl.ledger.store import Books
from turnctl.ledger.verify import verify
from turnctl.records.effects import DEFINITIVE, Effect
from turnctl.records.tasks import Cancellation, Task

__all__ = ["rows_of", "wrong"]

LEGAL = {
    ("running", "completed"),
    ("running", "failed"),
    ("running", "cancel_requested"),
    ("cancel_requested", "draining"),
    ("draining", "cancelled_settled"),
    ("draining", "stopped_unresolved"),
    ("stopped_unresolved", "cancelled_settled"),
}
_MAY_CHANGE = {"level", "covered_by"}


def wrong(ledger: turnctl.Ledger, receiver: Receiver, *, may_repeat: Collection[str] = ()) -> list[str]:
    """Each breach of an invariant, in words; nothing where all of them hold."""
    journal, asked = receiver.journal(), receiver.asked("POST", "write")
    found = ledger.store.read(lambda books: list(_in_store(books, journal)))
    for effect_id, count in Counter(one["effect_id"] for one in journal).items():
        if count > 1:
            found.append(f"I2 {effect_id} was performed {count} times")
    for effect_id, count in Counter(one["id"] for one in asked).items():
        if count > 1 and effect_id not in may_repeat:
            found.append(f"I2 {effect_id} arrived {count} times")
    path = getattr(ledger.store, "path", None)
    found += [f"I8 {one}" for one in verify(path).findings] if path is not None else []
    return found


def rows_of(books: Books, inc: str, kind: str) -> Iterator[dict[str, Any]]:
    """Each state that the rows of that kind went through, as the log of ``inc`` tells it."""
    for event in books.events(inc):
        row = json.loads(event.body).get("row")
        if row is not None and row[0] == kind:
            yield dict(zip(fields_of(kind), row[1], strict=True))


def _in_store(books: Books, journal: list[dict[str, Any]]) -> Iterator[str]:
    tasks = list(books.incarnations())
    effects: dict[str, Effect] = {}
    for task in tasks:
        view = books.at_gate(task.inc)
        cr = None if view is None else view.cr
        mine = books.effects_of(task.inc)
        effects |= {one.effect_id: one for one in mine}
        yield from _effects(books, mine, cr)
        yield from _cancellations(books, task, cr)
        yield from _path(books, task)
        yield from _children(books, task, cr)
    yield from _journal(effects, journal)


def _journal(effects: dict[str, Effect], journal: list[dict[str, Any]]) -> Iterator[str]:
    for entry in journal:
        effect_id, effect = entry["effect_id"], effects.get(entry["effect_id"])
        if effect is None:
            yield f"I2 {effect_id} was performed, and is no effect of the ledger"
        elif effect.payload_sha != entry["sha"]:
            yield f"I2 {effect_id} was performed with another payload than was admitted"
        elif effect.disposition in ("rejected", "suppressed") or effect.phase in ("admitted", "suppressed"):
            yield f"I3 {effect_id} was performed, and is {effect.phase}, {effect.disposition}"


def _effects(books: Books, effects: list[Effect], cr: Cancellation | None) -> Iterator[str]:
    for one in effects:
        if cr is not None and one.compensates is None and one.admitted_rev >= cr.accepted_rev:
            yield f"I1 {one.effect_id} was admitted at {one.admitted_rev}, the cut-off was {cr.accepted_rev}"
        kept = [receipt.body_sha for receipt in books.receipts(one.effect_id)]
        if one.disposition in DEFINITIVE and one.receipt_sha not in kept:
            yield f"I4 {one.effect_id} is {one.disposition}, and has no receipt"


def _cancellations(books: Books, task: Task, cr: Cancellation | None) -> Iterator[str]:
    seen = list(rows_of(books, task.inc, "cancellation"))
    if len({one["cr"] for one in seen}) > 1 or bool(seen) != (cr is not None):
        yield f"I5 {task.inc} has {cr}, and its log tells of {seen}"
    for before, after in pairwise(seen):
        if {key for key in before if before[key] != after[key]} - _MAY_CHANGE:
            yield f"I5 the cancellation of {task.inc} became {after} from {before}"
    accepted = sum(event.kind == "cancel.accepted" for event in books.events(task.inc))
    if accepted > 1:
        yield f"I5 {accepted} cancellations of {task.inc} were accepted"


def _path(books: Books, task: Task) -> Iterator[str]:
    seen = [one["state"] for one in rows_of(books, task.inc, "task")]
    for step in pairwise(seen):
        if step[0] != step[1] and step not in LEGAL:
            yield f"I6 {task.inc} went from {step[0]} to {step[1]}"
    if not seen or seen[0] != "running" or seen[-1] != task.state:
        yield f"I6 {task.inc} is {task.state}, and its log tells of {seen}"


def _children(books: Books, task: Task, cr: Cancellation | None) -> Iterator[str]:
    if cr is None:
        return
    accepted = next(event for event in books.events(task.inc) if event.kind == "cancel.accepted")
    inventory = set(json.loads(accepted.body)["inventory"]["children"])
    rows = {one["child_inc"]: one for one in rows_of(books, task.inc, "child")}
    for inc, row in rows.items():
        if inc not in inventory:
            yield f"I7 child {inc} of {task.inc} is not in the inventory of {cr.cr}"
        if row["registered_rev"] >= cr.accepted_rev:
            yield f"I7 child {inc} was registered at {row['registered_rev']}, the cut-off was {cr.accepted_rev}"
        view = books.at_gate(inc)
        reaches = cr.scope == "subtree" or cr.covered_by is not None
        if view is None or not reaches or row["status"] == "detached":
            continue
        if view.cr is None and view.task.is_running:
            yield f"I7 child {inc} escaped the cancellation of {task.inc}"
    for inc in inventory - set(rows):
        yield f"I7 {inc} is in the inventory of {cr.cr}, and was never registered"
