"""A state directory that can only be read: what only looks answers as ever, and says how it was read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from launch import ask
from mounts import shown

from turnctl.cli import opened

READ_AS = "is read as an unchanging copy: nothing can be written there, and nobody has it open"


@pytest.fixture
def medium(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(opened, "_told", [])
    for ending in ("-wal", "-shm"):  # of who has looked before: by them it would be read as where it can be written
        (shelf / f"ledger.sqlite3{ending}").unlink(missing_ok=True)
    with shown(shelf, shelf):
        yield shelf


ASKED = [
    ("ps", "-a"),
    ("ps", "-a", "--json"),
    ("show", "t2cc"),
    ("show", "t2cc", "--json"),
    ("status", "t2cc"),
    ("logs", "t1bb"),
    ("effects",),
    ("report", "t2cc"),
    ("ledger", "verify"),
    ("bundle", "t2cc", "-o", "-"),
    ("reconcile", "--dry-run"),
    ("watch", "t2cc"),
]


@pytest.mark.parametrize("args", ASKED, ids=" ".join)
def test_answer_is_that_of_a_folder_that_can_be_written_to(
    args: tuple[str, ...], shelf: Path, capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    """The same words and the same status; stderr says once how it was read."""
    before = ask(capfd, *args)
    request.getfixturevalue("medium")
    after = ask(capfd, *args)

    assert (before.status, before.out) == (after.status, after.out)
    assert 1 == after.err.count(f"turnctl: {shelf}/ledger.sqlite3 {READ_AS}\n")
    assert before.err == after.err.replace(f"turnctl: {shelf}/ledger.sqlite3 {READ_AS}\n", "")


def test_verdict_says_how_it_was_read(medium: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Also to a program."""
    found = json.loads(ask(capfd, "ledger", "verify", "--json").out)

    assert (True, True) == (found["is_sound"], found["unchanging"])
    assert str(medium / "ledger.sqlite3") == found["path"]


def test_what_writes_says_why_it_cannot(medium: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A stop is refused there, with what to do."""
    del medium
    found = ask(capfd, "ledger", "prune", "--older-than", "1d")

    assert 5 == found.status
    assert "its file system can only be read" in found.err
    assert "hint: name another place for the ledger" in found.err
