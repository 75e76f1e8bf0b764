"""What a transition of the ledger comes to: the rows it changes, each with the line that the log gets for it."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from turnctl.records.effects import Authority, Effect, Receipt
from turnctl.records.tasks import (
    Cancellation,
    Child,
    Detached,
    Interest,
    Lease,
    OwnedActivity,
    SharedWork,
    Task,
)
from turnctl.records.turns import TurnRecord

__all__ = ["By", "Change", "Incarnation", "Note", "Refusal", "RefusalCode", "Row", "evolve"]

Row = (
    Task
    | Cancellation
    | Lease
    | OwnedActivity
    | Child
    | SharedWork
    | Interest
    | Detached
    | Effect
    | Receipt
    | TurnRecord
)
RefusalCode = Literal[
    "already_completed",
    "already_cancelled",
    "stale_incarnation",
    "not_authorised",
    "no_such_task",
    "task_open",
    "held",
    "stale_generation",
    "no_lease",
    "drain_only",
    "cancelled",
    "ended",
    "payload_conflict",
    "unresolved",
    "in_flight",
    "done",
    "incapable",
    "suppressed",
    "closed",
    "not_claimed",
    "no_receipt",
    "conflict",
    "same_owner",
    "children_open",
    "has_no_interest",
    "turn_known",
]

evolve = attrs.evolve


@attrs.frozen
class By:
    """Who makes a change, and on whose word."""

    actor: str
    authority: Authority
    at: float = 0.0


@attrs.frozen
class Note:
    """One line for the log of an incarnation: what happened, and the row as it is from now on, if one changed."""

    inc: str
    kind: str
    subject: str
    row: Row | None = None
    more: dict[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Refusal:
    """Why a transition was not made; ``print`` gives its text.

    ``cr`` is the cancellation that stands in the way, ``row`` what was found.
    """

    code: RefusalCode
    text: str
    cr: str | None = None
    row: Row | None = None

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return self.text


@attrs.frozen
class Change:
    """What one transition writes, all of it or nothing, and what its caller is told."""

    notes: tuple[Note, ...]
    answer: Any

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows as they are to be stored; of several states of one row the last one counts."""
        return tuple(note.row for note in self.notes if note.row is not None)


@attrs.frozen
class Incarnation:
    """One incarnation with what a transition has to know of it, as one transaction reads it.

    ``effects`` are those without a definitive disposition, ``activities`` those that have not stopped, ``children``
    those it registered, with their tasks, ``interests`` those that are live.
    """

    task: Task
    cr: Cancellation | None = None
    lease: Lease | None = None
    effects: tuple[Effect, ...] = ()
    activities: tuple[OwnedActivity, ...] = ()
    children: tuple[tuple[Child, Task], ...] = ()
    interests: tuple[Interest, ...] = ()

    @property
    def acting(self) -> list[OwnedActivity]:
        """What it owns and that may still act."""
        return [one for one in self.activities if one.may_act]

    def after(self, change: Change) -> Incarnation:
        """The same incarnation when ``change`` has been made."""
        found: dict[str, Any] = {}
        effects = {one.effect_id: one for one in self.effects}
        activities = {one.ref: one for one in self.activities}
        interests = {one.shared_id: one for one in self.interests}
        for row in change.rows:
            match row:
                case Task() if row.inc == self.task.inc:
                    found["task"] = row
                case Cancellation() if row.inc == self.task.inc:
                    found["cr"] = row
                case Lease() if row.inc == self.task.inc:
                    found["lease"] = row
                case Effect() if row.inc == self.task.inc:
                    effects[row.effect_id] = row
                case OwnedActivity() if row.inc == self.task.inc:
                    activities[row.ref] = row
                case Interest() if row.inc == self.task.inc:
                    interests[row.shared_id] = row
                case _:
                    pass
        return evolve(
            self,
            effects=tuple(one for one in effects.values() if one.is_open),
            activities=tuple(one for one in activities.values() if not one.stopped),
            interests=tuple(one for one in interests.values() if one.live),
            **found,
        )
