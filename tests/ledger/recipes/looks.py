"""What the recipes look at in the store: short questions, with the answers as plain values."""

from __future__ import annotations

import json
from typing import Any

from scene import Stage

from turnctl.records.effects import Effect
from turnctl.records.tasks import Cancellation, Child, Lease, Task

__all__ = ["children_of", "cr_of", "effects_of", "events_of", "inventory_of", "lease_of", "receipts_of", "task_of"]


def task_of(stage: Stage, inc: str) -> Task:
    found = stage.ledger.store.read(lambda books: books.task(inc))
    assert found is not None
    return found


def cr_of(stage: Stage, inc: str) -> Cancellation | None:
    found = stage.ledger.store.read(lambda books: books.at_gate(inc))
    assert found is not None
    return found.cr


def lease_of(stage: Stage, inc: str) -> Lease | None:
    found = stage.ledger.store.read(lambda books: books.at_gate(inc))
    assert found is not None
    return found.lease


def effects_of(stage: Stage, inc: str) -> list[Effect]:
    return stage.ledger.store.read(lambda books: books.effects_of(inc))


def receipts_of(stage: Stage, effect_id: str) -> list[str]:
    return [one.body for one in stage.ledger.store.read(lambda books: books.receipts(effect_id))]


def children_of(stage: Stage, inc: str) -> list[Child]:
    found = stage.ledger.store.read(lambda books: books.incarnation(inc))
    assert found is not None
    return [child for child, _ in found.children]


def events_of(stage: Stage, inc: str, kind: str) -> list[dict[str, Any]]:
    """What the lines of that kind say, without the row."""
    found = stage.ledger.store.read(lambda books: books.events(inc))
    return [json.loads(event.body) for event in found if event.kind == kind]


def inventory_of(stage: Stage, inc: str) -> dict[str, list[str]]:
    """What was open when the cancellation was accepted."""
    (accepted,) = events_of(stage, inc, "cancel.accepted")
    found: dict[str, list[str]] = accepted["inventory"]
    return found
