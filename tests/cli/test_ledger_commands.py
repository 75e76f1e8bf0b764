"""``turnctl ledger``: reading a whole ledger, copying it and purging it, for people and for programs."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest
from forked import holding
from launch import Ended, ask
from schemas import fits

from turnctl.cli.ledger import _counted
from turnctl.ledger.opening import open_sqlite
from turnctl.ledger.verify import verify
from turnctl.ledger.workshop import workshop
from turnctl.records.retention import Purged

Capture = pytest.CaptureFixture[str]


def spoil(path: Path) -> None:
    """Change a row behind the ledger's back."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DROP TRIGGER effect_stays")
    connection.execute("UPDATE effect SET kind = 'other' WHERE pos = 1")
    connection.close()


# -- verify -------------------------------------------------------------------------------------------------------


def test_sound_ledger_is_said_to_be_so(shelf: Path, capfd: Capture) -> None:
    """The state directory's own, and one by its name; with -q by the status alone."""
    path = shelf / "ledger.sqlite3"
    own, named, quiet = (ask(capfd, "ledger", "verify", *args) for args in ((), (str(path),), ("-q",)))

    assert own == named
    assert (0, f"{path} is sound: 6 incarnations, ", "") == (own.status, own.out[: len(str(path)) + 27], own.err)
    assert Ended(0, "", "") == quiet


def test_what_is_wrong_is_told_a_line_each(shelf: Path, capfd: Capture) -> None:
    """On stdout, with status 1; as one document with --json."""
    spoil(shelf / "ledger.sqlite3")
    plain, quiet, made = (ask(capfd, "ledger", "verify", *args) for args in ((), ("-q",), ("--json",)))
    document = fits(json.loads(made.out))

    assert (1, 1, 1) == (plain.status, quiet.status, made.status)
    assert "kind is 'other', the log says" in plain.out
    assert plain.out.splitlines() == document["findings"]
    assert document["is_sound"] is False


def test_ledger_that_is_none_is_refused(shelf: Path, capfd: Capture, tmp_path: Path) -> None:
    """There is none, or another file; as a person and as a program is told."""
    other = tmp_path / "other"
    tmp_path.chmod(0o700)
    other.write_bytes(b"no ledger" * 1000)
    other.chmod(0o600)
    missing = ask(capfd, "ledger", "verify", str(tmp_path / "none"), "--json")
    foreign = ask(capfd, "ledger", "verify", str(other))

    assert (4, 5) == (missing.status, foreign.status)
    assert "store_missing" == fits(json.loads(missing.out))["code"]
    assert foreign.err.startswith("turnctl: error: ")
    assert "" == foreign.out


def test_damaged_pages_are_a_finding(shelf: Path, capfd: Capture) -> None:
    """Damage is what was looked for, and no trouble of the command."""
    path = shelf / "ledger.sqlite3"
    data = bytearray(path.read_bytes())
    data[4096 * 3 : 4096 * 12] = os.urandom(4096 * 9)
    path.write_bytes(data)
    found = ask(capfd, "ledger", "verify")

    assert 1 == found.status
    assert found.out
    assert "Traceback" not in found.out + found.err


# -- backup -------------------------------------------------------------------------------------------------------


def test_backup_is_a_ledger_of_its_own(shelf: Path, capfd: Capture, tmp_path: Path) -> None:
    """The same content, sound, for its owner alone, made beside who uses it; nothing else is left there."""
    there = tmp_path / "copies"
    there.mkdir(mode=0o755)
    path = shelf / "ledger.sqlite3"
    store = open_sqlite(path)
    made = ask(capfd, "ledger", "backup", str(there / "copy"))
    store.close()
    seen = ask(capfd, "ledger", "verify", str(there / "copy"))  # in a folder that others may look into
    there.chmod(0o777)
    open_to_all = ask(capfd, "ledger", "verify", str(there / "copy"))
    there.chmod(0o1777)
    everybodys = ask(capfd, "ledger", "verify", str(there / "copy"))
    there.chmod(0o700)
    copy = open_sqlite(there / "copy")
    found = [task.inc for task in copy.read(lambda books: list(books.incarnations()))]
    copy.close()

    assert (0, "") == (made.status, made.err)
    assert (0, 5, 5) == (seen.status, open_to_all.status, everybodys.status)
    assert "chmod 0700" in open_to_all.err
    assert "a folder of your own" in everybodys.err
    assert "copy is sound: 6 incarnations" in made.out
    assert 6 == len(found)
    assert 0o600 == (there / "copy").stat().st_mode & 0o777
    assert [] == [one for one in os.listdir(there) if one.startswith(".")]


def test_backup_says_what_a_killed_one_had_left(shelf: Path, capfd: Capture, tmp_path: Path) -> None:
    """It takes that away, a line for each on stderr, and names it to programs."""
    found = []
    for args in ([], ["--json"], ["-qq"]):
        with workshop(str(tmp_path)) as path:
            kept = Path(path).parent.rename(tmp_path / "kept")
        found.append(kept.rename(Path(path).parent))
        made = ask(capfd, "ledger", "backup", str(tmp_path / f"copy-{len(found)}"), *args)
        said = f"turnctl: taken away: {found[-1]}, which a backup had left that was killed\n"

        assert (0, "" if "-qq" in args else said) == (made.status, made.err)
        if "--json" in args:
            assert [str(found[-1])] == fits(json.loads(made.out))["cleared"]
    assert [] == [one for one in found if one.exists()]


def test_backup_replaces_nothing(shelf: Path, capfd: Capture, tmp_path: Path) -> None:
    """A file that is there stays as it is, and so does one that cannot be written where it should."""
    (tmp_path / "copy").write_text("mine")
    there = ask(capfd, "ledger", "backup", str(tmp_path / "copy"), "--json")
    nowhere = ask(capfd, "ledger", "backup", str(tmp_path / "none" / "copy"))

    assert (2, 5) == (there.status, nowhere.status)
    assert "file_exists" == fits(json.loads(there.out))["code"]
    assert "name another file" in there.err
    assert "mine" == (tmp_path / "copy").read_text()


def test_copy_that_is_verified_stays_alone(shelf: Path, capfd: Capture, tmp_path: Path) -> None:
    """Reading it leaves no file beside it, and while it is in use takes none away."""
    folder = tmp_path / "copies"
    folder.mkdir(mode=0o700)
    copy = folder / "copy"
    ask(capfd, "ledger", "backup", str(copy))
    alone = ask(capfd, "ledger", "verify", str(copy))
    listed = os.listdir(folder)
    with holding(copy):
        used = ask(capfd, "ledger", "verify", str(copy))
        beside = sorted(os.listdir(folder))

    assert (0, 0, ["copy"]) == (alone.status, used.status, listed)
    assert ["copy", "copy-shm", "copy-wal"] == beside


def test_backup_of_what_is_not_sound_says_so(shelf: Path, capfd: Capture, tmp_path: Path) -> None:
    """The copy is as the ledger is, and is kept."""
    spoil(shelf / "ledger.sqlite3")
    made = ask(capfd, "ledger", "backup", str(tmp_path / "copy"), "--json")
    document = fits(json.loads(made.out))

    assert (1, False) == (made.status, document["is_sound"])
    assert document["size"] == (tmp_path / "copy").stat().st_size


# -- prune --------------------------------------------------------------------------------------------------------


def test_prune_says_what_went_and_what_stays(shelf: Path, capfd: Capture) -> None:
    """First without changing anything, then in earnest; the ledger is sound, and the unresolved is kept."""
    dry = ask(capfd, "ledger", "prune", "--older-than", "0s", "--dry-run", "--json")
    before = len(verify(shelf / "ledger.sqlite3").findings), verify(shelf / "ledger.sqlite3").incarnations
    real = ask(capfd, "ledger", "prune", "--older-than", "0s")
    document = fits(json.loads(dry.out))
    listed = ask(capfd, "ps", "-a", "-q").out.split()

    assert (0, 0) == (dry.status, real.status)
    assert (0, 6) == before
    assert document["dry_run"]
    assert f"{document['incarnations']} incarnations purged" in real.out
    assert {"t1aaaaaaaa", "t1bbbbbbbb", "t2cccccccc"}.isdisjoint(listed)
    assert {"t2dddddddd", "t3ffffffff"} <= set(listed)
    assert () == verify(shelf / "ledger.sqlite3").findings


def test_prune_leaves_what_is_recent(shelf: Path, capfd: Capture) -> None:
    """The age counts from the end."""
    found = ask(capfd, "ledger", "prune", "--older-than", "30d")

    assert Ended(0, "0 incarnations purged\n", "") == found


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["prune"], "--older-than"),
        (["prune", "--older-than", "30"], "has no unit"),
        (["prune", "--older-than", "-1d"], "negative"),
        (["backup"], "FILE"),
        (["backup", ""], "the name of the file is empty; is a variable in it not set?"),
        (["backup", "-"], "it does not go to stdout; name a file"),
        (["verify", ""], "the name of the file is empty; is a variable in it not set?"),
        (["fix"], "fix"),
        ([], "no command was given; it has: backup, prune, verify"),
    ],
)
def test_wrong_use_is_told(shelf: Path, capfd: Capture, args: list[str], said: str) -> None:
    """With status 2, and nothing on stdout."""
    found = ask(capfd, "ledger", *args)

    assert (2, "") == (found.status, found.out)
    assert said.lower() in found.err.lower()


@pytest.mark.parametrize("name", ["verify", "backup", "prune"])
def test_each_shows_examples_first(capfd: Capture, name: str) -> None:
    """And then its options, and what its status means."""
    shown = ask(capfd, "ledger", name, "-h").out

    assert f"Usage: turnctl ledger {name}" in shown
    assert shown.index("Examples") < shown.index("ptions:") < shown.index("Exit status")


def test_one_incarnation_is_told_as_one() -> None:
    """By what verifies, and by what purges."""
    assert "1 incarnation purged" == str(Purged(incarnations=1, tombstones=0, given_back=0, kept={}))
    assert ("1 incarnation", "2 incarnations") == (_counted(1), _counted(2))
