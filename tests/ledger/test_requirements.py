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
from desk import Desk
from standins import Background
from stores import ROOT, fill, finish, kill, line, program

import turnctl
from turnctl.errors import BadArgument, StoreUnsafe
from turnctl.ledger.memory import MemoryStore
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


# -- no state by hand ----------------------------------------------------------------


def test_nobody_sets_a_state_by_hand(ledger: turnctl.Ledger) -> None:
    """A stop is a request: as long as the worker is at it that is what is told, and no call makes it look ended."""
    task = ledger.submit("acme", "job")
    begun, go = threading.Event(), threading.Event()

    def work() -> str | None:
        with turnctl.turn("worker", task=task, grace=0) as turn, turn.shield():
            begun.set()
            go.wait(20)  # it does not ask whether it was stopped
        return turn.outcome

    working = Background(work)
    begun.wait(20)
    ledger.cancel(task, by="alice", kill=True)
    report = ledger.report(task)
    go.set()
    outcome = working.result()
    public = {name for kind in (turnctl.Ledger, LedgerTask) for name in dir(kind) if not name.startswith("_")}

    assert report.state in ("cancellation requested", "draining")
    assert ("active", "cancelled", "cancelled_settled") == (report.task.execution, outcome, task.state)
    assert not [name for name in public if name.startswith(("set", "mark", "force", "settle", "reopen", "resume"))]
    with pytest.raises(AttributeError):
        task.state = "cancelled_settled"  # type: ignore[misc]


def test_state_that_was_edited_is_found(store: SqliteStore, place: Path) -> None:
    """Another program that writes a state into the file is told by the log, which knows nothing of it."""
    from turnctl.ledger.verify import verify

    Desk(store)
    with sqlite3.connect(place) as connection:
        connection.execute("UPDATE task SET state = 'cancelled_settled', revision = 9")
    connection.close()

    findings = verify(place).findings

    assert [] != [one for one in findings if "task" in one and "i1" in one]


def test_winner_is_told_with_its_revision() -> None:
    """Of a completion and a cancellation at once each caller learns which came first, and under which revision."""
    seen = set()
    for n in range(40):
        store = MemoryStore()
        desk = Desk(store)
        ready = threading.Barrier(2)

        def complete(desk: Desk = desk, ready: threading.Barrier = ready) -> object:
            ready.wait(20)
            return desk.complete()

        def cancel(desk: Desk = desk, ready: threading.Barrier = ready) -> object:
            ready.wait(20)
            return desk.cancel()

        first = Background(complete if n % 2 else cancel)
        second = Background(cancel if n % 2 else complete)
        told = {"complete": (first if n % 2 else second).result(), "cancel": (second if n % 2 else first).result()}
        completed, cancelled = told["complete"], told["cancel"]
        task = desk.task()
        if desk.cr() is None:
            seen.add("completed")
            assert ("completed", 2) == (completed.state, completed.revision)  # type: ignore[attr-defined]
            assert ("already_completed", 2) == (cancelled.code, cancelled.row.revision)  # type: ignore[attr-defined]
        else:
            seen.add("cancelled")
            assert 2 == cancelled.cr.accepted_rev  # type: ignore[attr-defined]
            assert ("already_cancelled", cancelled.cr.cr) == (completed.code, completed.cr)  # type: ignore[attr-defined]
            assert "completed" == task.late_outcome_ref

    assert {"completed", "cancelled"} >= seen
    assert seen


# -- as people meet it ----------------------------------------------------------------


def test_message_that_comes_again_finds_the_cancellation(ledger: turnctl.Ledger) -> None:
    """Cancelled while no worker is there, then delivered by a queue again and again: acked, and nothing is done."""
    task = ledger.submit("acme", "job")
    answer = ledger.cancel(task, by="alice")
    acked, ran = [], []
    for message in [task.inc] * 3:
        found = ledger.incarnation(message)
        assert found is not None
        with turnctl.turn(task=found) as turn:
            with turn.effect("mail.send", key="1"):
                ran.append(1)
        acked.append(turn.outcome)

    assert bool(answer)
    assert (["cancelled"] * 3, [], ()) == (acked, ran, ledger.report(task).effects)
    assert "cancelled_settled" == task.state


def test_retry_that_waits_is_not_made(ledger: turnctl.Ledger) -> None:
    """A loop between two attempts ends at its wait; another worker, asked to try again, gets the cancel."""
    task = ledger.submit("acme", "job")
    waits = threading.Event()
    tried = []

    def work() -> str | None:
        with turnctl.turn("worker", task=task) as turn:
            for attempt in range(5):
                with turn.effect("mail.send", key=f"try {attempt}") as sent:
                    tried.append(attempt)
                    sent.reject("451 try again later")
                waits.set()
                turn.sleep(60)
        return turn.outcome

    working = Background(work)
    waits.wait(20)
    ledger.cancel(task, by="alice")
    outcome = working.result()
    with turnctl.turn(task=task) as again, again.effect("mail.send", key="try 1"):
        tried.append(9)

    assert (["cancelled"] * 2, [0]) == ([outcome, again.outcome], tried)


def test_schedule_makes_another_incarnation(ledger: turnctl.Ledger) -> None:
    """What submits the task id again later makes a new one, which runs: it needs a cancellation of its own."""
    first = ledger.submit("acme", "nightly")
    ledger.cancel(first, by="alice")
    second = ledger.submit("acme", "nightly")
    repeated = ledger.cancel(first, by="alice")
    with turnctl.turn(task=second) as turn:
        pass

    assert first.inc != second.inc
    assert (first.inc, "completed", None) == (repeated.inc, turn.outcome, ledger.report(second).cancellation)


def test_approval_that_comes_too_late_starts_nothing(ledger: turnctl.Ledger) -> None:
    """An approval is no way round the gate: granted after the acceptance, the action is refused."""
    task = ledger.submit("acme", "job")
    asked, approved = threading.Event(), threading.Event()
    ran = []

    def work() -> str | None:
        with turnctl.turn("worker", task=task, grace=0) as turn:
            with turn.shield():  # a person is asked, and answers in their own time
                asked.set()
                approved.wait(20)
                with turn.effect("deploy", key="1"):
                    ran.append(1)
        return turn.outcome

    working = Background(work)
    asked.wait(20)
    ledger.cancel(task, by="alice")
    approved.set()

    assert ("cancelled", []) == (working.result(), ran)
    assert () == ledger.report(task).effects
    assert "gate.rejected" in [event.kind for event in ledger.store.read(lambda books: books.events(task.inc))]


BATCH = """
    import turnctl
    ledger = turnctl.open_ledger(path)
    journal = open(sys.argv[2], "a")
    kills = sys.argv[3] == "kill"
    with turnctl.turn(task=ledger.task("acme", "job")) as turn:
        for n in (1, 2, 3):
            try:
                with turn.effect("tool", key=str(n)) as sent:
                    print(n, sent.effect_id, file=journal, flush=True)
                    sent.complete(f"did {n}")
            except turnctl.EffectCompleted as known:
                say("known", n, known.effect_id, known.receipt)
            if kills and n == 2:
                os.kill(os.getpid(), 9)
    say(turn.outcome)
    ledger.close()
"""


@pytest.mark.parametrize("cancelled", [False, True], ids=["resumed", "cancelled and resumed"])
def test_batch_that_was_interrupted_is_not_replayed(quick: Path, cancelled: bool) -> None:
    """Killed after two of three: the two are known by id and receipt, and the third is made once, or never."""
    path, journal = quick / "ledger.db", quick / "journal"
    with turnctl.open_ledger(str(path)) as ledger:
        task = ledger.submit("acme", "job")
    kill_out = kill_by_itself(path, journal)
    with turnctl.open_ledger(str(path)) as ledger:
        if cancelled:
            ledger.cancel(task.inc, by="alice", tenant="acme")
        said = finish(program(BATCH, path, str(journal), "go")).splitlines()
        report = ledger.report(task.inc)
    sent = [one.split() for one in journal.read_text().splitlines()]

    assert "" == kill_out
    assert [one.effect_id for one in report.effects] == [effect_id for _, effect_id in sent]
    assert [f"did {n}" for n, _ in sent] == [one.receipt for one in report.effects]
    if cancelled:
        assert (["cancelled"], ["1", "2"]) == (said, [n for n, _ in sent])
    else:
        known = [f"known {n} {effect_id} did {n}" for n, effect_id in sent[:2]]
        assert ([*known, "completed"], ["1", "2", "3"]) == (said, [n for n, _ in sent])


def kill_by_itself(path: Path, journal: Path) -> str:
    process = program(BATCH, path, str(journal), "kill")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    with process.stdout:
        said = process.stdout.read()

    assert -9 == process.wait(30)
    return said
