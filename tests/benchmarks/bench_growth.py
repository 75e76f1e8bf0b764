"""A ledger that grows: its size, what stays as fast in a large one, and purging it beside cancellations.

``BENCH_EFFECTS=1000000`` makes the large one as large as that; it is written directly, with chains that verify.
"""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from table import Row

import turnctl
from turnctl.ledger import dealings
from turnctl.ledger.opening import init, open_sqlite
from turnctl.ledger.purging import purge
from turnctl.ledger.rows import FIRST_HASH, chained, name_of, text_of, values_of
from turnctl.ledger.schema import inserts
from turnctl.ledger.sqlite import SqliteStore
from turnctl.ledger.verify import verify
from turnctl.records.changes import By, Note, evolve
from turnctl.records.effects import Effect, Receipt
from turnctl.records.tasks import Holder, Lease, Task

TITLE = "A ledger that grows"

EFFECTS = int(os.environ.get("BENCH_EFFECTS", "20000"))
TURNS = int(os.environ.get("BENCH_TURNS", "1000"))
PURGED = int(os.environ.get("BENCH_PURGED", "2000"))
EACH = 100  # effects of a task
WORKER, CANCELLER = By("w", "worker", 1.0), By("c", "canceller", 1.0)
PAYLOAD = b"x" * 200
SHA, OK = sha256(PAYLOAD).hexdigest(), sha256(b"ok").hexdigest()


# -- a large one --------------------------------------------------------------------------------------------------


def history(inc: str) -> Iterator[Note]:
    """A task that was worked on by one turn, completed, with its settled effects."""
    task = Task(inc, "bench", inc, 1, inc, submitted_at=1.0)
    lease = Lease(inc, 1, Holder("boot", "ns", 1, 1))
    yield Note(inc, "task.submitted", inc, task)
    yield Note(inc, "lease.taken", "lease 1", lease)
    task = evolve(task, lease_gen=1, execution="active")
    yield Note(inc, "task.leased", inc, task)
    for n in range(EACH):
        effect = Effect(f"e-{inc}-{n}", inc, f"mail.send {n}", "mail.send", SHA, 1, 1, at=1.0)
        yield Note(inc, "effect.admitted", effect.effect_id, effect)
        effect = evolve(effect, phase="claimed", claim="1 w")
        yield Note(inc, "effect.claimed", effect.effect_id, effect)
        receipt = Receipt(effect.effect_id, "provider", OK, "ok", "completed", at=1.0)
        yield Note(inc, "receipt.kept", effect.effect_id, receipt)
        effect = evolve(effect, phase="closed", disposition="completed", receipt_sha=OK)
        yield Note(inc, "effect.completed", effect.effect_id, effect)
    yield Note(inc, "lease.given_back", "lease 1", evolve(lease, live=False))
    ended = evolve(task, state="completed", revision=2, execution="stop_observed", ended_at=1.0)
    yield Note(inc, "task.completed", inc, ended)


def grow(path: Path, effects: int) -> None:
    """Write that many settled effects into the ledger at ``path``, as its own transactions would have."""
    statements = inserts()
    # one history as text, in which the name of the task is put: a line at a time it would take an hour
    told = [[note.kind, note.subject, text_of(note), name_of(note.row), values_of(note.row)] for note in history("@I@")]
    text = json.dumps(told)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for pragma in ("synchronous=OFF", "cache_size=-200000", "wal_autocheckpoint=20000"):
            connection.execute(f"PRAGMA {pragma}")
        authority = connection.execute("SELECT store_uuid FROM meta").fetchone()[0]
        pos = connection.execute("SELECT ifnull(max(pos), 0) FROM log").fetchone()[0]
        for number in range(effects // EACH):
            inc, before, n = f"big-{number}", FIRST_HASH, 0
            last: dict[tuple[str, str], list[object]] = {}
            lines = []
            for n, (kind, subject, body, of, row) in enumerate(json.loads(text.replace("@I@", inc)), 1):
                values = (inc, n, kind, "w", "worker", False, subject, body, 1.0)
                after = chained(before, *values)
                pos += 1
                lines.append((pos, *values, before, after))
                before = after
                last[of, subject] = row
            connection.execute("BEGIN")
            for of in ("task", "lease", "receipt", "effect"):
                rows = [[*row, authority] for (kind, _), row in last.items() if kind == of]
                connection.executemany(statements[of], rows)
            bodies = [(subject, PAYLOAD) for kind, subject in last if kind == "effect"]
            connection.executemany("INSERT INTO payload VALUES (?, ?)", bodies)
            connection.executemany(f"INSERT INTO log VALUES ({', '.join('?' * 12)})", lines)
            connection.execute("INSERT INTO head VALUES (?, ?, ?)", (inc, n, before))
            connection.execute("COMMIT")


def median_ms(fn: Callable[[], object], times: int) -> float:
    found = []
    for _ in range(times):
        began = time.perf_counter()
        fn()
        found.append((time.perf_counter() - began) * 1000)
    return statistics.median(found)


def gates(store: SqliteStore, name: str) -> Callable[[], object]:
    """One gate commit of a task that runs."""
    store.transact(lambda books: dealings.submit(books, WORKER, name, "bench", name))
    store.transact(lambda books: dealings.take_lease(books, WORKER, name, Holder("b", "n", 1, 1)))

    def once() -> object:
        effect_id = f"{name} {time.perf_counter_ns()}"
        wanted = Effect(effect_id, name, effect_id, "mail.send", SHA, 0, 1)
        return store.transact(lambda books: dealings.admit(books, WORKER, wanted, 1, PAYLOAD))

    return once


def measured(path: Path) -> dict[str, float]:
    """What is to stay as fast."""
    found = {"open and close": median_ms(lambda: open_sqlite(path).close(), 15)}
    with turnctl.open_ledger(str(path)) as ledger:
        found[f"report of a task with {EACH} effects"] = median_ms(lambda: ledger.report("big-0"), 15)
        store = ledger.store
        assert isinstance(store, SqliteStore)
        found["gate commit"] = median_ms(gates(store, "g"), 400)
    return found


def growing(folder: Path) -> list[Row]:
    small, large = folder / "small" / "ledger.db", folder / "large" / "ledger.db"
    for path, effects in ((small, EACH * 10), (large, EFFECTS)):
        init(path)
        grow(path, effects)
    if EFFECTS <= 50_000:
        assert verify(large)
    size = large.stat().st_size
    before, after = measured(small), measured(large)
    lines = [
        Row(f"{name}, {EFFECTS} settled effects", after[name], "ms", f"{EACH * 10} of them", before[name], 2.0)
        for name in before
    ]
    return [*lines, Row("size of a settled effect, payload of 200 bytes", size / EFFECTS, "bytes")]


# -- size ---------------------------------------------------------------------------------------------------------


def size_of_turns(folder: Path, effects: int) -> float:
    """Bytes of a ledger for so many turns, MiB for 1,000."""
    path = folder / f"turns-{effects}" / "ledger.db"
    with turnctl.open_ledger(str(path)) as ledger:
        for n in range(TURNS):
            task = ledger.submit("bench", f"job-{n}")
            with turnctl.turn(task=task) as turn:
                for k in range(effects):
                    with turn.effect("mail.send", key=str(k), payload=PAYLOAD) as sent:
                        sent.complete("ok")
    return path.stat().st_size * 1000 / TURNS / 2**20


# -- purging ------------------------------------------------------------------------------------------------------


def purging(folder: Path) -> list[Row]:
    path = folder / "purged" / "ledger.db"
    init(path)
    store = open_sqlite(path)
    for start in range(0, PURGED, 500):

        def submit(books: object, start: int = start) -> None:
            for n in range(start, min(start + 500, PURGED)):
                dealings.submit(books, WORKER, f"x{n}", "bench", f"x{n}")  # type: ignore[arg-type]
                dealings.cancel(books, CANCELLER, f"x{n}", lambda n=n: f"cx{n}")  # type: ignore[arg-type,misc]

        store.transact(submit)
    alone = cancels(store, threading.Event(), 100)
    done = threading.Event()
    beside: list[float] = []
    thread = threading.Thread(target=lambda: beside.extend(cancels(store, done, None)))
    thread.start()
    began = time.perf_counter()
    found = purge(store, older_than_s=0.0, tombstones_s=1e9, dry_run=False, include_detached=False)
    took = time.perf_counter() - began
    done.set()
    thread.join()
    store.close()
    assert found.incarnations >= PURGED
    assert verify(path)
    return [
        Row("purging, an incarnation", took / found.incarnations * 1000, "ms"),
        Row("cancellation beside a purge, p50", at(beside, 0.5), "ms", "without one", at(alone, 0.5)),
        Row("the same, p99", at(beside, 0.99), "ms", "without one", at(alone, 0.99)),
        Row("the same, the longest", max(beside), "ms", target=1000),
    ]


def at(times: list[float], part: float) -> float:
    return sorted(times)[int((len(times) - 1) * part)]


def cancels(store: SqliteStore, done: threading.Event, count: int | None) -> list[float]:
    """Milliseconds that cancellations of others took, one after the other."""
    found: list[float] = []
    while not done.wait(0.005) and len(found) != count:
        name = f"y{time.perf_counter_ns()}"
        store.transact(lambda books, name=name: dealings.submit(books, WORKER, name, "bench", name))  # type: ignore[misc]
        began = time.perf_counter()
        store.transact(
            lambda books, name=name: dealings.cancel(books, CANCELLER, name, lambda: f"c{name}"),  # type: ignore[misc]
            urgent=True,
        )
        found.append((time.perf_counter() - began) * 1000)
    return found


def rows() -> list[Row]:
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as made:
        sizes = {effects: size_of_turns(Path(made), effects) for effects in (0, 1)}
    with tempfile.TemporaryDirectory() as made:
        return [
            Row("size for 1,000 turns without an effect", sizes[0], "MiB"),
            Row("- with one each", sizes[1], "MiB"),
            *growing(Path(made)),
            *purging(Path(made)),
        ]


if __name__ == "__main__":
    import sys

    from table import head, show

    sys.stdout.write(head() + "\n")
    show(TITLE, rows())
