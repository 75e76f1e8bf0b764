"""M2: what was admitted, against an acceptance: by the task's policy it is suppressed, or may still be sent."""

from __future__ import annotations

import pytest
from looks import effects_of, events_of, inventory_of, task_of
from rounds import both_orders
from scene import Player, Stage


def begun(stage: Stage, point: str, policy: str) -> tuple[Player, Player, str]:
    """A worker that stands at ``point`` of an effect that was admitted before, and a canceller."""
    inc = stage.submit(policy=policy)
    worker, canceller = stage.player(f"{point}=pause"), stage.player()
    worker.do("work", inc=inc)
    worker.do("admit", key="a")
    worker.tell("send", key="a")
    assert point == worker.reached()
    return worker, canceller, inc


def found(stage: Stage, inc: str) -> tuple[str, str, bool, str, int]:
    """Phase, disposition and lateness of the one effect, the task's state, and how many got out."""
    (effect,) = effects_of(stage, inc)
    state = task_of(stage, inc).state
    return effect.phase, effect.disposition, effect.after_cutoff, state, len(stage.receiver.journal())


def test_suppressed_before_the_claim(stage: Stage) -> None:
    """By default the acceptance suppresses what was not claimed, and the claim that comes after it is refused."""
    worker, canceller, inc = begun(stage, "send.before_claim", "suppress")
    accepted = canceller.do("cancel", inc=inc)
    worker.release()
    stopped = worker.answer()
    ended = worker.do("end")
    worker.end()

    (rejected,) = events_of(stage, inc, "claim.rejected")
    assert ("suppressed", accepted["cr"]) == (rejected["code"], rejected["cr"])
    assert ("CancelledError", {"a": "suppressed"}) == (stopped["error"], ended["effects"])
    assert ("suppressed", "suppressed", False, "cancelled_settled", 0) == found(stage, inc)


def test_delivered_after_the_cutoff(stage: Stage) -> None:
    """With "deliver" the worker that was there sends what it had admitted before the cut-off, and says so."""
    worker, canceller, inc = begun(stage, "send.before_claim", "deliver")
    accepted = canceller.do("cancel", inc=inc)
    worker.release()
    effect_id = worker.hear()
    later = worker.fails("effect", key="b")
    ended = worker.do("end")
    worker.end()

    (effect,) = effects_of(stage, inc)
    assert [effect_id] == inventory_of(stage, inc)["effects"]
    assert effect.admitted_rev < accepted["rev"]
    assert "CancelledError" == later[0]
    assert ("cancelled", {"a": "completed"}) == (ended["outcome"], ended["effects"])
    assert ("closed", "completed", True, "cancelled_settled", 1) == found(stage, inc)


def test_delivered_by_one_that_has_heard(stage: Stage) -> None:
    """That the worker knows of the stop takes nothing from "deliver": entering what was admitted is no checkpoint."""
    inc = stage.submit(policy="deliver")
    worker, canceller = stage.player(), stage.player()
    worker.do("work", inc=inc)
    worker.do("admit", key="a")
    canceller.do("cancel", inc=inc)
    stopped = worker.fails("wait")
    worker.do("send", key="a")
    ended = worker.do("end")

    assert "CancelledError" == stopped[0]
    assert ("cancelled", {"a": "completed"}) == (ended["outcome"], ended["effects"])
    assert ("closed", "completed", True, "cancelled_settled", 1) == found(stage, inc)


@pytest.mark.parametrize("policy", ["suppress", "deliver"])
def test_killed_before_the_claim(stage: Stage, policy: str) -> None:
    """A worker that is killed before it claimed has sent nothing; who comes after the cut-off sends nothing either."""
    worker, canceller, inc = begun(stage, "send.before_claim", policy)
    canceller.do("cancel", inc=inc)
    worker.kill()
    second = stage.player()
    born = second.do("work", inc=inc)
    ended = second.do("end")

    assert ("stopped", {}) == (born, ended["effects"])
    assert ("suppressed", "suppressed", False, "cancelled_settled", 0) == found(stage, inc)


@pytest.mark.parametrize("policy", ["suppress", "deliver"])
def test_claimed_before_the_cutoff(stage: Stage, policy: str) -> None:
    """What was claimed is suppressed by no acceptance, nor by its worker; its receipt is taken after the cut-off."""
    worker, canceller, inc = begun(stage, "send.after_claim", policy)
    canceller.do("cancel", inc=inc)
    claimed = found(stage, inc)
    worker.release()
    worker.hear()
    too_late = worker.fails("suppress", key="a")
    worker.do("end")
    worker.end()

    assert ("claimed", "pending", False, 0) == (*claimed[:3], claimed[4])
    assert ("LedgerRefused", "closed") == too_late
    assert ("closed", "completed", False, "cancelled_settled", 1) == found(stage, inc)


@pytest.mark.parametrize(("point", "sent"), [("send.after_claim", 0), ("send.after_bytes", 1)])
def test_killed_after_the_claim(stage: Stage, point: str, sent: int) -> None:
    """A worker that is killed once it has claimed leaves an unknown, got out or not, and nobody sends it again."""
    worker, canceller, inc = begun(stage, point, "deliver")
    worker.kill()
    canceller.do("cancel", inc=inc)
    second = stage.player()
    second.do("work", inc=inc)
    again = second.fails("effect", key="a")
    second.do("end")

    assert "CancelledError" == again[0]
    assert ("closed", "unknown", False, "stopped_unresolved", sent) == found(stage, inc)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("policy", ["suppress", "deliver"])
def test_either_comes_first(stage: Stage, rounds: int, policy: str) -> None:
    """Of claim and suppression exactly one wins in each round, and what got out is what was claimed."""
    told = both_orders(stage, "claim", rounds=rounds, policy=policy)
    sent = {one["effect_id"] for one in stage.receiver.journal()}

    for one in told:
        (effect,) = effects_of(stage, one["inc"])
        claimed = (effect.phase, effect.disposition) == ("closed", "completed")
        assert claimed or (effect.phase, effect.disposition) == ("suppressed", "suppressed")
        assert one["did"] == claimed == (effect.effect_id in sent)
        assert not effect.after_cutoff or policy == "deliver"
    assert len(sent) == sum(one["did"] for one in told)
