"""The row of a turn in a ledger: there before the turn can do anything, and what it says when that is over or lost."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from stores import finish, line, program

import turnctl
from turnctl.ledger.opening import open_sqlite
from turnctl.ledger.turnrows import MOST_ACTIVITIES, MOST_TEXT
from turnctl.ledger.verify import verify
from turnctl.records.turns import TurnRecord

#: a worker that says when its turn has begun
WORKER = """
import turnctl
with turnctl.open_ledger(path) as ledger:
    task = ledger.task("acme", "job") or ledger.submit("acme", "job")
    with turnctl.turn(turn_id=sys.argv[2], task=task):
        say("begun")
        sys.stdin.readline()
"""


def only(ledger: turnctl.Ledger, task: turnctl.LedgerTask) -> TurnRecord:
    (row,) = ledger.report(task).turns
    return row


def test_row_is_there_while_the_turn_runs(ledger: turnctl.Ledger) -> None:
    """From its begin on the row names the turn, its lease and its process, and it runs."""
    task = ledger.submit("acme", "job")
    with turnctl.turn("chat", task=task, reason="to try") as turn:
        row = only(ledger, task)

    assert (turn.turn_id, task.inc, 1, "chat", "to try") == (row.turn_id, row.inc, row.gen, row.session, row.name)
    assert (os.getpid(), "running", None) == (row.holder.pid, row.state, row.outcome)


def test_end_keeps_the_report(ledger: turnctl.Ledger) -> None:
    """When the turn is over its row has the outcome and what the turn itself knew."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn, turn.effect("mail.send", key="k") as sent:
        sent.complete(receipt="250 ok")
    row = only(ledger, task)
    report = json.loads(row.report or "")

    assert ("ended", "completed") == (row.state, row.outcome)
    assert ("turnctl.turn/1", "completed", "ended") == (report["schema"], report["state"], report["execution"]["state"])
    assert ["completed"] == [one["disposition"] for one in report["effects"]["list"]]
    assert row.ended_at is not None
    assert 1 > abs(row.ended_at - report["ended_at"])


def test_failure_is_told(ledger: turnctl.Ledger) -> None:
    """A turn whose body raised is on record as failed, with an effect that it left as unknown."""
    task = ledger.submit("acme", "job")
    with pytest.raises(ZeroDivisionError), turnctl.turn(task=task) as turn, turn.effect("mail.send", key="k"):
        raise ZeroDivisionError
    row = only(ledger, task)

    assert "failed" == row.outcome
    assert 1 == json.loads(row.report or "")["effects"]["unresolved"]


def test_stop_is_told(ledger: turnctl.Ledger) -> None:
    """A cancellation is on record with the turn that it stopped: by whom, and why."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        ledger.cancel(task, by="alice", reason="wrong list")
        turn.sleep(10)
    row = only(ledger, task)
    report = json.loads(row.report or "")

    assert "cancelled" == row.outcome
    assert ("alice", "wrong list") == tuple(report["intent"]["record"][name] for name in ("by", "reason"))
    assert "cancelled, settled" == report["state"]


def test_turn_below_has_a_row_of_its_own(ledger: turnctl.Ledger) -> None:
    """A turn that begins inside one that works on a task is on record under its own incarnation."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task), turnctl.turn() as inner:
        pass
    ((child, _),) = ledger.report(task).children

    assert inner.turn_id == only(ledger, ledger.incarnation(child.child_inc)).turn_id  # type: ignore[arg-type]


def test_shutdown_leaves_the_task_and_ends_the_row(ledger: turnctl.Ledger) -> None:
    """A worker that only goes away has told how its turn ended; the next turn is another row."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        turn.cancel(cause="shutdown")
    with turnctl.turn(task=task):
        pass

    assert [(1, "cancelled"), (2, "completed")] == [(one.gen, one.outcome) for one in ledger.report(task).turns]


def test_turn_id_is_used_once(ledger: turnctl.Ledger) -> None:
    """A second turn of the same id is refused, with nothing taken, whatever task it works on."""
    first, second = ledger.submit("acme", "one"), ledger.submit("acme", "two")
    with turnctl.turn(turn_id="t1", task=first):
        pass
    with pytest.raises(turnctl.LedgerRefused, match="turn ids are used once") as caught:
        turnctl.turn(turn_id="t1", task=second).begin()
    with turnctl.turn(task=second):
        pass

    assert "turn_known" == caught.value.code
    assert ["completed"] == [one.outcome for one in ledger.report(second).turns]


def test_turn_without_a_task_has_no_row() -> None:
    """The gate in memory of a turn without a ledger keeps no row of it."""
    with turnctl.turn() as turn:
        with turn.effect("mail.send", key="k") as sent:
            sent.complete(receipt="ok")
        of = turn._ruling

        assert [] == of.store.read(lambda books: books.turns_of(of.inc))  # type: ignore[union-attr]


def test_killed_worker_leaves_a_turn_that_is_lost(place: Path) -> None:
    """After kill -9 the row has no end; the next reader calls it lost, with the proof, and the task too."""
    process = program(WORKER, place, "t1")
    assert "begun" == line(process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        stream.close()
    with turnctl.open_ledger(str(place)) as ledger:
        task = ledger.task("acme", "job")
        assert task is not None
        report = ledger.report(task)
        (row,) = report.turns

        assert ("lost", None, "lost") == (row.state, row.ended_at, report.state)
        assert f"there is no process {process.pid}" == row.lost
        assert f"turn t1 ended without a word: there is no process {process.pid}" in str(report)


def test_living_worker_is_not_lost(place: Path) -> None:
    """However long it says nothing, a worker whose process is there runs."""
    process = program(WORKER, place, "t1")
    assert "begun" == line(process)
    with turnctl.open_ledger(str(place)) as ledger:
        task = ledger.task("acme", "job")
        assert task is not None
        during = only(ledger, task).state
        finish(process)

        assert ("running", "ended") == (during, only(ledger, task).state)


def test_proof_is_kept_with_the_row(place: Path) -> None:
    """Whoever notes that a worker is gone notes it of its turns, for readers that could prove nothing."""
    process = program(WORKER, place, "t1")
    assert "begun" == line(process)
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        stream.close()
    with turnctl.open_ledger(str(place)) as ledger:
        ledger.reconcile({})
        row = ledger.store.read(lambda books: books.turn("t1"))

        assert row is not None
        assert ("lost", f"there is no process {process.pid}") == (row.state, row.lost)
    assert verify(place)


def test_next_worker_makes_the_task_run_again(place: Path) -> None:
    """A turn that was lost stays lost; the task runs again with the turn that follows it."""
    process = program(WORKER, place, "t1")
    assert "begun" == line(process)
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        stream.close()
    with turnctl.open_ledger(str(place)) as ledger:
        task = ledger.task("acme", "job")
        assert task is not None
        with turnctl.turn(task=task):
            report = ledger.report(task)

        assert "running" == report.state
        assert ["lost", "running"] == [one.state for one in report.turns]


def test_row_is_in_the_chain(place: Path) -> None:
    """A row that somebody changed, or took away, is found; one that has ended cannot be changed by mistake."""
    with turnctl.open_ledger(str(place)) as ledger:
        with turnctl.turn(turn_id="t1", task=ledger.submit("acme", "job")):
            pass

    import sqlite3

    assert verify(place)
    connection = sqlite3.connect(place)
    with pytest.raises(sqlite3.IntegrityError, match="stays as it was told"):
        connection.execute("UPDATE turn SET outcome = 'failed'")
    connection.execute("DROP TRIGGER turn_stays")
    connection.execute("UPDATE turn SET outcome = 'failed'")
    connection.commit()
    found = verify(place).findings
    connection.execute("DELETE FROM turn")
    connection.commit()
    connection.close()

    assert "turn t1 is not as its log says: outcome is 'failed', the log says 'completed'" in found
    assert "turn t1 is in the log, and not among the rows" in verify(place).findings


def test_large_report_is_cut(ledger: turnctl.Ledger) -> None:
    """However much a turn received, and however many things it did, its row stays small and says what is left out."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        for _ in turn.stream(iter(["x" * 1000] * 1000)):
            pass
        for n in range(MOST_ACTIVITIES):
            with turn.activity("tool", f"tool {n}"):
                pass
        for _ in turn.stream(iter(["y" * 1000] * 1000), name="last"):
            pass
    text = only(ledger, task).report or ""
    report = json.loads(text)

    assert MOST_ACTIVITIES == len(report["activities"])
    assert "the first 2 activities are left out of the record" in report["notes"]
    assert f"[{1_000_000 - MOST_TEXT} characters left out]" in report["activities"][-1]["received"]["text"]
    assert 250_000 > len(text)


def test_begin_that_fails_leaves_a_row_that_ended(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that got its lease and could not begin has given it back, and its row says that it failed."""
    with turnctl.open_ledger(str(place)) as ledger:
        task = ledger.submit("acme", "job")

        def struck(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("turnctl.ledger.attachment.Attachment.heard", struck)
        with pytest.raises(KeyboardInterrupt):
            turnctl.turn(turn_id="t1", task=task).begin()
        row = only(ledger, task)

        assert ("failed", "idle") == (row.outcome, ledger.report(task).task.execution)


def test_older_turn_does_not_overwrite_the_end(place: Path) -> None:
    """Told twice, an end stays what it was told first."""
    from turnctl.clock import wall
    from turnctl.ledger import turnrows
    from turnctl.records.changes import By

    store = open_sqlite(place)
    with turnctl.open_ledger(str(place)) as ledger:
        task = ledger.submit("acme", "job")
        with turnctl.turn(turn_id="t1", task=task):
            pass
        store.transact(lambda books: turnrows.end(books, By("w", "worker", wall()), "t1", "failed"))

        assert "completed" == only(ledger, task).outcome
    store.close()
