"""The ledger: what an effect of a turn costs over its bare transactions, on a folder in memory and on the disk."""

from __future__ import annotations

import itertools
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from table import Row, median_of

import turnctl
from turnctl.ledger import dealings
from turnctl.ledger.identity import this_process
from turnctl.ledger.memory import MemoryStore
from turnctl.ledger.names import new_id
from turnctl.ledger.store import Books, Store
from turnctl.records.changes import By, evolve
from turnctl.records.effects import Effect, Receipt

TITLE = "The ledger"
_COUNT = 100


def bare(store: Store) -> Callable[[], None]:
    """The two transactions of an effect, by the dealings alone."""
    by, inc, number = By("w", "worker"), new_id("i"), itertools.count()
    store.transact(lambda books: dealings.submit(books, by, inc, "acme", inc))
    store.transact(lambda books: dealings.take_lease(books, by, inc, this_process()))
    sha = sha256(b"payload").hexdigest()

    def run() -> None:
        key = f"k{next(number)}"
        effect_id = new_id("e")
        wanted = Effect(effect_id, inc, key, "mail.send", sha, 0, 1)
        receipt = Receipt(effect_id, "plain", sha, "ok", "completed")

        def enter(books: Books) -> object:
            made = dealings.admit(books, by, wanted, 1, b"payload")
            return made and dealings.claim(books, by, effect_id, 1, "w")

        store.transact(enter)
        store.transact(lambda books: dealings.close(books, by, effect_id, "completed", receipt=receipt, gen=1))

    return run


def by_turn(turn: turnctl.Turn) -> Callable[[], None]:
    number = itertools.count()

    def run() -> None:
        with turn.effect("mail.send", key=f"k{next(number)}", payload=b"payload") as sent:
            sent.complete("ok")

    return run


class Nothing(MemoryStore):
    """Takes every transaction for done, and gives the row that it would have come to: what is left is the turn's."""

    rows: dict[str, Effect] | None = None

    def transact(self, fn: Callable[[Books], Any], *, urgent: bool = False, point: str = "store") -> Any:
        if self.rows is None:
            return super().transact(fn, urgent=urgent, point=point)
        return self.rows[point]


def alone(turn: turnctl.Turn) -> Callable[[], None]:
    """An effect of ``turn`` without its transactions."""
    run = by_turn(turn)
    run()
    attachment: Any = turn._ruling
    kept = attachment.store
    nothing = attachment.store = Nothing()
    row = kept.read(lambda books: books.effects_of(attachment.inc))[0]
    claimed = evolve(row, phase="claimed", disposition="pending")
    nothing.rows = {"gate": claimed, "close": evolve(row, phase="closed", disposition="completed")}
    return run


def cpu_us(fn: Callable[[], None]) -> Callable[[], float]:
    def measure() -> float:
        before = time.thread_time()
        for _ in range(_COUNT):
            fn()
        return (time.thread_time() - before) / _COUNT * 1e6

    return measure


@contextmanager
def ledger_in(base: str | None) -> Iterator[turnctl.Ledger]:
    with tempfile.TemporaryDirectory(dir=base) as folder, turnctl.open_ledger(f"{folder}/ledger.db") as ledger:
        yield ledger


def raw_us(folder: str) -> float:
    """Two transactions of one insert each, by sqlite3 alone; the least that an effect could cost."""
    connection = sqlite3.connect(f"{folder}/raw.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS e (id INTEGER PRIMARY KEY, body TEXT)")
    before = time.perf_counter()
    for _ in range(2 * _COUNT):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO e(body) VALUES ('x')")
        connection.execute("COMMIT")
    took = (time.perf_counter() - before) / _COUNT * 1e6
    connection.close()
    return took


def rows() -> list[Row]:
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    found: list[Row] = []
    with turnctl.turn() as bench:
        own = median_of({"own": cpu_us(alone(bench))})["own"]
        bench._ruling = None
    found.append(Row("effect in a turn, over its transactions, CPU", own, "us", target=60))
    with turnctl.turn() as private, turnctl.open_ledger("memory:") as kept, ledger_in(memory) as ledger:
        task = ledger.submit("acme", "job")
        with turnctl.turn(task=task, inherit=False) as turn:
            cpu = median_of(
                {
                    "sdk": cpu_us(by_turn(turn)),
                    "bare": cpu_us(bare(ledger.store)),
                    "sdk in memory": cpu_us(by_turn(private)),
                    "bare in memory": cpu_us(bare(kept.store)),
                }
            )
        found.append(Row("effect in a turn, CPU", cpu["sdk"], "us", "bare transactions", cpu["bare"]))
        found.append(
            Row(
                "effect without a ledger, CPU", cpu["sdk in memory"], "us", "bare ones in memory", cpu["bare in memory"]
            )
        )
    with tempfile.TemporaryDirectory() as folder, ledger_in(None) as ledger:
        task = ledger.submit("acme", "job")
        with turnctl.turn(task=task) as turn:
            run = by_turn(turn)

            def wall_us() -> float:
                before = time.perf_counter()
                for _ in range(_COUNT):
                    run()
                return (time.perf_counter() - before) / _COUNT * 1e6

            wall = median_of({"sdk": wall_us, "raw": lambda: raw_us(folder)}, 5)
        found.append(Row("effect in a turn on this disk, wall", wall["sdk"], "us", "two raw commits", wall["raw"]))
    return found
