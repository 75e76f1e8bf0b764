"""What the system refuses is told in words, with the file and what to do, wherever a ledger is looked at."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from turnctl.errors import StoreError, StoreFull, StoreUnsafe
from turnctl.ledger import glance, opening, verify
from turnctl.ledger.refusals import system_told


def looked(path: Path) -> str | None:
    with glance.Glances(path) as there:
        return there.doubt


def opened(path: Path) -> str:
    with pytest.raises(StoreError) as caught:
        opening.open_sqlite(path).close()
    return str(caught.value)


def verified(path: Path) -> str:
    return verify.verify(path).findings[0]


@pytest.mark.parametrize(("module", "look"), [(glance, looked), (opening, opened), (verify, verified)])
@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
def test_mark_that_is_refused_is_told_in_words(
    place: Path, monkeypatch: pytest.MonkeyPatch, module: object, look: Callable[[Path], str], number: int
) -> None:
    """By opening, verifying and glancing alike, without the number that the system has for it."""

    def refused(path: str) -> None:
        raise OSError(number, os.strerror(number), f"{path}.hwm")

    monkeypatch.setattr(module, "read_marks", refused)

    assert look(place).startswith(f"{place}.hwm cannot be read ({os.strerror(number)}), so ")


@pytest.mark.parametrize(
    ("name", "number", "kind", "words"),
    [
        ("/x/ledger", errno.ENOSPC, StoreFull, "making /x/ledger failed (No space left on device); free some space"),
        ("/x/ledger.room", errno.EACCES, StoreUnsafe, "making /x/ledger failed (/x/ledger.room: Permission denied);"),
        (None, errno.EMFILE, StoreError, "making /x/ledger failed (Too many open files); close some, or raise"),
        ("/x", errno.EROFS, StoreUnsafe, "making /x/ledger failed (/x: Read-only file system); name another place"),
    ],
)
def test_refusal_of_the_system_names_its_file(
    name: str | None, number: int, kind: type[StoreError], words: str
) -> None:
    """Once, where it is the ledger itself."""
    with pytest.raises(kind) as caught, system_told("/x/ledger", "making"):
        raise OSError(number, os.strerror(number), name)

    assert str(caught.value).startswith(words)


def test_name_of_a_file_stays_on_one_line(quick: Path) -> None:
    """Also for a program that shows the error as it is; ``path`` is the name itself."""
    path = quick / "a\nb" / "ledger.db"
    with pytest.raises(StoreError) as caught:
        opening.open_sqlite(path)

    assert f"there is no ledger {quick}/a\\nb/ledger.db; " in str(caught.value)
    assert str(path) == caught.value.path
