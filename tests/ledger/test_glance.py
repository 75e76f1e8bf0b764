"""Turns at a glance: the same words as in the account, what is refused, and that nothing is changed by looking."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from shelf import IDS, fill, opened

import turnctl
from turnctl.errors import StoreDamaged, StoreError, StoreForeign, StoreLost, StoreMissing, StoreTooNew, StoreUnsafe
from turnctl.ledger.glance import Glances


@pytest.fixture
def path(quick: Path) -> Path:
    """The ledger of a shelf."""
    folder = quick / "state"
    fill(folder)
    return folder / "ledger.sqlite3"


def test_words_are_those_of_the_account(path: Path) -> None:
    """Each turn has the word that the account of its task has; there is one turn for each of these."""
    with turnctl.open_ledger(str(path)) as ledger:
        words = {}
        for n in range(1, 7):
            task = ledger.incarnation(f"i-{n}")
            assert task is not None
            words[IDS[n - 1]] = ledger.report(task).state
    with Glances(path) as there:
        found = {one.turn_id: one.state for one in there.all()}

    assert words == found
    assert 6 == len(set(found.values()))


def test_each_attempt_has_its_own_effects_and_end(path: Path) -> None:
    """Of two turns on one task each is told by its own effects and outcome, not by those of the other."""
    with turnctl.open_ledger(str(path)) as ledger:
        task = ledger.submit("acme", "twice")
        with turnctl.turn(turn_id="first", task=task) as turn:
            with turn.effect("mail.send", key="a") as sent:
                sent.complete(receipt="250")
            turn.cancel(cause="shutdown")
            turn.sleep(1)
        with turnctl.turn(turn_id="second", task=task):
            pass
    with Glances(path) as there:
        second, first = there.of_incarnation(task.inc)

    assert ("first", "cancelled, settled", {"completed": 1}) == (first.turn_id, first.state, first.dispositions)
    assert ("second", "completed", {}) == (second.turn_id, second.state, second.dispositions)


def test_looking_changes_nothing(path: Path) -> None:
    """The file and what lies beside it are as they were, also where its log was left by a killed writer."""
    before = {one.name: one.read_bytes() for one in path.parent.iterdir() if one.is_file()}
    with Glances(path) as there:
        assert 6 == len(list(there.all()))

    files = [one for one in path.parent.iterdir() if one.is_file() and not one.name.endswith(("-shm", "-wal"))]
    after = {one.name: one.read_bytes() for one in files}
    assert {name: kept for name, kept in before.items() if name in after} == after
    assert not (set(after) - set(before))


def test_one_state_is_seen(path: Path) -> None:
    """What is written while somebody looks is not seen by them, and does not wait for them."""
    with Glances(path) as there, opened(path.parent) as more:
        first = len(list(there.all()))
        more.turn("later", task="later")

        assert first == len(list(there.all()))
    with Glances(path) as there:
        assert first + 1 == len(list(there.all()))


def test_missing_one_is_told_and_not_made(tmp_path: Path) -> None:
    """Where there is none, none is made."""
    with pytest.raises(StoreMissing, match="it is made by the first turn that is recorded"):
        Glances(tmp_path / "ledger.sqlite3")

    assert [] == list(tmp_path.iterdir())


def _other_program(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a)")
    connection.close()
    path.chmod(0o600)


def _too_new(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET min_reader = 99, written_by = 'turnctl 99'")
    connection.close()


@pytest.mark.parametrize(
    ("harm", "error", "text"),
    [
        (lambda path: path.write_bytes(b""), StoreForeign, "as good as empty"),
        (lambda path: path.write_bytes(b"no database, and long enough to be one " * 99), StoreForeign, "no ledger"),
        (_other_program, StoreForeign, "another program"),
        (_too_new, StoreTooNew, "written by turnctl 99"),
        (lambda path: path.parent.chmod(0o770), StoreUnsafe, "chmod 0700"),
        (lambda path: path.chmod(0o644), StoreUnsafe, "chmod 0600"),
        (lambda path: (path.unlink(), path.mkdir()), StoreUnsafe, "no regular file"),
        (lambda path: path.unlink(), StoreLost, "its mark is there"),
    ],
)
def test_what_cannot_be_trusted_is_refused(path: Path, harm: object, error: type[StoreError], text: str) -> None:
    """Another program's file, a newer schema, and modes that let others in."""
    harm(path)  # type: ignore[operator]

    with pytest.raises(error, match=text):
        Glances(path)


def test_state_that_is_old_is_doubted(path: Path) -> None:
    """What is there is told, and with it that more had been acknowledged, or that nobody knows whether."""
    copy = path.read_bytes()
    with turnctl.open_ledger(str(path)) as ledger:
        ledger.submit("acme", "one more")
    with Glances(path) as there:
        sound = there.doubt
    path.write_bytes(copy)
    with Glances(path) as there:
        behind, found = there.doubt, len(list(there.all()))
    path.with_name(f"{path.name}.hwm").write_bytes(b"nothing")
    with Glances(path) as there:
        unread = there.doubt

    assert (None, 6) == (sound, found)
    assert "is behind what it had acknowledged" in str(behind)
    assert "hwm cannot be read" in str(unread)


def test_damage_is_told_where_it_is_met(path: Path) -> None:
    """Pages that make no sense are told as damage, with what to do, and never as no turns."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))

    with pytest.raises(StoreDamaged, match="keep the file"), Glances(path) as there:
        list(there.all())


def test_glance_loads_little(path: Path) -> None:
    """Neither the records nor the store are loaded for it, which would take longer than all that it does."""
    code = (
        "import sys\nfrom turnctl.ledger.glance import Glances\n"
        f"with Glances({str(path)!r}) as there: print(len(list(there.all())))\n"
        "heavy = {'attr', 'psutil', 'structlog', 'asyncio', 'logging', 'turnctl.ledger.sqlite'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "6\n[]\n" == done.stdout
