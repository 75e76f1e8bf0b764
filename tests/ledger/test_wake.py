"""An acceptance is heard in each process that watches, soon, and by who is meant."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from desk import CANCELLER, Desk
from stores import finish, line, program

from turnctl.ledger import dealings, ears
from turnctl.ledger.ears import open_ear, ring
from turnctl.ledger.opening import open_sqlite
from turnctl.ledger.sqlite import SqliteStore

LATE = 10  # ten times the second that the net takes


def cancel(store: SqliteStore, inc: str = "i1", **how: str) -> None:
    names = (f"c {inc}{end}" for end in ("", "+", "++"))
    store.transact(lambda books: dealings.cancel(books, CANCELLER, inc, lambda: next(names), **how), urgent=True)


def test_other_process_hears_the_cancellation(place: Path) -> None:
    """Who watches in another process is told, and reads the record."""
    store = open_sqlite(place)
    Desk(store)
    code = """
        store = open_sqlite(path)
        rung = threading.Event()
        store.watch("i1", rung.set)
        say("watching")
        assert rung.wait(20)
        say(time.monotonic(), store.read(lambda books: books.at_gate("i1")).cr.cr)
        store.close()
    """
    process = program(code, place)
    assert "watching" == line(process)
    cancel(store)
    accepted = time.monotonic()
    heard, cr = finish(process).split(" ", 1)
    store.close()

    assert "c i1" == cr.strip()
    assert float(heard) - accepted < 1


def test_who_is_not_meant_is_not_called(store: SqliteStore) -> None:
    """A watch is for one incarnation; with the undo it ends."""
    desk = Desk(store)
    desk.another("i2", "other")
    first, second, third = threading.Event(), threading.Event(), threading.Event()
    store.watch("i1", first.set)
    store.watch("i2", second.set)
    undo = store.watch("i1", third.set)
    undo()
    undo()
    cancel(store)

    assert first.wait(LATE)
    cancel(store, "i2")
    assert second.wait(LATE)
    assert not third.is_set()


def test_rising_level_and_children_are_told(store: SqliteStore) -> None:
    """Who is covered by the cancellation of another hears it too, and each hears when it becomes a kill."""
    desk = Desk(store)
    desk.child("i1", "i2")
    calls = threading.Semaphore(0)
    store.watch("i2", calls.release)
    cancel(store)

    assert calls.acquire(timeout=LATE)
    cancel(store, "i2", level="kill")
    assert calls.acquire(timeout=LATE)


def test_bell_that_was_removed_rings_again(store: SqliteStore, place: Path) -> None:
    """Who removes the file costs no ring."""
    desk = Desk(store)
    desk.another("i2", "other")
    first, second = threading.Event(), threading.Event()
    store.watch("i1", first.set)
    store.watch("i2", second.set)
    os.unlink(f"{place}.bell")
    cancel(store)

    assert first.wait(LATE)
    os.rename(f"{place}.bell", f"{place}.away")
    cancel(store, "i2")
    assert second.wait(LATE)


def test_ear_outlives_the_folder_of_its_bell(tmp_path: Path) -> None:
    """A folder that is removed or moved away makes it say "look" at each wait; one that is back is heard again."""
    home = tmp_path / "home"
    home.mkdir()
    file = str(home / "bell")
    ear = open_ear(file)
    try:
        home.rename(tmp_path / "away")
        (tmp_path / "away" / "bell").unlink()

        assert [True, True] == [ear.wait(0.01), ear.wait(0.01)]
        home.mkdir()
        ear.wait(0.01)
        assert not ear.wait(0.01)
        ring(file)
        assert ear.wait(LATE)
    finally:
        ear.close()


def test_ring_that_is_lost_is_found(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A canceller that is killed between COMMIT and the bell is heard within the second of the net."""
    Desk(store)
    rung = threading.Event()
    store.watch("i1", rung.set)
    monkeypatch.setattr(store._bell, "ring", lambda: None)
    cancel(store)

    assert rung.wait(LATE)


def test_without_inotify_it_is_looked_for(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has no more ears to give the store looks by itself."""

    def none(*_: object) -> None:
        raise OSError(24, "too many")

    monkeypatch.setattr(ears, "_Listening", none)
    store = open_sqlite(place)
    Desk(store)
    rung = threading.Event()
    store.watch("i1", rung.set)
    cancel(store)

    assert rung.wait(LATE)
    store.close()


def test_fault_of_one_watcher_is_told_and_spares_the_next(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a watcher raises is shown as that of any thread, and the others are called."""
    told = []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(args.exc_type))
    Desk(store)
    rung = threading.Event()
    store.watch("i1", lambda: 1 / 0)  # type: ignore[arg-type]
    store.watch("i1", rung.set)
    cancel(store)

    assert rung.wait(LATE)
    assert [ZeroDivisionError] == told


def test_waiting_costs_next_to_nothing(store: SqliteStore) -> None:
    """A watch that nothing happens on uses no more than a hundredth of a core."""
    Desk(store)
    store.watch("i1", lambda: None)
    before = time.process_time()
    time.sleep(0.5)

    assert time.process_time() - before < 0.05
