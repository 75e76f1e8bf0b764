"""A ledger that came to harm is refused or read correctly, never changed by that, and never ends in a traceback."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


def _content_of(whole: Path, folder: Path) -> list[object]:
    copy = harm("marks", whole, folder / "copy", 0)
    os.unlink(f"{copy}.hwm")
    store = open_sqlite(copy)
    content = store.read(_content)
    store.close()
    return content


def damaged(quick: Path, wholes: dict[str, Path], rounds: int) -> dict[str, int]:
    """Each kind of harm ``rounds`` times for both ledgers; how often what came of it."""
    counts: dict[str, int] = {}
    for name, whole in wholes.items():
        content = _content_of(whole, quick)
        for kind in KINDS:
            for seed in range(rounds):
                try:
                    came = outcome(harm(kind, whole, quick / "copy", seed), content)
                except Exception as error:
                    raise AssertionError(f"{name}, {kind}, {seed}: {type(error).__name__}: {error}") from error
                counts[came] = counts.get(came, 0) + 1
    return counts


def test_harm_is_refused_or_read_correctly(quick: Path, wholes: dict[str, Path]) -> None:
    """Some hundred and forty harmed ledgers."""
    counts = damaged(quick, wholes, 5)

    assert {"refused", "correct"} <= set(counts), counts
    assert 10 * len(KINDS) == sum(counts.values())


@pytest.mark.stress
@pytest.mark.timeout(900)
def test_a_thousand_harmed_ledgers(quick: Path, wholes: dict[str, Path]) -> None:
    """The same, a thousand and more."""
    counts = damaged(quick, wholes, 40)

    assert 1000 <= sum(counts.values())
    assert {"refused", "correct", "found"} == set(counts), counts


@contextmanager
def nobody(folder: Path) -> Iterator[None]:
    """Be a user who has to mind modes, and whose the folder is: root writes what it likes."""
    if os.geteuid() != 0:
        yield
        return
    for one in (folder, *folder.iterdir()):
        os.chown(one, 65534, 65534)
    os.chmod(folder.parent, 0o711)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("name", ["closed", "crashed"])
def test_ledger_that_may_not_be_written_is_refused_unchanged(wholes: dict[str, Path], name: str) -> None:
    """Who may read it alone is told what it takes; reading all of it goes on."""
    place = wholes[name] / "ledger.db"
    before = _bytes(place)
    os.chmod(place, 0o400)
    with nobody(place.parent):
        with pytest.raises(StoreError):
            opened = open_sqlite(place)
            try:
                admit(opened, "e9")
            finally:
                opened.close()
        found = verify(place)

    assert before == _bytes(place)
    assert found


@pytest.fixture
def full(quick: Path, wholes: dict[str, Path]) -> Iterator[Path]:
    """A file system that is filled up by the harmed ledger that is put there; calling it fills it."""
    folder = quick / "full"
    folder.mkdir(mode=0o700)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", folder], capture_output=True)
    if done.returncode != 0:
        pytest.skip("a small file system cannot be mounted here (needs root)")
    yield folder
    subprocess.run(["umount", folder], check=True)


def _fill_up(folder: Path) -> None:
    with suppress(OSError), open(folder / "rest", "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_harm_on_a_full_disk_is_refused_unchanged(full: Path, wholes: dict[str, Path]) -> None:
    """Where there is no room for anything: refused or read correctly, and no byte of it is another one."""
    whole = wholes["crashed"]
    content = _content_of(whole, full)
    counts: dict[str, int] = {}
    for kind in KINDS:
        for seed in range(2):
            path = harm(kind, whole, full / "copy", seed)
            _fill_up(full)
            came = outcome(path, content)
            counts[came] = counts.get(came, 0) + 1
            (full / "rest").unlink()

    assert counts["refused"] > len(KINDS), counts
