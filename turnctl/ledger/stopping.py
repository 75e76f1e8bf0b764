"""Stopping one turn by its id, from any process: its task is cancelled if, and only if, that turn still works on it.

A turn id is used once, so a stop that comes late can reach no later turn: that the turn is the one that has the task is
looked at in the very transaction that accepts the cancellation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from turnctl.clock import wall
from turnctl.ledger import dealings
from turnctl.ledger.moves import none
from turnctl.ledger.names import new_id
from turnctl.records.changes import By, Refusal

if TYPE_CHECKING:
    from turnctl.ledger.store import Books, Store
    from turnctl.records.tasks import Cancellation
    from turnctl.records.turns import TurnRecord

__all__ = ["Accepted", "refusal_now", "stop_turn"]


class Accepted(NamedTuple):
    """What a stop came to: the cancellation on record, and whether this request made it."""

    cr: Cancellation
    is_new: bool


def stop_turn(
    store: Store, turn_id: str, *, by: str, reason: str | None, kill: bool = False, revision: int | None = None
) -> Accepted | Refusal:
    """Cancel the task of a turn that has not ended, with all that is below it; the record of it, or why not.

    The first cancellation stays on record and is what later ones get; ``kill`` raises its level. With ``revision`` only
    if the task is at that one. A refusal is ``already_completed`` where the turn is over, ``stale_generation`` where
    another turn has taken the task over, ``conflict`` where the task has moved on, ``no_such_task`` where there is no
    such turn. Blocks for the store, ahead of other work.
    """
    asked = By(by, "canceller", wall())

    def stop(books: Books) -> Accepted | Refusal:
        row = books.turn(turn_id)
        if row is None:
            return _unknown(turn_id)
        refusal = _refusal(books, row, revision)
        if refusal is not None:
            return refusal
        level = "kill" if kill else "cancel"
        found = dealings.cancel(books, asked, row.inc, lambda: new_id("cr"), reason=reason, level=level)  # type: ignore[arg-type]
        return found if isinstance(found, Refusal) else Accepted(found.cr, found.is_new)

    return store.transact(stop, urgent=True, point="cancel")


def refusal_now(store: Store, turn_id: str, *, revision: int | None = None) -> Refusal | None:
    """What ``stop_turn`` would answer if it refused now; None where it would accept. Changes nothing."""

    def look(books: Books) -> Refusal | None:
        row = books.turn(turn_id)
        return _unknown(turn_id) if row is None else _refusal(books, row, revision)

    return store.read(look)


def _unknown(turn_id: str) -> Refusal:
    return Refusal("no_such_task", f"there is no turn {turn_id} in this ledger")


def _refusal(books: Books, row: TurnRecord, revision: int | None) -> Refusal | None:
    view = books.at_gate(row.inc)
    if view is None:
        return none(books, row.inc)
    if row.ended_at is not None:
        return Refusal("already_completed", f"turn {row.turn_id} is over ({row.outcome}): nothing was stopped", row=row)
    if row.gen != view.task.lease_gen:
        text = f"another turn has taken the task of turn {row.turn_id} over, and was not stopped"
        return Refusal("stale_generation", text, row=row)
    if revision is not None and view.task.revision != revision:
        text = (
            f"the task of turn {row.turn_id} is at revision {view.task.revision}, not {revision}: nothing was stopped"
        )
        return Refusal("conflict", text, row=view.task)
    return None
