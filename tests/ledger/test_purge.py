"""Purging: only what is over, old and wholly told of goes; a tombstone stays, and nobody is held up meanwhile."""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from desk import CANCELLER, COMPENSATOR, HOLDER, WORKER, Desk
from stores import SHA, finish, line, program

import turnctl
from turnctl.errors import BadArgument, BadDuration, LedgerRefused
from turnctl.ledger import dealings, failpoints
from turnctl.ledger.opening import open_sqlite
from turnctl.ledger.purging import purge
from turnctl.ledger.sqlite import SqliteStore
from turnctl.ledger.store import Store
from turnctl.ledger.verifier import Bundle
from turnctl.ledger.verify import verify
from turnctl.records.changes import By, Refusal
from turnctl.records.effects import Effect
from turnctl.records.retention import Purged
from turnctl.records.tasks import OwnedActivity
from turnctl.testing import call_at


def purged(store: Store, **how: Any) -> Purged:
    options = {"older_than_s": 0.0, "tombstones_s": 1e9, "dry_run": False, "include_detached": False}
    return purge(store, **{**options, **how})


def names(store: Store) -> list[str]:
    return sorted(task.inc for task in store.read(lambda books: list(books.incarnations())))


def cancelled(desk: Desk, inc: str, task_id: str | None = None) -> None:
    """A task that nobody worked on, cancelled and settled."""
    desk.deal(dealings.submit, WORKER, inc, "acme", task_id or inc)
    desk.cancel(inc)


@pytest.fixture
def desk(both_stores: None) -> Desk:
    return Desk()


# -- what goes ----------------------------------------------------------------------------------------------------


def test_only_what_is_over_goes(desk: Desk) -> None:
    """Completed, failed and settled ones; the running one stays."""
    desk.another("i2", "two")
    desk.complete(inc="i2")
    desk.another("i3", "three")
    desk.complete("failed", inc="i3")
    cancelled(desk, "i4")
    found = purged(desk.store)

    assert (3, {}) == (found.incarnations, found.kept)
    assert ["i1"] == names(desk.store)


def test_age_counts_from_the_end(desk: Desk) -> None:
    """What ended since is kept, whenever it was submitted."""
    now = time.time()
    for n, ended in enumerate((now - 100, now - 10)):
        desk.deal(dealings.submit, WORKER, f"x{n}", "acme", f"x{n}")
        desk.deal(dealings.cancel, By("alice", "canceller", ended), f"x{n}", lambda n=n: f"cx{n}")
    found = purged(desk.store, older_than_s=50.0)

    assert 1 == found.incarnations
    assert ["i1", "x1"] == names(desk.store)


def _unknown(desk: Desk) -> None:
    desk.claimed("e1")
    desk.complete()


def _compensation(desk: Desk) -> None:
    desk.claimed("e1")
    desk.close("e1", "completed")
    desk.complete()
    wanted = Effect("e2", "i1", "back", "mail.recall", SHA, 0, 0)
    desk.deal(dealings.compensate, COMPENSATOR, "e1", wanted, b"payload", auth_ref="by bob")


def _activity(desk: Desk) -> None:
    desk.deal(dealings.own, WORKER, OwnedActivity("i1", "a1", "process", "make", 1), 1)
    desk.complete()


def _lease(desk: Desk) -> None:
    desk.deal(dealings.own, WORKER, OwnedActivity("i1", "a1", "process", "make", 1), 1)
    desk.complete()
    desk.deal(dealings.stopped, WORKER, "i1", "a1")


def _detached(desk: Desk) -> None:
    desk.deal(dealings.detach, WORKER, "i1", 1, "x", "somebody else", "runs on")
    desk.complete()


def _child(desk: Desk) -> None:
    desk.child("i1", "i2")
    desk.deal(dealings.detach, WORKER, "i1", 1, "i2", "somebody else", "runs on")
    desk.complete()


def _grandchild(desk: Desk) -> None:
    desk.child("i1", "i2")
    desk.deal(dealings.register_child, WORKER, "i2", 1, "i3", "three")
    desk.deal(dealings.detach, WORKER, "i2", 1, "i3", "somebody else", "runs on")
    desk.cancel()
    desk.give_back("i2")
    desk.give_back()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_unknown, "an unresolved effect"),
        (_compensation, "an open compensation"),
        (_activity, "a running activity"),
        (_lease, "a live lease"),
        (_detached, "detached work"),
        (_child, "an open task"),
        (_grandchild, "an open task"),
    ],
)
def test_what_is_to_be_told_of_is_kept(desk: Desk, make: Any, why: str) -> None:
    """Each by its reason, which the answer counts; nothing of it is touched."""
    make(desk)
    before = names(desk.store)
    found = purged(desk.store)

    assert (0, {why: 1}) == (found.incarnations, found.kept)
    assert before == names(desk.store)


def test_resolved_and_let_go_are_purged(desk: Desk) -> None:
    """An unknown that an operator closed, detached work of which it is asked, a detached child that has ended."""
    _child(desk)
    desk.deal(dealings.complete, WORKER, "i2", 1, "completed")
    desk.another("i3", "three")
    desk.deal(dealings.detach, WORKER, "i3", 1, "x", "somebody else", "runs on")
    desk.complete(inc="i3")
    kept = purged(desk.store)
    then = purged(desk.store, include_detached=True)

    assert (2, {"detached work": 1}) == (kept.incarnations, kept.kept)
    assert 1 == then.incarnations
    assert [] == names(desk.store)


def test_recent_end_below_keeps_what_is_above(desk: Desk) -> None:
    """A tree goes when the last of it is old enough."""
    now = time.time()
    desk.child("i1", "i2")
    desk.deal(dealings.detach, WORKER, "i1", 1, "i2", "somebody else", "runs on")
    desk.deal(dealings.complete, By("w1", "worker", now - 100), "i1", 1, "completed")
    desk.deal(dealings.complete, By("w2", "worker", now - 10), "i2", 1, "completed")
    found = purged(desk.store, older_than_s=50.0)

    assert (0, {"a recent end": 1}) == (found.incarnations, found.kept)
    assert ["i1", "i2"] == names(desk.store)


def test_what_comes_up_meanwhile_is_kept(desk: Desk) -> None:
    """A compensation that is admitted between the look and the burial keeps its task, and all above that."""
    desk.child("i1", "i2")
    wanted = Effect("e1", "i2", "k", "mail.send", SHA, 0, 1)
    desk.deal(dealings.admit, WORKER, wanted, 1, b"payload")
    desk.claim("e1")
    desk.close("e1", "completed")
    desk.deal(dealings.complete, WORKER, "i2", 1, "completed")
    desk.complete()
    made = Effect("e2", "i2", "back", "mail.recall", SHA, 0, 0)
    arrived: list[object] = []

    def compensate() -> None:
        if not arrived:
            arrived.append(None)
            desk.deal(dealings.compensate, COMPENSATOR, "e1", made, b"payload", auth_ref="by bob")

    with call_at("purge.before_begin", compensate):
        found = purged(desk.store)

    assert (0, {"an open compensation": 1, "an open task": 1}) == (found.incarnations, found.kept)
    assert ["i1", "i2"] == names(desk.store)


def test_dry_run_changes_nothing(desk: Desk) -> None:
    """It says what would go."""
    cancelled(desk, "i2")
    found = purged(desk.store, dry_run=True)

    assert (1, True) == (found.incarnations, found.dry_run)
    assert "would be purged" in str(found)
    assert ["i1", "i2"] == names(desk.store)


def test_shared_work_stays_for_those_who_stay(place: Path, store: SqliteStore) -> None:
    """It is carried on in the log of another one, and goes with the last."""
    desk = Desk(store)
    desk.another("i2", "two")
    for inc in ("i1", "i2"):
        desk.deal(dealings.attach, WORKER, inc, 1, "d")
    desk.deal(dealings.end_shared, WORKER, "i1", "d")
    desk.complete()
    first = purged(store)
    between = verify(place)
    told = desk.kinds("i2")[-1]
    desk.complete(inc="i2")
    purged(store)

    assert 1 == first.incarnations
    assert () == between.findings
    assert "shared.carried_on" == told
    assert store.read(lambda books: books.shared("d")) is None
    assert () == verify(place).findings


def test_what_goes_can_be_exported_before(desk: Desk, tmp_path: Path) -> None:
    """A bundle of each tree, which ends with the hashes of the tombstones; one that is there already is kept."""
    desk.child("i1", "i2")
    desk.deal(dealings.complete, WORKER, "i2", 1, "completed")
    desk.complete()
    (tmp_path / "x.bundle").write_text("made by a purge that was killed")
    cancelled(desk, "x")
    found = purged(desk.store, export=str(tmp_path))
    bundle = Bundle((tmp_path / "i1.bundle").read_bytes())
    graves = [desk.store.read(lambda books, inc=inc: books.tombstone(inc)) for inc in ("i1", "i2")]  # type: ignore[misc]

    assert 3 == found.incarnations
    assert [one.digest for one in graves if one] == [log[-1]["hash"] for log in bundle.events.values()]
    assert "made by a purge that was killed" == (tmp_path / "x.bundle").read_text()
    with pytest.raises(BadArgument, match="no folder"):
        purged(desk.store, export=str(tmp_path / "none"))


def test_tampering_with_graves_is_found(place: Path, store: SqliteStore) -> None:
    """A task that is there beside its tombstone, and a child that is gone without one."""
    desk = Desk(store)
    desk.child("i1", "i2")
    desk.deal(dealings.complete, WORKER, "i2", 1, "completed")
    cancelled(desk, "x")
    connection = sqlite3.connect(place, isolation_level=None)
    names = "inc, tenant, task_id, seq, state, lines, last_pos, digest, at, authority"
    connection.execute(f"INSERT INTO tombstone ({names}) VALUES ('x', 'acme', 'x', 1, 'completed', 0, 0, '', 0, 'eve')")
    connection.execute("DROP TRIGGER task_kept")
    connection.execute("DELETE FROM lease WHERE inc = 'i2'")
    connection.execute("DELETE FROM task WHERE inc = 'i2'")
    connection.close()
    found = "\n".join(verify(place).findings)

    assert "incarnation x was purged, and is there" in found
    assert "the tombstone of x belongs to another store" in found
    assert "the child i2 of i1 is gone, and was not purged" in found


# -- what is left -------------------------------------------------------------------------------------------------


def test_tombstone_says_what_the_log_ended_with(desk: Desk) -> None:
    """Its digest is the hash of the last line, so that a bundle that was made before can be told to be of it."""
    cancelled(desk, "i2")
    events = desk.store.read(lambda books: books.events("i2"))
    purged(desk.store)
    grave = desk.store.read(lambda books: books.tombstone("i2"))

    assert grave is not None
    assert ("i2", "acme", "i2", 1, "cancelled_settled", "c1", 2) == (
        *(grave.inc, grave.tenant, grave.task_id, grave.seq, grave.state, grave.cr, grave.accepted_rev),
    )
    assert (len(events), events[-1].hash) == (grave.lines, grave.digest)
    assert [] == desk.store.read(lambda books: books.events("i2"))


def test_late_words_find_the_tombstone(desk: Desk) -> None:
    """A cancellation, a worker and a child that come late are told that it is stale, and change nothing."""
    cancelled(desk, "i2")
    purged(desk.store)
    late = [
        desk.cancel("i2"),
        desk.deal(dealings.take_lease, WORKER, "i2", HOLDER),
        desk.complete(inc="i2"),
        desk.deal(dealings.register_child, WORKER, "i2", 1, "i3", "three"),
        desk.deal(dealings.admit, WORKER, Effect("e", "i2", "k", "mail.send", SHA, 0, 1), 1, b"payload"),
        desk.deal(dealings.attach, WORKER, "i2", 1, "d"),
    ]

    assert {"stale_incarnation"} == {one.code for one in late if isinstance(one, Refusal)}
    assert 6 == len([one for one in late if isinstance(one, Refusal)])
    assert [] == desk.store.read(lambda books: books.events("i2"))
    assert "no_such_task" == desk.cancel("i9").code


def test_reused_task_id_goes_on_counting(desk: Desk) -> None:
    """The next incarnation has the next number, and a late cancel of the old one leaves it alone."""
    cancelled(desk, "i2", "again")
    purged(desk.store)
    made = desk.deal(dealings.submit, WORKER, "i3", "acme", "again")
    late = desk.cancel("i2")

    assert 2 == made.seq
    assert "stale_incarnation" == late.code
    assert "running" == desk.state("i3")


def test_turns_of_a_task_go_with_it(ledger: turnctl.Ledger) -> None:
    """Their rows are its own."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        before = ledger.store.read(lambda books: books.turn(turn.turn_id))
    ledger.purge(older_than=0)

    assert before is not None
    assert ledger.store.read(lambda books: books.turn(turn.turn_id)) is None


def test_late_request_to_a_purged_task_is_told(ledger: turnctl.Ledger) -> None:
    """Also by the face: cancelling, reporting and working on it; and another tenant learns nothing."""
    task = ledger.submit("acme", "job")
    task.cancel(by="alice")
    ledger.purge(older_than=0)

    assert "stale_incarnation" == getattr(task.cancel(by="alice"), "code", None)
    assert "not_authorised" == getattr(ledger.cancel(task.inc, by="eve", tenant="other"), "code", None)
    for act in (lambda: ledger.report(task), lambda: task.state, lambda: turnctl.turn(task=task).__enter__()):
        with pytest.raises(LedgerRefused, match="was purged") as caught:
            act()
        assert "stale_incarnation" == caught.value.code
    assert ledger.task("acme", "job") is None


def test_tombstones_are_bounded(place: Path, store: SqliteStore) -> None:
    """Those that have served their time are dropped with a record, which keeps the ledger sound."""
    desk = Desk(store)
    for n in range(5):
        cancelled(desk, f"x{n}")
    purged(store)
    kept = purged(store, tombstones_s=60.0)
    dropped = purged(store, tombstones_s=0.0)
    connection = sqlite3.connect(place)
    record = connection.execute("SELECT tombstones, lines, told, last_pos FROM forgotten").fetchone()
    left = connection.execute("SELECT count(*) FROM tombstone").fetchone()[0]
    connection.close()

    assert (0, 5) == (kept.tombstones, dropped.tombstones)
    assert (5, 0) == (record[0], left)
    assert "no_such_task" == desk.cancel("x0").code
    assert () == verify(place).findings
    store.close()
    again = open_sqlite(place)  # not behind its mark, although the last lines are among those that were dropped
    assert "running" == again.read(lambda books: books.task("i1").state)  # type: ignore[union-attr]
    again.close()


def test_record_of_what_was_dropped_only_grows(place: Path, store: SqliteStore) -> None:
    """Nobody takes a tombstone away beside it."""
    desk = Desk(store)
    cancelled(desk, "x")
    purged(store)
    connection = sqlite3.connect(place)
    with pytest.raises(sqlite3.IntegrityError, match="with a record"):
        connection.execute("DELETE FROM tombstone")
    with pytest.raises(sqlite3.IntegrityError, match="not purged"):
        connection.execute("DELETE FROM task")
    connection.close()


@pytest.mark.parametrize("given", [{"older_than": "30"}, {"older_than": -1}, {"keep_tombstones": "x"}])
def test_bad_age_is_refused(ledger: turnctl.Ledger, given: dict[str, Any]) -> None:
    """Before anything is looked at."""
    with pytest.raises(BadDuration):
        ledger.purge(**given)


# -- large ones, and beside others --------------------------------------------------------------------------------


def test_many_rows_go_in_pieces(place: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """No transaction takes more than it may; each leaves a sound ledger in which the incarnation is gone."""
    monkeypatch.setattr("turnctl.ledger.purging.ROWS", 7)
    desk = Desk(store)
    for n in range(10):
        desk.claimed(f"e{n}", key=f"k{n}", sha=SHA)
        desk.close(f"e{n}", "completed")
    desk.complete()
    seen: list[tuple[str, ...]] = []
    gone: list[object] = []
    clear = SqliteStore.transact

    def watched(self: SqliteStore, fn: Any, **how: Any) -> Any:
        found = clear(self, fn, **how)
        seen.append(verify(place).findings)
        gone.append(store.read(lambda books: books.task("i1")))
        return found

    monkeypatch.setattr(SqliteStore, "transact", watched)
    found = purged(store)
    connection = sqlite3.connect(place)
    left = [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in _TABLES]
    connection.close()

    assert 1 == found.incarnations
    assert 8 < len(seen)
    assert {()} == set(seen)
    assert {None} == set(gone)
    assert [0] * len(_TABLES) == left


_TABLES = ("task", "effect", "payload", "receipt", "log", "head", "remains", "lease", "cancellation", "turn")


def test_end_of_a_half_purged_log_is_verified(place: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of it still ends with the tombstone's digest, or that is found."""
    monkeypatch.setattr("turnctl.ledger.purging.ROWS", 7)
    desk = Desk(store)
    for n in range(10):
        desk.claimed(f"e{n}", key=f"k{n}", sha=SHA)
        desk.close(f"e{n}", "completed")
    desk.complete()
    failpoints.arm("purge.clear.before_commit=raise:3")
    with pytest.raises(failpoints.InjectedFault):
        purged(store)
    before = verify(place).findings
    connection = sqlite3.connect(place, isolation_level=None)
    connection.execute("DELETE FROM log WHERE n = (SELECT max(n) FROM log)")
    connection.close()

    assert () == before
    assert any("lines at its end are missing" in one for one in verify(place).findings)


@pytest.fixture(autouse=True)
def _no_failpoints() -> Iterator[None]:
    yield
    failpoints.arm("")


def test_fault_in_a_purge_takes_it_back(desk: Desk) -> None:
    """A transaction that fails leaves what it was to bury as it was."""
    for n in range(3):
        cancelled(desk, f"x{n}")
    events = desk.store.read(lambda books: books.events("x1"))
    failpoints.arm("purge.before_commit=raise")
    with pytest.raises(failpoints.InjectedFault):
        purged(desk.store)

    assert ["i1", "x0", "x1", "x2"] == names(desk.store)
    assert events == desk.store.read(lambda books: books.events("x1"))
    assert 3 == purged(desk.store).incarnations


_POINTS = [
    *("purge.before_commit", "purge.after_commit", "purge.clear.before_commit:2", "purge.clear.after_commit"),
    *("purge.forget.before_commit", "purge.forget.after_commit", "purge.give_back.after_commit:2"),
]
_PURGE = """
import turnctl.ledger.purging as purging
purging.ROWS, purging.PAGES, purging.TOGETHER = 20, 4, 3
store = open_sqlite(path)
purging.purge(store, older_than_s=0, tombstones_s=0, dry_run=False, include_detached=False)
store.close()
"""


def _filled(path: Path) -> None:
    store = open_sqlite(path)
    desk = Desk(store)
    for n in range(12):
        cancelled(desk, f"x{n}", "again")
    desk.another("big", "big")
    for n in range(20):
        wanted = Effect(f"b{n}", "big", f"k{n}", "mail.send", "s", 0, 1)
        desk.deal(dealings.admit, WORKER, wanted, 1, b"p" * 5000)
    desk.complete(inc="big")
    store.close()


@pytest.mark.parametrize("point", _POINTS)
def test_purge_goes_on_after_a_kill(place: Path, point: str) -> None:
    """Killed at any point, it leaves a sound ledger that works, and the next one does the rest."""
    _filled(place)
    name, _, at = point.partition(":")
    process = program(_PURGE, place, TURNCTL_LEDGER_FAILPOINT=f"{name}=kill:{at or 1}")
    process.communicate()
    between = verify(place).findings
    store = open_sqlite(place)
    desk_state = store.read(lambda books: books.task("i1").state)  # type: ignore[union-attr]
    made = store.transact(lambda books: dealings.submit(books, WORKER, "new", "acme", "next"))
    purged(store, tombstones_s=0.0)
    store.close()
    connection = sqlite3.connect(place)
    left = {inc for (inc,) in connection.execute("SELECT inc FROM log")}
    free = connection.execute("PRAGMA freelist_count").fetchone()[0]
    connection.close()

    assert -9 == process.returncode
    assert () == between
    assert ("running", 1) == (desk_state, made.seq)
    assert {"i1", "new"} == left
    assert 0 == free
    assert () == verify(place).findings


@pytest.mark.parametrize("point", ["purge.before_commit", "purge.after_commit"])
def test_output_of_turns_goes_also_after_a_kill(place: Path, point: str) -> None:
    """What their turns printed is not left behind where the purge was killed in between; that of others stays."""
    with turnctl.open_ledger(str(place)) as ledger:
        task = ledger.submit("acme", "job")
        with turnctl.turn(task=task) as turn:
            for n in range(30):
                with turn.effect("mail.send", key=str(n)) as sent:
                    sent.complete("ok")
    outputs = place.parent / "turns"
    for name in (turn.turn_id, "another"):
        (outputs / name).mkdir(parents=True, mode=0o700)
        (outputs / name / "out.head").write_text("said")
    process = program(_PURGE, place, TURNCTL_LEDGER_FAILPOINT=f"{point}=kill")
    process.communicate()
    store = open_sqlite(place)
    purged(store)
    between = {one for one in os.listdir(outputs) if not one.startswith(".")}
    purged(store)
    store.close()

    assert -9 == process.returncode
    assert {"another"} == between
    assert ["another"] == os.listdir(outputs)


def test_two_purges_at_once_bury_each_once(place: Path) -> None:
    """Two processes: what one has buried the other one passes by."""
    _filled(place)
    both = [program("say('up'); sys.stdin.readline()\n" + _PURGE, place) for _ in range(2)]
    for one in both:
        assert "up" == line(one)
    for one in both:
        finish(one)

    assert () == verify(place).findings


def test_purge_and_late_cancels_are_one_or_the_other(place: Path, store: SqliteStore) -> None:
    """Beside a purge each late cancel finds the record, or the tombstone; never something in between."""
    desk = Desk(store)
    for n in range(200):
        cancelled(desk, f"x{n}")
    answers: list[Any] = []
    chance = random.Random(4)

    def ask() -> None:
        for _ in range(150):
            answers.append(desk.cancel(f"x{chance.randrange(200)}"))

    thread = threading.Thread(target=ask)
    thread.start()
    found = purged(store)
    thread.join()
    codes = {one.code if isinstance(one, Refusal) else "record" for one in answers}

    assert 200 == found.incarnations
    assert codes <= {"record", "stale_incarnation"}, codes
    assert () == verify(place).findings


def _many(path: Path, count: int) -> None:
    store = open_sqlite(path)
    desk = Desk(store)
    for start in range(0, count, 500):

        def submit(books: Any, start: int = start) -> None:
            for n in range(start, min(start + 500, count)):
                dealings.submit(books, WORKER, f"x{n}", "acme", f"x{n}")
                dealings.cancel(books, CANCELLER, f"x{n}", lambda n=n: f"cx{n}")

        store.transact(submit)
    desk.another("u", "unresolved")
    desk.deal(dealings.admit, WORKER, Effect("e", "u", "k", "mail.send", SHA, 0, 1), 1, b"payload")
    desk.deal(dealings.claim, WORKER, "e", 1, "w1")
    desk.cancel("u")
    desk.gone("u")
    store.close()


def _purge_beside_cancels(path: Path, count: int) -> tuple[Purged, list[float], int]:
    """What came of purging so many, how long cancels of others took meanwhile, and the bytes of the file before."""
    _many(path, count)
    size = path.stat().st_size
    store = open_sqlite(path)
    done = threading.Event()
    times: list[float] = []

    def ask() -> None:
        n = 0
        while not done.wait(0.002):
            store.transact(lambda books, n=n: dealings.submit(books, WORKER, f"y{n}", "acme", f"y{n}"))  # type: ignore[misc]
            began = time.perf_counter()
            store.transact(
                lambda books, n=n: dealings.cancel(books, CANCELLER, f"y{n}", lambda n=n: f"cy{n}"),  # type: ignore[misc]
                urgent=True,
            )
            times.append(time.perf_counter() - began)
            n += 1

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        found = purged(store, older_than_s=0.0)
    finally:
        done.set()
        thread.join()
        store.close()
    return found, times, size


def test_some_hundred_cancelled_ones_are_purged(place: Path) -> None:
    """The unresolved one stays; the file becomes smaller; cancels meanwhile are not held up."""
    found, times, size = _purge_beside_cancels(place, 300)

    assert 300 <= found.incarnations
    assert "u" in _names_at(place)
    assert place.stat().st_size < size / 2
    assert found.given_back > 0
    assert 1.0 > max(times)
    assert () == verify(place).findings


def _names_at(path: Path) -> list[str]:
    store = open_sqlite(path)
    found = names(store)
    store.close()
    return found


@pytest.mark.stress
@pytest.mark.timeout(1800)
def test_hundred_thousand_cancelled_ones_are_purged(place: Path) -> None:
    """The same with as many as pile up in a year; and their tombstones are dropped in time."""
    found, times, size = _purge_beside_cancels(place, 100_000)
    after = place.stat().st_size
    store = open_sqlite(place)
    dropped = purged(store, tombstones_s=0.0)
    store.close()
    p99 = sorted(times)[int(len(times) * 0.99)]
    sys.stderr.write(
        f"\n{size} bytes before, {after} after, {place.stat().st_size} without tombstones; "
        f"{len(times)} cancels, p99 {p99 * 1000:.1f} ms, max {max(times) * 1000:.1f} ms\n"
    )

    assert 100_000 <= found.incarnations
    assert 100_000 <= dropped.tombstones
    assert 1.0 > max(times)
    assert "u" in _names_at(place)
    assert () == verify(place).findings
