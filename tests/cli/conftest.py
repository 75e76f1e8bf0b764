"""The state directory that the commands of a test answer from, and what is done beside them while they run."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from _thread import LockType
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from shelf import START, fill

from turnctl import clock


class HalfPast:
    """A clock whose wall stands still; all that is timed goes by the real one."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return START + 330

    def block(self, lock: LockType, seconds: float) -> object:
        return lock.acquire(True, seconds)


@pytest.fixture(scope="session")
def _made() -> Iterator[Path]:
    """Made once: a ledger is only read by most tests."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="turnctl-test-", dir=memory if memory.is_dir() else None))
    fill(folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def shelf(_made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory of the test's own, with the turns of ``shelf``, half a minute after the last one began."""
    folder = tmp_path / "state"
    shutil.copytree(_made, folder)
    folder.chmod(0o700)
    monkeypatch.setenv("TURNCTL_STATE_DIR", str(folder))
    with clock.use(HalfPast()):
        yield folder


@pytest.fixture
def beside() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Has something done on another thread while a command runs here."""
    threads: list[threading.Thread] = []

    def begin(fn: Callable[[], object]) -> None:
        threads.append(threading.Thread(target=fn))
        threads[-1].start()

    yield begin
    for one in threads:
        one.join()
