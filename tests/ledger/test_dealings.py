"""What a dealing comes to, over each kind of store: who wins, what is told, what is in the log."""

from __future__ import annotations

import pytest
from desk import CANCELLER, OTHER, WORKER, Desk

from turnctl.ledger import dealings
from turnctl.ledger.model import Acceptance
from turnctl.ledger.rows import KINDS, make, verify_chain
from turnctl.records.changes import By, Refusal
from turnctl.records.effects import Effect
from turnctl.records.tasks import OwnedActivity

pytestmark = pytest.mark.usefixtures("both_stores")


def test_cancel_first_admits_nothing() -> None:
    """What comes to the gate after the acceptance is rejected, by the cancellation that did it, with no row."""
    desk = Desk()
    accepted = desk.cancel(reason="enough")
    rejected = desk.admit("e1")

    assert ("cancelled", accepted.cr.cr) == (rejected.code, rejected.cr)
    assert None is desk.store.read(lambda books: books.effect("e1"))
    assert "gate.rejected" == desk.kinds()[-1]


def test_admitted_first_is_before_the_cutoff() -> None:
    """What was admitted has the lower revision, whenever it is sent; unsent it is suppressed with the acceptance."""
    desk = Desk()
    effect = desk.admit("e1")
    accepted = desk.cancel()
    lost = desk.claim("e1")

    assert effect.admitted_rev < accepted.cr.accepted_rev
    assert ("suppressed", "suppressed") == (desk.effect("e1").phase, lost.code)


def test_policy_deliver_sends_after_the_cutoff_and_says_so() -> None:
    """Under "deliver" what was admitted is still sent, flagged, and waited for."""
    desk = Desk(policy="deliver")
    desk.admit("e1")
    desk.cancel()
    claimed = desk.claim("e1")

    assert ("claimed", True) == (claimed.phase, claimed.after_cutoff)
    assert "cancel_requested" == desk.task().state
    desk.deal(dealings.acknowledge, WORKER, "i1", 1)
    desk.close("e1", "completed")
    desk.deal(dealings.give_back, WORKER, "i1", 1)
    assert "cancelled_settled" == desk.task().state


def test_claim_first_is_never_suppressed() -> None:
    """What was claimed may have happened: a cancellation leaves it, and no suppression is taken."""
    desk = Desk()
    desk.admit("e1")
    desk.claim("e1")
    desk.cancel()
    refused = desk.deal(dealings.suppress, CANCELLER, "e1", why="the queue lost it")

    assert ("claimed", "pending", "closed") == (desk.effect("e1").phase, desk.effect("e1").disposition, refused.code)


def test_dead_worker_leaves_unknown_and_the_task_unresolved() -> None:
    """A worker that is proven to be dead has left what it claimed unknown; only a receipt settles the task."""
    desk = Desk()
    desk.admit("e1")
    desk.claim("e1")
    desk.cancel()
    desk.deal(dealings.observe_gone, By("kernel", "system"), "i1", 1, evidence="pidfd")
    unresolved = desk.task().state
    desk.close("e1", "completed", by=By("k", "reconciler"), gen=None)

    assert "stopped_unresolved" == unresolved
    assert ("completed", "cancelled_settled") == (desk.effect("e1").disposition, desk.task().state)


def test_worker_that_was_fenced_is_not_believed() -> None:
    """Who lost its lease admits, claims, closes and completes nothing."""
    desk = Desk()
    desk.admit("e1")
    desk.admit("e2", key="other")
    desk.claim("e1")
    taken = desk.deal(dealings.take_lease, By("w2", "worker"), "i1", OTHER, force=True)
    codes = [
        desk.admit("e3", key="third").code,
        desk.claim("e2").code,
        desk.close("e1", "completed").code,
        desk.deal(dealings.complete, WORKER, "i1", 1, "completed").code,
    ]

    assert ["stale_generation"] * 4 == codes
    assert (2, "unknown") == (taken.gen, desk.effect("e1").disposition)


def test_lease_of_the_living_is_not_taken() -> None:
    """A lease is taken from a worker that is proven dead, or by force; never for the asking."""
    desk = Desk()
    refused = desk.deal(dealings.take_lease, By("w2", "worker"), "i1", OTHER)

    assert ("held", 1) == (refused.code, desk.task().lease_gen)


def test_replacement_of_a_cancelled_task_only_drains() -> None:
    """A worker that takes over a cancelled task gets the cancel, not the work."""
    desk = Desk()
    desk.cancel()
    taken = desk.deal(dealings.take_lease, By("w2", "worker"), "i1", OTHER, is_gone=True)
    rejected = desk.admit("e1", gen=2)

    assert (True, "cancelled") == (taken.drain_only, rejected.code)
    assert "cancelled_settled" == desk.task().state


def test_readmitted_effect_keeps_its_identity() -> None:
    """A worker that takes over sends what was admitted and not sent under the identity that it had."""
    desk = Desk()
    desk.admit("e1")
    desk.deal(dealings.take_lease, By("w2", "worker"), "i1", OTHER, is_gone=True)
    again = desk.admit("e9", gen=2)

    assert ("e1", 2) == (again.effect_id, again.gen)


@pytest.mark.parametrize(
    ("made", "code"),
    [
        ("other payload", "payload_conflict"),
        ("claimed", "in_flight"),
        ("unknown", "unresolved"),
        ("completed", "done"),
        ("rejected", None),
        ("provider_cancelled", None),
    ],
)
def test_one_intent_is_never_doubled(made: str, code: str | None) -> None:
    """What stands in the way of a second effect for one intent, each with a code of its own."""
    desk = Desk()
    desk.admit("e1")
    sha = "x" if made == "other payload" else "s"
    if made != "other payload":
        desk.claim("e1")
    if made == "unknown":
        desk.deal(dealings.close, WORKER, "e1", "unknown", gen=1)
    elif made not in ("claimed", "other payload"):
        desk.close("e1", made)
    answer = desk.admit("e2", sha=sha)

    assert code == getattr(answer, "code", None)


def test_definitive_needs_its_receipt() -> None:
    """Nothing is called completed, rejected or cancelled by its provider without evidence."""
    desk = Desk()
    desk.admit("e1")
    desk.claim("e1")
    refused = [
        desk.deal(dealings.close, WORKER, "e1", one, gen=1).code
        for one in ("completed", "rejected", "provider_cancelled")
    ]

    assert ["no_receipt"] * 3 == refused


def test_second_definitive_word_is_a_conflict() -> None:
    """The first receipt stands; another one that contradicts it is noted, and told."""
    desk = Desk()
    desk.admit("e1")
    desk.claim("e1")
    desk.close("e1", "completed")
    said = desk.close("e1", "rejected", by=By("k", "reconciler"), gen=None)

    assert ("conflict", "completed") == (said.code, desk.effect("e1").disposition)
    assert "effect.conflict" == desk.kinds()[-1]


def test_operator_closes_what_nobody_will_know() -> None:
    """It stays unknown, closed by NAME, and the task can settle; nobody else can do that."""
    desk = Desk()
    desk.admit("e1")
    desk.claim("e1")
    desk.cancel()
    desk.deal(dealings.observe_gone, By("kernel", "system"), "i1", 1, evidence="pidfd")
    refused = desk.deal(dealings.close_unknown, WORKER, "e1", reason="tired")
    desk.deal(dealings.close_unknown, By("bob", "operator"), "e1", reason="provider is gone")

    effect = desk.effect("e1")
    assert ("not_authorised", "unknown", "bob") == (refused.code, effect.disposition, effect.closed_by)
    assert "cancelled_settled" == desk.task().state


def test_completion_first_refuses_the_cancellation() -> None:
    """A task that has ended is told so; there is no cancellation of it."""
    desk = Desk()
    desk.deal(dealings.complete, WORKER, "i1", 1, "completed", outcome_ref="42")
    answer = desk.cancel()

    assert ("already_completed", "completed") == (answer.code, desk.task().state)


def test_cancellation_first_keeps_the_result_as_evidence() -> None:
    """A result that comes after the acceptance changes no state, and is kept."""
    desk = Desk()
    accepted = desk.cancel()
    before = desk.store.read(lambda books: books.at_gate("i1"))
    answer = desk.deal(dealings.complete, WORKER, "i1", 1, "completed", outcome_ref="42")
    after = desk.store.read(lambda books: books.at_gate("i1"))

    assert ("already_cancelled", accepted.cr.cr) == (answer.code, answer.cr)
    assert (before.cr, before.task.state, "42") == (after.cr, after.task.state, after.task.late_outcome_ref)


def test_hundred_cancellations_have_one_record() -> None:
    """Repeats are told of the first one, which keeps its reason; each is in the log."""
    desk = Desk()
    answers: list[Acceptance] = [desk.cancel(reason=str(n)) for n in range(100)]

    assert 1 == len({answer.cr.cr for answer in answers})
    assert ("0", [True] + [False] * 99) == (answers[-1].cr.reason, [answer.is_new for answer in answers])
    assert 99 == desk.kinds().count("cancel.repeated")


def test_level_only_rises() -> None:
    """A later request may ask for more, and nothing else of the record changes."""
    desk = Desk()
    first = desk.cancel().cr
    second = desk.cancel(level="kill", reason="now").cr
    third = desk.cancel(level="cancel").cr

    assert ("cancel", "kill", "kill") == (first.level, second.level, third.level)
    assert first.reason == third.reason


def test_subtree_is_covered_from_the_top() -> None:
    """Each open task below gets a cancellation that names the one above; nobody registers anything after that."""
    desk = Desk()
    desk.deal(dealings.register_child, WORKER, "i1", 1, "i2", "child")
    desk.deal(dealings.take_lease, By("w2", "worker"), "i2", OTHER)
    desk.deal(dealings.register_child, By("w2", "worker"), "i2", 1, "i3", "grandchild")
    top = desk.cancel()
    late = desk.deal(dealings.register_child, By("w2", "worker"), "i2", 1, "i4", "another")
    views = [desk.store.read(lambda books, inc=inc: books.at_gate(inc)) for inc in ("i2", "i3")]

    assert [top.cr.cr] * 2 == [view.cr.covered_by for view in views]
    assert "cancelled" == late.code
    assert "cancelled_settled" == desk.task("i3").state  # nobody had it


def test_parent_settles_after_its_children() -> None:
    """A cancelled subtree is settled at the top when it is settled below, in the same transaction."""
    desk = Desk()
    desk.deal(dealings.register_child, WORKER, "i1", 1, "i2", "child")
    desk.deal(dealings.take_lease, By("w2", "worker"), "i2", OTHER)
    desk.cancel()
    desk.deal(dealings.give_back, WORKER, "i1", 1)
    waiting = desk.task().state
    desk.deal(dealings.give_back, By("w2", "worker"), "i2", 1)

    assert ("draining", "cancelled_settled") == (waiting, desk.task().state)


def test_scope_self_leaves_children_running() -> None:
    """Where only the task itself was meant its children go on."""
    desk = Desk()
    desk.deal(dealings.register_child, WORKER, "i1", 1, "i2", "child")
    desk.cancel(scope="self")

    assert "running" == desk.task("i2").state


def test_shared_work_is_cancelled_once_by_the_last() -> None:
    """Releasing an interest leaves the work to the others; the last one cancels it, and nobody comes after."""
    desk = Desk()
    desk.deal(dealings.submit, WORKER, "i2", "acme", "other")
    desk.deal(dealings.take_lease, WORKER, "i2", OTHER)
    for inc in ("i1", "i2"):
        desk.deal(dealings.attach, WORKER, inc, 1, "d")
    desk.cancel("i1")
    between = desk.store.read(lambda books: books.shared("d")).state
    desk.cancel("i2")
    after = desk.store.read(lambda books: books.shared("d"))
    desk.deal(dealings.submit, WORKER, "i3", "acme", "third")
    desk.deal(dealings.take_lease, WORKER, "i3", OTHER)
    late = desk.deal(dealings.attach, WORKER, "i3", 1, "d")

    assert ("running", "cancel_requested", 2) == (between, after.state, after.revision)
    assert "ended" == late.code


def test_activities_are_named_until_they_stop() -> None:
    """A task drains until each of its activities has stopped: that one was signalled establishes nothing."""
    desk = Desk()
    desk.deal(dealings.own, WORKER, OwnedActivity("i1", "a1", "process", "make", 1), 1)
    desk.cancel()
    desk.deal(dealings.give_back, WORKER, "i1", 1)
    asked = desk.task().state
    desk.deal(dealings.signalled, WORKER, "i1", "a1", "SIGTERM", "signal_queued")
    draining = desk.task().state
    desk.deal(dealings.stopped, WORKER, "i1", "a1")

    assert ("cancel_requested", "draining", "cancelled_settled") == (asked, draining, desk.task().state)


def test_compensation_needs_its_own_authority() -> None:
    """A stop authorises none; with an authorisation there is one of a kind, which changes nothing of the original."""
    desk = Desk()
    desk.admit("e1")
    desk.claim("e1")
    desk.close("e1", "completed")
    desk.cancel()
    wanted = Effect("e2", "i1", "undo", "mail.recall", "s2", 0, 1)
    refused = desk.deal(dealings.compensate, WORKER, "e1", wanted, b"", auth_ref=None)
    made = desk.deal(dealings.compensate, By("bob", "compensator"), "e1", wanted, b"", auth_ref="ticket 7")
    twice = desk.deal(dealings.compensate, By("bob", "compensator"), "e1", wanted, b"", auth_ref="ticket 7")

    assert ("not_authorised", "e1", "done") == (refused.code, made.compensates, twice.code)
    assert "completed" == desk.effect("e1").disposition


def test_detached_work_has_another_owner() -> None:
    """Detaching is no loophole: not to oneself, and not once there is a cancellation."""
    desk = Desk()
    to_itself = desk.deal(dealings.detach, WORKER, "i1", 1, "a1", "job", "runs on")
    detached = desk.deal(dealings.detach, WORKER, "i1", 1, "a1", "nightly", "runs on")
    desk.cancel()
    late = desk.deal(dealings.detach, WORKER, "i1", 1, "a2", "nightly", "runs on")

    assert ("same_owner", "nightly", "cancelled") == (to_itself.code, detached.owner, late.code)


def test_task_id_again_is_another_incarnation() -> None:
    """A task id is taken again only when it is over, under a new incarnation."""
    desk = Desk()
    open_one = desk.deal(dealings.submit, WORKER, "i2", "acme", "job")
    desk.deal(dealings.complete, WORKER, "i1", 1, "failed")
    again = desk.deal(dealings.submit, WORKER, "i2", "acme", "job")

    assert ("task_open", 2) == (open_one.code, again.seq)


def test_what_raises_leaves_nothing() -> None:
    """A transaction that comes to nothing has written nothing, in rows and log."""
    desk = Desk()
    before = desk.kinds()

    def fails(books) -> None:
        dealings.cancel(books, CANCELLER, "i1", lambda: "c1")
        raise ValueError("power cut")

    with pytest.raises(ValueError, match="power cut"):
        desk.store.transact(fails)

    assert ("running", before) == (desk.task().state, desk.kinds())


def test_log_tells_every_row() -> None:
    """The rows can be made again from the log alone, and a log that was altered does not verify."""
    import json

    desk = Desk()
    desk.admit("e1")
    desk.claim("e1")
    desk.cancel()
    events = desk.store.read(lambda books: books.events("i1"))
    rows = {}
    for event in events:
        found = json.loads(event.body).get("row")
        if found is not None:
            rows[found[0]] = make(*found)

    assert (desk.task(), desk.effect("e1")) == (rows["task"], rows["effect"])
    assert set(rows) <= set(KINDS)
    assert None is verify_chain(events, events[-1].hash)
    assert "line 2 of i1 is missing" == verify_chain([events[0], *events[2:]])
    assert "does not end" in str(verify_chain(events[:-1], events[-1].hash))


def test_refusal_is_false() -> None:
    """A refusal is no answer to go on with."""

    assert not Refusal("ended", "over")
