"""Making the account of a task from what its store has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from turnctl.ledger import model
from turnctl.ledger.attachment import error_of, record_of
from turnctl.ledger.moves import none, whole
from turnctl.ledger.turnrows import with_proofs
from turnctl.records.account_words import how_soon
from turnctl.records.accounts import TaskReport
from turnctl.records.changes import Refusal, evolve

if TYPE_CHECKING:
    from turnctl.ledger.store import Books, Store
    from turnctl.records.account_words import Escalation
    from turnctl.records.changes import Incarnation
    from turnctl.records.effects import Consequence
    from turnctl.records.tasks import Task

__all__ = ["report_on"]


def report_on(store: Store, inc: str) -> TaskReport:
    """See ``Ledger.report``; one consistent state."""

    def look(books: Books) -> TaskReport | Refusal:
        view = whole(books, inc)
        if view is None:
            return none(books, inc)
        effects = []
        for one in books.effects_of(inc):
            kept = [found for found in books.receipts(one.effect_id) if found.body_sha == one.receipt_sha]
            record = record_of(one, kept[-1].body if kept else None, durable=store.durable)
            effects.append(evolve(record, told_at=kept[-1].at if kept else None))
        return TaskReport(
            view.task,
            view.cr,
            tuple(effects),
            view.children,
            tuple(model.missing(view)),
            store.durable,
            activities=tuple(books.activities_of(inc)),
            detached=tuple(books.detached_of(inc)),
            turns=tuple(books.turns_of(inc)),
            acknowledged_at=None if view.cr is None else _acknowledged_at(books, view),
            open_below=tuple(_open_below(books, view)),
        )

    found = store.read(look)
    if isinstance(found, Refusal):
        raise error_of(found)
    return evolve(found, turns=with_proofs(found.turns))


def _open_below(books: Books, view: Incarnation) -> Iterator[tuple[str, Escalation]]:
    """The children that wait for a person, for themselves or for what is below them."""
    for child, its in view.children:
        waits = [] if child.status == "detached" or its.is_over else list(_waits(books, its, {view.task.inc}))
        if waits:
            yield its.inc, how_soon(waits)


def _waits(books: Books, task: Task, seen: set[str]) -> Iterator[Consequence]:
    """What hangs on each thing that waits for a person: effects that are unknown, and what may still act."""
    seen.add(task.inc)
    yield from (one.consequence for one in books.effects_of(task.inc) if one.disposition == "unknown" and one.is_open)
    if task.execution == "unproven":
        yield "medium"
    view = whole(books, task.inc)
    for child, its in () if view is None else view.children:
        if child.status != "detached" and not its.is_over and its.inc not in seen:
            yield from _waits(books, its, seen)


def _acknowledged_at(books: Books, view: Incarnation) -> float | None:
    """The first word of its worker, or of who knew it, that it begins nothing more."""
    if view.lease is None or (view.lease.live and not view.lease.acknowledged):
        return None
    words = ("worker.acknowledged", "lease.given_back", "worker.gone")
    return next((one.at for one in books.events(view.task.inc) if one.kind in words), None)
