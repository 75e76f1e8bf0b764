"""The store is the authority, the token of a turn its copy: each row of that table (P14, P15, P16)."""

from __future__ import annotations

import threading

import pytest
from standins import Thing, own

import turnctl
from turnctl.ledger import dealings, stacks
from turnctl.ledger.identity import this_process
from turnctl.records.changes import By
from turnctl.records.tasks import Holder
from turnctl.testing import call_at

BY = By("test", "worker")


def take_over(ledger: turnctl.Ledger, task: turnctl.LedgerTask) -> None:
    """What another process does to a worker that hangs."""
    holder = Holder("b", "n", 1, 1)
    ledger.store.transact(lambda books: dealings.take_lease(books, BY, task.inc, holder, force=True))


def kinds(ledger: turnctl.Ledger, task: turnctl.LedgerTask) -> list[str]:
    return [event.kind for event in ledger.store.read(lambda books: books.events(task.inc))]


def test_turn_of_a_cancelled_task_is_born_cancelled(ledger: turnctl.Ledger) -> None:
    """Who takes up a task that was cancelled gets the cancel, not the work (P16)."""
    task = ledger.submit("acme", "job")
    ledger.cancel(task, by="alice", reason="enough", scope="self")
    ran = []
    with turnctl.turn(task=task) as turn:
        turn.check()
        ran.append(1)
    record = turn.report.stop

    assert ([], "cancelled", "cancelled_settled") == (ran, turn.outcome, task.state)
    assert record is not None
    assert ("alice", "enough", "user") == (record.by, record.reason, record.cause)


def test_turn_of_a_drained_task_holds_no_work(ledger: turnctl.Ledger) -> None:
    """A task that waits for its worker's things is taken to be drained, under a lease that sends nothing."""
    task = ledger.submit("acme", "job")
    ledger.store.transact(lambda books: dealings.take_lease(books, BY, task.inc, Holder("b", "n", 1, 1)))
    ledger.cancel(task, by="alice")
    with turnctl.turn(task=task.take_over()) as turn, turn.effect("mail.send", key="1"):
        pass

    assert ((), "cancelled_settled") == (turn.report.effects, task.state)


def test_completed_task_is_not_worked_on_again(ledger: turnctl.Ledger) -> None:
    """A turn of a task that is over does not begin."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task):
        pass
    with pytest.raises(turnctl.LedgerRefused) as caught, turnctl.turn(task=task):
        pass

    assert ("ended", "completed") == (caught.value.code, task.state)


def test_running_turn_hears_a_cancellation(ledger: turnctl.Ledger) -> None:
    """Its token trips as soon as the store has accepted one, with who, why and how."""
    task = ledger.submit("acme", "job")
    begun = threading.Event()
    heard: list[object] = []

    def work() -> None:
        with turnctl.turn(task=task) as turn:
            begun.set()
            turn.sleep(30)
        heard.append(turn.report.stop)

    worker = threading.Thread(target=work)
    worker.start()
    begun.wait(5)
    cr = ledger.cancel(task, by="alice", reason="enough", kill=True)
    worker.join(10)
    stop = heard[0]

    assert ("alice", "enough", "user", "kill") == (stop.by, stop.reason, stop.cause, stop.level)
    assert ("kill", "cancelled_settled") == (cr.level, task.state)


@pytest.mark.parametrize("granted", [True, "ticket 7"])
def test_reference_of_an_authorisation_makes_an_operator(granted: bool | str) -> None:
    """The cause tells whether the task's own side stopped it, or somebody with an authorisation of the host."""
    with turnctl.open_ledger("memory:", authorise=lambda _: granted) as ledger:
        task = ledger.submit("acme", "job")
        with turnctl.turn(task=task) as turn:
            cr = ledger.cancel(task, by="ops")

    assert "user" if granted is True else "operator" == turn.cause
    assert (None if granted is True else "ticket 7") == cr.auth_ref


def test_gate_knows_before_the_token_does(ledger: turnctl.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the bell was not heard yet the gate refuses all the same, and the token is told by that (P15)."""
    monkeypatch.setattr(type(ledger.store), "watch", lambda *_: lambda: None)
    task = ledger.submit("acme", "job")
    caught = []
    with turnctl.turn(task=task) as turn:
        ledger.cancel(task, by="alice", reason="enough")
        before = turn.cancelled
        try:
            with turn.effect("mail.send", key="1"):
                pass
        except turnctl.CancelledError as error:
            caught.append(error.reason)
            raise

    assert (False, ["enough"], "cancelled", ()) == (before, caught, turn.outcome, turn.report.effects)
    assert "gate.rejected" in kinds(ledger, task)


def test_end_reads_the_store_first(ledger: turnctl.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that returns although its task was cancelled, unheard, ends cancelled; both authorities say so."""
    monkeypatch.setattr(type(ledger.store), "watch", lambda *_: lambda: None)
    task = ledger.submit("acme", "job")
    called = []
    with turnctl.turn(task=task) as turn:
        turn.on_cancel(lambda: called.append(1))
        ledger.cancel(task, by="alice")

    assert ("cancelled", True, "cancelled_settled") == (turn.outcome, turn.event.is_set(), task.state)
    assert [1] == called


def test_token_is_overruled_by_the_store(ledger: turnctl.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancellation that comes between the look at the store and the completion wins in both (P14)."""
    monkeypatch.setattr(type(ledger.store), "watch", lambda *_: lambda: None)
    task = ledger.submit("acme", "job")
    told = []

    def late() -> None:
        ledger.cancel(task, by="alice", reason="enough")
        told.append(turn.cancel("me too"))

    with call_at("turn.end.ruling", late), turnctl.turn(task=task) as turn:
        pass
    after = turn.cancel()

    assert ("cancelled", True, "enough") == (turn.outcome, turn.event.is_set(), turn.report.stop.reason)
    assert ("already_ended", "completed") == (told[0].kind, told[0].outcome)
    assert ("already_ended", "cancelled") == (after.kind, after.outcome)
    assert ("cancelled_settled", "stopped by alice (enough)") == (task.state, str(turn.report)[:25])
    assert "task.late_outcome" in kinds(ledger, task)


def test_completion_first_refuses_the_canceller(ledger: turnctl.Ledger) -> None:
    """Once the store knows that it completed there is nothing to cancel."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        pass
    refused = ledger.cancel(task, by="alice")

    assert ("already_completed", "completed", "completed") == (refused.code, turn.outcome, task.state)
    assert not refused


def test_failure_is_told(ledger: turnctl.Ledger) -> None:
    """A body that raises ends turn and task as failed."""
    task = ledger.submit("acme", "job")
    with pytest.raises(ValueError, match="no"), turnctl.turn(task=task) as turn:
        raise ValueError("no")

    assert ("failed", "failed") == (turn.outcome, task.state)


def test_stop_of_this_process_cancels_the_task(ledger: turnctl.Ledger) -> None:
    """A stop that the store does not know is told to it while the body still runs, and is on record for good."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        turn.cancel("wrong branch", by="bob")
        while ledger.row_of(task).is_running:  # the bridge tells it: the body need not end for that
            threading.Event().wait(0.005)
    cr = ledger.report(task).cancellation

    assert cr is not None
    assert ("bob", "wrong branch", "cancelled_settled") == (cr.requester, cr.reason, task.state)


def test_soft_stop_is_told_at_the_end(ledger: turnctl.Ledger) -> None:
    """A turn that finishes the step in hand has cancelled its task when it is over."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        turn.stop("soon", soft=True)

    assert ("cancelled", "cancelled_settled") == (turn.outcome, task.state)


def test_shutdown_leaves_the_task_to_the_next(ledger: turnctl.Ledger) -> None:
    """A worker that goes away is no reason to give the task up: it is given back."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        turn.cancel("redeploy", cause="shutdown")
    between = (turn.outcome, task.state, ledger.row_of(task).execution)
    with turnctl.turn(task=task) as again:
        pass

    assert ("cancelled", "running", "idle") == between
    assert ("completed", "completed", 2) == (again.outcome, task.state, ledger.row_of(task).lease_gen)


def test_shutdown_of_the_parent_leaves_the_childs_task(ledger: turnctl.Ledger) -> None:
    """What counts is why the first of them was stopped."""
    task = ledger.submit("acme", "job")
    with turnctl.turn() as outer, turnctl.turn(task=task):
        outer.cancel("redeploy", cause="shutdown")

    assert "running" == task.state


def test_turn_that_was_fenced_is_superseded(ledger: turnctl.Ledger) -> None:
    """Whoever lost the task meanwhile says so: nothing it does is admitted, and its outcome is not the task's."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        take_over(ledger, task)
        with pytest.raises(turnctl.LedgerRefused) as caught, turn.effect("mail.send", key="1"):
            pass

    assert ("stale_generation", "superseded", "running") == (caught.value.code, turn.outcome, task.state)
    assert "another worker" in turn.report.notes[0]


def test_turn_whose_task_another_has_completed_is_superseded(ledger: turnctl.Ledger) -> None:
    """Who comes to its end after the one that took over has completed the task is told so, and raises nothing."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task, inherit=False) as old, turnctl.turn(task=task.take_over(), inherit=False):
        pass
    report = ledger.report(task)

    assert ("superseded", "completed", 2) == (old.outcome, report.state, report.task.lease_gen)
    assert "another worker" in old.report.notes[0]


def test_stop_of_a_fenced_worker_is_not_the_tasks(ledger: turnctl.Ledger) -> None:
    """A worker that hung, was replaced and is then stopped takes nothing from the one that works now."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        take_over(ledger, task)
        turn.cancel("it hangs")

    assert "running" == task.state


def test_store_that_fails_at_the_end_is_told_and_raised(
    ledger: turnctl.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the ledger could not be told is in the report and raised; the turn is over all the same."""
    task = ledger.submit("acme", "job")
    kept = type(ledger.store).transact

    def fails(self: object, fn: object, **how: object) -> object:
        if how.get("point") in ("complete", "store"):
            raise OSError("no space")
        return kept(self, fn, **how)  # type: ignore[arg-type]

    with pytest.raises(OSError, match="no space"), turnctl.turn(task=task) as turn:
        monkeypatch.setattr(type(ledger.store), "transact", fails)

    assert turn.is_over
    assert "could not be asked or told" in turn.report.notes[0]
    assert "running" == task.state
    assert task.inc not in stacks.at_work


def test_lease_is_held_by_this_process(ledger: turnctl.Ledger) -> None:
    """Another turn does not get a task that is worked on; when it is over, it is free."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task), pytest.raises(turnctl.LedgerRefused) as caught, turnctl.turn(task=task):
        pass
    view = ledger.store.read(lambda books: books.at_gate(task.inc))

    assert ("held", this_process()) == (caught.value.code, view.lease.holder)
    assert str(this_process().pid) in str(caught.value)


def test_lease_of_a_dead_process_is_taken(ledger: turnctl.Ledger) -> None:
    """A worker whose process is proven gone leaves its task to the next; what it had claimed is unknown."""
    task = ledger.submit("acme", "job")
    me = this_process()
    dead = Holder(me.boot_id, me.pid_ns, me.pid, me.started - 1, me.host)  # the number, given out again
    ledger.store.transact(lambda books: dealings.take_lease(books, BY, task.inc, dead))
    with turnctl.turn(task=task) as turn:
        pass

    assert ("completed", 2) == (turn.outcome, ledger.row_of(task).lease_gen)
    assert "worker.gone" in kinds(ledger, task)


def test_turn_that_cannot_begin_gives_the_lease_back(ledger: turnctl.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong at the beginning leaves the task free."""
    task = ledger.submit("acme", "job")
    monkeypatch.setattr("turnctl.ledger.attachment.Attachment.heard", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError), turnctl.turn(task=task):
        pass

    assert ("running", "idle") == (task.state, ledger.row_of(task).execution)


def test_nested_turn_is_a_child_task(ledger: turnctl.Ledger) -> None:
    """A turn begun inside one that works on a task is registered before it runs, and is cancelled with it."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as outer, turnctl.turn() as inner:
        with inner.effect("mail.send", key="1") as sent:
            sent.complete("ok")
        ledger.cancel(task, by="alice")
        inner.sleep(30)
    report = ledger.report(task)

    assert ("cancelled", "cancelled", "parent") == (outer.outcome, inner.outcome, inner.cause)
    assert [("ended", "cancelled_settled")] == [(child.status, its.state) for child, its in report.children]
    assert ((), 1, True) == (outer.report.effects, len(inner.report.effects), "cancelled_settled" == task.state)


def test_nested_turns_complete_with_their_parent(ledger: turnctl.Ledger) -> None:
    """Children that are through leave nothing behind."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task):
        for _ in range(2):
            with turnctl.turn():
                pass

    assert ["completed", "completed"] == [its.state for _, its in ledger.report(task).children]
    assert "completed" == task.state


def test_cancelled_parent_registers_no_child(ledger: turnctl.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that begins inside one whose task was cancelled, unheard, gets the cancel with it."""
    monkeypatch.setattr(type(ledger.store), "watch", lambda *_: lambda: None)
    task = ledger.submit("acme", "job")
    ran = []
    with turnctl.turn(task=task):
        ledger.cancel(task, by="alice")
        with turnctl.turn() as inner:
            inner.check()
            ran.append(1)

    assert ([], (), "cancelled") == (ran, ledger.report(task).children, inner.outcome)


def test_nothing_begins_below_what_was_not_registered(ledger: turnctl.Ledger) -> None:
    """Turns within a turn that had come too late to be registered are born cancelled as it was, however deep."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task):
        ledger.cancel(task, by="alice")
        with turnctl.turn(), turnctl.turn() as second, turnctl.turn() as third:
            third.check()

    assert ("cancelled", "cancelled", "cancelled_settled") == (second.outcome, third.outcome, task.state)
    assert 3 == kinds(ledger, task).count("child.rejected")


def test_what_cannot_be_ended_keeps_the_task_draining(ledger: turnctl.Ledger) -> None:
    """Where something of the turn lives on nobody calls the task settled, nor its worker through (R23)."""
    task = ledger.submit("acme", "job")
    thing = Thing("slow", ends="never")
    with turnctl.turn(task=task, grace=0) as turn:
        own(turn, thing)
        ledger.cancel(task, by="alice")
    report = ledger.report(task)
    thing.finish()

    assert ("draining", "unproven") == (report.state, report.task.execution)
    assert ("the worker cannot be proven to be through", "thing slow is not known to have stopped") == report.missing


def test_turn_hears_the_cancellation_of_a_parent_task(ledger: turnctl.Ledger) -> None:
    """A child that another turn works on is told at once when its parent is cancelled."""
    task = ledger.submit("acme", "job")
    begun, causes = threading.Event(), []

    def work() -> None:
        with turnctl.turn(task=child) as turn:
            begun.set()
            turn.sleep(30)
        causes.append((turn.cause, turn.report.stop.by))

    with turnctl.turn(task=task) as outer:
        child = ledger.submit("acme", "part", parent=outer)
        worker = threading.Thread(target=work)
        worker.start()
        begun.wait(5)
        ledger.cancel(task, by="alice")
        worker.join(10)

    assert [("parent", "alice")] == causes
    assert ("cancelled_settled", "cancelled_settled") == (task.state, child.state)


def test_completion_reaches_below_a_settled_child(ledger: turnctl.Ledger) -> None:
    """What runs on below a child that was cancelled by itself ends with the parent's turn too."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as outer:
        child = ledger.submit("acme", "part", parent=outer)
        with turnctl.turn(task=child, inherit=False) as inner:
            below = ledger.submit("acme", "part of it", parent=inner)
            ledger.cancel(child, by="alice", scope="self")

    assert ("completed", "cancelled_settled", "cancelled_settled") == (task.state, child.state, below.state)


def test_store_that_cannot_be_read_is_in_the_report(ledger: turnctl.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bell that cannot be followed is no end of the store's thread: the report says so, and the end tries again."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        with monkeypatch.context() as patch:
            patch.setattr(type(ledger.store), "read", lambda *_: 1 / 0)
            turn._ruling._rung()
        noted = list(turn.report.notes)

    assert ["ZeroDivisionError" in note for note in noted] == [True]
    assert "completed" == task.state
