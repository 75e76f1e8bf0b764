"""What people have met elsewhere when they stopped something, and what happens here instead (P15, P16, P17)."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from desk import Desk
from standins import Background, until
from stores import finish, program

import turnctl
from turnctl.ledger import http_adapter
from turnctl.ledger.memory import MemoryStore
from turnctl.ledger.sqlite import SqliteStore
from turnctl.ledger.task import LedgerTask
from turnctl.records.effects import Effect


def kinds(ledger: turnctl.Ledger, task: LedgerTask) -> list[str]:
    return [event.kind for event in ledger.store.read(lambda books: books.events(task.inc))]


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


# -- a stop, and what it says of effects ----------------------------------------------------------------


def test_closed_stream_says_nothing_of_an_effect(ledger: turnctl.Ledger) -> None:
    """A model's stream that is cut, and a worker that acknowledges, change no disposition; the receipt still counts."""
    task = ledger.submit("acme", "job")
    sending, told = threading.Event(), threading.Event()
    seen: list[str] = []

    def tool(turn: turnctl.Turn) -> None:
        with turn.effect("mail.send", key="1") as sent:
            sending.set()
            told.wait(20)
            sent.complete("250 ok")

    def tokens() -> Iterator[str]:
        yield "a"
        ledger.cancel(task, by="alice")
        until(lambda: turn.token.cancelled)  # it is told at once, by another thread
        yield "b"
        yield "c"

    with turnctl.turn("worker", task=task, grace="20s") as turn:
        running = Background(tool, turn)
        sending.wait(20)
        try:
            seen += turn.stream(tokens())
        finally:
            acknowledged = until(lambda: any("acknowledged" in kind for kind in kinds(ledger, task)))
            between = ledger.report(task)
            told.set()
            running.result()
    after = ledger.report(task)

    assert acknowledged
    assert seen in (["a"], [])
    assert ("draining", "claimed", "pending") == (
        *(between.state, between.effects[0].phase, between.effects[0].disposition),
    )
    assert ("cancelled, settled", "completed", "250 ok") == (
        *(after.state, after.effects[0].disposition, after.effects[0].receipt),
    )


@pytest.mark.parametrize("asked", ["the ledger", "the turn"])
def test_provider_is_asked_when_the_stop_is_on_record(ledger: turnctl.Ledger, asked: str) -> None:
    """Whoever is stopped first, the store has the acceptance before any provider is asked to cancel (R3)."""
    found = []
    told = threading.Event()

    def cancel(effect: Effect) -> None:
        found.append(ledger.report(effect.inc).cancellation)
        told.set()

    adapter = http_adapter(cancel=cancel)
    task = ledger.submit("acme", "job", promise="ask-provider", adapters=[adapter])
    with turnctl.turn(task=task) as turn, turn.effect("pay", key="1", adapter=adapter):
        if asked == "the ledger":
            ledger.cancel(task, by="alice")
        else:
            turn.stop("enough")
        told.wait(20)

    assert 1 == len(found)
    assert found[0] is not None
