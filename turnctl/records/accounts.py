"""The account of a task, and what a ledger asks and tells about one: intent, execution and effects apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import attrs

from turnctl.records.account_words import Decision, Escalation, decisions, line
from turnctl.records.effects import Effect, EffectRecord
from turnctl.records.states import state_word
from turnctl.records.tasks import Cancellation, Child, Detached, OwnedActivity, Task
from turnctl.records.turns import TurnRecord

if TYPE_CHECKING:
    from turnctl.records.report import Execution
    from turnctl.records.stops import Outcome

__all__ = ["Action", "Escalation", "Reconciled", "Request", "TaskReport"]

Action = Literal["cancel", "compensate", "reconcile", "close"]


@attrs.frozen
class Request:
    """What the host's ``authorise`` is asked: who wants to do what, on whose behalf, to which task."""

    action: Action
    by: str
    #: the tenant on whose behalf is asked; None where the asker named none
    tenant: str | None
    task: Task


@attrs.frozen
class Reconciled:
    """One effect that was asked about. ``escalation`` says who should look, where it is still unknown."""

    effect: Effect
    escalation: Escalation | None = None
    #: what the probe raised, or why its answer was not taken
    problem: str | None = None

    @property
    def is_resolved(self) -> bool:
        """Whether its outcome is known now."""
        return self.escalation is None


@attrs.frozen
class TaskReport:
    """What a ledger knows of one incarnation. The three facts are apart: no one of them says another.

    ``cancellation`` is the intent, ``task.execution`` what is known of its worker, ``effects`` what got out or may
    have. ``missing`` names what has to be told or to happen before it can go on from where it is. ``turns`` are the
    attempts, each with what it knew at its end; one whose process was killed has no end, and is told as lost.
    """

    task: Task
    cancellation: Cancellation | None
    effects: tuple[EffectRecord, ...]
    children: tuple[tuple[Child, Task], ...]
    missing: tuple[str, ...]
    durable: bool
    #: the turns that worked on it, oldest first
    turns: tuple[TurnRecord, ...] = ()
    #: all that it has owned: processes, requests, calls
    activities: tuple[OwnedActivity, ...] = ()
    #: what it has let go of, each with its owner
    detached: tuple[Detached, ...] = ()
    #: when its worker said that it begins nothing more; None where it has not
    acknowledged_at: float | None = None
    #: children of which somebody has to decide something, and how soon; what, is in their own accounts
    open_below: tuple[tuple[str, Escalation], ...] = ()

    @property
    def effects_unresolved(self) -> int:
        """How many effects may have happened, and nobody has told."""
        return sum(one.is_unresolved for one in self.effects)

    @property
    def state(self) -> str:
        """The word for people (``records.states``)."""
        outcome: Outcome | None = None
        execution: Execution = "running"
        task = self.task
        if task.state in ("completed", "failed"):
            outcome, execution = ("completed" if task.state == "completed" else "failed"), "ended"
            if task.execution in ("active", "unproven"):
                execution = "stopping" if task.execution == "active" else "unproven"
        elif task.is_running and self._is_lost:
            execution = "lost"
        elif task.state in ("cancelled_settled", "stopped_unresolved"):
            outcome, execution = "cancelled", "ended"
        elif self.cancellation is not None and task.state != "cancel_requested":
            execution = "stopping"
        unresolved = self.effects_unresolved > 0 or task.state == "stopped_unresolved"
        return state_word(
            stop=self.cancellation is not None, outcome=outcome, execution=execution, unresolved=unresolved
        )

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """What somebody has to decide, and how soon, the most urgent first; empty where all takes its course."""
        return decisions(self)

    @property
    def worker_is_gone(self) -> bool:
        """Whether the process of its last turn is proven to be gone, and has told no end."""
        return bool(self.turns) and self.turns[-1].state == "lost"

    @property
    def _is_lost(self) -> bool:
        """Whether its last worker went without a word: its process is proven to be gone, or it left effects unknown."""
        return self.worker_is_gone or (self.task.execution == "idle" and self.effects_unresolved > 0)

    @property
    def observed(self) -> dict[str, Any]:
        """The three observations of a stop, each with its time and what stands behind it; each may be missing alone.

        That it was accepted, that its worker begins nothing more, and what receivers say became of each effect.
        """
        cr, seen_at = self.cancellation, self.acknowledged_at
        told = [one for one in self.effects if one.told_at is not None]
        return {
            "accepted": None if cr is None else {"at": cr.at, "evidence": cr.cr},
            "acknowledged": None if seen_at is None else {"at": seen_at, "evidence": f"lease {self.task.lease_gen}"},
            "told": [{"effect_id": one.effect_id, "at": one.told_at, "evidence": one.receipt} for one in told],
        }

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values for JSON, schema ``turnctl.task/1``."""
        task, cr = self.task, self.cancellation
        return {
            "schema": "turnctl.task/1",
            "tenant": task.tenant,
            "task_id": task.task_id,
            "inc": task.inc,
            "revision": task.revision,
            "promise": task.promise,
            "policy": task.policy,
            "state": self.state,
            "intent": {"cancel_requested": cr is not None, "record": None if cr is None else cr.as_dict()},
            "execution": {"state": task.execution, "lease_gen": task.lease_gen},
            "effects": {
                "unresolved": self.effects_unresolved,
                "durable": self.durable,
                "list": [one.as_dict() for one in self.effects],
            },
            "children": [{"inc": its.inc, "state": its.state, "status": child.status} for child, its in self.children],
            "activities": [one.as_dict() for one in self.activities],
            "detached": [one.as_dict() for one in self.detached],
            "observed": self.observed,
            "missing": list(self.missing),
            "decisions": [{"escalation": one.escalation, "text": one.text} for one in self.decisions],
            "turns": [one.as_dict() for one in self.turns],
            "summary": str(self),
        }

    def __str__(self) -> str:
        return line(self)
