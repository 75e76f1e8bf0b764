"""M7: a worker comes to its end while it is cancelled: one of the two was first, and both are told which."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
from scene import Stage

#: promised: who waits goes on at once where the one before is killed
AT_ONCE_S = 10.0
_CUT_OFF = ("cancel.accepted", "task.cancel_requested", "worker.acknowledged")


def kinds(stage: Stage, inc: str) -> list[str]:
    found = stage.ledger.store.read(lambda books: books.events(inc))
    return [one.kind for one in found]


def at_its_end(stage: Stage, inc: str, point: str) -> Any:
    """A worker with one effect that was completed and one whose answer was lost, held at ``point`` of its end."""
    worker = stage.player(f"{point}=pause")
    worker.do("work", inc=inc)
    worker.do("effect", key="1")
    stage.receiver.mode("commit-then-reset")
    worker.fails("effect", key="2")
    stage.receiver.mode("normal")
    worker.tell("end")
    assert point == worker.reached()
    return worker


def account(stage: Stage, inc: str) -> tuple[str, list[str]]:
    report = stage.ledger.report(inc)
    return report.task.state, [one.disposition for one in report.effects]


def test_cancelled_before_it_completes(stage: Stage) -> None:
    """The worker is told; its result is kept as evidence, its receipts count, and nothing leads back to running."""
    inc = stage.submit()
    worker = at_its_end(stage, inc, "complete.before_begin")
    canceller = stage.player()
    accepted = canceller.do("cancel", inc=inc, reason="enough")
    worker.release()
    ended = worker.hear()
    unresolved = account(stage, inc)
    late = stage.ledger.report(inc).task.late_outcome_ref
    canceller.do("reconcile")

    assert "cr" in accepted
    assert ("cancelled", "enough") == (ended["outcome"], ended["reason"])
    assert ("stopped_unresolved", ["completed", "unknown"]) == unresolved
    assert "completed" == late
    assert ("cancelled_settled", ["completed", "completed"]) == account(stage, inc)
    assert accepted == canceller.do("cancel", inc=inc, reason="another")
    assert 2 == len(stage.receiver.journal())


def test_killed_before_it_completes(stage: Stage) -> None:
    """Killed there, its result is nobody's: the task is cancelled, and the next worker has nothing to do."""
    inc = stage.submit()
    worker = at_its_end(stage, inc, "complete.before_begin")
    stage.ledger.cancel(inc, by="alice", tenant="acme")
    worker.kill()
    second = stage.player()
    said = second.do("work", inc=inc)
    second.do("end")
    left = account(stage, inc)
    second.do("reconcile")

    assert "stopped" == said
    assert ("stopped_unresolved", ["completed", "unknown"]) == left
    assert "cancelled_settled" == account(stage, inc)[0]


@pytest.mark.parametrize("kills", [False, True])
def test_within_its_completion(stage: Stage, kills: bool) -> None:
    """A canceller waits for a completion that is within its transaction: it is first, or was never made."""
    inc = stage.submit()
    worker = at_its_end(stage, inc, "complete.before_commit")
    canceller = stage.player("cancel.before_begin=pause")
    canceller.tell("cancel", inc=inc)
    canceller.reached()
    canceller.release()
    if kills:
        worker.kill()
    else:
        worker.release()
    began = time.monotonic()
    told = canceller.hear()
    took = time.monotonic() - began

    assert ("cr" in told) if kills else ({"refused": "already_completed"} == told)
    assert took < AT_ONCE_S
    if not kills:
        assert "completed" == worker.hear()["outcome"]
    assert ("cancel_requested" if kills else "completed") == account(stage, inc)[0]


@pytest.mark.parametrize("kills", [False, True])
def test_completed_before_it_is_cancelled(stage: Stage, kills: bool) -> None:
    """The canceller is told that it came too late: no record, no signal; killed, it has left nothing."""
    inc = stage.submit()
    canceller = stage.player("cancel.before_begin=pause")
    canceller.tell("cancel", inc=inc)
    canceller.reached()
    worker = stage.player()
    worker.do("work", inc=inc)
    worker.do("effect", key="1")
    ended = worker.do("end")
    if kills:
        canceller.kill()
        told = {"refused": "already_completed"}
    else:
        canceller.release()
        told = canceller.hear()

    assert {"refused": "already_completed"} == told
    assert "completed" == ended["outcome"]
    assert (None, "completed") == (stage.ledger.report(inc).cancellation, stage.ledger.report(inc).task.state)
    assert [] == [one for one in kinds(stage, inc) if one in _CUT_OFF]
    assert (0 if kills else 1) == kinds(stage, inc).count("cancel.refused")


def race(stage: Stage, rounds: int) -> Counter[tuple[Any, ...]]:
    """How often what came about: what the canceller was told, the turn's outcome, and the task's state."""
    incs = [stage.submit(f"job {n}") for n in range(rounds)]
    one, other = stage.pair()
    one.tell("completing:end_each", incs=incs)
    other.tell("completing:cancel_each", incs=incs, seed=7)
    outcomes, said = one.hear(280), other.hear(280)
    states = [stage.ledger.report(inc).task.state for inc in incs]
    for inc in incs:
        seen = kinds(stage, inc)
        assert [1, 1, 1] == [seen.count(f"effect.{kind}") for kind in ("admitted", "claimed", "completed")], seen
        assert 1 == seen.count("cancel.accepted") + seen.count("task.completed"), seen
    return Counter(zip(said, outcomes, states, strict=True))


ORDERS = {("accepted", "cancelled", "cancelled_settled"), ("already_completed", "completed", "completed")}


@pytest.mark.slow
def test_end_and_cancellation_at_once(stage: Stage) -> None:
    """A hundred times: one was first, both know which one, and no word of the effect is lost."""
    assert ORDERS == set(race(stage, 100))


@pytest.mark.stress
@pytest.mark.timeout(300)
def test_end_and_cancellation_at_once_many_times(stage: Stage) -> None:
    """The same, five hundred times."""
    assert ORDERS == set(race(stage, 500))
