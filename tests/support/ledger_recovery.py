"""What has to hold of a ledger whose processes were killed: what they were told, and what the next worker finds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ledger_lives import arrivals, arrived, granted

import turnctl
from turnctl.ledger import dealings
from turnctl.ledger.store import Books
from turnctl.ledger.verify import verify
from turnctl.records.changes import By, Refusal
from turnctl.records.effects import DEFINITIVE, Effect
from turnctl.records.tasks import Task

__all__ = ["lost", "recovered", "told_lines", "wrong_outside"]

Lines = list[tuple[str, dict[str, Any]]]


def told_lines(folder: Path) -> Lines:
    """What processes kept of what they were told; a last line that is torn was told to nobody."""
    found: Lines = []
    for path in folder.glob("told.*"):
        lines = path.read_text().splitlines(keepends=True)
        found += [tuple(json.loads(line)) for line in lines if line.endswith("\n")]
    return found


# -- what was told ------------------------------------------------------------------------------------------------


def lost(ledger: turnctl.Ledger, lines: Lines) -> list[str]:
    """Each thing that somebody was told, and that the ledger does not know (any more)."""
    look = ledger.store.read
    return [f"{what} {more}" for what, more in lines if not look(lambda books: _holds(books, what, more))]  # noqa: B023 - called at once


def _holds(books: Books, what: str, more: dict[str, Any]) -> bool:
    task = books.task(more.get("inc", ""))
    effect = books.effect(more.get("effect", ""))
    view = None if task is None else books.incarnation(task.inc)
    if what == "submitted":
        above = more["parent"] is None or more["inc"] in [
            child.child_inc for child, _ in getattr(books.incarnation(more["parent"]), "children", ())
        ]
        return task is not None and above
    if what == "purged":
        return task is None
    if what == "leased":
        return task is not None and task.lease_gen >= more["gen"]
    if what == "admitted":
        return effect is not None and books.payload(effect.effect_id) is not None
    if what == "claimed":
        return effect is not None and effect.phase in ("claimed", "closed")
    if what == "suppressed":
        return effect is not None and effect.phase == "suppressed"
    if what == "closed":
        return effect is not None and _closed(books, effect, more)
    if what == "closed_by":
        return effect is not None and effect.closed_by == more["by"]
    if what == "cancelled":
        cr = None if view is None else view.cr
        return cr is not None and (cr.cr, cr.accepted_rev) == (more["cr"], more["rev"]) and not view.task.is_running
    if what == "stopped":
        return view is not None and view.cr is not None
    if what == "detached":
        return [one.ref for one in books.detached_of(more["inc"])] == [more["ref"]]
    if what == "owned":
        rows = [one for one in books.activities_of(more["inc"]) if one.name == more["name"]]
        return len(rows) == 1 and (rows[0].stopped or not more["stopped"])
    if what == "over":
        return task is not None and task.state == more["state"]
    shared = books.shared(more["key"])
    return shared is not None and (what == "interested" or shared.state == more["state"])


def _closed(books: Books, effect: Effect, more: dict[str, Any]) -> bool:
    if more["disposition"] == "unknown":  # and evidence may have come since
        return effect.phase == "closed"
    bodies = [one.body for one in books.receipts(effect.effect_id) if one.body_sha == effect.receipt_sha]
    return effect.disposition == more["disposition"] and more.get("receipt", bodies[:1] and bodies[0]) in bodies


# -- what got out -------------------------------------------------------------------------------------------------


def wrong_outside(ledger: turnctl.Ledger, folder: Path) -> Iterator[str]:
    """What the receiver has, and should not: twice, unannounced, altered, or called never sent (I2, I3); and what is
    said without a receipt (I4), or admitted after the cancellation (I1)."""
    for (effect_id, sha), times in Counter(arrivals(str(folder))).items():
        effect = ledger.store.read(lambda books, name=effect_id: books.effect(name))  # type: ignore[misc]
        if effect is None or effect.payload_sha != sha or times > 1:
            yield f"I2: {effect_id} arrived {times} times, and is {effect}"
        elif effect.phase in ("admitted", "suppressed") or effect.disposition == "rejected":
            yield f"I3: {effect_id} is {effect.phase}, {effect.disposition}, and arrived"
    yield from ledger.store.read(lambda books: list(_wrong_inside(books)))


def _wrong_inside(books: Books) -> Iterator[str]:
    for task in list(books.incarnations()):
        view = books.at_gate(task.inc)
        assert view is not None
        events = books.events(task.inc)
        accepted = [one.n for one in events if one.kind == "cancel.accepted"]
        if len(accepted) > 1 or bool(accepted) != (view.cr is not None):
            yield f"I5: {task.inc} has {len(accepted)} acceptances and {view.cr}"
        for one in events:
            if accepted and one.n > accepted[0] and one.kind in ("effect.admitted", "child.registered"):
                yield f"I1: {one.kind} {one.subject} came after the acceptance"
        for effect in books.effects_of(task.inc):
            if view.cr is not None and effect.compensates is None and effect.admitted_rev >= view.cr.accepted_rev:
                yield f"I1: {effect.effect_id} was admitted under {effect.admitted_rev}, cancelled at {view.cr}"
            shas = [one.body_sha for one in books.receipts(effect.effect_id)]
            if effect.disposition in DEFINITIVE and effect.receipt_sha not in shas:
                yield f"I4: {effect.effect_id} is {effect.disposition} without a receipt"


# -- the next worker ----------------------------------------------------------------------------------------------


def recovered(url: str, folder: Path) -> list[str]:
    """Have the next worker come for each task, reconcile, and cancel what is left: what is wrong with all that.

    Every process that had the ledger has to be dead. A cancelled task gets no work (R67), whoever comes; an open one is
    carried on; and at the end nothing is left that waits for anything.
    """
    wrong: list[str] = []
    probes = dict.fromkeys(("mail.send", "mail.recall"), lambda effect: arrived(str(folder), effect.effect_id))
    with turnctl.open_ledger(url, authorise=granted) as ledger:
        for task in _tasks(ledger):
            wrong += _next_worker(ledger, task)
        ledger.reconcile(probes)
        for task in _tasks(ledger):
            if not task.is_over:
                ledger.cancel(task.inc, by="the end", tenant=task.tenant)
        ledger.reconcile(probes)
        for task in _tasks(ledger):
            for one in ledger.report(task.inc).activities:
                if one.may_act and "no pid on record" in one.title:  # nothing but another boot proves these gone
                    ledger.close_activity(task.inc, one.ref, by="bob", reason="seen", tenant=task.tenant)
        for task in _tasks(ledger):
            report = ledger.report(task.inc)
            wrong += [
                f"{one.effect_id} is pending at the end" for one in report.effects if one.disposition == "pending"
            ]
            if not task.is_over and task.outcome_ref != "never started":
                wrong.append(f"{task.inc} is {task.state} at the end, and waits for {report.missing}")
        wrong += wrong_outside(ledger, folder)
    return wrong + list(verify(url).findings)


def _tasks(ledger: turnctl.Ledger) -> list[Task]:
    return ledger.store.read(lambda books: list(books.incarnations()))


def _next_worker(ledger: turnctl.Ledger, task: Task) -> list[str]:
    before = _owned(ledger, task.inc)
    ran: list[str] = []
    found = ledger.incarnation(task.inc)
    was_cancelled = ledger.report(task.inc).cancellation is not None
    try:
        with turnctl.turn(task=found, grace=1) as turn:
            on_the_way = _claimed(ledger, task.inc)
            with suppress(turnctl.EffectCompleted, turnctl.LedgerRefused), _late(turn) as effect:
                ran.append("an effect")
                effect.reject("nobody wants it")
            with turnctl.turn(grace=1):
                ran.append("a child")
    except turnctl.LedgerRefused as refused:
        if not (refused.code == "ended" and task.state in ("completed", "failed")):
            return [f"{task.inc}: the next worker was refused: {refused}"]
        return []
    if on_the_way:
        return [f"{task.inc}: what the dead worker had claimed is not known to be unknown: {on_the_way}"]
    if not was_cancelled:
        return [] if ran == ["an effect", "a child"] else [f"{task.inc} is open, and the next worker did only {ran}"]
    after = _owned(ledger, task.inc)
    wrong = []
    if ran or after != before or turn.outcome != "cancelled":
        wrong.append(f"{task.inc} was cancelled, and the next worker ({turn.outcome}) did {ran}: {before} -> {after}")
    for said in (_at_the_gate(ledger, task.inc), _with_a_child(ledger, task.inc)):
        if not isinstance(said, Refusal) or said.code != "cancelled":
            wrong.append(f"{task.inc} was cancelled, and its gate says {said}")
    return wrong


def _claimed(ledger: turnctl.Ledger, inc: str) -> list[str]:
    found = ledger.store.read(lambda books: books.effects_of(inc))
    return [one.effect_id for one in found if one.phase == "claimed" and one.compensates is None]


def _late(turn: turnctl.Turn) -> Any:
    return turn.effect("mail.send", key="of the next worker", payload="late")


def _owned(ledger: turnctl.Ledger, inc: str) -> tuple[list[str], list[str]]:
    def look(books: Books) -> tuple[list[str], list[str]]:
        view = books.incarnation(inc)
        assert view is not None
        return [one.effect_id for one in books.effects_of(inc)], [child.child_inc for child, _ in view.children]

    return ledger.store.read(look)


def _at_the_gate(ledger: turnctl.Ledger, inc: str) -> Any:
    """What the gate says to a worker of the present generation that has heard of nothing."""

    def knock(books: Books) -> Any:
        task = books.task(inc)
        assert task is not None
        wanted = Effect(f"late {inc}", inc, "late", "mail.send", "s", 0, task.lease_gen)
        return dealings.admit(books, By("w", "worker"), wanted, task.lease_gen, b"late")

    return _undone(ledger, knock)


def _with_a_child(ledger: turnctl.Ledger, inc: str) -> Any:
    def bear(books: Books) -> Any:
        task = books.task(inc)
        assert task is not None
        return dealings.register_child(books, By("w", "worker"), inc, task.lease_gen, f"child {inc}", f"child {inc}")

    return _undone(ledger, bear)


class _Undone(Exception):
    pass


def _undone(ledger: turnctl.Ledger, fn: Callable[[Books], Any]) -> Any:
    """What ``fn`` is answered, in a transaction that is not kept."""
    said: list[Any] = []

    def ask(books: Books) -> None:
        said.append(fn(books))
        raise _Undone

    with suppress(_Undone):
        ledger.store.transact(ask)
    return said[-1]
