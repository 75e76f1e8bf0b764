"""The oracle finds what the recipes are there to rule out, and the receiver does what it says."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from client import Client
from oracle import wrong
from scene import Stage

import turnctl
from turnctl.ledger.store import Books
from turnctl.records.changes import By, Change, Note, evolve
from turnctl.records.tasks import Child


def test_work_that_nobody_stops(stage: Stage) -> None:
    """An effect gets out once, with its receipt; the task completes."""
    worker = stage.player()
    inc = worker.do("submit")
    at_work = worker.do("work", inc=inc)
    effect_id = worker.do("effect", key="a")
    ended = worker.do("end")
    worker.end()

    assert "at work" == at_work
    assert {"outcome": "completed", "reason": None, "effects": {"a": "completed"}} == ended
    assert [effect_id] == [one["effect_id"] for one in stage.receiver.journal()]


@pytest.fixture
def unjudged(quick: Path) -> Any:
    """A stage with a cancelled task, whose one effect was completed; nobody judges it but the test."""
    with Stage(quick) as stage:
        receiver = Client(stage.receiver.port, "write")
        task = stage.ledger.submit("acme", "job")
        with turnctl.turn(task=task) as turn:
            with turn.effect("mail.send", key="a", payload="hello") as sent:
                sent.complete(receiver.post(sent.effect_id, sent.payload))
            task.cancel(by="alice")
        yield stage, receiver, task.inc


def unguarded(stage: Stage) -> sqlite3.Connection:
    """A connection for which the tables refuse nothing; close it."""
    raw = sqlite3.connect(stage.url)
    raw.execute("PRAGMA ignore_check_constraints = 1")
    for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        raw.execute(f"DROP TRIGGER {name}")
    raw.commit()
    return raw


def spoil(stage: Stage, inc: str, column: str, value: object) -> None:
    """Change the effect behind the back of the ledger."""
    with closing(unguarded(stage)) as raw:
        raw.execute(f"UPDATE effect SET {column} = ? WHERE inc = ?", (value, inc))
        raw.commit()


def written(stage: Stage, inc: str, of: Callable[[Books], Any], **changed: Any) -> None:
    """Write a row as no dealing does, with a line of the log that tells of it."""
    unguarded(stage).close()

    def write(books: Books) -> None:
        note = Note(inc, "spoilt", inc, evolve(of(books), **changed))
        books.write(Change((note,), None), By("nobody", "system"))

    stage.ledger.store.transact(write)


def late(stage: Stage, receiver: Client, inc: str) -> None:
    spoil(stage, inc, "admitted_rev", 9)


def past_the_ledger(stage: Stage, receiver: Client, inc: str) -> None:
    receiver.post("e-of-nobody", b"hello")


def another_payload(stage: Stage, receiver: Client, inc: str) -> None:
    spoil(stage, inc, "payload_sha", "0" * 64)


def twice(stage: Stage, receiver: Client, inc: str) -> None:
    effect_id = stage.receiver.journal()[0]["effect_id"]
    receiver.post(effect_id, b"hello")


def suppressed(stage: Stage, receiver: Client, inc: str) -> None:
    spoil(stage, inc, "disposition", "suppressed")


def without_receipt(stage: Stage, receiver: Client, inc: str) -> None:
    spoil(stage, inc, "receipt_sha", "0" * 64)


def two_cancellations(stage: Stage, receiver: Client, inc: str) -> None:
    written(stage, inc, lambda books: getattr(books.at_gate(inc), "cr", None), reason="another one")


def runs_again(stage: Stage, receiver: Client, inc: str) -> None:
    written(stage, inc, lambda books: books.task(inc), state="running")


@pytest.mark.parametrize(
    ("deed", "found"),
    [
        (late, "I1"),
        (past_the_ledger, "I2"),
        (another_payload, "I2"),
        (twice, "I2"),
        (suppressed, "I3"),
        (without_receipt, "I4"),
        (two_cancellations, "I5"),
        (runs_again, "I6"),
    ],
)
def test_deed_is_found(unjudged: Any, deed: Callable[..., None], found: str) -> None:
    """What breaks an invariant is named by its number; before that nothing is wrong."""
    stage, receiver, inc = unjudged
    before = wrong(stage.ledger, stage.receiver)
    deed(stage, receiver, inc)

    assert [] == before
    assert found in {one[:2] for one in wrong(stage.ledger, stage.receiver)}


def test_child_that_escapes_is_found(unjudged: Any) -> None:
    """A child that runs on below a cancelled task, and is not in its inventory, breaks I7."""
    stage, _, inc = unjudged

    stage.ledger.submit("acme", "escaped")
    escaped = stage.ledger.task("acme", "escaped")
    written(stage, inc, lambda books: Child(inc, escaped.inc, 2))

    assert {"I7"} == {one[:2] for one in wrong(stage.ledger, stage.receiver)}


def test_reading_credential_sends_nothing(stage: Stage) -> None:
    """Who may only ask is refused a POST, and that it came is written down."""
    reader = stage.player(credential="read")
    refused = reader.fails("post", effect_id="e1")
    reader.end()

    assert ("Refused", None) == refused
    assert [] == stage.receiver.journal()
    assert [{"method": "POST", "id": "e1", "who": "read", "refused": True}] == stage.receiver.asked()


@pytest.mark.parametrize(("mode", "word", "kept"), [("hold", "holding", 0), ("slow", "kept", 1)])
def test_receiver_waits_before_or_after(stage: Stage, mode: str, word: str, kept: int) -> None:
    """It holds a request before it has done what it asks, or after that, until it is told to let go."""
    stage.receiver.mode(mode)
    worker = stage.player()
    worker.do("work", inc=stage.submit())
    worker.tell("effect", key="a")
    said = stage.receiver.said()
    before = len(stage.receiver.journal())
    stage.receiver.mode("normal")
    effect_id = worker.hear()
    worker.do("end")

    assert (f"{word} {effect_id}", kept) == (said, before)
    assert 1 == len(stage.receiver.journal())


def test_lost_answer_is_looked_up(stage: Stage) -> None:
    """A receiver that resets the connection has done it all the same, and tells who asks; or cannot tell."""
    stage.receiver.mode("commit-then-reset")
    worker = stage.player()
    worker.do("work", inc=stage.submit())
    lost = worker.fails("effect", key="a")
    ended = worker.do("end")
    stage.receiver.mode("cannot-tell")
    untold = worker.do("reconcile")
    stage.receiver.mode("normal")
    told = worker.do("reconcile")

    assert "ConnectionResetError" == lost[0]
    assert {"a": "unknown"} == ended["effects"]
    assert (["unknown", "notify"], ["completed", None]) == (untold[0][1:], told[0][1:])
