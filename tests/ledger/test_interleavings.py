"""Random orders of the transactions of workers, cancellers and reconcilers, who die anywhere, keep I1 to I8."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from ledger_crews import Crew

from turnctl.ledger import dealings, gate, model
from turnctl.ledger.memory import MemoryStore
from turnctl.ledger.store import Store
from turnctl.records.changes import By, Change, Incarnation, Note, evolve


def run(seeds: range) -> list[str]:
    return [wrong for seed in seeds for wrong in Crew(MemoryStore(), seed).run()]


def test_some_random_orders_keep_the_invariants() -> None:
    """Nothing is admitted after a cut-off, sent twice, called known without a receipt, or lost from a log."""

    assert [] == run(range(300))


def test_random_orders_in_a_file_keep_the_invariants(store: Store) -> None:
    """The same in the store that is durable, one crew after the other in one file."""

    assert [] == [wrong for seed in range(20_000, 20_015) for wrong in Crew(store, seed).run()]


@pytest.mark.stress
@pytest.mark.timeout(600)
def test_many_random_orders_keep_the_invariants() -> None:
    """Ten thousand of them."""

    assert [] == run(range(500, 10_500))


def test_orders_reach_both_sides_of_each_race() -> None:
    """The schedules are worth something: of each race both outcomes occur."""
    states, kinds = set(), set()
    for seed in range(150):
        crew = Crew(MemoryStore(), seed)
        crew.run()
        states |= {task.state for task in crew.tasks()}
        for task in crew.tasks():
            kinds |= {event.kind for event in crew.store.read(lambda books, t=task: books.events(t.inc))}

    assert {"completed", "cancelled_settled", "failed"} <= states
    assert (
        set()
        == {
            *("gate.rejected", "effect.admitted", "claim.rejected", "effect.claimed", "effect.suppressed"),
            *("effect.unknown", "effect.completed", "child.rejected", "child.registered", "cancel.repeated"),
            *("cancel.refused", "task.late_outcome", "worker.gone", "effect.readmitted", "effect.closed_by_operator"),
        }
        - kinds
    )


def overwritten(view: Incarnation, gen: int, outcome: Any, by: By, **_: object) -> Change:
    """How a status is written by who does not look at what is there."""
    done = evolve(view.task, state=outcome, revision=view.task.revision + 1, execution="stop_observed")
    return Change((Note(view.task.inc, f"task.{outcome}", view.task.inc, done),), done)


@pytest.mark.parametrize(
    ("module", "name", "broken", "found"),
    [
        (gate, "closed_to", lambda *_: None, "I1"),
        (model, "become_unknown", lambda *_: [], "I2"),
        (dealings, "_cover", lambda *_: [], "I7"),
        (model, "_repeated", None, "I5"),
        (model, "complete", overwritten, "I6"),
    ],
    ids=["gate left open", "unknown forgotten", "subtree not covered", "cancellation replaced", "status overwritten"],
)
def test_broken_rules_are_found(monkeypatch: pytest.MonkeyPatch, module, name, broken, found) -> None:
    """The invariants are worth something: a ledger without one of its rules is caught."""
    if broken is None:

        def broken(view, known, by, **_) -> Change:
            return model.accept(model.evolve(view, cr=None), f"{known.cr} again", by)

    monkeypatch.setattr(module, name, broken)
    if name == "become_unknown":  # a claimed effect that is forgotten is sent again
        monkeypatch.setattr(gate, "_stands_in_the_way", lambda _: None)
        monkeypatch.setattr("turnctl.ledger.leases.become_unknown", broken)

    wrong: list[str] = []
    for seed in range(300):
        try:
            wrong += Crew(MemoryStore(), seed).run()
        except AssertionError as error:  # a rule of the code itself has caught it
            wrong.append(str(error))
        if any(found in one for one in wrong):
            return
    pytest.fail(f"{found} was not found broken: {wrong[:3]}")


def test_threads_keep_the_invariants() -> None:
    """Eight threads with a crew each at one store: the order is the store's own."""
    store = MemoryStore()
    wrong: list[str] = []

    def work(seed: int) -> None:
        for one in range(seed, seed + 5):
            wrong.extend(Crew(store, one).run())

    threads = [threading.Thread(target=work, args=(n * 1000,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert [] == wrong
