"""One function for each dealing with the ledger: reads the books, makes the transition, writes what it comes to.

Each runs in one transaction of a store (``Store.transact``) and does nothing else. What follows for others, a parent
that can settle now, shared work that nobody wants any more, is written in the same transaction.

Invariant D1: a cancellation of a subtree is accepted from the top down, and all of it in one transaction; so a child
that is being registered is either in the inventory or refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from turnctl.ledger import children as kids
from turnctl.ledger import gate, leases, model
from turnctl.ledger.store import Books
from turnctl.records.changes import By, Change, Incarnation, Note, Refusal
from turnctl.records.effects import Disposition, Effect, Receipt
from turnctl.records.tasks import (
    Cancellation,
    Child,
    ChildStatus,
    Evidence,
    Holder,
    Interest,
    Lease,
    OwnedActivity,
    Policy,
    PromiseLevel,
    Scope,
    Task,
)

__all__ = [
    "acknowledge",
    "admit",
    "attach",
    "cancel",
    "child_became",
    "claim",
    "close",
    "close_unknown",
    "compensate",
    "complete",
    "detach",
    "give_back",
    "observe_gone",
    "own",
    "register_child",
    "release",
    "signalled",
    "stopped",
    "submit",
    "suppress",
    "take_lease",
]

R = TypeVar("R")


def _none(inc: str) -> Refusal:
    return Refusal("no_such_task", f"there is no incarnation {inc} in this ledger, or not for you")


def _deal(books: Books, inc: str, by: By, step: Callable[[Incarnation], Change], *, whole: bool = True) -> Any:
    view = books.incarnation(inc) if whole else books.at_gate(inc)
    if view is None:
        return _none(inc)
    change = step(view)
    books.write(change, by)
    if whole:
        _tell_parent(books, view.task, by)
    return change.answer


def _tell_parent(books: Books, task: Task, by: By) -> None:
    """Have the parents move on where this one came to rest."""
    parent_inc = task.parent_inc
    while parent_inc is not None:
        view = books.incarnation(parent_inc)
        if view is None or view.cr is None:
            return
        change = model.advance(view, by)
        if not change.notes:
            return
        books.write(change, by)
        parent_inc = view.task.parent_inc


# -- tasks --------------------------------------------------------------------------------------------------------


def submit(
    books: Books,
    by: By,
    inc: str,
    tenant: str,
    task_id: str,
    *,
    promise: PromiseLevel = "no-new-actions",
    policy: Policy = "suppress",
) -> Task | Refusal:
    change = model.submit(
        books.latest(tenant, task_id),
        inc,
        tenant,
        task_id,
        by,
        last_seq=books.last_seq(tenant, task_id),
        promise=promise,
        policy=policy,
    )
    books.write(change, by)
    answer: Task | Refusal = change.answer
    return answer


def take_lease(
    books: Books, by: By, inc: str, holder: Holder, *, is_gone: bool = False, force: bool = False
) -> Lease | Refusal:
    found: Lease | Refusal = _deal(
        books, inc, by, lambda view: leases.take_lease(view, holder, by, is_gone=is_gone, force=force)
    )
    return found


def acknowledge(books: Books, by: By, inc: str, gen: int) -> Lease | Refusal:
    found: Lease | Refusal = _deal(books, inc, by, lambda view: leases.acknowledge(view, gen, by))
    return found


def give_back(books: Books, by: By, inc: str, gen: int) -> Lease | Refusal:
    found: Lease | Refusal = _deal(books, inc, by, lambda view: leases.give_back(view, gen, by))
    return found


def observe_gone(books: Books, by: By, inc: str, gen: int, *, evidence: str) -> Lease | Refusal | None:
    found: Lease | Refusal | None = _deal(
        books, inc, by, lambda view: leases.observe_gone(view, gen, by, evidence=evidence)
    )
    return found


def complete(
    books: Books,
    by: By,
    inc: str,
    gen: int,
    outcome: Literal["completed", "failed"],
    *,
    outcome_ref: str | None = None,
) -> Task | Refusal:
    found: Task | Refusal = _deal(
        books, inc, by, lambda view: model.complete(view, gen, outcome, by, outcome_ref=outcome_ref)
    )
    return found


def cancel(
    books: Books,
    by: By,
    inc: str,
    new_cr: Callable[[], str],
    *,
    scope: Scope = "subtree",
    reason: str | None = None,
    auth_ref: str | None = None,
    level: Literal["cancel", "kill"] = "cancel",
) -> model.Acceptance | Refusal:
    """Accept a cancellation of ``inc`` and, with ``scope`` "subtree", of all that is below it (D1)."""
    view = books.incarnation(inc)
    if view is None:
        return _none(inc)
    change = model.accept(view, new_cr(), by, scope=scope, reason=reason, auth_ref=auth_ref, level=level)
    _write_acceptance(books, view, change, by)
    answer: model.Acceptance | Refusal = change.answer
    if isinstance(answer, Refusal):
        return answer
    covered = _cover(books, view, answer.cr, new_cr, by) if answer.cr.scope == "subtree" else []
    for one in (*reversed(covered), inc):  # from the leaves up, as what is below comes to rest first
        now = books.incarnation(one)
        assert now is not None
        books.write(model.advance(now, by), by)
    _tell_parent(books, view.task, by)
    return answer


def _cover(books: Books, top: Incarnation, cr: Cancellation, new_cr: Callable[[], str], by: By) -> list[str]:
    found: list[str] = []
    views = [top]
    for view in views:
        for _, child in view.children:
            below = None if child.is_over else books.incarnation(child.inc)
            if below is None:
                continue
            change = model.accept(
                below,
                new_cr(),
                by,
                scope="subtree",
                reason=cr.reason,
                auth_ref=cr.auth_ref,
                covered_by=cr.cr,
                level=cr.level,
            )
            _write_acceptance(books, below, change, by)
            found.append(child.inc)
            views.append(below)
    return found


def _write_acceptance(books: Books, view: Incarnation, change: Change, by: By) -> None:
    books.write(change, by)
    for row in change.rows:
        if isinstance(row, Interest):
            shared = books.shared(row.shared_id)
            if shared is not None:
                left = kids.released_last(view.task, shared, len(books.interests_in(row.shared_id)))
                books.write(Change(left, None), by)


# -- effects ------------------------------------------------------------------------------------------------------


def admit(books: Books, by: By, wanted: Effect, gen: int, payload: bytes) -> Effect | Refusal:
    view = books.at_gate(wanted.inc)
    if view is None:
        return _none(wanted.inc)
    change = gate.admit(view, wanted, gen, books.effects_of(wanted.inc, wanted.intent_key), by)
    books.write(change, by, payload=payload)
    answer: Effect | Refusal = change.answer
    return answer


def _with_effect(
    books: Books, effect_id: str, by: By, step: Callable[[Incarnation, Effect], Change], *, whole: bool = True
) -> Any:
    effect = books.effect(effect_id)
    if effect is None:
        return Refusal("no_such_task", f"there is no effect {effect_id} in this ledger, or not for you")
    return _deal(books, effect.inc, by, lambda view: step(view, effect), whole=whole)


def claim(books: Books, by: By, effect_id: str, gen: int, claimant: str) -> Effect | Refusal:
    found: Effect | Refusal = _with_effect(
        books, effect_id, by, lambda view, effect: gate.claim(view, effect, gen, claimant, by), whole=False
    )
    return found


def suppress(books: Books, by: By, effect_id: str, *, why: str) -> Effect | Refusal:
    found: Effect | Refusal = _with_effect(
        books, effect_id, by, lambda view, effect: gate.suppress(view, effect, by, why=why)
    )
    return found


def close(
    books: Books,
    by: By,
    effect_id: str,
    disposition: Disposition,
    *,
    receipt: Receipt | None = None,
    gen: int | None = None,
) -> Effect | Refusal:
    found: Effect | Refusal = _with_effect(
        books,
        effect_id,
        by,
        lambda view, effect: gate.close(view, effect, disposition, by, receipt=receipt, gen=gen),
    )
    return found


def close_unknown(books: Books, by: By, effect_id: str, *, reason: str) -> Effect | Refusal:
    found: Effect | Refusal = _with_effect(
        books, effect_id, by, lambda view, effect: gate.close_unknown(view, effect, by, reason=reason)
    )
    return found


def compensate(
    books: Books, by: By, original_id: str, wanted: Effect, payload: bytes, *, auth_ref: str | None
) -> Effect | Refusal:
    original = books.effect(original_id)
    view = None if original is None else books.incarnation(original.inc)
    if original is None or view is None:
        return Refusal("no_such_task", f"there is no effect {original_id} in this ledger, or not for you")
    change = gate.compensate(view, original, wanted, books.effects_of(original.inc), by, auth_ref=auth_ref)
    books.write(change, by, payload=payload)
    answer: Effect | Refusal = change.answer
    return answer


# -- children, activities, shared and detached work ---------------------------------------------------------------


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
        return _none(parent_inc)
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
    view = books.incarnation(parent_inc)
    child = None if view is None else next((one for one, _ in view.children if one.child_inc == child_inc), None)
    if view is None or child is None:
        return _none(child_inc)
    change = kids.child_became(view, child, status, by)
    books.write(change, by)
    if status == "never_started":
        _close_never_started(books, child_inc, by)
    _tell_parent(books, view.task, by)
    answer: Child | Refusal = change.answer
    return answer


def _close_never_started(books: Books, inc: str, by: By) -> None:
    view = books.incarnation(inc)
    if view is not None and view.task.is_running and view.lease is None:
        note = Note(inc, "task.failed", inc, model.never_started(view.task, by))
        books.write(Change((note,), None), by)


def own(books: Books, by: By, activity: OwnedActivity, gen: int) -> OwnedActivity | Refusal:
    found: OwnedActivity | Refusal = _deal(
        books, activity.inc, by, lambda view: kids.own(view, activity, gen, by), whole=False
    )
    return found


def signalled(books: Books, by: By, inc: str, ref: str, signal: str, evidence: Evidence) -> OwnedActivity | None:
    found: OwnedActivity | None = _deal(books, inc, by, lambda view: kids.signalled(view, ref, signal, evidence, by))
    return found


def stopped(books: Books, by: By, inc: str, ref: str, *, detail: str | None = None) -> OwnedActivity | None:
    found: OwnedActivity | None = _deal(books, inc, by, lambda view: kids.stopped(view, ref, by, detail=detail))
    return found


def attach(books: Books, by: By, inc: str, gen: int, shared_id: str) -> Interest | Refusal:
    shared = books.shared(shared_id)
    view = books.at_gate(inc)
    if view is None or (shared is not None and shared.tenant != view.task.tenant):
        return _none(inc)
    change = kids.attach(view, shared, shared_id, gen, by)
    books.write(change, by)
    answer: Interest | Refusal = change.answer
    return answer


def release(books: Books, by: By, inc: str, shared_id: str) -> Interest | Refusal:
    shared = books.shared(shared_id)
    view = books.incarnation(inc)
    if view is None or shared is None:
        return _none(inc)
    others = [one for one in books.interests_in(shared_id) if one.inc != inc]
    change = kids.release(view, shared, len(others), by)
    books.write(change, by)
    answer: Interest | Refusal = change.answer
    return answer


def detach(books: Books, by: By, inc: str, gen: int, ref: str, owner: str, contract: str) -> Any:
    return _deal(books, inc, by, lambda view: kids.detach(view, ref, owner, contract, gen, by))
