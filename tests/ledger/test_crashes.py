"""A process that is killed leaves all of a transaction or nothing: what it had been told is there, nothing is half."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from desk import Desk
from stores import admit, finish, held_at, kill, line, program

from turnctl.ledger.opening import open_sqlite
from turnctl.ledger.verify import verify

ADMIT = "store = open_sqlite(path); admit(store, 'e1'); say('told')"
CANCEL = "store = open_sqlite(path); cancel(store); say('told')"


@pytest.fixture
def desk(place: Path) -> Desk:
    """A task in the store, which this process has closed."""
    store = open_sqlite(place)
    desk = Desk(store)
    store.close()
    return desk


@pytest.mark.parametrize(("point", "kept"), [("before_begin", False), ("before_commit", False), ("after_commit", True)])
def test_gate_that_is_killed_is_whole_or_absent(place: Path, desk: Desk, quick: Path, point: str, kept: bool) -> None:
    """Killed before COMMIT there is no effect and no line; after it both are there, told or not."""
    with held_at(f"gate.{point}", ADMIT, place, quick) as held:
        kill(held.process)
    store = open_sqlite(place)
    effect = store.read(lambda books: books.effect("e1"))
    kinds = [event.kind for event in store.read(lambda books: books.events("i1"))]
    payload = store.read(lambda books: books.payload("e1"))
    store.close()

    assert (kept, kept, kept) == (effect is not None, "effect.admitted" in kinds, payload is not None)
    assert verify(place)


@pytest.mark.parametrize(("point", "kept"), [("before_begin", False), ("before_commit", False), ("after_commit", True)])
def test_acceptance_that_is_killed_is_whole_or_absent(
    place: Path, desk: Desk, quick: Path, point: str, kept: bool
) -> None:
    """A killed canceller changes nothing, or everything: record, state and inventory are one."""
    with held_at(f"cancel.{point}", CANCEL, place, quick) as held:
        kill(held.process)
    store = open_sqlite(place)
    view = store.read(lambda books: books.at_gate("i1"))
    rejected = getattr(admit(store, "later"), "code", None)
    store.close()

    assert (kept, kept) == (view.cr is not None, not view.task.is_running)
    assert ("cancelled" if kept else None) == rejected
    assert verify(place)


def test_cancellation_waits_for_a_commit_and_has_it(place: Path, desk: Desk, quick: Path) -> None:
    """A gate that is within its transaction comes first, and what it admitted is in the inventory."""
    store = open_sqlite(place)
    with held_at("gate.before_commit", ADMIT + "; sys.stdin.readline()", place, quick) as held:
        process = program(CANCEL + "; store.close()", place)
        held.release()
        assert "told" == line(process)
        finish(process)
        assert "told" == line(held.process)
    effect = store.read(lambda books: books.effect("e1"))
    cr = store.read(lambda books: books.at_gate("i1")).cr
    store.close()

    assert effect.admitted_rev < cr.accepted_rev
    assert "suppressed" == effect.phase


def test_killed_in_its_transaction_frees_the_store(place: Path, desk: Desk, quick: Path) -> None:
    """Who waits for a process that is killed goes on at once."""
    store = open_sqlite(place)
    with held_at("gate.before_commit", ADMIT, place, quick) as held:
        kill(held.process)
        began = time.monotonic()
        admit(store, "mine")
        took = time.monotonic() - began
    store.close()

    assert took < 10


BUSY = """
store = open_sqlite(path)
who, n = sys.argv[2], 0
say("open")
while True:
    admit(store, f"{who}-{n}")
    say(f"{who}-{n}")
    n += 1
"""


def crashes(place: Path, rounds: int, seed: int) -> None:
    """Kill one of four busy processes at a random moment, and hold what each was told against the store."""
    chance = random.Random(seed)
    told: set[str] = set()
    for round_ in range(rounds):
        crew = [program(BUSY, place, f"w{round_}{n}") for n in range(4)]
        for process in crew:
            assert "open" == line(process)
        time.sleep(chance.random() / 3)
        for process in crew:
            process.kill()
        for process in crew:
            told |= set(kill(process).split())
    store = open_sqlite(place)
    kept = {effect.effect_id for effect in store.read(lambda books: books.effects_of("i1"))}
    store.close()

    assert set() == told - kept
    assert len(kept) >= rounds  # it was busy
    assert len(kept - told) <= 4 * rounds
    assert verify(place)


@pytest.mark.slow
def test_nothing_that_was_told_is_lost(place: Path, desk: Desk) -> None:
    """Four processes that write are killed at once: each effect that one was told of is there, the logs verify."""
    crashes(place, 1, seed=1)


@pytest.mark.stress
@pytest.mark.timeout(600)
def test_nothing_that_was_told_is_lost_in_many_rounds(place: Path, desk: Desk) -> None:
    """The same, fifty times four."""
    crashes(place, 50, seed=2)
