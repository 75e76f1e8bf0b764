"""One function for each dealing with what a task owns besides effects: children, activities, shared and detached work.

As ``ledger.dealings``, which gives these too.
"""

from __future__ import annotations

from typing import Any

from turnctl.ledger import children as kids
from turnctl.ledger import model
from turnctl.ledger.moves import deal, none, tell_parents, whole
from turnctl.ledger.owned import came_back, observe_activities
from turnctl.ledger.store import Books
from turnctl.records.changes import By, Change, Note, Refusal
from turnctl.records.tasks import (
    Child,
    ChildStatus,
    Evidence,
    Interest,
    OwnedActivity,
    Policy,
    PromiseLevel,
    SharedWork,
    Task,
)

__all__ = [
    "attach",
    "came_back",
    "child_became",
    "detach",
    "detach_child",
    "end_shared",
    "observe_activities",
    "own",
    "register_child",
    "release",
    "signalled",
    "stopped",
]


def register_child(
    books: Books,
    by: By,
    parent_inc: str,
    gen: int,
    inc: str,
    task_id: str,
    *,
    promise: PromiseLevel | None = None,
    policy: Policy | None = None,
) -> Task | Refusal:
    view = books.incarnation(parent_inc)
    if view is None:
        return none(books, parent_inc)
    parent = view.task
    made = model.submit(
        books.latest(parent.tenant, task_id),
        inc,
        parent.tenant,
        task_id,
        by,
        last_seq=books.last_seq(parent.tenant, task_id),
        promise=promise or parent.promise,
        policy=policy or parent.policy,
        parent=parent,
    )
    child = made.answer
    change = made if isinstance(child, Refusal) else kids.register(view, child, gen, by)
    books.write(change, by)
    answer: Task | Refusal = change.answer
    return answer


def child_became(books: Books, by: By, parent_inc: str, child_inc: str, status: ChildStatus) -> Child | Refusal:
    view = whole(books, parent_inc)
    mine = [] if view is None else [one for one, _ in view.children if one.parent_inc == parent_inc]
    child = next((one for one in mine if one.child_inc == child_inc), None)
    if view is None or child is None:
        return none(books, child_inc)
    change = kids.child_became(view, child, status, by)
    books.write(change, by)
    answer: Child | Refusal = change.answer
    if status == "never_started" and not isinstance(answer, Refusal):
        _close_never_started(books, child_inc, by)
    tell_parents(books, view.task, by)
    return answer


def _close_never_started(books: Books, inc: str, by: By) -> None:
    view = books.incarnation(inc)
    if view is not None and view.task.is_running and view.lease is None:
        note = Note(inc, "task.failed", inc, model.never_started(view.task, by))
        books.write(Change((note,), None), by)


def own(books: Books, by: By, activity: OwnedActivity, gen: int) -> OwnedActivity | Refusal:
    found: OwnedActivity | Refusal = deal(
        books, activity.inc, by, lambda view: kids.own(view, activity, gen, by), at_gate=True
    )
    return found


def signalled(books: Books, by: By, inc: str, ref: str, signal: str, evidence: Evidence) -> OwnedActivity | None:
    found: OwnedActivity | None = deal(books, inc, by, lambda view: kids.signalled(view, ref, signal, evidence, by))
    return found


def stopped(books: Books, by: By, inc: str, ref: str, *, detail: str | None = None) -> OwnedActivity | None:
    found: OwnedActivity | None = deal(books, inc, by, lambda view: kids.stopped(view, ref, by, detail=detail))
    return found


def attach(books: Books, by: By, inc: str, gen: int, shared_id: str) -> Interest | Refusal:
    shared = books.shared(shared_id)
    view = books.at_gate(inc)
    if view is None or (shared is not None and shared.tenant != view.task.tenant):
        return none(books, inc)
    change = kids.attach(view, shared, shared_id, gen, by)
    books.write(change, by)
    answer: Interest | Refusal = change.answer
    return answer


def release(books: Books, by: By, inc: str, shared_id: str) -> Interest | Refusal:
    shared = books.shared(shared_id)
    view = books.incarnation(inc)
    if view is None or shared is None:
        return none(books, inc)
    others = [one for one in books.interests_in(shared_id) if one.inc != inc]
    change = kids.release(view, shared, len(others), by)
    books.write(change, by)
    answer: Interest | Refusal = change.answer
    return answer


def end_shared(books: Books, by: By, inc: str, shared_id: str) -> SharedWork | Refusal:
    shared = books.shared(shared_id)
    if shared is None:
        return none(books, inc)
    found: SharedWork | Refusal = deal(books, inc, by, lambda view: kids.end_shared(view, shared, by))
    return found


def detach(books: Books, by: By, inc: str, gen: int, ref: str, owner: str, contract: str) -> Any:
    return deal(books, inc, by, lambda view: kids.detach(view, ref, owner, contract, gen, by))


def detach_child(books: Books, by: By, inc: str, gen: int, child_inc: str, owner: str, contract: str) -> Any:
    view = books.incarnation(inc)
    if view is None or not any(child.child_inc == child_inc for child, _ in view.children):
        return none(books, child_inc)
    return detach(books, by, inc, gen, child_inc, owner, contract)
