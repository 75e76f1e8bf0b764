"""What a turn that works on a task owns is on record, with what was sent to it and what became of it (R40, R42)."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import alive, nap
from standins import Background, until

import turnctl
from turnctl.errors import LedgerRefused
from turnctl.ledger import dealings, failpoints
from turnctl.records.changes import By
from turnctl.records.tasks import Holder, OwnedActivity
from turnctl.testing import call_at, pause_at
from turnctl.tokens.activities import Activity

#: a process that does not end when asked, with another one in a session of its own
STUBBORN = "trap '' TERM; setsid sh -c 'trap \"\" TERM; : {tag}; while :; do sleep 0.05; done' & echo up; wait; wait"


def rows(ledger: turnctl.Ledger, task: turnctl.LedgerTask) -> tuple[OwnedActivity, ...]:
    return ledger.report(task).activities


def kinds(ledger: turnctl.Ledger, task: turnctl.LedgerTask) -> list[str]:
    return [event.kind for event in ledger.store.read(lambda books: books.events(task.inc))]


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch, ledger: turnctl.Ledger) -> None:
    """Turns hear no bell of the store."""
    monkeypatch.setattr(type(ledger.store), "watch", lambda *_: lambda: None)


@pytest.fixture
def disarmed() -> Iterator[None]:
    yield
    failpoints.arm("")


# -- the row comes first -----------------------------------------------------------------------------------------


def test_process_is_on_record_before_it_can_run(ledger: turnctl.Ledger) -> None:
    """Its row is committed when nothing of it exists yet; afterwards it has its number and its end (R40)."""
    task = ledger.submit("acme", "job")
    seen: list[OwnedActivity] = []
    with (
        turnctl.turn(task=task) as turn,
        call_at("processes.run.recorded", lambda: seen.extend(rows(ledger, task))),
    ):
        pid = turn.run(["sleep", "0.2"]).outcome.pid
    (before,), (after,) = seen, rows(ledger, task)

    assert ("process sleep 0.2 (no pid on record)", True) == (before.title, before.may_act)
    assert (f"process sleep 0.2 (pid {pid})", True, "handler_stopped") == (after.title, after.stopped, after.evidence)
    assert before.ref == after.ref


def test_five_kinds_are_in_one_report(ledger: turnctl.Ledger) -> None:
    """Model requests, tool calls, queued and running children and local processes, each while it is open (R40)."""
    task = ledger.submit("acme", "job")
    going = threading.Event()

    def tokens() -> Iterator[int]:
        yield 1
        going.wait(10)

    with turnctl.turn(task=task) as turn:
        stream = turn.stream(tokens())
        next(iter(stream))
        tool = Background(lambda: turn.call(going.wait, 10))
        turn.popen(["sleep", "60"])
        ledger.submit("acme", "queued", parent=turn)
        with turnctl.turn():
            assert until(lambda: 3 == sum(one.may_act for one in rows(ledger, task)))
            report = ledger.report(task)
        going.set()
        tool.result()
        stream.close()

    found = {one.kind for one in report.activities if one.may_act}
    assert {"stream", "call", "process"} == found
    assert ["registered", "started"] == [child.status for child, _ in report.children]
    assert 5 == len(report.as_dict()["activities"]) + len(report.as_dict()["children"])


def test_cancelled_task_starts_no_process(ledger: turnctl.Ledger, deaf: None, tmp_path: Path) -> None:
    """Where the turn has not heard of it the gate refuses, and the caller sees the stop; nothing ran."""
    task = ledger.submit("acme", "job")
    raised: list[BaseException] = []
    with turnctl.turn(task=task) as turn:
        ledger.cancel(task, by="alice", reason="enough")
        try:
            turn.run(["touch", str(tmp_path / "ran")])
        except turnctl.CancelledError as error:
            raised.append(error)
            raise

    assert (1, False, "cancelled") == (len(raised), (tmp_path / "ran").exists(), turn.outcome)
    assert () == rows(ledger, task)
    assert "activity.rejected" in kinds(ledger, task)


@pytest.mark.parametrize("how", ["call", "stream", "activity"])
def test_cancelled_task_begins_nothing_else(ledger: turnctl.Ledger, deaf: None, how: str) -> None:
    """What lives and dies with the worker is asked about as well."""
    task = ledger.submit("acme", "job")
    ran: list[int] = []
    with turnctl.turn(task=task) as turn:
        ledger.cancel(task, by="alice")
        if how == "call":
            turn.call(ran.append, 1)
        elif how == "stream":
            ran.extend(turn.stream(iter([1])))
        else:
            with turn.activity("tool", "it"):
                ran.append(1)

    assert ([], "cancelled", "cancelled_settled") == (ran, turn.outcome, task.state)


def test_shield_opens_no_gate(ledger: turnctl.Ledger) -> None:
    """Under a shield what lives in this process goes on after the stop, and its row says so; a command is refused."""
    task = ledger.submit("acme", "job")
    refused = []
    with turnctl.turn(task=task) as turn:
        turn.stop("enough")
        assert until(lambda: task.state != "running")
        with turn.shield(), turn.activity("clean-up", "it"):
            try:
                turn.run(["true"])
            except turnctl.CancelledError:
                refused.append(1)
    events = ledger.store.read(lambda books: books.events(task.inc))

    assert ([1], ["clean-up"], "cancelled_settled") == (refused, [one.kind for one in rows(ledger, task)], task.state)
    assert any(one.kind.startswith("activity.") and "shield" in one.body for one in events)


def test_what_cannot_be_recorded_is_not_started(ledger: turnctl.Ledger, disarmed: None, tmp_path: Path) -> None:
    """Without its row there is no process: the error passes out."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        failpoints.arm("activity.before_commit=raise")
        with pytest.raises(failpoints.InjectedFault):
            turn.run(["touch", str(tmp_path / "ran")])
        turn.run(["true"])

    ended = [(one.name.split()[0], (one.detail or "").split(":")[0]) for one in rows(ledger, task)]
    assert (False, [("touch", "failed"), ("true", "completed")]) == ((tmp_path / "ran").exists(), ended)


def test_fenced_worker_starts_no_process(ledger: turnctl.Ledger) -> None:
    """A worker that was replaced is refused, and what it says of its own is not taken."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as old:
        other = Holder("b", "n", 1, 1)
        ledger.store.transact(lambda books: dealings.take_lease(books, By("w2", "worker"), task.inc, other, force=True))
        with pytest.raises(LedgerRefused) as caught:
            old.run(["true"])

    assert ("stale_generation", ()) == (caught.value.code, rows(ledger, task))


def test_turn_without_a_task_keeps_nothing() -> None:
    """It makes plain activities, and no thread."""
    before = threading.active_count()
    with turnctl.turn() as turn:
        turn.run(["true"])
        with turn.activity("tool", "it") as activity:
            pass

    assert Activity is type(activity)
    assert before == threading.active_count()


# -- signals ------------------------------------------------------------------------------------------------------


def test_escalation_is_in_the_log(ledger: turnctl.Ledger) -> None:
    """TERM and KILL are signals of the activity, with class and time; what was claimed is unknown (R42, R48, R49)."""
    task, tag = ledger.submit("acme", "job"), nap()
    with turnctl.turn(task=task, grace=0.3) as turn, turn.effect("mail.send", key="1"):
        process = turn.popen(["sh", "-c", STUBBORN.format(tag=tag)])
        assert b"up\n" == next(iter(process.stdout))
        accepted_at = time.monotonic()
        ledger.cancel(task, by="alice")
        turn.sleep(60)
    took = time.monotonic() - accepted_at
    (row,) = rows(ledger, task)
    report = ledger.report(task)

    assert ("SIGTERM SIGKILL", "handler_stopped", True) == (row.signal, row.evidence, row.stopped)
    assert row.signalled_at is not None
    assert ["unknown"] == [one.disposition for one in report.effects]
    assert ("stopped_unresolved", "stop_observed", []) == (task.state, report.task.execution, alive(tag))
    assert ["activity.signalled"] * 2 == [one for one in kinds(ledger, task) if one == "activity.signalled"]
    assert took < 10


def test_stop_is_told_before_the_signals(ledger: turnctl.Ledger) -> None:
    """The log of a stop of this process has the acceptance, with all that was open, and then what was sent (R3)."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task, grace=0.3) as turn:
        turn.popen(["sleep", "60"])
        with turn.activity("tool", "it"):
            turn.stop("enough")
            turn.sleep(60)
    found = kinds(ledger, task)
    events = ledger.store.read(lambda books: books.events(task.inc))
    inventory = next(json.loads(one.body)["inventory"] for one in events if one.kind == "cancel.accepted")

    told = [one for one in found if one.startswith(("cancel.accepted", "activity.s"))]
    assert ("cancel.accepted", "activity.stopped") == (told[0], told[-1])
    assert "activity.signalled" in told
    assert {one.ref for one in rows(ledger, task)} == set(inventory["activities"])
    assert "cancelled_settled" == task.state


def test_what_follows_from_a_stop_is_not_told_ahead_of_it(ledger: turnctl.Ledger) -> None:
    """What is observed when a stop comes in the middle of the writing is told after its acceptance, as all else is."""
    task = ledger.submit("acme", "job")
    with pause_at("ledger.owning.writing") as pause, turnctl.turn(task=task, grace=0) as turn:
        with turn.activity("tool", "it"):
            assert pause.reached.wait(10)
            turn.stop("enough")
            with pytest.raises(turnctl.CancelledError):
                turn.sleep(60)
        pause.release()
    told = [one for one in kinds(ledger, task) if one.startswith(("cancel.accepted", "activity.s"))]

    assert "cancel.accepted" == told[0]
    assert "activity.stopped" in told


def test_slow_store_delays_no_stop(ledger: turnctl.Ledger) -> None:
    """While somebody else has the store, commands are ended all the same; the record comes after."""
    task = ledger.submit("acme", "job")
    entered, go = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        entered.set()
        go.wait(10)

    with turnctl.turn(task=task, grace=5) as turn:
        process = turn.popen(["sleep", "60"])
        assert until(lambda: rows(ledger, task)[0].process.pid)
        holder = Background(ledger.store.transact, hold)
        assert entered.wait(10)
        turn.stop("enough")
        ended = until(lambda: process.poll() is not None)
        go.set()
        holder.result()
    (row,) = rows(ledger, task)

    assert (True, "SIGTERM", True, "cancelled_settled") == (ended, row.signal, row.stopped, task.state)


def test_broken_store_is_noted(ledger: turnctl.Ledger, disarmed: None) -> None:
    """What could not be written is in the report, and is written with the next that can be."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        failpoints.arm("activities.before_begin=raise")
        with turn.activity("model", "m"):
            assert until(lambda: any("the ledger could not be asked or told" in note for note in turn.notes))

    assert [("m", True)] == [(one.name, one.stopped) for one in rows(ledger, task)]


def test_what_is_seen_while_it_is_written_is_written(ledger: turnctl.Ledger) -> None:
    """An end that comes within the transaction that writes the beginning is not left out (N2)."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        with turn.activity("model", "m") as model:
            with call_at("activities.before_commit", lambda: model.close("completed")):
                assert until(lambda: rows(ledger, task))
            stopped = until(lambda: rows(ledger, task)[0].stopped)
        turn.activities.admit("model", "closed in the last transaction")
        with call_at("complete.before_commit", lambda: turn.activities.all()[1].close("completed")):
            turn.end()

    assert stopped
    assert [True, True] == [one.stopped for one in rows(ledger, task)]


def test_name_that_is_no_text_is_spelled(ledger: turnctl.Ledger) -> None:
    """Whatever stands in an argument, its process can be put on record; a long one is cut."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        turn.run(["true", "\udcff", "x" * 1000])
    (row,) = rows(ledger, task)

    assert ("true \\udcff x", True) == (row.name[:13], len(row.name) <= 300)


def test_signal_that_is_not_to_end_it_is_none(ledger: turnctl.Ledger) -> None:
    """What the host sends to its command for other reasons is not in the row."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        process = turn.popen(["sleep", "60"])
        process._supervision.send(signal.SIGURG)
        assert until(lambda: process.outcome().signals)
    (row,) = rows(ledger, task)

    assert "SIGTERM" == row.signal


# -- what a stop establishes --------------------------------------------------------------------------------------


def test_closed_stream_has_not_stopped(ledger: turnctl.Ledger) -> None:
    """Closing our end of a request is a signal that was queued: the row is severed, and never says stopped (R45)."""
    task = ledger.submit("acme", "job")

    def tokens() -> Iterator[int]:
        while True:
            yield 1

    with turnctl.turn(task=task) as turn:
        for _ in turn.stream(tokens()):
            ledger.cancel(task, by="alice")
            turn.wait_cancelled(10)
    (row,) = rows(ledger, task)

    assert (False, True, "signal_queued") == (row.stopped, row.severed, row.evidence)
    assert "cancelled_settled" == task.state


def test_request_that_was_heard_to_its_end_has_stopped(ledger: turnctl.Ledger) -> None:
    """What came to its own end is over."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        got = list(turn.stream(iter([1, 2])))
    (row,) = rows(ledger, task)

    assert ([1, 2], True, None) == (got, row.stopped, row.signal)


def test_aborted_call_is_severed(ledger: turnctl.Ledger) -> None:
    """A handler elsewhere goes on when its client is closed: our call has come back, and that is all (R45)."""
    task = ledger.submit("acme", "job")
    closed, handler_runs = threading.Event(), threading.Event()

    def rpc() -> None:
        handler_runs.set()
        closed.wait(10)

    with turnctl.turn(task=task) as turn:
        stopper = Background(lambda: handler_runs.wait(10) and ledger.cancel(task, by="alice"))
        turn.call(rpc, abort=closed.set)
    stopper.result()
    (row,) = rows(ledger, task)

    assert (False, True, "signal_queued") == (row.stopped, row.severed, row.evidence)
    assert "abort" in (row.signal or "")


def test_busy_thread_keeps_the_task_active(ledger: turnctl.Ledger) -> None:
    """A call that ignores the stop is named while it runs, and when it comes back late the task settles."""
    task, go = ledger.submit("acme", "job"), threading.Event()
    started, seen = threading.Event(), []

    def look() -> None:
        started.wait(10)
        ledger.cancel(task, by="alice")
        until(lambda: task.state == "draining")
        seen.append(ledger.report(task))

    def busy() -> None:
        started.set()
        go.wait(20)

    looker = Background(look)
    with turnctl.turn(task=task, grace=0.3) as turn:
        turn.call(busy)
    looker.result()
    after = ledger.report(task)
    go.set()
    settled = until(lambda: task.state == "cancelled_settled")

    assert ("active", "draining") == (seen[0].task.execution, seen[0].state)
    assert any("call" in one for one in seen[0].missing)
    assert ("unproven", "draining") == (after.task.execution, after.state)
    assert settled
    assert "came back late" in (rows(ledger, task)[0].detail or "")


# -- three observations -------------------------------------------------------------------------------------------


def test_each_observation_may_be_missing_alone(ledger: turnctl.Ledger) -> None:
    """Accepted, through, and told by a receiver are three facts with a time each, and never one (R51)."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        with turn.effect("mail.send", key="1") as sent:
            sent.complete("250 ok")
        only_told = ledger.report(task).observed
        with turn.effect("mail.send", key="2"):
            ledger.cancel(task, by="alice")
            turn.wait_cancelled(10)
    all_three = ledger.report(task).observed
    queued = ledger.submit("acme", "queued")
    ledger.cancel(queued, by="alice")
    only_accepted = ledger.report(queued).observed

    assert (None, None, 1) == (only_told["accepted"], only_told["acknowledged"], len(only_told["told"]))
    assert (None, []) == (only_accepted["acknowledged"], only_accepted["told"])
    assert only_accepted["accepted"]["at"] > 0
    assert all_three["accepted"]["at"] <= all_three["acknowledged"]["at"]
    assert ["250 ok"] == [one["evidence"] for one in all_three["told"]]


# -- below a cancelled task ---------------------------------------------------------------------------------------


def test_queue_that_ignores_deletion_gets_no_work_done(ledger: turnctl.Ledger) -> None:
    """A consumer that is given a queued child all the same asks the ledger, and gets the cancel (R43)."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        queued = ledger.submit("acme", "part", parent=turn)
        ledger.cancel(task, by="alice")
    ran = []
    with turnctl.turn(task=ledger.incarnation(queued.inc)) as consumer:
        consumer.check()
        ran.append(1)

    assert ([], "cancelled", "cancelled_settled") == (ran, consumer.outcome, queued.state)
    assert ["never_started"] == [child.status for child, _ in ledger.report(task).children]


def test_cancelled_child_schedules_and_retries_nothing(ledger: turnctl.Ledger, deaf: None) -> None:
    """Below a cancelled parent no grandchild is registered, and a retry loop ends at its next gate (R44)."""
    task = ledger.submit("acme", "job")
    refused, tries = [], []
    with turnctl.turn(task=task), turnctl.turn() as child:
        ledger.cancel(task, by="alice")
        try:
            ledger.submit("acme", "grandchild", parent=child)
        except LedgerRefused as error:
            refused.append(error.code)
        for _ in range(3):
            tries.append(1)
            child.run(["false"])

    assert (["cancelled"], [1]) == (refused, tries)
    assert None is ledger.task("acme", "grandchild")


def test_cancelled_parent_of_queued_children_is_no_success(ledger: turnctl.Ledger) -> None:
    """Queued children close as never run, and the parent says cancelled."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        queued = [ledger.submit("acme", f"part {n}", parent=turn) for n in range(3)]
        ledger.cancel(task, by="alice")

    assert ("cancelled_settled", {"cancelled_settled"}) == (task.state, {one.state for one in queued})
    assert {0} == {ledger.report(one).task.lease_gen for one in queued}


def test_task_that_nobody_has_settles_at_once(ledger: turnctl.Ledger) -> None:
    """A cancelled task that was never started waits for nobody."""
    task = ledger.submit("acme", "job")
    ledger.cancel(task, by="alice")

    assert ("cancelled_settled", "idle") == (task.state, ledger.report(task).task.execution)


def test_stop_by_signal_of_the_program_leaves_the_rows(ledger: turnctl.Ledger) -> None:
    """A shutdown ends the command, says so, and gives the task back for the next worker."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task, grace=0.3) as turn:
        process = turn.popen(["sleep", "60"])
        os.kill(process.pid, signal.SIGCONT)
        turn.cancel("bye", cause="shutdown")
        turn.sleep(60)
    (row,) = rows(ledger, task)

    assert ("running", "idle") == (task.state, ledger.report(task).task.execution)
    assert ("SIGTERM", True) == (row.signal, row.stopped)
