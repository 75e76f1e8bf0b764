"""The transitions of a task: submitted, leased, cancelled, drained, settled. Pure: records in, a change out.

A store reads an ``Incarnation`` in one transaction, calls one of these, and writes what the ``Change`` names in the
same transaction. Nothing here looks at a clock to decide, does I/O, or knows how rows are kept.

Invariants
  L1  A task has at most one cancellation. It never changes, but that its level may rise and a wider one may cover it.
  L2  Nothing leads back to ``running``. The states past it are reached in this order: cancel_requested, draining, and
      then cancelled_settled or stopped_unresolved, which is left for cancelled_settled alone.
  L3  ``revision`` rises with a transition of the task's state and with nothing else. An acceptance carries the revision
      that it made, an effect the one that it was admitted under; so what was admitted before has the lower one.
  L4  ``cancelled_settled`` is entered only when nothing of the incarnation may still act (its worker is through or
      fenced, each activity has stopped or is severed) and no effect is pending or unknown; of a subtree, or of what an
      ancestor's subtree covers, when each child is so too.
  L5  Whoever loses its lease leaves no claimed effect pending: it becomes unknown, and only evidence changes that.
  L6  A refusal changes no row; it is noted in the log all the same.
  L7  A compensation is nobody's ordinary effect: no cancellation suppresses it, and it does not hang on a lease. While
      its task is not over it is one more thing that is unresolved; afterwards it changes nothing of the task.

Rejected: a lease that runs out by the clock. On one machine death is proven by the kernel, and a worker that hangs is
taken over by an explicit decision, with its generation fenced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from turnctl.records.changes import By, Change, Incarnation, Note, Refusal, evolve
from turnctl.records.effects import Effect
from turnctl.records.tasks import (
    Cancellation,
    Child,
    Interest,
    Lease,
    Policy,
    PromiseLevel,
    Scope,
    Task,
    TaskExecution,
)

__all__ = [
    "Acceptance",
    "accept",
    "advance",
    "and_advance",
    "become_unknown",
    "closed_to",
    "complete",
    "missing",
    "never_started",
    "refuse",
    "stale",
    "submit",
]

#: nothing of it acts any more, or what does is heard by nobody
_AT_REST: frozenset[TaskExecution] = frozenset({"idle", "stop_observed", "fenced"})


def refuse(inc: str, kind: str, refusal: Refusal, by: By) -> Change:
    """A change of no row: the refusal, noted (L6)."""
    more = {"code": refusal.code, "cr": refusal.cr, "by": by.actor}
    return Change((Note(inc, kind, inc, None, more),), refusal)


# -- beginning ----------------------------------------------------------------------------------------------------


def submit(
    latest: Task | None,
    inc: str,
    tenant: str,
    task_id: str,
    by: By,
    *,
    last_seq: int = 0,
    promise: PromiseLevel = "no-new-actions",
    policy: Policy = "suppress",
    parent: Task | None = None,
) -> Change:
    """A new incarnation of ``task_id``. ``last_seq`` is the highest that was ever given out, purged ones included."""
    if latest is not None and not latest.is_over:
        text = (
            f"task {task_id} is open as incarnation {latest.inc} ({latest.state}); cancel it, or work on that one "
            "with turn(task=...)"
        )
        return refuse(latest.inc, "submit.refused", Refusal("task_open", text, row=latest), by)
    task = Task(
        inc=inc,
        tenant=tenant,
        task_id=task_id,
        seq=max(last_seq, latest.seq if latest is not None else 0) + 1,
        root_inc=inc if parent is None else parent.root_inc,
        parent_inc=None if parent is None else parent.inc,
        promise=promise,
        policy=policy,
        submitted_at=by.at,
    )
    return Change((Note(inc, "task.submitted", inc, task),), task)


# -- shared conditions -----------------------------------------------------------------------------------------------


def become_unknown(effects: Iterable[Effect], why: str) -> list[Note]:
    """Have what its worker claimed, and has not answered for, become unknown (L5)."""
    return [
        Note(
            one.inc,
            "effect.unknown",
            one.effect_id,
            evolve(one, phase="closed", disposition="unknown"),
            {"why": why},
        )
        for one in effects
        if one.phase == "claimed" and one.disposition == "pending" and one.compensates is None
    ]


def stale(task: Task, lease: Lease | None, gen: int) -> Refusal | None:
    """Why the word of generation ``gen`` is not taken, if it is not."""
    if lease is None:
        return Refusal(
            "no_lease", f"nobody holds task {task.task_id}; take a lease first, with turn(task=...)", row=task
        )
    if gen != task.lease_gen or not lease.live:
        text = (
            f"generation {gen} of task {task.task_id} was fenced: {task.lease_gen} is the present one; what this "
            "worker does is not taken any more, so end it"
        )
        return Refusal("stale_generation", text, row=lease)
    return None


def closed_to(view: Incarnation, gen: int, what: str) -> Refusal | None:
    """Why a worker of generation ``gen`` may begin nothing for it, if it may not: the condition of every gate."""
    task, lease = view.task, view.lease
    if not task.is_running:
        if view.cr is not None:
            text = f"task {task.task_id} was cancelled ({view.cr.cr}): no {what} any more"
            return Refusal("cancelled", text, cr=view.cr.cr, row=task)
        return Refusal("ended", f"task {task.task_id} has {task.state}: no {what} any more", row=task)
    if lease is None or not lease.live:
        return Refusal("no_lease", f"nobody holds task {task.task_id}: no {what} without a lease", row=task)
    if gen != task.lease_gen:
        text = f"generation {gen} of task {task.task_id} was fenced by {task.lease_gen}: no {what} any more"
        return Refusal("stale_generation", text, row=lease)
    return None


# -- ending -------------------------------------------------------------------------------------------------------


def complete(
    view: Incarnation, gen: int, outcome: Literal["completed", "failed"], by: By, *, outcome_ref: str | None = None
) -> Change:
    """The worker says how it ended. First come: once a cancellation was accepted its result is evidence only.

    Where something of it has not stopped it keeps its lease until it gives that back: deciding is not being through.
    """
    task, lease = view.task, view.lease
    fenced = stale(task, lease, gen)
    if fenced is not None and (not task.is_over or (view.cr is None and gen != task.lease_gen)):
        return refuse(task.inc, "complete.refused", fenced, by)  # an end that another generation made is not its own
    if task.state in ("completed", "failed"):
        text = f"task {task.task_id} has {task.state} already"
        return refuse(task.inc, "complete.refused", Refusal("already_completed", text, row=task), by)
    if not task.is_running:
        return _late(view, outcome, outcome_ref, by)
    open_ones = [one.child_inc for one, its in view.children if its.is_running and one.status != "detached"]
    if open_ones:
        text = f"task {task.task_id} has children that run: {', '.join(open_ones)}; end, cancel or detach them first"
        return refuse(task.inc, "complete.refused", Refusal("children_open", text, row=task), by)
    assert lease is not None
    goes_on = bool(view.acting)
    ended = evolve(
        task,
        state=outcome,
        revision=task.revision + 1,
        execution=task.execution if goes_on else "stop_observed",
        outcome_ref=outcome_ref,
        ended_at=by.at,
    )
    back = Note(task.inc, "lease.given_back", f"lease {gen}", evolve(lease, live=False))
    notes = [
        *_suppress(view.effects, "the task ended before it was sent"),
        *become_unknown(view.effects, "the task ended without telling what became of it"),
        *_let_go(view.interests, None),
        *(() if goes_on else (back,)),
        Note(task.inc, f"task.{outcome}", task.inc, ended),
    ]
    return Change(tuple(notes), ended)


def _let_go(interests: Iterable[Interest], cr: str | None) -> list[Note]:
    """Nobody who has ended goes on wanting shared work."""
    return [
        Note(one.inc, "interest.released", one.shared_id, evolve(one, live=False, released_by=cr)) for one in interests
    ]


def never_started(task: Task, by: By) -> Task:
    """The task of a child that was registered and is found never to have been started."""
    return evolve(task, state="failed", revision=task.revision + 1, outcome_ref="never started", ended_at=by.at)


def _late(view: Incarnation, outcome: str, outcome_ref: str | None, by: By) -> Change:
    task, cr = view.task, view.cr
    assert cr is not None
    text = f"task {task.task_id} was cancelled before ({cr.cr}); its result is kept as evidence"
    refusal = Refusal("already_cancelled", text, cr=cr.cr, row=task)
    kept = task if task.late_outcome_ref is not None else evolve(task, late_outcome_ref=outcome_ref or outcome)
    more = {"outcome": outcome, "outcome_ref": outcome_ref, "by": by.actor}
    return Change((Note(task.inc, "task.late_outcome", task.inc, kept, more),), refusal)


# -- cancelling ---------------------------------------------------------------------------------------------------


class Acceptance:
    """What a canceller is told: the cancellation on record, and whether this request made it."""

    __slots__ = ("cr", "is_new")

    def __init__(self, cr: Cancellation, *, is_new: bool) -> None:
        self.cr = cr
        self.is_new = is_new

    def __repr__(self) -> str:
        return f"<Acceptance {self.cr.cr}{' new' if self.is_new else ''}>"


def accept(
    view: Incarnation,
    cr: str,
    by: By,
    *,
    scope: Scope = "subtree",
    reason: str | None = None,
    auth_ref: str | None = None,
    covered_by: str | None = None,
    level: Literal["cancel", "kill"] = "cancel",
) -> Change:
    """Accept a cancellation, with the inventory of what is open; or tell which one is on record already (L1)."""
    task = view.task
    if view.cr is not None:
        return _repeated(view, view.cr, by, reason=reason, covered_by=covered_by, level=level)
    if task.is_over:
        text = f"task {task.task_id} has {task.state} before the request; nothing was stopped"
        return refuse(task.inc, "cancel.refused", Refusal("already_completed", text, row=task), by)
    asked = evolve(task, state="cancel_requested", revision=task.revision + 1)
    made = Cancellation(
        cr=cr,
        inc=task.inc,
        accepted_rev=asked.revision,
        scope=scope,
        requester=by.actor,
        reason=reason,
        auth_ref=auth_ref,
        covered_by=covered_by,
        level=level,
        at=by.at,
    )
    inventory = {
        "effects": [one.effect_id for one in view.effects],
        "activities": [one.ref for one in view.activities],
        "children": [child.child_inc for child, _ in view.children],
        "interests": [one.shared_id for one in view.interests],
    }
    notes = [
        Note(task.inc, "cancel.accepted", cr, made, {"inventory": inventory}),
        Note(task.inc, "task.cancel_requested", task.inc, asked),
        *_let_go(view.interests, cr),
        *(_suppress(view.effects, "cancelled before it was sent") if task.policy == "suppress" else ()),
    ]
    return and_advance(view, notes, Acceptance(made, is_new=True), by)


def _repeated(
    view: Incarnation, known: Cancellation, by: By, *, reason: str | None, covered_by: str | None, level: str
) -> Change:
    now = known
    if level == "kill" and known.level != "kill":
        now = evolve(now, level="kill")
    if covered_by is not None and known.covered_by is None:
        now = evolve(now, covered_by=covered_by)
    more = {"by": by.actor, "reason": reason}
    row = None if now is known else now
    return Change((Note(view.task.inc, "cancel.repeated", known.cr, row, more),), Acceptance(now, is_new=False))


def _suppress(effects: Iterable[Effect], why: str) -> list[Note]:
    return [
        Note(
            one.inc,
            "effect.suppressed",
            one.effect_id,
            evolve(one, phase="suppressed", disposition="suppressed"),
            {"why": why},
        )
        for one in effects
        if one.is_unsent and one.compensates is None
    ]


# -- draining -----------------------------------------------------------------------------------------------------


def missing(view: Incarnation) -> list[str]:
    """What still has to be told or to happen before the task can go on from where it is, each by name."""
    task, found = view.task, []
    if task.state == "cancel_requested":
        if task.execution == "active" and view.lease is not None and view.lease.live and not view.lease.acknowledged:
            found.append(f"worker {view.lease.holder.pid} (generation {view.lease.gen}) has not acknowledged")
        if task.execution != "unproven":  # where it may not be, or nobody is there to do it, its end is what is missing
            found += [f"{one.title} was not signalled" for one in view.acting if one.signal is None]
    elif task.state == "draining":
        if task.execution not in _AT_REST:
            found.append(
                "the worker is not known to be through"
                if task.execution == "active"
                else "the worker cannot be proven to be through"
            )
        found += _running_on(view)
        found += [
            f"effect {one.kind} {one.effect_id} {'waits to be sent' if one.is_unsent else 'is being sent'}"
            for one in view.effects
            if one.disposition == "pending" and one.compensates is None
        ]
        found += [f"child {child.child_inc} is {its.state}" for child, its in _covered(view) if not its.is_at_rest]
    elif task.state == "stopped_unresolved":
        found += [f"effect {one.kind} {one.effect_id} is {one.disposition}" for one in view.effects]
        found += [f"child {child.child_inc} is {its.state}" for child, its in _covered(view) if not its.is_over]
    elif task.state in ("completed", "failed"):
        found += _running_on(view)
    return found


def _running_on(view: Incarnation) -> list[str]:
    return [f"{one.title} is not known to have stopped" for one in view.acting]


def _covered(view: Incarnation) -> list[tuple[Child, Task]]:
    if view.cr is None or (view.cr.scope != "subtree" and view.cr.covered_by is None):
        return []
    return [(child, its) for child, its in view.children if child.status not in ("never_started", "detached")]


def advance(view: Incarnation, by: By) -> Change:
    """Move the task as far as what is known allows (L2, L4); the answer is the task."""
    return and_advance(view, [], None, by)


def and_advance(view: Incarnation, notes: Sequence[Note], answer: object, by: By) -> Change:
    """``notes``, and what follows from them by itself."""
    notes = list(notes)
    now = view.after(Change(tuple(notes), None))
    while True:
        more = _step(now, by)
        if not more:
            break
        notes += more
        now = now.after(Change(tuple(more), None))
    return Change(tuple(notes), now.task if answer is None else answer)


def _step(view: Incarnation, by: By) -> list[Note]:
    task = view.task
    if task.state == "cancel_requested" and not missing(view):
        return [_moved(task, "draining", by)]
    if task.state == "draining" and task.execution in _AT_REST:
        gone = [
            *become_unknown(view.effects, "its worker is through, and has not told what became of it"),
            *_suppress(view.effects, "its worker is through, and has not sent it"),
        ]
        if gone:
            return gone
        if not missing(view):
            return [_moved(task, "stopped_unresolved" if _unresolved(view) else "cancelled_settled", by)]
    if task.state == "stopped_unresolved" and not _unresolved(view):
        return [_moved(task, "cancelled_settled", by)]
    return []


def _unresolved(view: Incarnation) -> bool:
    return bool(view.effects) or any(not its.is_over for _, its in _covered(view))


def _moved(task: Task, state: Literal["draining", "stopped_unresolved", "cancelled_settled"], by: By) -> Note:
    ended_at = by.at if state == "cancelled_settled" else None
    moved = evolve(task, state=state, revision=task.revision + 1, ended_at=ended_at)
    return Note(task.inc, f"task.{state}", task.inc, moved)
