"""Many who write at once: each has its share, a cancellation does not wait for all, and who is stuck is named."""

from __future__ import annotations

import os
import signal
import statistics
import threading
import time
from pathlib import Path

import pytest
from desk import CANCELLER, Desk
from stores import admit, finish, kill, line, program

from turnctl.errors import StoreBusy
from turnctl.ledger import dealings
from turnctl.ledger.opening import init, open_sqlite
from turnctl.ledger.sqlite import SqliteStore

COMMITTERS = """
go, begun = os.pipe(), os.pipe()
for who in range(8):
    if os.fork() == 0:
        store, n = open_sqlite(path), 0
        os.close(go[1])
        os.write(begun[1], b"!")
        os.read(go[0], 1)
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            admit(store, f"{who}-{n}")
            n += 1
        store.close()
        say(n)
        os._exit(0)
for _ in range(8):
    os.read(begun[0], 1)
say("open")
sys.stdin.readline()
os.close(go[1])
for _ in range(8):
    os.wait()
"""


def floor_ms(folder: Path) -> float:
    """The median of overwriting 4 KiB and flushing them."""
    fd = os.open(folder / "floor", os.O_CREAT | os.O_RDWR, 0o600)
    times = []
    for _ in range(50):
        began = time.perf_counter()
        os.pwrite(fd, b"x" * 4096, 0)
        os.fdatasync(fd)
        times.append(time.perf_counter() - began)
    os.close(fd)
    return 1000 * statistics.median(times)


def cancelled(store: SqliteStore, inc: str) -> float:
    """How long the acceptance of a cancellation takes, in ms."""
    began = time.perf_counter()
    store.transact(lambda books: dealings.cancel(books, CANCELLER, inc, lambda: f"c {inc}"), urgent=True)
    return 1000 * (time.perf_counter() - began)


@pytest.mark.slow
def test_cancellation_beside_eight_committers(tmp_path: Path) -> None:
    """It is accepted in time (ten times 50 floors + 40 ms), and no committer has less than a third of its share."""
    folder = tmp_path / "own"
    folder.mkdir(mode=0o700)
    place = folder / "ledger.db"
    init(place)
    store = open_sqlite(place)
    desk = Desk(store)
    for n in range(60):
        desk.another(f"t{n}", f"task{n}")
    crew = program(COMMITTERS, place)
    assert "open" == line(crew)
    floor = floor_ms(folder)
    assert crew.stdin is not None
    crew.stdin.write("\n")
    crew.stdin.flush()
    times = []
    for n in range(60):
        if crew.poll() is not None:
            break
        times.append(cancelled(store, f"t{n}"))
        time.sleep(0.02)  # as people do, not in a row
    counts = [int(one) for one in finish(crew).split()]
    store.close()

    assert 8 == len(counts)
    assert max(times) < max(1000, 10 * (50 * floor + 40)), (times, floor)
    assert min(counts) >= sum(counts) / len(counts) / 3, counts


def test_threads_of_one_process_have_their_share(store: SqliteStore) -> None:
    """Eight threads get even shares, and a cancellation among them is not behind all that waits."""
    desk = Desk(store)
    desk.another("t", "other")
    counts, over = [0] * 8, threading.Event()

    def commit(n: int) -> None:
        while not over.is_set():
            admit(store, f"w{n}-{counts[n]}")
            counts[n] += 1

    threads = [threading.Thread(target=commit, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    while sum(counts) < 100:
        time.sleep(0.001)
    took = cancelled(store, "t")
    while sum(counts) < 400:
        time.sleep(0.001)
    over.set()
    for thread in threads:
        thread.join()

    assert took < 1000
    assert min(counts) >= sum(counts) / 8 / 3, counts


STUCK = """
store = open_sqlite(path)
def stick(books):
    say(os.getpid())
    os.kill(os.getpid(), signal.SIGSTOP)
store.transact(stick)
"""


def test_writer_that_is_stopped_is_named(place: Path) -> None:
    """A process that is stopped within its transaction holds up the store: who waits is told which one it is."""
    store = open_sqlite(place, busy_s=0.5)
    Desk(store)
    stuck = program(STUCK, place)
    pid = int(line(stuck))
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
    with pytest.raises(StoreBusy, match=f"process {pid} .*which is stopped.*kill -CONT {pid}") as error:
        admit(store, "e1")
    reads = store.read(lambda books: books.task("i1"))
    kill(stuck)
    again = admit(store, "e2")
    store.close()

    assert pid == error.value.holder
    assert ("i1", "e2") == (reads.inc, again.effect_id)
    assert None is open_and_read(place, "e1")


def open_and_read(place: Path, effect_id: str) -> object:
    store = open_sqlite(place)
    found = store.read(lambda books: books.effect(effect_id))
    store.close()
    return found


FOREIGN = """
import sqlite3
connection = sqlite3.connect(path, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
say("held")
sys.stdin.readline()
"""


def test_other_program_that_holds_the_file_is_named(place: Path) -> None:
    """One that stands in no queue of ours is found by its lock."""
    store = open_sqlite(place, busy_s=0.3)
    Desk(store)
    process = program(FOREIGN, place)
    assert "held" == line(process)
    with pytest.raises(StoreBusy) as error:
        admit(store, "e1")
    finish(process)
    admit(store, "e2")
    store.close()

    assert process.pid == error.value.holder


def test_close_does_not_wait_for_a_stopped_process(place: Path) -> None:
    """The thread that stands in the queue behind it, with nothing to write, ends by itself when it is through."""
    store = open_sqlite(place, busy_s=0.2)
    Desk(store)
    stuck = program(STUCK, place)
    pid = int(line(stuck))
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
    with pytest.raises(StoreBusy):
        admit(store, "e1")
    began = time.monotonic()
    store.close()
    took = time.monotonic() - began
    os.kill(pid, signal.SIGCONT)
    finish(stuck)

    assert took < 1
