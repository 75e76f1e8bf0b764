"""How a transition is made in one transaction: read the incarnation, make the change, write it, tell those above.

Invariant V1: what an incarnation covers is read as a whole. Below a child that was cancelled by itself, and has
settled, its own children may run on; they count as if they were the parent's.
Invariant V2: each way down or up ends, also where the rows of a damaged store go in a circle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from turnctl.ledger import children as kids
from turnctl.ledger import model
from turnctl.ledger.store import Books
from turnctl.records.changes import By, Change, Incarnation, Refusal, evolve
from turnctl.records.tasks import Child, ChildStatus, Interest, Task

__all__ = ["deal", "follow", "none", "tell_parents", "whole", "write_with_interests"]


def none(books: Books, inc: str) -> Refusal:
    """What is said of an incarnation that is not there, and of one that is not for the asker: the same. Of one that was
    purged it is said as long as its tombstone is there."""
    grave = books.tombstone(inc)
    if grave is not None:
        text = f"incarnation {inc} of task {grave.task_id} is over ({grave.state}) and was purged: nothing was done"
        return Refusal("stale_incarnation", text, cr=grave.cr)
    return Refusal("no_such_task", f"there is no incarnation {inc} in this ledger, or not for you")


def whole(books: Books, inc: str) -> Incarnation | None:
    """The incarnation, and all that it answers for (V1)."""
    view = books.incarnation(inc)
    return view and evolve(view, children=tuple(_below(books, view.children, {inc})))


def _below(books: Books, children: Iterable[tuple[Child, Task]], seen: set[str]) -> Iterator[tuple[Child, Task]]:
    for child, its in children:
        yield child, its
        if its.state == "cancelled_settled" and child.status != "detached" and its.inc not in seen:
            seen.add(its.inc)
            view = books.incarnation(its.inc)
            if view is not None:
                yield from _below(books, view.children, seen)


def deal(
    books: Books,
    inc: str,
    by: By,
    step: Callable[[Incarnation], Change],
    *,
    at_gate: bool = False,
    if_moving: bool = False,
) -> Any:
    """Make one transition, and what follows from it for others; ``at_gate`` where nothing can.

    ``if_moving`` says that something follows only where the task is on its way from cancelled to settled; elsewhere it
    is read as at the gate, which costs a fraction.
    """
    view = books.at_gate(inc) if at_gate or if_moving else whole(books, inc)
    if if_moving and view is not None:
        at_gate = view.task.is_running or view.task.is_over
        view = view if at_gate else whole(books, inc)
    if view is None:
        return none(books, inc)
    change = step(view)
    if at_gate:
        books.write(change, by)
    else:
        write_with_interests(books, view.task, change, by)
        if any(isinstance(row, Task) and row.inc == inc for row in change.rows):
            follow(books, inc, by)
        tell_parents(books, view.task, by)
    return change.answer


def write_with_interests(books: Books, task: Task, change: Change, by: By) -> None:
    """Write it, and cancel the shared work that nobody is interested in any more because of it."""
    books.write(change, by)
    for row in change.rows:
        if isinstance(row, Interest) and not row.live:
            shared = books.shared(row.shared_id)
            if shared is not None:
                left = kids.released_last(task, shared, len(books.interests_in(row.shared_id)))
                books.write(Change(left, None), by)


def follow(books: Books, inc: str, by: By) -> None:
    """Have what its parent has on record of it say what it has come to: started, never started, ended (C5)."""
    task = books.task(inc)
    view = None if task is None or task.parent_inc is None else whole(books, task.parent_inc)
    child = None if view is None else next((one for one, _ in view.children if one.child_inc == inc), None)
    if task is None or view is None or child is None or child.status not in ("registered", "started"):
        return
    status: ChildStatus = "started" if task.lease_gen else child.status
    if task.is_at_rest and task.execution not in ("active", "unproven"):
        status = "ended" if task.lease_gen else "never_started"
    books.write(kids.child_became(view, child, status, by), by)


def tell_parents(books: Books, task: Task, by: By) -> None:
    """Have those above move on where this one came to rest."""
    parent_inc, seen = task.parent_inc, {task.inc}
    while parent_inc is not None and parent_inc not in seen:
        seen.add(parent_inc)
        view = whole(books, parent_inc)
        if view is None or view.task.is_running:
            return
        change = model.advance(view, by)
        if not change.notes and not view.task.is_at_rest:  # which it may be by what was noted of its child
            return
        books.write(change, by)
        follow(books, parent_inc, by)
        parent_inc = view.task.parent_inc
