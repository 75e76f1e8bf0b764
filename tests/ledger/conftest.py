"""Where stores of tests lie, and the fixture that has a test run over each kind of store."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from desk import Desk

import turnctl
from turnctl.ledger.memory import MemoryStore
from turnctl.ledger.opening import init, open_sqlite
from turnctl.ledger.sqlite import SqliteStore
from turnctl.ledger.store import Store


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where the machine has one: for tests that are not about the disk."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="turnctl-test-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def place(quick: Path) -> Path:
    """The file of a ledger that was just made."""
    path = quick / "ledger.db"
    init(path)
    return path


@pytest.fixture
def store(place: Path) -> Iterator[SqliteStore]:
    """A SQLite store."""
    opened = open_sqlite(place)
    yield opened
    opened.close()


@pytest.fixture(params=["memory", "sqlite"])
def both_stores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every desk of the test has a store of that kind."""
    made: Store = MemoryStore() if request.param == "memory" else request.getfixturevalue("store")
    monkeypatch.setattr(Desk, "made", lambda _: made)


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, quick: Path) -> Iterator[turnctl.Ledger]:
    """A ledger of each kind, as a host opens it."""
    with turnctl.open_ledger("memory:" if request.param == "memory" else str(quick / "host.db")) as opened:
        yield opened
