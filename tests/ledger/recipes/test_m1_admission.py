"""M1: the gate against an acceptance. What is committed first decides, not who looked first."""

from __future__ import annotations

import time

import pytest
from looks import cr_of, effects_of, events_of, inventory_of, task_of
from rounds import both_orders
from scene import Player, Stage


def begun(stage: Stage, point: str) -> tuple[Player, str]:
    """A worker that has looked whether it is to stop, was not, and stands at ``point`` with its effect."""
    inc = stage.submit()
    worker = stage.player(f"{point}=pause")
    worker.do("work", inc=inc)
    assert worker.do("check")
    worker.tell("effect", key="a")
    assert point == worker.reached()
    return worker, inc


def test_cancelled_before_the_gate(stage: Stage) -> None:
    """A worker that had seen nothing of a stop, and then came to the gate, is refused there: nothing is sent."""
    worker, inc = begun(stage, "gate.before_begin")
    accepted = stage.player().do("cancel", inc=inc)
    worker.release()
    stopped = worker.answer()
    ended = worker.do("end")
    worker.end()

    assert "CancelledError" == stopped["error"]
    assert [{"by": worker_name(stage, inc), "code": "cancelled", "cr": accepted["cr"]}] == (
        events_of(stage, inc, "gate.rejected")
    )
    assert ([], []) == (effects_of(stage, inc), stage.receiver.journal())
    assert ("cancelled", {}) == (ended["outcome"], ended["effects"])
    assert "cancelled_settled" == task_of(stage, inc).state


def worker_name(stage: Stage, inc: str) -> str:
    found = stage.ledger.store.read(lambda books: books.events(inc))
    return next(one.actor for one in found if one.kind == "lease.taken")


@pytest.mark.parametrize("cancelled", ["before", "after"])
def test_killed_before_the_gate(stage: Stage, cancelled: str) -> None:
    """A worker that is killed before its transaction leaves no effect; the task settles once its death is proven."""
    worker, inc = begun(stage, "gate.before_begin")
    canceller = stage.player()
    if cancelled == "before":
        canceller.do("cancel", inc=inc)
        worker.kill()
    else:
        worker.kill()
        canceller.do("cancel", inc=inc)
    settled = [canceller.do("reconcile"), task_of(stage, inc).state]
    canceller.end()

    assert [[], "cancelled_settled"] == settled
    assert ([], []) == (effects_of(stage, inc), stage.receiver.journal())


def test_cancelled_while_the_gate_commits(stage: Stage) -> None:
    """A canceller waits for a commit that is under way, and has its effect in the inventory."""
    worker, inc = begun(stage, "gate.before_commit")
    canceller = stage.player("cancel.before_begin=pause")
    canceller.tell("cancel", inc=inc)
    canceller.reached()
    canceller.release()
    waits = cr_of(stage, inc) is None
    worker.release()
    accepted = canceller.hear()
    effect_id = worker.hear()
    ended = worker.do("end")
    worker.end()

    (effect,) = effects_of(stage, inc)
    assert waits
    assert [effect_id] == inventory_of(stage, inc)["effects"]
    assert effect.admitted_rev < accepted["rev"]
    assert ({"a": "completed"}, 1) == (ended["effects"], len(stage.receiver.journal()))
    assert ("cancelled", "cancelled_settled") == (ended["outcome"], task_of(stage, inc).state)


def test_killed_while_the_gate_commits(stage: Stage) -> None:
    """A worker that is killed within its transaction leaves nothing, and the canceller that waits for it goes on."""
    worker, inc = begun(stage, "gate.before_commit")
    canceller = stage.player("cancel.before_begin=pause")
    canceller.tell("cancel", inc=inc)
    canceller.reached()
    canceller.release()
    worker.kill()
    began = time.monotonic()
    canceller.hear()
    took = time.monotonic() - began
    canceller.do("reconcile")

    assert took < 10  # promised: one second
    assert ([], []) == (effects_of(stage, inc), stage.receiver.journal())
    assert "cancelled_settled" == task_of(stage, inc).state


@pytest.mark.timeout(600)
def test_either_comes_first(stage: Stage, rounds: int) -> None:
    """Of gate and acceptance one comes first in each round: sent and told of, or no effect at all."""
    for told in both_orders(stage, "gate", rounds=rounds):
        effects = effects_of(stage, told["inc"])
        cr = cr_of(stage, told["inc"])

        assert ("accepted", "cancelled") == (told["canceller"], told["outcome"]) or "completed" == told["outcome"]
        assert int(told["did"]) == len(effects)
        assert cr is None or all(one.admitted_rev < cr.accepted_rev for one in effects)
