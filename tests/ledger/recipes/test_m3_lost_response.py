"""M3: the answer to an effect is lost. It is unknown until its receiver says what it did, asked under the same id."""

from __future__ import annotations

import pytest
from looks import effects_of, events_of, inventory_of, receipts_of, task_of
from scene import Stage


def lost(stage: Stage, *, cancelled: str) -> str:
    """An effect that was performed, and whose worker was killed before it kept what it knew; the incarnation."""
    stage.receiver.mode("commit-then-reset")
    inc = stage.submit()
    worker, canceller = stage.player("send.before_receipt=pause"), stage.player()
    worker.do("work", inc=inc)
    worker.tell("effect", key="a")
    worker.reached()
    if cancelled == "before":
        canceller.do("cancel", inc=inc)
    worker.kill()
    if cancelled == "after":
        canceller.do("cancel", inc=inc)
    canceller.end()
    return inc


def asked(stage: Stage) -> set[tuple[str, str]]:
    """What the receiver was asked about, by whom; and not what it was sent."""
    return {(one["id"], one["who"]) for one in stage.receiver.asked("GET")}


@pytest.mark.parametrize("cancelled", ["before", "after"])
def test_lost_answer_is_looked_up(stage: Stage, cancelled: str) -> None:
    """One who may only ask finds out what became of it, and settles the task; sending is refused to that one."""
    inc = lost(stage, cancelled=cancelled)
    reconciler = stage.player(credential="read")
    stage.receiver.mode("cannot-tell")
    untold = reconciler.do("reconcile")
    stopped = task_of(stage, inc)
    (unknown,) = effects_of(stage, inc)
    stage.receiver.mode("normal")
    told = reconciler.do("reconcile")
    refused = reconciler.fails("post", effect_id=unknown.effect_id)
    again = reconciler.do("reconcile")
    reconciler.end()

    assert [[unknown.effect_id, "unknown", "notify"]] == untold
    assert ("unknown", "stopped_unresolved", "stop_observed") == (
        *(unknown.disposition, stopped.state, stopped.execution),
    )
    assert [unknown.effect_id] == inventory_of(stage, inc)["effects"]
    assert [[unknown.effect_id, "completed", None]] == told
    assert ([], "cancelled_settled") == (again, task_of(stage, inc).state)
    assert [f"kept {unknown.effect_id}"] == receipts_of(stage, unknown.effect_id)
    assert "Refused" == refused[0]
    assert {(unknown.effect_id, "read")} == asked(stage)
    assert [unknown.effect_id] == [one["effect_id"] for one in stage.receiver.journal()]


@pytest.mark.parametrize("consequence", ["low", "medium", "high"])
def test_receiver_that_cannot_tell(stage: Stage, consequence: str) -> None:
    """Who cannot tell changes nothing: it stays unknown, each question is in the log, and by how much hangs on it
    somebody is to look."""
    escalation = {"low": "wait", "medium": "notify", "high": "page"}[consequence]
    stage.receiver.mode("commit-then-reset")
    inc = stage.submit()
    worker = stage.player("send.before_receipt=kill")
    worker.do("work", inc=inc)
    worker.tell("effect", key="a", consequence=consequence)
    worker.process.wait(30)
    stage.ledger.cancel(inc, by="alice", tenant="acme")
    stage.receiver.mode("cannot-tell")
    reconciler = stage.player(credential="read")
    untold = [reconciler.do("reconcile") for _ in range(2)]
    reconciler.end()

    (effect,) = effects_of(stage, inc)
    assert 2 * [[[effect.effect_id, "unknown", escalation]]] == untold
    assert 2 * [(None, escalation, effect.effect_id)] == [
        (one["answer"], one["escalation"], one["request"]) for one in events_of(stage, inc, "reconcile.asked")
    ]
    assert ("unknown", None) == (effect.disposition, effect.receipt_sha)
    assert "stopped_unresolved" == task_of(stage, inc).state
    assert 1 == len(stage.receiver.journal())


def test_reconciler_killed_before_it_writes(stage: Stage) -> None:
    """One that is killed with the answer in its hands has changed nothing, and the next one asks again."""
    inc = lost(stage, cancelled="before")
    stage.receiver.mode("normal")
    first = stage.player("reconcile.before_write=pause", credential="read")
    first.tell("reconcile")
    first.reached()
    (held,) = effects_of(stage, inc)
    first.kill()
    second = stage.player(credential="read")
    told = second.do("reconcile")
    second.end()

    assert ("unknown", [[held.effect_id, "completed", None]]) == (held.disposition, told)
    assert "cancelled_settled" == task_of(stage, inc).state
    assert 2 == len(stage.receiver.asked("GET"))


def test_worker_that_lives_tells_it_is_unknown(stage: Stage) -> None:
    """A worker whose answer was lost and that goes on has left an unknown too; it does not send it again."""
    stage.receiver.mode("commit-then-reset")
    inc = stage.submit()
    worker = stage.player("send.before_receipt=pause")
    worker.do("work", inc=inc)
    worker.tell("effect", key="a")
    worker.reached()
    stage.ledger.cancel(inc, by="alice", tenant="acme")
    worker.release()
    error = worker.answer()["error"]
    ended = worker.do("end")
    stopped = task_of(stage, inc).state
    stage.receiver.mode("normal")
    told = worker.do("reconcile")
    worker.end()

    assert ("ConnectionResetError", {"a": "unknown"}) == (error, ended["effects"])
    assert ("stopped_unresolved", "completed") == (stopped, told[0][1])
    assert "cancelled_settled" == task_of(stage, inc).state


def test_answers_by_two_reconcilers(stage: Stage) -> None:
    """Two that ask at once both keep what they are told, and it is kept once."""
    inc = lost(stage, cancelled="after")
    stage.receiver.mode("normal")
    pair = [stage.player("reconcile.before_write=pause", credential="read") for _ in range(2)]
    for one in pair:
        one.tell("reconcile")
        one.reached()
    for one in pair:
        one.release()
    told = [one.hear() for one in pair]

    (effect,) = effects_of(stage, inc)
    assert 2 * [[[effect.effect_id, "completed", None]]] == told
    assert ("cancelled_settled", 1) == (task_of(stage, inc).state, len(receipts_of(stage, effect.effect_id)))
