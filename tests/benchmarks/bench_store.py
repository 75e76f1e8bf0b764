"""The ledger's store: gate commits against the flush that they wait for and a raw loop of SQLite, alone and many."""

from __future__ import annotations

import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from table import Row

from turnctl.ledger import dealings
from turnctl.ledger.opening import init, open_sqlite
from turnctl.ledger.store import Store
from turnctl.records.changes import By
from turnctl.records.effects import Effect
from turnctl.records.tasks import Holder

TITLE = "The ledger's store"

SECONDS = float(os.environ.get("BENCH_STORE_SECONDS", "2"))
WORKER, CANCELLER = By("w", "worker"), By("c", "canceller")
PAYLOAD = b"x" * 200


def percentile(times: list[float], part: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * part))] * 1000


def timed(act: Callable[[int], object], seconds: float = SECONDS) -> list[float]:
    """The seconds that each call took, one after the other for so long."""
    times, end = [], time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        act(len(times))
        times.append(time.perf_counter() - began)
    return times


def flush_floor(folder: Path, seconds: float) -> list[float]:
    """Overwriting 4 KiB and flushing them: the least that a durable commit can take."""
    fd = os.open(folder / "floor", os.O_CREAT | os.O_RDWR, 0o600)
    os.pwrite(fd, b"x" * 4096, 0)

    def once(_: int) -> None:
        os.pwrite(fd, b"x" * 4096, 0)
        os.fdatasync(fd)

    try:
        return timed(once, seconds)
    finally:
        os.close(fd)


def raw_sqlite(folder: Path, seconds: float) -> list[float]:
    """One insert in its own transaction, as durable, with nothing of turnctl."""
    connection = sqlite3.connect(folder / "raw.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS t (id TEXT PRIMARY KEY, body BLOB)")

    def once(n: int) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t VALUES (?, ?)", (f"{n} {time.perf_counter_ns()}", PAYLOAD))
        connection.execute("COMMIT")

    try:
        return timed(once, seconds)
    finally:
        connection.close()


def gate(store: Store, who: str) -> Callable[[int], object]:
    def once(n: int) -> object:
        name = f"{who} {n} {time.perf_counter_ns()}"
        wanted = Effect(name, who, name, "mail.send", "sha", 0, 1)
        return store.transact(lambda books: dealings.admit(books, WORKER, wanted, 1, PAYLOAD))

    return once


def cancel(store: Store, inc: str) -> float:
    """Seconds until a new task of that name is cancelled."""
    store.transact(lambda books: dealings.submit(books, WORKER, inc, "bench", inc))
    began = time.perf_counter()
    store.transact(lambda books: dealings.cancel(books, CANCELLER, inc, lambda: f"cr {inc}"), urgent=True)
    return time.perf_counter() - began


def by_threads(store: Store, count: int) -> list[list[float]]:
    found: list[list[float]] = [[] for _ in range(count)]

    def work(n: int) -> None:
        found[n] = timed(gate(store, f"t{n}"))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def by_processes(path: Path, count: int, beside: Callable[[], None] = lambda: None) -> list[list[float]]:
    argv = [sys.executable, __file__, "--work", str(path)]
    pipe = subprocess.PIPE
    crew = [subprocess.Popen([*argv, f"t{n}"], stdin=pipe, stdout=pipe, text=True) for n in range(count)]
    for one in crew:
        assert one.stdout is not None
        one.stdout.readline()
    for one in crew:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    beside()
    return [[float(word) for word in one.communicate()[0].split()] for one in crew]


def work(path: str, who: str) -> None:
    """One of those processes."""
    store = open_sqlite(path)
    print("ready", flush=True)
    sys.stdin.readline()
    times = timed(gate(store, who))
    store.close()
    print(*times)


def wakes(path: Path, store: Store, count: int = 40) -> list[float]:
    """Seconds from the return of a cancellation to its being read in another process."""
    for n in range(count):
        store.transact(lambda books, n=n: dealings.submit(books, WORKER, f"w{n}", "bench", f"w{n}"))
    pipe = subprocess.PIPE
    argv = [sys.executable, __file__, "--hear", str(path), str(count)]
    hearer = subprocess.Popen(argv, stdout=pipe, text=True)
    assert hearer.stdout is not None
    hearer.stdout.readline()
    told = []
    for n in range(count):
        store.transact(lambda books, n=n: dealings.cancel(books, CANCELLER, f"w{n}", lambda: f"cw{n}"), urgent=True)
        told.append(time.monotonic())
        time.sleep(0.02)
    heard = [float(word) for word in hearer.communicate()[0].split()]
    return [later - sooner for sooner, later in zip(told, heard, strict=True)]


def hear(path: str, count: int) -> None:
    store = open_sqlite(path)
    at: dict[int, float] = {}
    left = threading.Semaphore(0)

    def rung(n: int) -> None:
        assert store.read(lambda books: books.at_gate(f"w{n}").cr)  # type: ignore[union-attr]
        at[n] = time.monotonic()
        left.release()

    for n in range(count):
        store.watch(f"w{n}", lambda n=n: rung(n))  # type: ignore[misc]
    print("ready", flush=True)
    for _ in range(count):
        left.acquire()
    store.close()
    print(*(at[n] for n in range(count)))


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        path = folder / "ledger.db"
        init(path)
        store = open_sqlite(path)
        for n in range(8):
            store.transact(lambda books, n=n: dealings.submit(books, WORKER, f"t{n}", "bench", f"task{n}"))
            store.transact(lambda books, n=n: dealings.take_lease(books, WORKER, f"t{n}", Holder("b", "n", 1, 1)))
        lines = alone(folder, store)
        floor = statistics.median(flush_floor(folder, 0.5)) * 1000
        for count in (2, 8):
            lines += many(f"{count} threads", by_threads(store, count), floor)
        for count in (1, 2):
            lines += many(f"{count} process{'es' * (count > 1)}", by_processes(path, count), floor)
        lines += beside_committers(path, store, floor)
        heard = wakes(path, store)
        lines += [
            Row("cancellation to wake-up in another process, p50", percentile(heard, 0.5), "ms"),
            Row("the same, p99", percentile(heard, 0.99), "ms", target=20),
        ]
        store.close()
    return lines


def alone(folder: Path, store: Store) -> list[Row]:
    """One client: the three in turn, as the disk changes from one second to the next."""
    flushes: list[float] = []
    raws: list[float] = []
    gates: list[float] = []
    for _ in range(5):
        flushes += flush_floor(folder, SECONDS / 5)
        raws += raw_sqlite(folder, SECONDS / 5)
        gates += timed(gate(store, "t0"), SECONDS / 5)
    floor, raw, ours = (percentile(times, 0.5) for times in (flushes, raws, gates))
    return [
        Row("flush of 4 KiB, p50", floor, "ms"),
        Row("flush of 4 KiB, p99", percentile(flushes, 0.99), "ms"),
        Row("raw SQLite, p50", raw, "ms", "flush", floor),
        Row("gate, 1 thread, p50", ours, "ms", "1.6 flushes + 0.1 ms:", 1.6 * floor + 0.1, 1.0),
        Row("gate, 1 thread, p50", ours, "ms", "raw SQLite", raw),
        Row("gate, 1 thread, p99", percentile(gates, 0.99), "ms", "raw SQLite", percentile(raws, 0.99)),
    ]


def many(name: str, found: list[list[float]], floor: float) -> list[Row]:
    every = [one for times in found for one in times]
    counts = [len(times) for times in found]
    lines = [
        Row(f"gate, {name}, commits", len(every) / SECONDS, "/s", "one per flush", 1000 / floor),
        Row(f"gate, {name}, p50", percentile(every, 0.5), "ms", "flush", floor),
        Row(f"gate, {name}, p99", percentile(every, 0.99), "ms", "flush", floor),
    ]
    if len(counts) > 1:
        mean = sum(counts) / len(counts)
        lines.append(Row(f"gate, {name}, least served", min(counts), "commits", "mean", mean, 1 / 3, at_least=True))
    return lines


def beside_committers(path: Path, store: Store, floor: float) -> list[Row]:
    """Eight processes that commit as fast as they can, and somebody who cancels."""
    times: list[float] = []

    def beside() -> None:
        end = time.perf_counter() + 0.9 * SECONDS
        while time.perf_counter() < end:
            times.append(cancel(store, f"c{len(times)}"))
            time.sleep(0.01)

    lines = many("8 processes", by_processes(path, 8, beside), floor)
    bound = 50 * floor + 40
    lines += [
        Row("cancellation beside 8 committers, p50", percentile(times, 0.5), "ms", "flush", floor),
        Row("the same, p99", percentile(times, 0.99), "ms", "50 flushes + 40 ms:", bound, 1.0),
    ]
    return lines


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(*sys.argv[2:])
    elif sys.argv[1:2] == ["--hear"]:
        hear(sys.argv[2], int(sys.argv[3]))
    else:
        from table import head, show

        sys.stdout.write(head() + "\n")
        show(TITLE, rows())
