"""Which way a task goes from state to state, what holds it back, and what the gate asks for (P14, P15, P18)."""

from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from desk import KERNEL, OPERATOR, OTHER, RECONCILER, SECOND, WORKER, Desk

import turnctl
from turnctl.ledger import dealings
from turnctl.ledger.memory import MemoryStore
from turnctl.ledger.rows import make
from turnctl.records.effects import Effect
from turnctl.records.tasks import OwnedActivity

#: every way from one state to another; what is not here does not happen
TABLE = {
    ("running", "completed"),
    ("running", "failed"),
    ("running", "cancel_requested"),
    ("cancel_requested", "draining"),
    ("draining", "stopped_unresolved"),
    ("draining", "cancelled_settled"),
    ("stopped_unresolved", "cancelled_settled"),
}
PROCESS = OwnedActivity("i1", "a1", "process", "make", 1)

MOVES: dict[str, Callable[[Desk], object]] = {
    "admit": lambda desk: desk.admit("e1"),
    "claim": lambda desk: desk.claim("e1"),
    "suppress": lambda desk: desk.deal(dealings.suppress, WORKER, "e1", why="not wanted", gen=1),
    "lost": lambda desk: desk.deal(dealings.close, WORKER, "e1", "unknown", gen=1),
    "completed": lambda desk: desk.close("e1", "completed", by=RECONCILER, gen=None),
    "closed": lambda desk: desk.deal(dealings.close_unknown, OPERATOR, "e1", reason="nobody will know"),
    "cancel": lambda desk: desk.cancel(),
    "acknowledge": lambda desk: desk.deal(dealings.acknowledge, WORKER, "i1", 1),
    "give back": lambda desk: desk.give_back(),
    "gone": lambda desk: desk.gone(),
    "unproven": lambda desk: desk.deal(dealings.cannot_prove, OPERATOR, "i1", 1, why="another user's"),
    "take over": lambda desk: desk.deal(dealings.take_lease, SECOND, "i1", OTHER, force=True),
    "complete": lambda desk: desk.complete(),
    "fail": lambda desk: desk.complete("failed"),
}


def situation(desk: Desk) -> tuple[Any, ...]:
    """What tells one situation from another, for whoever makes the next move."""
    view = desk.store.read(lambda books: books.incarnation("i1"))
    effect = desk.store.read(lambda books: books.effect("e1"))
    assert view is not None
    lease = view.lease
    return (
        *(view.task.state, view.task.execution, min(view.task.lease_gen, 2)),
        lease and (lease.live, lease.acknowledged, lease.drain_only),
        effect and (effect.phase, effect.disposition, effect.closed_by),
    )


def path(desk: Desk) -> list[tuple[str, int]]:
    """The states that it went through, as its log has them, each with its revision."""
    found: list[tuple[str, int]] = []
    for event in desk.store.read(lambda books: books.events("i1")):
        kind, values = json.loads(event.body).get("row", ("", ()))
        if kind == "task":
            task = make(kind, values)
            if not found or found[-1] != (task.state, task.revision):
                found.append((task.state, task.revision))
    return found


def again(desk: Desk) -> Desk:
    """Another desk where all is as on this one."""
    made, had, copy = MemoryStore(), desk.store._books, MemoryStore()._books  # type: ignore[attr-defined]
    copy.rows = {kind: dict(rows) for kind, rows in had.rows.items()}
    copy.owned = {place: dict(keys) for place, keys in had.owned.items()}
    copy.log = {inc: list(lines) for inc, lines in had.log.items()}
    copy.newest, copy.payloads, made._books = dict(had.newest), dict(had.payloads), copy
    other = object.__new__(Desk)
    other.store, other.count = made, itertools.count(2)
    return other


@pytest.fixture(scope="module")
def situations() -> list[Desk]:
    """A desk for each situation that any order of the moves leads to."""
    found: dict[str, Desk] = {}
    waiting = [Desk()]
    while waiting:
        desk = waiting.pop(0)
        key = repr(situation(desk))
        if key not in found:
            found[key] = desk
            for move in MOVES.values():
                other = again(desk)
                move(other)
                waiting.append(other)
    return list(found.values())


def test_states_follow_the_table(situations: list[Desk]) -> None:
    """From every situation every request: the log shows the ways of the table, all of them, and no other (R16, R20)."""
    paths = [path(desk) for desk in situations]
    ways = {(one[0], two[0]) for states in paths for one, two in itertools.pairwise(states)}
    steps = {two[1] - one[1] for states in paths for one, two in itertools.pairwise(states)}

    assert TABLE == ways
    assert {1} == steps
    assert {("running", 1)} == {states[0] for states in paths}
    assert 100 < len(paths)


def test_cancelled_settled_has_nothing_open(situations: list[Desk]) -> None:
    """In no situation is a task settled while something may act, or an effect is open or unknown (R19)."""
    for desk in situations:
        view = desk.store.read(lambda books: books.incarnation("i1"))
        assert view is not None
        if view.task.state == "cancelled_settled":
            assert view.task.execution not in ("active", "unproven")
            assert not [one for one in view.effects if one.is_open]
        if view.task.state == "stopped_unresolved":
            assert view.task.execution not in ("active", "unproven")
            assert {"unknown"} == {one.disposition for one in view.effects}


@pytest.mark.parametrize("open_one", ["effect", "process", "worker", "unproven", "child", "grandchild"])
def test_one_open_thing_keeps_a_task_from_settling(open_one: str) -> None:
    """Each of them alone is enough, is named, and with its end the task is settled (R18, R19)."""
    desk = Desk()
    if open_one == "effect":
        desk.claimed("e1")
    elif open_one == "process":
        desk.deal(dealings.own, WORKER, PROCESS, 1)
    elif open_one in ("child", "grandchild"):
        desk.child("i1", "i2")
        if open_one == "grandchild":
            desk.deal(dealings.register_child, SECOND, "i2", 1, "i3", "task i3")
            desk.deal(dealings.take_lease, WORKER, "i3", OTHER)
    desk.cancel()
    desk.deal(dealings.acknowledge, WORKER, "i1", 1)
    if open_one == "process":
        desk.deal(dealings.signalled, WORKER, "i1", "a1", "SIGTERM", "signal_queued")
    if open_one == "grandchild":
        desk.give_back("i2", by=SECOND)
    if open_one == "unproven":
        desk.deal(dealings.cannot_prove, OPERATOR, "i1", 1, why="another user's")
    elif open_one != "worker":
        desk.give_back()
    report = turnctl.Ledger(desk.store).report("i1")
    ends: dict[str, Callable[[], object]] = {
        "effect": lambda: desk.close("e1", "completed", by=RECONCILER, gen=None),
        "process": lambda: desk.deal(dealings.stopped, WORKER, "i1", "a1"),
        "worker": desk.give_back,
        "unproven": desk.gone,
        "child": lambda: desk.give_back("i2", by=SECOND),
        "grandchild": lambda: desk.give_back("i3"),
    }
    ends[open_one]()
    names = {
        "effect": "effect mail.send e1 is unknown",
        "process": "process make is not known to have stopped",
        "worker": "the worker is not known to be through",
        "unproven": "the worker cannot be proven to be through",
        "child": "child i2 is cancel_requested",
        "grandchild": "child i2 is draining",
    }

    assert ((names[open_one],), False) == (report.missing, report.task.is_over)
    assert "cancelled_settled" == desk.state()


def test_draining_waits_for_each_signal_and_the_worker() -> None:
    """A task drains when its worker has seen the stop and all it owns was signalled; till then each is named (R17)."""
    desk = Desk()
    for ref, name in (("a1", "make"), ("a2", "grep")):
        desk.deal(dealings.own, WORKER, OwnedActivity("i1", ref, "process", name, 1), 1)
    desk.cancel()
    ledger = turnctl.Ledger(desk.store)
    named = [ledger.report("i1").missing]
    desk.deal(dealings.signalled, WORKER, "i1", "a1", "SIGTERM", "signal_queued")
    named.append(ledger.report("i1").missing)
    desk.deal(dealings.acknowledge, WORKER, "i1", 1)
    named.append(ledger.report("i1").missing)
    before = desk.state()
    desk.deal(dealings.signalled, WORKER, "i1", "a2", "SIGTERM", "signal_queued")

    worker = "worker 100 (generation 1) has not acknowledged"
    assert [
        (worker, "process make was not signalled", "process grep was not signalled"),
        (worker, "process grep was not signalled"),
        ("process grep was not signalled",),
    ] == named
    assert ("cancel_requested", "draining") == (before, desk.state())


# -- the gate ----------------------------------------------------------------


def rejected(desk: Desk, **how: Any) -> str:
    """The code of a second effect that is refused, which has left no row."""
    answer = desk.admit("e2", **how)

    assert None is desk.store.read(lambda books: books.effect("e2"))
    assert None is desk.store.read(lambda books: books.payload("e2"))
    assert "gate.rejected" == desk.kinds()[-1]
    code: str = answer.code
    return code


CLOSED: dict[str, Callable[[Desk], Any]] = {
    "cancelled": lambda desk: (desk.cancel(), rejected(desk))[1],
    "ended": lambda desk: desk.complete() and rejected(desk),
    "no_lease": lambda desk: desk.give_back() and rejected(desk),
    "stale_generation": lambda desk: MOVES["take over"](desk) and rejected(desk),
    "not_authorised": lambda desk: rejected(desk, by=RECONCILER),
    "payload_conflict": lambda desk: desk.admit("e1") and rejected(desk, sha="another"),
    "in_flight": lambda desk: desk.claimed("e1") and rejected(desk),
    "unresolved": lambda desk: desk.claimed("e1") and MOVES["lost"](desk) and rejected(desk),
    "done": lambda desk: desk.claimed("e1") and desk.close("e1", "completed") and rejected(desk),
}


@pytest.mark.parametrize("code", CLOSED)
@pytest.mark.usefixtures("both_stores")
def test_each_closed_gate_has_its_own_code_and_no_row(code: str) -> None:
    """Status, authority and identity are asked at once; each that fails has a code, and leaves a line (R29)."""

    assert code == CLOSED[code](Desk())


@pytest.mark.usefixtures("both_stores")
def test_inventory_is_all_that_was_admitted_and_is_open() -> None:
    """The acceptance writes down what may still get out, in its own transaction, and none that is known (R58)."""
    desk = Desk(policy="deliver")
    for n, name in enumerate(["admitted", "claimed", "unknown", "completed", "suppressed"]):
        desk.admit(name, key=str(n))
        if name not in ("admitted", "suppressed"):
            desk.claim(name)
    desk.deal(dealings.close, WORKER, "unknown", "unknown", gen=1)
    desk.close("completed", "completed")
    desk.deal(dealings.suppress, WORKER, "suppressed", why="not wanted", gen=1)
    desk.deal(dealings.own, WORKER, PROCESS, 1)
    desk.child("i1", "i2")
    desk.deal(dealings.attach, WORKER, "i1", 1, "d")
    before = len(desk.kinds())
    desk.cancel()
    line = desk.store.read(lambda books: books.events("i1"))[before]

    assert "cancel.accepted" == line.kind
    assert {
        "effects": ["admitted", "claimed", "unknown"],
        "activities": ["a1"],
        "children": ["i2"],
        "interests": ["d"],
    } == json.loads(line.body)["inventory"]


def test_suppressed_is_written_by_the_gate_alone() -> None:
    """Two places of the code write it, both for what was never claimed; none because a queue let go of it (R35)."""
    ledger = Path(turnctl.__file__).parent / "ledger"
    places = []
    for file in sorted(ledger.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "suppressed" in text else ():
            if isinstance(node, ast.FunctionDef):
                places += [
                    (file.name, node.name)
                    for call in ast.walk(node)
                    if isinstance(call, ast.Call)
                    for word in call.keywords
                    if word.arg == "phase" and getattr(word.value, "value", None) == "suppressed"
                ]

    assert [("gate.py", "suppress"), ("model.py", "_suppress")] == places


@pytest.mark.usefixtures("both_stores")
def test_entry_that_a_queue_lost_is_no_reason() -> None:
    """What was claimed stays claimed, whoever says that its message is gone, and nothing is taken back (R35)."""
    desk = Desk()
    desk.claimed("e1")
    desk.admit("e2", key="other")
    told = [desk.deal(dealings.suppress, by, "e1", why="the queue lost it") for by in (KERNEL, OPERATOR)]
    whys = [json.loads(event.body).get("why") for event in desk.store.read(lambda books: books.events("i1"))]

    assert ["closed", "closed"] == [one.code for one in told]
    assert ("claimed", "admitted") == (desk.effect("e1").phase, desk.effect("e2").phase)
    assert [] == [why for why in whys if why]


def test_mutation_needs_the_authority_for_it() -> None:
    """Who reconciles reads: it makes nothing good, closes nothing without evidence, and sends nothing (R64, R65)."""
    desk = Desk()
    desk.claimed("e1")
    desk.gone()
    wanted = Effect("e2", "i1", "undo", "mail.recall", "s2", 0, 1)
    codes = [
        desk.deal(dealings.compensate, RECONCILER, "e1", wanted, b"", auth_ref="ticket 7").code,
        desk.deal(dealings.close, RECONCILER, "e1", "completed").code,
        desk.deal(dealings.close_unknown, RECONCILER, "e1", reason="tired").code,
        desk.admit("e3", by=RECONCILER, key="other").code,
        desk.claim("e1", by=RECONCILER).code,
    ]
    lines = desk.store.read(lambda books: books.events("i1"))

    assert ["not_authorised", "no_receipt", "not_authorised", "not_authorised", "closed"] == codes
    assert {True} == {one.read_only for one in lines if one.authority == "reconciler"}
    assert None is desk.store.read(lambda books: books.effect("e2"))
