"""Making the account of a task from what its store has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.ledger import model
from turnctl.ledger.attachment import error_of, record_of
from turnctl.ledger.moves import none, whole
from turnctl.ledger.turnrows import with_proofs
from turnctl.records.accounts import TaskReport
from turnctl.records.changes import Refusal, evolve

if TYPE_CHECKING:
    from turnctl.ledger.store import Books, Store

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
            effects.append(record_of(one, kept[-1].body if kept else None, durable=store.durable))
        missing = tuple(model.missing(view))
        turns = tuple(books.turns_of(inc))
        return TaskReport(view.task, view.cr, tuple(effects), view.children, missing, store.durable, turns)

    found = store.read(look)
    if isinstance(found, Refusal):
        raise error_of(found)
    return evolve(found, turns=with_proofs(found.turns))
