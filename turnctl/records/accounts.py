"""The account of a task, and what a ledger asks and tells about one: intent, execution and effects apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import attrs

from turnctl.records.effects import Effect, EffectRecord
from turnctl.records.states import state_word
from turnctl.records.tasks import Cancellation, Child, Task

if TYPE_CHECKING:
    from turnctl.records.report import Execution
    from turnctl.records.stops import Outcome

__all__ = ["Action", "Escalation", "Reconciled", "Request", "TaskReport"]

Action = Literal["cancel", "compensate", "reconcile", "close"]
Escalation = Literal["wait", "notify", "page"]


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
    have. ``missing`` names what has to be told or to happen before it can go on from where it is.
    """

    task: Task
    cancellation: Cancellation | None
    effects: tuple[EffectRecord, ...]
    children: tuple[tuple[Child, Task], ...]
    missing: tuple[str, ...]
    durable: bool

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
            if task.execution == "active":
                execution = "stopping"
        elif task.is_running and task.execution == "idle" and self.effects_unresolved:
            execution = "lost"
        elif task.state in ("cancelled_settled", "stopped_unresolved"):
            outcome, execution = "cancelled", "ended"
        elif self.cancellation is not None and task.state != "cancel_requested":
            execution = "stopping"
        unresolved = self.effects_unresolved > 0 or task.state == "stopped_unresolved"
        return state_word(
            stop=self.cancellation is not None, outcome=outcome, execution=execution, unresolved=unresolved
        )

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
            "missing": list(self.missing),
            "summary": str(self),
        }

    def __str__(self) -> str:
        parts = [self.state]
        if self.cancellation is not None:
            why = f" ({self.cancellation.reason})" if self.cancellation.reason else ""
            parts.append(f"stop requested by {self.cancellation.requester}{why}")
        done = [one for one in self.effects if one.disposition == "completed"]
        if done:
            parts.append(f"{_effects(len(done))} already happened: {', '.join(_names(done))}")
        unknown = [one for one in self.effects if one.is_unresolved and one.phase == "closed"]
        if unknown:
            parts.append(
                f"{_effects(len(unknown))} may have happened and {_are(len(unknown))} to be looked up: "
                f"{', '.join(_names(unknown))}"
            )
        sending = [one for one in self.effects if one.phase == "claimed"]
        if sending:
            parts.append(f"{_effects(len(sending))} {_are(len(sending))} on the way: {', '.join(_names(sending))}")
        parts += [
            f"{one.kind} {one.key!r} is unknown, closed by {one.closed_by}"
            for one in self.effects
            if one.closed_by is not None and one.disposition == "unknown"
        ]
        if not self.durable:
            parts.append("not durable")
        return "; ".join(parts)


def _names(effects: list[EffectRecord]) -> list[str]:
    return [f"{one.kind} {one.key!r}" for one in effects]


def _effects(count: int) -> str:
    return "one effect" if count == 1 else f"{count} effects"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
