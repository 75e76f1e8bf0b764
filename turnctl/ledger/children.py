"""What an incarnation owns besides effects: children, activities, interests in shared work, and what it let go of.

Pure, as ``ledger.model`` is.

Invariants
  C1  A child is registered by the holder of a running parent before it may run; a cancelled parent registers none.
  C2  A cancellation of a subtree gives each open child one of its own, which names the one that brought it.
  C3  Shared work is cancelled once: by the release of the last interest in it. Nobody becomes interested after that.
  C4  What is detached has another owner and a contract, and is let go of before there is a cancellation. A child that
      was is not reached by a later one of its parent, and its parent does not wait for it.
  C5  A child goes from registered to started to ended, or to never started. The row follows its task: started with the
      first lease, ended when nothing of it acts any more; one that was cancelled before was never started.
"""

from __future__ import annotations

from turnctl.ledger.model import and_advance, closed_to, refuse
from turnctl.records.changes import By, Change, Incarnation, Note, Refusal, evolve
from turnctl.records.tasks import (
    Child,
    ChildStatus,
    Detached,
    Evidence,
    Interest,
    OwnedActivity,
    SharedWork,
    Task,
)

__all__ = [
    "attach",
    "child_became",
    "detach",
    "end_shared",
    "own",
    "register",
    "release",
    "released_last",
    "signalled",
    "stopped",
]

_NEXT: dict[ChildStatus, tuple[ChildStatus, ...]] = {
    "registered": ("started", "never_started", "ended"),
    "started": ("ended",),
    "never_started": (),
    "ended": (),
    "detached": (),
}


def register(view: Incarnation, child: Task, gen: int, by: By) -> Change:
    """Register ``child``, which was made by ``model.submit`` under this parent and does not run yet (C1)."""
    refusal = closed_to(view, gen, f"child {child.task_id}")
    if refusal is not None:
        return refuse(view.task.inc, "child.rejected", refusal, by)
    row = Child(view.task.inc, child.inc, view.task.revision)
    return Change(
        (Note(child.inc, "task.submitted", child.inc, child), Note(view.task.inc, "child.registered", child.inc, row)),
        child,
    )


def child_became(view: Incarnation, child: Child, status: ChildStatus, by: By) -> Change:
    """A child was started, was found never to have been, or has ended (C5)."""
    if child.status == status:
        return Change((), child)
    its = next((its for one, its in view.children if one.child_inc == child.child_inc), None)
    if status not in _NEXT[child.status] or (status == "never_started" and its is not None and its.lease_gen):
        text = (
            f"child {child.child_inc} is {'with a worker' if status == 'never_started' else child.status}: not {status}"
        )
        return refuse(view.task.inc, "child.refused", Refusal("conflict", text, row=child), by)
    row = evolve(child, status=status)
    note = Note(view.task.inc, f"child.{status}", child.child_inc, row)
    children = tuple((row if one.child_inc == row.child_inc else one, its) for one, its in view.children)
    return and_advance(evolve(view, children=children), [note], row, by)


def own(view: Incarnation, activity: OwnedActivity, gen: int, by: By) -> Change:
    """Register something before it can run: a process, a model call, a tool call."""
    refusal = closed_to(view, gen, f"{activity.kind} {activity.name}")
    if refusal is not None:
        return refuse(view.task.inc, "activity.rejected", refusal, by)
    row = evolve(activity, inc=view.task.inc, gen=gen)
    return Change((Note(view.task.inc, "activity.registered", row.ref, row),), row)


def signalled(view: Incarnation, ref: str, signal: str, evidence: Evidence, by: By) -> Change:
    """It was sent ``signal``, which establishes ``evidence`` and no more."""
    found = _activity(view, ref)
    if found is None:
        return Change((), None)
    row = evolve(found, signal=signal, evidence=evidence)
    return and_advance(view, [Note(view.task.inc, "activity.signalled", ref, row)], row, by)


def stopped(view: Incarnation, ref: str, by: By, *, detail: str | None = None) -> Change:
    """It was observed to have stopped."""
    found = _activity(view, ref)
    if found is None:
        return Change((), None)
    row = evolve(found, stopped=True, detail=detail or found.detail)
    return and_advance(view, [Note(view.task.inc, "activity.stopped", ref, row)], row, by)


def _activity(view: Incarnation, ref: str) -> OwnedActivity | None:
    return next((one for one in view.activities if one.ref == ref), None)


# -- shared -------------------------------------------------------------------------------------------------------


def attach(view: Incarnation, shared: SharedWork | None, shared_id: str, gen: int, by: By) -> Change:
    """Become interested in shared work, which is begun where nobody was (C3)."""
    task = view.task
    refusal = closed_to(view, gen, f"interest in {shared_id}")
    if refusal is None and shared is not None and shared.state != "running":
        text = f"shared work {shared_id} is {shared.state}: nobody becomes interested in it any more; begin another one"
        refusal = Refusal("ended", text, row=shared)
    if refusal is not None:
        return refuse(task.inc, "interest.rejected", refusal, by)
    notes = []
    if shared is None:
        shared = SharedWork(shared_id, task.tenant)
        notes.append(Note(task.inc, "shared.begun", shared_id, shared))
    interest = Interest(shared_id, task.inc)
    notes.append(Note(task.inc, "interest.taken", shared_id, interest))
    return Change(tuple(notes), interest)


def release(view: Incarnation, shared: SharedWork, others: int, by: By) -> Change:
    """Let go of it; ``others`` is how many live interests there are besides this one."""
    mine = next((one for one in view.interests if one.shared_id == shared.shared_id), None)
    if mine is None:
        text = f"task {view.task.task_id} has no live interest in {shared.shared_id}"
        return refuse(view.task.inc, "release.refused", Refusal("has_no_interest", text, row=shared), by)
    row = evolve(mine, live=False)
    notes = (Note(view.task.inc, "interest.released", shared.shared_id, row), *released_last(view.task, shared, others))
    return Change(notes, row)


def released_last(task: Task, shared: SharedWork, others: int) -> tuple[Note, ...]:
    """What follows when an interest of ``task`` was released and ``others`` are left: the one cancellation (C3)."""
    if others or shared.state != "running":
        return ()
    row = evolve(shared, state="cancel_requested", revision=shared.revision + 1)
    return (Note(task.inc, "shared.cancel_requested", shared.shared_id, row),)


def end_shared(view: Incarnation, shared: SharedWork, by: By) -> Change:
    """It came to its end, as somebody who is interested in it says: no release cancels it any more."""
    if not any(one.shared_id == shared.shared_id for one in view.interests):
        text = f"task {view.task.task_id} has no live interest in {shared.shared_id}"
        return refuse(view.task.inc, "shared.refused", Refusal("has_no_interest", text, row=shared), by)
    if shared.state == "ended":
        return Change((), shared)
    row = evolve(shared, state="ended", revision=shared.revision + 1)
    return Change((Note(view.task.inc, "shared.ended", shared.shared_id, row),), row)


# -- let go of ----------------------------------------------------------------------------------------------------


def detach(view: Incarnation, ref: str, owner: str, contract: str, gen: int, by: By) -> Change:
    """Let go of something for another owner (C4)."""
    task = view.task
    refusal = closed_to(view, gen, f"detaching of {ref}")
    if refusal is None and owner in (task.inc, task.task_id, by.actor):
        text = (
            f"{ref} needs an owner other than task {task.task_id} itself: it would escape the task's own cancellation"
        )
        refusal = Refusal("same_owner", text, row=task)
    if refusal is not None:
        return refuse(task.inc, "detach.refused", refusal, by)
    row = Detached(ref, task.inc, owner, contract, at=by.at)
    notes = [Note(task.inc, "work.detached", ref, row)]
    found = _activity(view, ref)
    if found is not None:
        gone = evolve(found, stopped=True, detail=f"detached to {owner}")
        notes.append(Note(task.inc, "activity.detached", ref, gone))
    child = next((one for one, _ in view.children if one.child_inc == ref), None)
    if child is not None and child.status in ("registered", "started"):  # one that has ended stays what it is (C5)
        notes.append(Note(task.inc, "child.detached", ref, evolve(child, status="detached")))
    return Change(tuple(notes), row)
