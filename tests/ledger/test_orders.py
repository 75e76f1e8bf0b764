"""Each row of the tables of the ledger in ``docs/guarantees.md``: who came first, what is told, what is true then."""

from __future__ import annotations

import pytest
from desk import CANCELLER, COMPENSATOR, HOLDER, KERNEL, OPERATOR, OTHER, RECONCILER, SECOND, WORKER, Desk

from turnctl.ledger import dealings
from turnctl.ledger.accounts import report_on
from turnctl.ledger.face import Ledger
from turnctl.ledger.store import Books
from turnctl.records.accounts import TaskReport
from turnctl.records.changes import Change, Note, evolve
from turnctl.records.effects import Effect
from turnctl.records.tasks import Child, OwnedActivity

pytestmark = pytest.mark.usefixtures("both_stores")


def shared(desk: Desk) -> str:
    found = desk.store.read(lambda books: books.shared("d"))
    assert found is not None
    return f"{found.state} {found.revision}"


# -- the gate ----------------------------------------------------------------


@pytest.mark.parametrize(("policy", "phase"), [("suppress", "suppressed"), ("deliver", "claimed")])
def test_admission_then_acceptance(policy: str, phase: str) -> None:
    """What was admitted is in the inventory, before the cut-off, and suppressed or delivered as the policy says."""
    desk = Desk(policy=policy)
    desk.admit("e1")
    accepted = desk.cancel()
    desk.claim("e1")
    effect = desk.effect("e1")

    assert (phase, policy == "deliver") == (effect.phase, effect.after_cutoff)
    assert effect.admitted_rev < accepted.cr.accepted_rev


@pytest.mark.parametrize("by", [RECONCILER, OPERATOR, CANCELLER, COMPENSATOR], ids=lambda by: by.authority)
def test_nobody_but_a_worker_passes_the_gate(by) -> None:
    """Who reconciles, cancels or decides admits and sends nothing."""
    desk = Desk()
    admitted = desk.admit("e1", by=by)
    desk.admit("e1")
    claimed = desk.claim("e1", by=by)

    assert ("not_authorised", "not_authorised") == (admitted.code, claimed.code)


def test_one_key_stands_for_one_kind() -> None:
    """A key that was used for one kind of effect is no way to be given, or refused, another one."""
    desk = Desk()
    desk.admit("e1", kind="mail.send")
    other = desk.admit("e2", kind="sms.send")

    assert "payload_conflict" == other.code


# -- completion ----------------------------------------------------------------


def test_late_results_are_evidence_and_the_first_is_kept() -> None:
    """A result after the acceptance changes no state, whoever brings it and however often."""
    desk = Desk()
    desk.cancel()
    first = desk.complete(outcome_ref="one")
    second = desk.complete("failed", outcome_ref="two")

    assert ("already_cancelled", "already_cancelled") == (first.code, second.code)
    assert ("cancel_requested", "one") == (desk.state(), desk.task().late_outcome_ref)


def test_completed_task_keeps_its_lease_while_something_runs() -> None:
    """To decide is not to be through: what of it still runs is given back by its worker, or found gone."""
    desk = Desk()
    desk.deal(dealings.own, WORKER, OwnedActivity("i1", "a1", "process", "make", 1), 1)
    desk.complete()
    deciding = (desk.state(), desk.task().execution, desk.lease().live)
    refused = desk.cancel()
    desk.deal(dealings.stopped, WORKER, "i1", "a1")
    desk.give_back()

    assert (("completed", "active", True), "already_completed") == (deciding, refused.code)
    assert ("completed", "stop_observed", False) == (desk.state(), desk.task().execution, desk.lease().live)


def test_completion_again_is_told_so() -> None:
    """A task completes once."""
    desk = Desk()
    desk.complete()

    assert "already_completed" == desk.complete("failed").code
    assert "completed" == desk.state()


def test_result_of_a_fenced_worker_is_not_taken() -> None:
    """Who lost the lease completes nothing, cancelled or not."""
    desk = Desk()
    desk.cancel()
    desk.deal(dealings.acknowledge, WORKER, "i1", 1)
    desk.deal(dealings.own, WORKER, OwnedActivity("i1", "a1", "process", "make", 1), 1)
    desk.deal(dealings.take_lease, SECOND, "i1", OTHER, force=True)
    over = desk.state()
    refused = desk.complete(outcome_ref="zombie")

    assert ("cancelled_settled", "already_cancelled") == (over, refused.code)


def test_completion_waits_for_children() -> None:
    """A parent completes when its children are over, resting with something unknown, or detached."""
    desk = Desk()
    desk.child("i1", "i2")
    early = desk.complete()
    desk.complete(inc="i2")

    assert ("children_open", "completed") == (early.code, desk.complete().state)


# -- claim and suppression ----------------------------------------------------------------


def test_claim_then_claim_has_one_claimant() -> None:
    """Of two that claim one effect one sends it."""
    desk = Desk()
    desk.claimed()

    assert "in_flight" == desk.claim("e1").code


def test_attempt_that_drains_sends_nothing() -> None:
    """Under "deliver" only the worker that was there delivers; what it left unsent is suppressed."""
    desk = Desk(policy="deliver")
    desk.admit("e1")
    desk.deal(dealings.own, WORKER, OwnedActivity("i1", "a1", "process", "make", 1), 1)
    desk.cancel()
    drains = desk.deal(dealings.take_lease, SECOND, "i1", OTHER, is_gone=True)
    sent = desk.claim("e1", gen=2, by=SECOND)
    desk.deal(dealings.signalled, SECOND, "i1", "a1", "SIGKILL", "signal_queued")
    late = desk.claim("e1", gen=2, by=SECOND)

    assert (True, "drain_only", "suppressed") == (drains.drain_only, sent.code, late.code)
    assert "suppressed" == desk.effect("e1").disposition


def test_fenced_worker_suppresses_nothing() -> None:
    """What the new worker is about to send is not taken from it by the old one."""
    desk = Desk()
    desk.admit("e1")
    desk.deal(dealings.take_lease, SECOND, "i1", OTHER, force=True)
    refused = desk.deal(dealings.suppress, WORKER, "e1", why="changed my mind", gen=1)

    assert ("stale_generation", "admitted") == (refused.code, desk.effect("e1").phase)


# -- children ----------------------------------------------------------------


def test_child_with_a_worker_was_started() -> None:
    """Nobody calls a child never started that a worker has."""
    desk = Desk()
    desk.child("i1", "i2")
    refused = desk.deal(dealings.child_became, WORKER, "i1", "i2", "never_started")

    assert ("conflict", "running") == (refused.code, desk.state("i2"))


def test_child_that_never_started_is_closed() -> None:
    """Its task has failed, with the reason, and holds nobody up."""
    desk = Desk()
    desk.deal(dealings.register_child, WORKER, "i1", 1, "i2", "child")
    desk.deal(dealings.child_became, WORKER, "i1", "i2", "never_started")

    assert ("failed", "never started") == (desk.state("i2"), desk.task("i2").outcome_ref)
    assert "completed" == desk.complete().state


def status(desk: Desk) -> list[str]:
    view = desk.store.read(lambda books: books.incarnation("i1"))
    return [child.status for child, _ in view.children]


@pytest.mark.parametrize("how", ["completed", "cancelled", "given back"])
def test_child_is_what_its_task_is(how: str) -> None:
    """What a parent has on record of a child follows the child's own task, whoever works on that."""
    desk = Desk()
    desk.deal(dealings.register_child, WORKER, "i1", 1, "i2", "child")
    seen = status(desk)
    desk.deal(dealings.take_lease, SECOND, "i2", OTHER)
    seen += status(desk)
    if how == "completed":
        desk.complete(inc="i2")
    elif how == "cancelled":
        desk.cancel("i2")
        seen += status(desk)
        desk.give_back("i2", by=SECOND)
    else:
        desk.give_back("i2", by=SECOND)

    assert ["registered", "started", *(["started"] if how == "cancelled" else [])] == seen
    assert ["started" if how == "given back" else "ended"] == status(desk)


@pytest.mark.parametrize("cancelled", ["i1", "i2"])
def test_child_that_is_cancelled_before_it_starts(cancelled: str) -> None:
    """It is settled at once, and was never started."""
    desk = Desk()
    desk.deal(dealings.register_child, WORKER, "i1", 1, "i2", "child")
    desk.cancel(cancelled)
    refused = desk.deal(dealings.take_lease, SECOND, "i2", OTHER)

    assert (["never_started"], "cancelled_settled", "ended") == (status(desk), desk.state("i2"), refused.code)


@pytest.mark.parametrize("first", ["i1", "i2", "i3"])
def test_a_circle_of_ids_ends(first: str) -> None:
    """Rows of a damaged store that make a task a descendant of itself: all are cancelled, told of, and settled."""
    desk = Desk()
    desk.child("i1", "i2")
    desk.child("i2", "i3")

    def damage(books: Books) -> None:
        root = books.task("i1")
        assert root is not None
        below, above = Child("i3", "i1", 1), evolve(root, parent_inc="i3", root_inc="i3")
        books.write(
            Change((Note("i3", "child.registered", "i1", below), Note("i1", "damaged", "i1", above)), None), WORKER
        )

    desk.store.transact(damage)
    desk.cancel(first)
    told = report_on(desk.store, first)
    for inc, by in (("i3", SECOND), ("i2", SECOND), ("i1", WORKER)):
        desk.give_back(inc, by=by)

    assert isinstance(told, TaskReport)
    assert {"cancel_requested"} == {told.task.state, *(its.state for _, its in told.children)}
    assert {"draining", "cancelled_settled"} >= {desk.state(inc) for inc in ("i1", "i2", "i3")}


def test_a_circle_of_ids_is_purged() -> None:
    """The same of tasks that are over: looking at them ends, and each is taken away once, or stays."""
    desk = Desk()
    desk.child("i1", "i2")
    for inc, by in (("i2", SECOND), ("i1", WORKER)):
        desk.complete(inc=inc)
        desk.give_back(inc, by=by)
    circle = Note("i2", "child.registered", "i1", Child("i2", "i1", 1, "ended"))
    desk.store.transact(lambda books: books.write(Change((circle,), None), WORKER))
    purged = Ledger(desk.store).purge(older_than="0s")

    assert purged.incarnations in (0, 2)


def test_child_that_may_act_has_not_ended() -> None:
    """One whose worker cannot be proven to be gone is not said to have ended."""
    desk = Desk()
    desk.child("i1", "i2")
    desk.cancel()
    desk.deal(dealings.cannot_prove, SECOND, "i2", 1, why="still alive: make")
    before = status(desk)
    desk.deal(dealings.observe_gone, KERNEL, "i2", 1, evidence="pidfd")

    assert (["started"], ["ended"]) == (before, status(desk))


def test_child_goes_no_way_back() -> None:
    """What has ended does not start, and what was detached is nobody's child any more."""
    desk = Desk()
    desk.child("i1", "i2")
    desk.deal(dealings.child_became, WORKER, "i1", "i2", "ended")

    assert "conflict" == desk.deal(dealings.child_became, WORKER, "i1", "i2", "started").code


def test_detached_child_runs_on() -> None:
    """A child that another owner has is not reached by the parent's cancellation, nor waited for."""
    desk = Desk()
    desk.child("i1", "i2")
    desk.deal(dealings.detach, WORKER, "i1", 1, "i2", "nightly", "reports to nightly")
    desk.cancel()
    desk.give_back()

    assert ("running", "cancelled_settled") == (desk.state("i2"), desk.state())


def test_child_that_never_started_is_not_detached() -> None:
    """What was closed as never started stays so, whoever is said to own it."""
    desk = Desk()
    desk.deal(dealings.register_child, WORKER, "i1", 1, "i2", "child")
    desk.deal(dealings.child_became, WORKER, "i1", "i2", "never_started")
    desk.deal(dealings.detach, WORKER, "i1", 1, "i2", "nightly", "runs on")
    view = desk.store.read(lambda books: books.incarnation("i1"))

    assert ["never_started"] == [child.status for child, _ in view.children]


# -- acceptances ----------------------------------------------------------------


def test_scope_of_the_first_stands() -> None:
    """A repeat with another scope is told of the first record, and reaches nobody else."""
    desk = Desk()
    desk.child("i1", "i2")
    desk.cancel(scope="self")
    again = desk.cancel(scope="subtree")

    assert ("self", False, "running") == (again.cr.scope, again.is_new, desk.state("i2"))


def test_raised_level_reaches_below() -> None:
    """A kill is for the whole subtree; a repeat that changes nothing writes nothing there."""
    desk = Desk()
    desk.child("i1", "i2")
    desk.cancel()
    before = desk.kinds("i2")
    desk.cancel()
    same = desk.kinds("i2")
    desk.cancel(level="kill")

    assert (before, "kill") == (same, desk.cr("i2").level)


def test_inner_record_is_covered_with_its_children() -> None:
    """A descendant that was cancelled by itself is marked as covered; what is below it is reached and waited for."""
    desk = Desk()
    desk.child("i1", "i2")
    desk.child("i2", "i3")
    inner = desk.cancel("i2", scope="self")
    top = desk.cancel()
    desk.give_back()
    desk.give_back("i2", by=SECOND)
    waiting = (desk.state(), desk.state("i2"))
    desk.give_back("i3", by=SECOND)

    assert (inner.cr.cr, top.cr.cr) == (desk.cr("i2").cr, desk.cr("i2").covered_by)
    assert (("draining", "draining"), "cancelled_settled") == (waiting, desk.state())


def test_settled_descendant_is_no_shelter() -> None:
    """What runs on below one that was cancelled by itself, and settled, is reached by an ancestor's cancellation."""
    desk = Desk()
    desk.child("i1", "i2")
    desk.child("i2", "i3")
    desk.cancel("i2", scope="self")
    desk.give_back("i2", by=SECOND)
    settled = desk.state("i2")
    early = desk.complete()
    desk.cancel()
    desk.give_back()
    waiting = desk.state()
    desk.give_back("i3", by=SECOND)

    assert ("cancelled_settled", "children_open", "draining") == (settled, early.code, waiting)
    assert ("cancelled_settled", "cancelled_settled") == (desk.state("i3"), desk.state())


@pytest.mark.parametrize("order", [("i1", "i2", "i3"), ("i3", "i2", "i1"), ("i2", "i1", "i3"), ("i2", "i3", "i1")])
def test_unknown_at_the_bottom_reaches_the_top(order: tuple[str, ...]) -> None:
    """Whoever is through last, those above come to rest with it: unresolved first, and settled by one receipt."""
    desk = Desk()
    desk.child("i1", "i2")
    desk.deal(dealings.register_child, SECOND, "i2", 1, "i3", "task i3")
    desk.deal(dealings.take_lease, SECOND, "i3", OTHER)
    desk.deal(dealings.admit, SECOND, Effect("e9", "i3", "pay 9", "pay", "s", 0, 1), 1, b"payload")
    desk.claim("e9", by=SECOND)
    desk.cancel()
    for inc in order:
        desk.give_back(inc, by=SECOND)
    unresolved = {desk.state(inc) for inc in order}
    desk.close("e9", "completed", by=RECONCILER, gen=None)

    assert {"stopped_unresolved"} == unresolved
    assert {"cancelled_settled"} == {desk.state(inc) for inc in order}


def test_descendant_is_told_of_the_record_that_came_from_above() -> None:
    """A cancellation below one of the subtree finds the one that is there."""
    desk = Desk()
    desk.child("i1", "i2")
    top = desk.cancel()
    again = desk.cancel("i2")

    assert (False, top.cr.cr) == (again.is_new, again.cr.covered_by)


# -- leases ----------------------------------------------------------------


def test_take_over_of_a_claimed_effect_leaves_it_unknown() -> None:
    """The intent is not tried again under another name by whoever takes over."""
    desk = Desk()
    desk.claimed()
    desk.deal(dealings.take_lease, SECOND, "i1", OTHER, is_gone=True)
    again = desk.admit("e2", gen=2, by=SECOND)

    assert ("unknown", "unresolved") == (desk.effect("e1").disposition, again.code)


def test_who_drained_says_nothing_of_the_one_before() -> None:
    """A worker that was fenced stays fenced, not observed to have stopped, when the one that drained has left."""
    desk = Desk()
    desk.deal(dealings.own, WORKER, OwnedActivity("i1", "a1", "process", "make", 1), 1)
    desk.cancel()
    desk.deal(dealings.take_lease, SECOND, "i1", OTHER, force=True)
    desk.give_back(by=SECOND, gen=2)

    assert "fenced" == desk.task().execution


def test_worker_that_cannot_be_proven_gone_stays_visible() -> None:
    """The task stays draining until there is an observation, and says why."""
    desk = Desk()
    desk.cancel()
    desk.deal(dealings.acknowledge, WORKER, "i1", 1)
    desk.deal(dealings.cannot_prove, OPERATOR, "i1", 1, why="it belongs to another user")
    unproven = (desk.state(), desk.task().execution)
    desk.gone()

    assert ("draining", "unproven") == unproven
    assert ("cancelled_settled", "stop_observed") == (desk.state(), desk.task().execution)


# -- interests ----------------------------------------------------------------


@pytest.mark.parametrize("way", ["release", "cancel", "complete"])
def test_last_interest_cancels_shared_work(way: str) -> None:
    """However the last one lets go, the work is cancelled once; with another one left it goes on."""
    desk = Desk()
    desk.another("i2", "other")
    for inc in ("i1", "i2"):
        desk.deal(dealings.attach, WORKER, inc, 1, "d")
    found = []
    for inc in ("i1", "i2"):
        if way == "release":
            desk.deal(dealings.release, WORKER, inc, "d")
        elif way == "cancel":
            desk.cancel(inc)
        else:
            desk.complete(inc=inc)
        found.append(shared(desk))
    desk.another("i3", "third")
    late = desk.deal(dealings.attach, WORKER, "i3", 1, "d")

    assert (["running 1", "cancel_requested 2"], "ended") == (found, late.code)


def test_new_interest_keeps_shared_work() -> None:
    """Who attached before the last other one let go keeps the work."""
    desk = Desk()
    desk.another("i2", "other")
    desk.deal(dealings.attach, WORKER, "i1", 1, "d")
    desk.deal(dealings.attach, WORKER, "i2", 1, "d")
    desk.cancel("i1")

    assert "running 1" == shared(desk)


def test_shared_work_that_ended_is_not_cancelled() -> None:
    """When the work is done, letting go is just that."""
    desk = Desk()
    desk.deal(dealings.attach, WORKER, "i1", 1, "d")
    desk.deal(dealings.end_shared, WORKER, "i1", "d")
    desk.deal(dealings.release, WORKER, "i1", "d")
    refused = desk.deal(dealings.end_shared, WORKER, "i1", "d")

    assert ("ended 2", "has_no_interest") == (shared(desk), refused.code)


# -- what became of an effect ----------------------------------------------------------------


def test_receipt_after_an_operator_closed_it_counts() -> None:
    """Evidence that comes after the decision is taken; the state does not move, the decision stays on record."""
    desk = Desk()
    desk.claimed()
    desk.cancel()
    desk.gone()
    desk.deal(dealings.close_unknown, OPERATOR, "e1", reason="provider is gone")
    settled = desk.task()
    desk.close("e1", "completed", by=RECONCILER, gen=None)
    effect = desk.effect("e1")

    assert ("completed", "bob", settled) == (effect.disposition, effect.closed_by, desk.task())


def test_operator_closes_nothing_that_is_known() -> None:
    """Where there is a receipt there is nothing to decide."""
    desk = Desk()
    desk.claimed()
    desk.close("e1", "completed")

    assert "not_authorised" == desk.deal(dealings.close_unknown, OPERATOR, "e1", reason="tidy").code


@pytest.mark.parametrize("said", ["rejected", "provider_cancelled", "unknown"])
def test_not_there_yet_is_no_evidence(said: str) -> None:
    """While a worker may be sending it a reconciler can say that it happened, and nothing else."""
    desk = Desk()
    desk.claimed()
    early = desk.close("e1", said, by=RECONCILER, gen=None)
    desk.gone()
    late = desk.close("e1", said, by=RECONCILER, gen=None)

    assert ("in_flight", said) == (early.code, late.disposition)


def test_nothing_is_tried_again_after_the_cutoff() -> None:
    """An unknown one is claimed again while the task runs, and never after an acceptance."""
    desk = Desk()
    desk.claimed()
    desk.close("e1", "unknown")
    again = desk.deal(dealings.claim_again, WORKER, "e1", 1, "w1", why="it is taken once")
    desk.close("e1", "unknown")
    desk.cancel()
    late = desk.deal(dealings.claim_again, WORKER, "e1", 1, "w1", why="it is taken once")

    assert ("claimed", "pending", "cancelled") == (again.phase, again.disposition, late.code)


def test_canceller_says_nothing_of_effects() -> None:
    """That somebody stopped a task tells nobody what became of what it did."""
    desk = Desk()
    desk.claimed()

    assert "not_authorised" == desk.close("e1", "rejected", by=CANCELLER, gen=None).code


def compensation(desk: Desk, **more) -> object:
    wanted = Effect("e2", "i1", more.pop("key", "undo"), "mail.recall", "s2", 0, 1)
    return desk.deal(dealings.compensate, COMPENSATOR, "e1", wanted, b"", auth_ref="ticket 7")


def test_compensation_outlives_the_cancellation_and_the_lease() -> None:
    """It is admitted, claimed and closed on its own authority, and changes nothing of the original or of the task."""
    desk = Desk()
    desk.claimed()
    desk.close("e1", "completed")
    compensation(desk)
    desk.cancel()
    desk.give_back()
    unresolved = desk.state()
    refused = desk.claim("e2")
    claimed = desk.claim("e2", gen=0, by=COMPENSATOR)
    desk.close("e2", "completed", by=COMPENSATOR, gen=None)

    assert ("stopped_unresolved", "not_authorised") == (unresolved, refused.code)
    assert ("claimed", False) == (claimed.phase, claimed.after_cutoff)
    assert ("completed", "cancelled_settled") == (desk.effect("e1").disposition, desk.state())


def test_compensation_of_a_settled_task_moves_nothing() -> None:
    """What is settled stays so, whatever is done to make it good afterwards."""
    desk = Desk()
    desk.claimed()
    desk.close("e1", "completed")
    desk.cancel()
    desk.give_back()
    before = desk.task()
    compensation(desk)
    desk.claim("e2", by=COMPENSATOR)
    desk.close("e2", "unknown", by=COMPENSATOR, gen=None)

    assert before == desk.task()


def test_compensation_is_no_way_round_an_unknown() -> None:
    """An intent that is unknown is not tried again by calling it a compensation."""
    desk = Desk()
    desk.claimed()
    desk.close("e1", "unknown")

    assert "unresolved" == compensation(desk, key="k").code


def test_kept_lease_is_still_of_its_holder() -> None:
    """Nobody else takes a task that is over, though its worker is still at it."""
    desk = Desk()
    desk.deal(dealings.own, WORKER, OwnedActivity("i1", "a1", "process", "make", 1), 1)
    desk.complete()

    assert "ended" == desk.deal(dealings.take_lease, SECOND, "i1", HOLDER, is_gone=True).code
