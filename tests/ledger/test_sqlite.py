"""The SQLite store keeps what it told, tells nothing that it did not keep, and breaks none of its rules."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from desk import CANCELLER, HOLDER, WORKER, Desk
from stores import SHA, admit, fill

from turnctl.errors import (
    BadArgument,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreLost,
    StoreRefused,
    StoreUnsafe,
    TurnctlError,
)
from turnctl.ledger import dealings
from turnctl.ledger.opening import init, open_sqlite
from turnctl.ledger.rows import verify_chain
from turnctl.ledger.sqlite import SqliteStore
from turnctl.ledger.verify import verify
from turnctl.records.changes import By, Change, Note
from turnctl.records.effects import Effect
from turnctl.records.tasks import Cancellation, Task
from turnctl.testing import pause_at


def raw(place: Path, statement: str, *values: object) -> None:
    """What somebody does to the file with another program."""
    connection = sqlite3.connect(place, isolation_level=None)
    connection.execute("PRAGMA foreign_keys=ON")
    try:
        connection.execute(statement, values)
    finally:
        connection.close()


def test_payload_bytes_are_kept_exactly(store: SqliteStore) -> None:
    """What is sent later is what was admitted: bytes, not text."""
    Desk(store)
    payload = bytes(range(256)) + b"\0\xff"
    wanted = Effect("e1", "i1", "k", "mail.send", SHA, 0, 1)
    store.transact(lambda books: dealings.admit(books, WORKER, wanted, 1, payload))
    store.transact(lambda books: dealings.admit(books, WORKER, wanted, 1, b"another"))

    assert payload == store.read(lambda books: books.payload("e1"))


def test_waiting_transactions_are_kept_together_and_apart(store: SqliteStore) -> None:
    """Of many that wait and share a commit each has its own result; one that raises leaves nothing, the others stay."""
    Desk(store)
    with pause_at("gate.before_commit") as held:
        first = threading.Thread(target=lambda: admit(store, "first"))
        first.start()
        assert held.reached.wait(5)
        found: dict[int, object] = {}

        def one(n: int) -> None:
            def fails(books) -> None:
                dealings.admit(books, WORKER, Effect(f"e{n}", "i1", f"k{n}", "m", SHA, 0, 1), 1, b"p")
                if n % 2:
                    raise KeyError(n)

            try:
                found[n] = store.transact(fails)
            except KeyError as error:
                found[n] = error

        threads = [threading.Thread(target=one, args=(n,)) for n in range(20)]
        for thread in threads:
            thread.start()
        held.release()
    for thread in (first, *threads):
        thread.join()
    kept = {effect.effect_id for effect in store.read(lambda books: books.effects_of("i1"))}
    events = store.read(lambda books: books.events("i1"))

    assert {n: n % 2 == 1 for n in range(20)} == {n: isinstance(one, KeyError) for n, one in found.items()}
    assert {"first", *(f"e{n}" for n in range(0, 20, 2))} == kept
    assert None is verify_chain(events, events[-1].hash)


def test_cancellation_goes_before_what_waits(store: SqliteStore) -> None:
    """Of what waits in a process a cancellation is written first, the rest in its order."""
    Desk(store)
    order: list[str] = []
    with pause_at("gate.before_commit") as held:
        threads = [threading.Thread(target=lambda: admit(store, "first"))]
        threads[0].start()
        assert held.reached.wait(5)
        for name, urgent in (("a", False), ("b", False), ("c", True)):
            waiting = threading.Thread(
                target=lambda n=name, u=urgent: store.transact(lambda _: order.append(n), urgent=u)
            )
            threads.append(waiting)
            waiting.start()
            while len(store._writer._ordinary) + len(store._writer._urgent) < len(threads) - 1:
                pass
        held.release()
    for thread in threads:
        thread.join()

    assert ["c", "a", "b"] == order


def test_interrupted_wait_withdraws_the_request(store: SqliteStore) -> None:
    """Who is interrupted while others write has asked for nothing, and holds nobody up."""
    Desk(store)
    with pause_at("gate.before_commit") as held:
        first = threading.Thread(target=lambda: admit(store, "first"))
        first.start()
        assert held.reached.wait(5)
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            admit(store, "second")
        timer.join()
        held.release()
        first.join()
    admit(store, "third")

    assert ["first", "third"] == [one.effect_id for one in store.read(lambda books: books.effects_of("i1"))]


def test_interrupted_transaction_leaves_nothing(store: SqliteStore) -> None:
    """Ctrl-C within a transaction takes all of it back, and the next one is made."""
    Desk(store)

    def interrupted(books) -> None:
        dealings.cancel(books, CANCELLER, "i1", lambda: "c1")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.transact(interrupted, urgent=True)
    admit(store, "e1")

    assert None is store.read(lambda books: books.at_gate("i1")).cr


def test_transaction_within_a_transaction_is_refused(store: SqliteStore) -> None:
    """It would wait for itself."""
    with pytest.raises(TurnctlError, match="within another one"):
        store.transact(lambda _: store.transact(lambda _: None))

    store.transact(lambda _: None)


def test_closed_store_takes_nothing(place: Path) -> None:
    """It says so, and closing it again does nothing."""
    store = open_sqlite(place)
    store.close()
    store.close()
    for act in (
        lambda: store.transact(lambda _: None),
        lambda: store.read(lambda _: None),
        lambda: store.watch("i", int),
    ):
        with pytest.raises(StoreClosed, match="open it again"):
            act()


def test_value_that_cannot_be_kept_is_refused(store: SqliteStore) -> None:
    """Text without a UTF-8 form is the asker's fault, and leaves nothing."""
    Desk(store)
    with pytest.raises(BadArgument, match="cannot keep this value"):
        store.transact(lambda books: dealings.submit(books, WORKER, "i2", "acme", "\udc80"))

    assert None is store.read(lambda books: books.task("i2"))


def test_reading_writes_nothing(store: SqliteStore) -> None:
    """Books that are read refuse to be written to."""
    with pytest.raises(StoreError):
        store.read(lambda books: dealings.submit(books, WORKER, "i2", "acme", "job"))


def test_read_sees_one_state(store: SqliteStore) -> None:
    """What is committed while a reader reads is not in what it reads."""
    Desk(store)

    def twice(books):
        before = books.effects_of("i1")
        thread = threading.Thread(target=lambda: admit(store, "e1"))
        thread.start()
        thread.join()
        return before, books.effects_of("i1")

    before, after = store.read(twice)

    assert before == after == []


def test_sequence_goes_on_after_a_purge(store: SqliteStore, place: Path) -> None:
    """A task id that was purged does not begin again at 1: its tombstone has the number, and the places of its log."""
    Desk(store)
    raw(place, "INSERT INTO tombstone VALUES ('i0', 'acme', 'other', 7, 'completed', NULL, NULL, 5, 0, 900, '', 0, '')")
    again = store.transact(lambda books: dealings.submit(books, WORKER, "i9", "acme", "other"))
    store.transact(lambda books: dealings.cancel(books, CANCELLER, "i9", lambda: "c9"), urgent=True)
    connection = sqlite3.connect(place)
    first = connection.execute("SELECT min(pos) FROM log WHERE inc = 'i9'").fetchone()[0]
    rung = connection.execute("SELECT told FROM cancellation").fetchone()[0]
    connection.close()

    assert (8, 901, 6) == (again.seq, first, rung)


# -- rules that the tables hold to -------------------------------------------------------------------------------------


SECOND_OPEN_ONE = """
INSERT INTO task (inc, tenant, task_id, seq, root_inc, state, revision, promise, policy, lease_gen, execution,
                  submitted_at, authority)
SELECT 'i9', tenant, task_id, 9, 'i9', 'running', 1, promise, policy, 0, 'idle', 0, '' FROM task WHERE inc = 'i1'
"""


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log SET actor = 'nobody'",
        "DELETE FROM log",
        "DELETE FROM cancellation",
        "UPDATE cancellation SET reason = 'another'",
        "UPDATE cancellation SET accepted_rev = 1",
        "UPDATE task SET state = 'running' WHERE inc = 'i2'",
        "UPDATE task SET revision = 0",
        "UPDATE effect SET disposition = 'completed', phase = 'closed' WHERE effect_id = 'e1'",
        "UPDATE effect SET phase = 'suppressed', disposition = 'suppressed' WHERE effect_id = 'e1'",
        "UPDATE effect SET disposition = 'unknown', receipt_sha = NULL WHERE effect_id = 'e0'",
        "UPDATE effect SET payload_sha = 'x'",
        "UPDATE receipt SET body = 'x'",
        "UPDATE payload SET body = x'00'",
        "INSERT INTO cancellation SELECT 9, 'c', inc, 1, scope, '', '', '', '', level, 0, '', 9 FROM cancellation",
        SECOND_OPEN_ONE,
        "UPDATE lease SET live = 2",
    ],
)
def test_tables_hold_to_their_rules(store: SqliteStore, place: Path, statement: str) -> None:
    """What no transition does, another program does not get past the tables either."""
    fill(store)
    with pytest.raises(sqlite3.IntegrityError):
        raw(place, statement)

    assert verify(place)


def test_row_that_breaks_a_rule_is_refused(store: SqliteStore) -> None:
    """A fault of turnctl's own ends in an error, and never in the store."""
    desk = Desk(store)
    second = Cancellation("c2", "i1", 9, "self", "eve")
    desk.cancel()
    before = desk.kinds()
    with pytest.raises(StoreRefused, match="nothing of it was written"):
        store.transact(lambda books: books.write(Change((Note("i1", "x", "x", second),), None), CANCELLER))

    assert before == desk.kinds()


# -- losses and full disks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["", "-wal"])
def test_file_that_is_taken_away_is_noticed(place: Path, ending: str) -> None:
    """What was written into a file that is in no folder any more is not told to be kept, and nothing more is taken."""
    store = open_sqlite(place)
    Desk(store)
    os.rename(f"{place}{ending}", f"{place}.away")
    with pytest.raises(StoreLost, match="removed or replaced"):
        admit(store, "e1")
    with pytest.raises(StoreLost):
        admit(store, "e2")
    store.close()


@pytest.fixture
def tiny(quick: Path) -> Iterator[Path]:
    """A file system of 640 KiB."""
    folder = quick / "tiny"
    folder.mkdir(mode=0o700)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=640k,mode=700", "tmpfs", folder], capture_output=True)
    if done.returncode != 0:
        pytest.skip("a small file system cannot be mounted here (needs root)")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_full_disk_is_told_and_takes_nothing_away(tiny: Path) -> None:
    """What does not fit is refused whole; what was acknowledged stays, and there is room again when there is room."""
    place = tiny / "ledger.db"
    init(place)
    store = open_sqlite(place)
    Desk(store)
    admitted = []
    with pytest.raises(StoreFull, match="free some space"):
        for n in range(1000):
            admit(store, f"e{n}")
            admitted.append(f"e{n}")
    kept = [effect.effect_id for effect in store.read(lambda books: books.effects_of("i1"))]
    store.close()
    findings = verify(place).findings

    assert admitted == kept
    assert () == findings


def test_file_system_that_became_read_only_is_told(tiny: Path) -> None:
    """Neither opening nor making ends in the system's own error, and nothing changes."""
    place = tiny / "ledger.db"
    init(place)
    store = open_sqlite(place)
    Desk(store)
    store.close()
    before = place.read_bytes()
    subprocess.run(["mount", "-o", "remount,ro", tiny], check=True)
    try:
        with pytest.raises(
            StoreUnsafe, match="SQLITE_CANTOPEN.*: its file system can only be read; name another place"
        ):
            open_sqlite(place)
        with pytest.raises(StoreUnsafe, match="Read-only file system.; name another place"):
            init(tiny / "another.db")
    finally:
        subprocess.run(["mount", "-o", "remount,rw", tiny], check=True)

    assert before == place.read_bytes()
    assert verify(place)


def test_cancellation_is_written_once_for_many(store: SqliteStore) -> None:
    """Hundred requests from ten threads make one record and hundred lines."""
    desk = Desk(store)
    made = []

    def ask(n: int) -> None:
        for k in range(10):
            answer = store.transact(
                lambda books, k=k: dealings.cancel(books, By(f"b{n}", "canceller"), "i1", lambda: f"c{n}-{k}"),
                urgent=True,
            )
            made.append((answer.cr.cr, answer.is_new))

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 1 == len({cr for cr, _ in made})
    assert 1 == sum(is_new for _, is_new in made)
    assert 99 == desk.kinds().count("cancel.repeated")


def test_tasks_are_told_oldest_first(store: SqliteStore) -> None:
    """Open or over, of one tenant or all, in the order in which they came."""
    Desk(store)
    for n in range(3):
        store.transact(lambda books, n=n: dealings.submit(books, WORKER, f"t{n}", f"tenant{n % 2}", "job"))
    store.transact(lambda books: dealings.take_lease(books, WORKER, "t0", HOLDER))
    store.transact(lambda books: dealings.complete(books, WORKER, "t0", 1, "completed"))

    def told(**wanted) -> list[str]:
        tasks: list[Task] = store.read(lambda books: list(books.incarnations(**wanted)))
        return [task.inc for task in tasks]

    assert ["i1", "t0", "t1"] == told()
    assert ["t0"] == told(is_open=False)
    assert ["t1"] == told(tenant="tenant1", is_open=True)
