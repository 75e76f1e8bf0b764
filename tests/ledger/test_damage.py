"""A ledger that came to harm is refused or read correctly, never changed by that, and never ends in a traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from damage import KINDS, harm
from stores import admit, fill, kill, line, program

from turnctl.errors import StoreError
from turnctl.ledger.opening import init, open_sqlite
from turnctl.ledger.store import Books
from turnctl.ledger.verify import verify


def _content(books: Books) -> list[object]:
    found: list[object] = []
    for task in books.incarnations():
        found += [books.incarnation(task.inc), books.events(task.inc)]
        for effect in books.effects_of(task.inc):
            found += [effect, books.payload(effect.effect_id), books.receipts(effect.effect_id)]
    return found


@pytest.fixture
def wholes(quick: Path) -> dict[str, Path]:
    """Two folders with a ledger: one that was closed well, and one whose process was killed, so that it has a log."""
    found = {}
    for name in ("closed", "crashed"):
        (quick / name).mkdir(mode=0o700)
        found[name] = quick / name
        path = quick / name / "ledger.db"
        init(path)
        store = open_sqlite(path)
        fill(store)
        store.close()
    process = program("store = open_sqlite(path); admit(store, 'l'); say('in'); time.sleep(60)", path)
    assert "in" == line(process)
    kill(process)
    return found


def _bytes(path: Path) -> list[bytes]:
    files = (path, Path(f"{path}-wal"))
    return [file.read_bytes() if file.exists() else b"" for file in files]


def outcome(path: Path, content: list[object]) -> str:
    """What became of opening and reading it: refused, correct, or found by ``verify``."""
    before = _bytes(path)
    try:
        verified = verify(path)
    except StoreError:
        verified = None
    assert before == _bytes(path)
    try:
        store = open_sqlite(path)
    except StoreError:
        store = None
    if store is None:
        assert before == _bytes(path)
        return "refused"
    try:
        found = store.read(_content)
    except StoreError:
        return "refused"
    finally:
        store.close()
    if found == content:
        return "correct"
    assert verified is not None
    assert not verified, "other content, and nothing was found"
    return "found"


def damaged(quick: Path, wholes: dict[str, Path], rounds: int) -> dict[str, int]:
    """Each kind of harm ``rounds`` times for both ledgers; how often what came of it."""
    counts: dict[str, int] = {}
    for name, whole in wholes.items():
        copy = harm("marks", whole, quick / "copy", 0)
        os.unlink(f"{copy}.hwm")
        store = open_sqlite(copy)
        content = store.read(_content)
        store.close()
        for kind in KINDS:
            for seed in range(rounds):
                try:
                    came = outcome(harm(kind, whole, quick / "copy", seed), content)
                except Exception as error:
                    raise AssertionError(f"{name}, {kind}, {seed}: {type(error).__name__}: {error}") from error
                counts[came] = counts.get(came, 0) + 1
    return counts


def test_harm_is_refused_or_read_correctly(quick: Path, wholes: dict[str, Path]) -> None:
    """Some sixty harmed ledgers."""
    counts = damaged(quick, wholes, 2)

    assert {"refused", "correct"} <= set(counts), counts
    assert 4 * len(KINDS) == sum(counts.values())


@pytest.mark.stress
@pytest.mark.timeout(900)
def test_a_thousand_harmed_ledgers(quick: Path, wholes: dict[str, Path]) -> None:
    """The same, a thousand and more."""
    counts = damaged(quick, wholes, 40)

    assert 1000 <= sum(counts.values())
    assert {"refused", "correct", "found"} == set(counts), counts


def test_ledger_that_may_not_be_written_is_refused_unchanged(place: Path) -> None:
    """Who may read it alone is told what it takes."""
    if os.geteuid() == 0:
        pytest.skip("root writes what it likes")
    store = open_sqlite(place)
    fill(store)
    store.close()
    before = place.read_bytes()
    os.chmod(place, 0o400)
    with pytest.raises(StoreError):
        opened = open_sqlite(place)
        try:
            admit(opened, "e9")
        finally:
            opened.close()

    assert before == place.read_bytes()
