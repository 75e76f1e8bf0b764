"""Fixtures of the processes room: an owner that a test stops by hand, and gates for programs to report at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import FakeTurn, Gate


@pytest.fixture
def grouped(wardens: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of the test have no warden, as where there can be none."""
    monkeypatch.setenv("TURNCTL_CONTAINMENT", "group")


@pytest.fixture
def owner(leak_check: object) -> Iterator[FakeTurn]:
    """A turn of the test; what it still owns at the end is killed."""
    with FakeTurn() as owner:
        yield owner


@pytest.fixture
def gate(tmp_path: Path, leak_check: object) -> Iterator[Gate]:
    """A place where a program of the test says that it is ready."""
    made = Gate(tmp_path / "gate")
    yield made
    made.close()


@pytest.fixture
def gates(tmp_path: Path, leak_check: object) -> Iterator[Callable[[], Gate]]:
    """Makes as many gates as asked for."""
    made: list[Gate] = []

    def make() -> Gate:
        made.append(Gate(tmp_path / f"gate-{len(made)}"))
        return made[-1]

    yield make
    for one in made:
        one.close()
