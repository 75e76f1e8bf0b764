"""What the store promises of authority, order and memory, each told once from the outside (P14, P15, P16)."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from stores import ROOT, fill, finish, kill, line, program

import turnctl
from turnctl.errors import BadArgument, StoreUnsafe
from turnctl.ledger.opening import open_sqlite
from turnctl.ledger.rows import KINDS
from turnctl.ledger.sqlite import SqliteStore
from turnctl.ledger.task import LedgerTask
from turnctl.records.effects import DISPOSITIONS, PHASES
from turnctl.records.tasks import TASK_STATES

# -- one authority ----------------------------------------------------------------


def test_every_row_names_its_store(store: SqliteStore, place: Path) -> None:
    """A row of one store is never taken for another's: each has the store's id, whatever kind it is (R30)."""
    fill(store)
    with sqlite3.connect(place) as connection:
        found = {kind: {row[0] for row in connection.execute(f"SELECT authority FROM {kind}")} for kind in KINDS}
    connection.close()

    assert {kind: {store.authority} for kind in KINDS} == found


def test_one_incarnation_has_one_store(quick: Path) -> None:
    """A task is taken, ended and cancelled in the ledger that has it; another one knows nothing of it (R30)."""
    with turnctl.open_ledger(str(quick / "one.db")) as one, turnctl.open_ledger(str(quick / "two.db")) as two:
        task = one.submit("acme", "job")
        with (
            pytest.raises(turnctl.LedgerRefused) as caught,
            turnctl.turn(task=LedgerTask(two, "acme", "job", task.inc)),
        ):
            pytest.fail("it began")
        cancelled = two.cancel(task.inc, by="alice", tenant="acme")
        with turnctl.turn(task=task) as turn, pytest.raises(BadArgument):
            two.submit("acme", "part", parent=turn)
        found = two.incarnation(task.inc)

    assert ("no_such_task", "not_authorised", None) == (caught.value.code, cancelled.code, found)
    assert "completed" == turn.outcome


def test_copy_of_an_open_ledger_is_not_opened_beside_it(place: Path, quick: Path) -> None:
    """One ledger in two files would be two authorities for one task; the file stays as it is (R30)."""
    store = open_sqlite(place)
    copy = quick / "copy.db"
    with sqlite3.connect(place) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    connection.close()
    with sqlite3.connect(copy) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    copy.chmod(0o600)
    before = copy.read_bytes()
    with pytest.raises(StoreUnsafe, match="one ledger in two files"):
        open_sqlite(copy)
    again = open_sqlite(place)
    again.close()
    store.close()
    alone = open_sqlite(copy)
    alone.close()

    assert before[:100] == copy.read_bytes()[:100]


@pytest.mark.parametrize(
    ("table", "column", "words"),
    [("effect", "disposition", DISPOSITIONS), ("effect", "phase", PHASES), ("task", "state", TASK_STATES)],
)
def test_words_are_a_closed_list(
    store: SqliteStore, place: Path, table: str, column: str, words: tuple[str, ...]
) -> None:
    """The tables take the words of the records, and no other (R59)."""
    fill(store)
    with sqlite3.connect(place) as connection:
        (made,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        for word in ("cancelled", "failed ", "maybe", ""):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(f"UPDATE {table} SET {column} = ?", (word,))
    connection.close()
    checked = made.split(f"CHECK ({column} IN (", 1)[1].split("))", 1)[0]

    assert list(words) == [one.strip().strip("'") for one in checked.replace("\n", " ").split(",")]


# -- no clock ----------------------------------------------------------------

#: set before anything of turnctl is loaded, which takes the clocks as it finds them
SKEWED = """
import sys, time
for name in ("time", "monotonic"):
    setattr(time, name, lambda had=getattr(time, name): had() + float(sys.argv[2]))
import turnctl

def say(*what):
    print(*what, flush=True)

ledger = turnctl.open_ledger(sys.argv[1])
task = ledger.task("acme", "job")
"""
SKEWED_WORKER = """
with turnctl.turn(task=task) as turn:
    with turn.effect("mail.send", key="1") as sent:
        sent.complete("250 ok")
    say("sent")
    sys.stdin.readline()
    with turn.effect("mail.send", key="2") as sent:
        sent.complete("250 ok")
say(turn.outcome)
"""
SKEWED_CANCELLER = """
say(ledger.cancel(task, by="alice").accepted_rev)
"""


def skewed(code: str, path: Path, by: int) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", f"{SKEWED}{code}ledger.close()", str(path), str(by)]
    env = {**os.environ, "PYTHONPATH": ROOT}
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)


@pytest.mark.parametrize(("worker", "canceller"), [(3600, -3600), (-3600, 3600)], ids=["ahead", "behind"])
def test_clocks_that_are_wrong_change_nothing(quick: Path, worker: int, canceller: int) -> None:
    """Worker and canceller are two hours apart, in both clocks: the order is the store's, the outcome the same (R8)."""
    path = quick / "ledger.db"
    with turnctl.open_ledger(str(path)) as ledger:
        task = ledger.submit("acme", "job")
        working = skewed(SKEWED_WORKER, path, worker)
        assert "sent" == line(working)
        accepted = finish(skewed(SKEWED_CANCELLER, path, canceller))
        assert working.stdin is not None
        working.stdin.write("go\n")
        working.stdin.flush()
        told = finish(working)
        report = ledger.report(task)
        log = ledger.store.read(lambda books: books.events(task.inc))
    kinds = [event.kind for event in log]
    (effect,) = report.effects
    at = [event.at for event in log]

    assert ("2", "cancelled", "cancelled, settled") == (accepted.strip(), told.strip(), report.state)
    assert ("completed", 1) == (effect.disposition, effect.admitted_rev)
    assert kinds.index("effect.completed") < kinds.index("cancel.accepted")
    assert 1 == kinds.count("effect.admitted")
    assert at != sorted(at)  # the times are for people: they are out of order, and nobody minds


# -- what was accepted is kept ----------------------------------------------------------------


@pytest.mark.parametrize("store_kind", ["memory", "sqlite"])
def test_hundred_requests_at_once_stop_it_once(store_kind: str, quick: Path) -> None:
    """Of a hundred cancellations one is on record and stops the turn once; each has a line in the log (R12, R14)."""
    url = "memory:" if store_kind == "memory" else str(quick / "host.db")
    stopped, answers, ready = [], [], threading.Barrier(100)

    def ask(n: int) -> None:
        ready.wait(20)
        answers.append(ledger.cancel(task, by=f"user {n}", reason=f"reason {n}"))

    with turnctl.open_ledger(url) as ledger:
        task = ledger.submit("acme", "job")
        with turnctl.turn(task=task) as turn:
            turn.on_cancel(lambda: stopped.append(turn.report.stop))
            threads = [threading.Thread(target=ask, args=(n,)) for n in range(100)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        lines = ledger.store.read(lambda books: books.events(task.inc))
        report = ledger.report(task)
    kinds = [event.kind for event in lines]
    asked = {json.loads(event.body)["by"] for event in lines if event.kind == "cancel.repeated"}

    assert (100, 1) == (len(answers), len({one.cr for one in answers}))
    assert (1, 99, 1) == (kinds.count("cancel.accepted"), kinds.count("cancel.repeated"), len(stopped))
    assert report.cancellation is not None
    assert 100 == len({report.cancellation.requester, *asked})
    assert {report.cancellation.reason} == {one.reason for one in answers}
    assert ("cancelled, settled", 1) == (report.state, kinds.count("task.draining"))


CANCELLED_AND_KILLED = """
    import turnctl
    ledger = turnctl.open_ledger(path)
    say(ledger.cancel(ledger.task("acme", "job"), by="alice", reason="wrong list").cr)
    os.kill(os.getpid(), 9)
"""
WORKING = """
    import turnctl
    ledger = turnctl.open_ledger(path)
    with turnctl.turn(task=ledger.task("acme", "job")) as turn:
        say("working")
        time.sleep(60)
"""


def raw_cancellation(path: Path) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT * FROM cancellation").fetchall()
    connection.close()
    return found


def test_cancellation_outlives_everybody(quick: Path) -> None:
    """Worker and canceller are killed, what was theirs is gone: the record is there, to the byte (R13, R15)."""
    path = quick / "ledger.db"
    with turnctl.open_ledger(str(path)) as ledger:
        task = ledger.submit("acme", "job")
    working = program(WORKING, path, XDG_STATE_HOME=str(quick / "gone"), HOME=str(quick / "gone"))
    assert "working" == line(working)
    cancelling = program(CANCELLED_AND_KILLED, path)
    accepted = line(cancelling)
    kill(cancelling)
    kill(working)
    before = raw_cancellation(path)
    with turnctl.open_ledger(str(path)) as ledger:
        task = ledger.incarnation(task.inc)
        assert task is not None
        with turnctl.turn(task=task) as turn, turn.effect("mail.send", key="1"):
            pytest.fail("it ran")
        again = ledger.cancel(task, by="bob", reason="another reason")
        ledger.reconcile({})
        report = ledger.report(task)

    assert [accepted] == [row[1] for row in before]
    assert (accepted, "wrong list", "alice") == (again.cr, again.reason, again.requester)
    assert before == raw_cancellation(path)
    assert ("cancelled, settled", "cancelled", "wrong list") == (report.state, turn.outcome, turn.report.stop.reason)


def test_nothing_that_a_host_calls_takes_a_cancellation_back(ledger: turnctl.Ledger) -> None:
    """To retry, resume, take over, submit, reconcile, close or complete leaves the record and the state (R13)."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn, turn.effect("mail.send", key="1") as sent:
        ledger.cancel(task, by="alice", reason="wrong list")
    before = ledger.report(task)
    for one in (task, task.take_over()):
        with turnctl.turn(task=one) as again:
            pass
    with pytest.raises(turnctl.LedgerRefused) as caught:
        ledger.submit("acme", "job")
    ledger.cancel(task, by="bob", scope="self")
    ledger.reconcile({"mail.send": lambda _: None})
    between = ledger.report(task)
    ledger.close_unknown(sent.effect_id, by="bob", reason="nobody will know", tenant="acme")
    after = ledger.report(task)

    assert {before.cancellation} == {between.cancellation, after.cancellation}
    assert ("task_open", "cancelled") == (caught.value.code, again.outcome)
    assert ["stopped_unresolved", "stopped_unresolved", "cancelled_settled"] == [
        one.task.state for one in (before, between, after)
    ]
