"""One function for each dealing with the ledger: reads the books, makes the transition, writes what it comes to.

Each runs in one transaction of a store (``Store.transact``) and does nothing else. What follows for others, a parent
that can settle now, shared work that nobody wants any more, is written in the same transaction. Those with what a task
owns are in ``ledger.belongings``, and to be had here as well.

Invariant D1: a cancellation of a subtree is accepted from the top down, and all of it in one transaction; so a child
that is being registered is either in the inventory or refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from turnctl.ledger import gate, leases, model, turnrows
from turnctl.ledger.belongings import (
    attach,
    came_back,
    child_became,
    detach,
    detach_child,
    end_shared,
    observe_activities,
    own,
    register_child,
    release,
    signalled,
    stopped,
)
from turnctl.ledger.moves import deal, follow, none, tell_parents, whole, write_with_interests
from turnctl.ledger.store import Books
from turnctl.records.changes import By, Change, Incarnation, Note, Refusal
from turnctl.records.effects import Disposition, Effect, Receipt
from turnctl.records.tasks import Cancellation, Holder, Lease, Policy, PromiseLevel, Scope, Task

__all__ = [
    "acknowledge",
    "admit",
    "attach",
    "came_back",
    "cancel",
    "cannot_prove",
    "child_became",
    "claim",
    "claim_again",
    "close",
    "close_unknown",
    "compensate",
    "complete",
    "detach",
    "detach_child",
    "end_shared",
    "give_back",
    "note",
    "observe_activities",
    "observe_gone",
    "own",
    "register_child",
    "release",
    "requested",
    "signalled",
    "stopped",
    "submit",
    "suppress",
    "take_lease",
]


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
    found: Lease | Refusal = deal(
        books, inc, by, lambda view: leases.take_lease(view, holder, by, is_gone=is_gone, force=force)
    )
    return found


def acknowledge(books: Books, by: By, inc: str, gen: int) -> Lease | Refusal:
    found: Lease | Refusal = deal(books, inc, by, lambda view: leases.acknowledge(view, gen, by))
    return found


def give_back(books: Books, by: By, inc: str, gen: int) -> Lease | Refusal:
    found: Lease | Refusal = deal(books, inc, by, lambda view: leases.give_back(view, gen, by))
    return found


def observe_gone(books: Books, by: By, inc: str, gen: int, *, evidence: str) -> Lease | Refusal | None:
    found: Lease | Refusal | None = deal(
        books, inc, by, lambda view: leases.observe_gone(view, gen, by, evidence=evidence)
    )
    turnrows.observe_lost(books, by, inc, gen, evidence=evidence)
    return found


def cannot_prove(books: Books, by: By, inc: str, gen: int, *, why: str) -> Lease | Refusal | None:
    found: Lease | Refusal | None = deal(books, inc, by, lambda view: leases.cannot_prove(view, gen, by, why=why))
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
    found: Task | Refusal = deal(
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
    view = whole(books, inc)
    if view is None:
        return none(books, inc)
    newest = books.latest(view.task.tenant, view.task.task_id)
    if view.cr is None and view.task.is_over and newest is not None and newest.inc != inc:
        text = (
            f"incarnation {inc} of task {newest.task_id} is over, and {newest.inc} is another one: it was not stopped"
        )
        change = model.refuse(inc, "cancel.refused", Refusal("stale_incarnation", text, row=view.task), by)
        books.write(change, by)
        return change.answer  # type: ignore[no-any-return]
    change = model.accept(view, new_cr(), by, scope=scope, reason=reason, auth_ref=auth_ref, level=level)
    write_with_interests(books, view.task, change, by)
    answer: model.Acceptance | Refusal = change.answer
    if isinstance(answer, Refusal):
        return answer
    has_changed = any(isinstance(row, Cancellation) for row in change.rows)
    covered = _cover(books, view, answer.cr, new_cr, by) if has_changed and answer.cr.scope == "subtree" else []
    for one in (*reversed(covered), inc):  # from the leaves up, as what is below comes to rest first
        now = whole(books, one)
        assert now is not None
        books.write(model.advance(now, by), by)
        follow(books, one, by)
    tell_parents(books, view.task, by)
    return answer


def _cover(books: Books, top: Incarnation, cr: Cancellation, new_cr: Callable[[], str], by: By) -> list[str]:
    found: list[str] = []
    views = [top]
    seen = {top.task.inc}  # rows of a damaged store may go in a circle
    for view in views:
        for child, its in view.children:
            is_left_out = its.is_over or child.status == "detached" or its.inc in seen
            seen.add(its.inc)
            below = None if is_left_out else whole(books, its.inc)
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
            write_with_interests(books, below.task, change, by)
            found.append(its.inc)
            views.append(below)
    return found


def note(books: Books, by: By, inc: str, kind: str, subject: str, more: dict[str, Any]) -> None:
    """A line in the log that changes no row: what was asked, and what was answered."""
    if books.task(inc) is not None:
        books.write(Change((Note(inc, kind, subject, None, {**more, "by": by.actor}),), None), by)


# -- effects ------------------------------------------------------------------------------------------------------


def admit(books: Books, by: By, wanted: Effect, gen: int, payload: bytes) -> Effect | Refusal:
    view = books.at_gate(wanted.inc)
    if view is None:
        return none(books, wanted.inc)
    change = gate.admit(view, wanted, gen, books.effects_of(wanted.inc, wanted.intent_key), by)
    books.write(change, by, payload=payload)
    answer: Effect | Refusal = change.answer
    return answer


def _with_effect(
    books: Books, effect_id: str, by: By, step: Callable[[Incarnation, Effect], Change], *, at_gate: bool = False
) -> Any:
    effect = books.effect(effect_id)
    if effect is None:
        return Refusal("no_such_task", f"there is no effect {effect_id} in this ledger, or not for you")
    return deal(books, effect.inc, by, lambda view: step(view, effect), at_gate=at_gate, if_moving=not at_gate)


def claim(books: Books, by: By, effect_id: str, gen: int, claimant: str) -> Effect | Refusal:
    found: Effect | Refusal = _with_effect(
        books, effect_id, by, lambda view, effect: gate.claim(view, effect, gen, claimant, by), at_gate=True
    )
    return found


def claim_again(books: Books, by: By, effect_id: str, gen: int, claimant: str, *, why: str) -> Effect | Refusal:
    found: Effect | Refusal = _with_effect(
        books,
        effect_id,
        by,
        lambda view, effect: gate.claim_again(view, effect, gen, claimant, by, why=why),
        at_gate=True,
    )
    return found


def requested(books: Books, by: By, effect_id: str, request_ref: str, *, gen: int | None) -> Effect | Refusal:
    found: Effect | Refusal = _with_effect(
        books, effect_id, by, lambda view, effect: gate.requested(view, effect, request_ref, by, gen=gen), at_gate=True
    )
    return found


def suppress(books: Books, by: By, effect_id: str, *, why: str, gen: int | None = None) -> Effect | Refusal:
    found: Effect | Refusal = _with_effect(
        books, effect_id, by, lambda view, effect: gate.suppress(view, effect, by, why=why, gen=gen)
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
