"""Reading a store where nothing can be written: what is read there, how it is known to hold, and what is refused."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from desk import Desk
from forks import said_in_a_fork
from mounts import shown
from stores import admit

from turnctl.errors import StoreBusy, StoreUnsafe
from turnctl.ledger import places
from turnctl.ledger.bundling import bundle_of
from turnctl.ledger.copying import backup
from turnctl.ledger.glance import Glances
from turnctl.ledger.opening import init, open_sqlite
from turnctl.ledger.reading import connect_to_read
from turnctl.ledger.stillstore import open_still
from turnctl.ledger.stirring import Stirring
from turnctl.ledger.users import Users
from turnctl.ledger.verify import verify

NOBODY = 12_345


@pytest.fixture
def written(quick: Path) -> Path:
    """A ledger with a task and an effect, closed well, in a folder that can be written to."""
    folder = quick / "written"
    folder.mkdir(mode=0o700)
    path = folder / "ledger.sqlite3"
    init(path)
    store = open_sqlite(path)
    Desk(store)
    admit(store, "e1")
    store.close()
    return path


@pytest.fixture
def read(written: Path, quick: Path) -> Iterator[Path]:
    """The same ledger where it can only be read."""
    at = quick / "read"
    at.mkdir(mode=0o700)
    with shown(written.parent, at):
        yield at / written.name


def test_ledger_is_read_where_nothing_can_be_written(read: Path) -> None:
    """Verified, looked at and made a bundle of; each says by what it is known that it does not change."""
    found = verify(read)
    with Glances(read) as there:
        turns, still = list(there.all()), there.still
    store = open_still(read)
    assert store is not None
    bundle = bundle_of(store, "i1", payloads=True, scope="subtree")
    store.close()

    assert (1, ()) == (found.incarnations, found.findings)
    assert f"{read} is read as an unchanging copy: nothing can be written there, and nobody has it open" == found.still
    assert still is not None
    assert ([], found.still) == (turns, still.words)
    assert isinstance(bundle, bytes)
    with pytest.raises(StoreUnsafe, match="it can only be read"):
        store.transact(lambda books: books)
    with pytest.raises(StoreUnsafe, match="its file system can only be read"):
        open_sqlite(read)


def test_bundle_is_the_same_as_from_the_ledger(written: Path, read: Path) -> None:
    """Byte for byte."""
    store = open_sqlite(written)
    expected = bundle_of(store, "i1", payloads=True, scope="subtree")
    store.close()
    still = open_still(read)
    assert still is not None

    assert expected == bundle_of(still, "i1", payloads=True, scope="subtree")
    still.close()
    assert open_still(written) is None


def test_ledger_is_copied_from_a_medium(read: Path, quick: Path) -> None:
    """A copy into a folder that can be written to is sound, and an ordinary ledger."""
    made = backup(read, quick / "copy.sqlite3")

    assert ((), True) == (made.verified.findings, "unchanging copy" in str(made.still))
    store = open_sqlite(quick / "copy.sqlite3")
    admit(store, "e2")
    store.close()


def test_file_system_that_nobody_can_write_to(written: Path, quick: Path) -> None:
    """Where the medium itself is read-only a log that is empty, or an index, says nothing against it."""
    medium = quick / "medium"
    medium.mkdir(mode=0o700)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", medium], capture_output=True)
    if done.returncode != 0:
        pytest.skip("no file system can be mounted here (needs root)")
    try:
        shutil.copy(written, medium / "copy.sqlite3")
        (medium / "copy.sqlite3-wal").touch(mode=0o600)
        subprocess.run(["mount", "-o", "remount,ro", medium], check=True)
        found = verify(medium / "copy.sqlite3")
    finally:
        subprocess.run(["umount", medium], check=True)

    assert () == found.findings
    assert "nobody on this machine can write to its file system" in str(found.still)


def test_user_who_may_not_write_reads(written: Path) -> None:
    """A folder of mode 0500 is read by its owner; one who may write there reads as ever."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # that of the test can be entered by its owner alone
    copy = folder / "copy.sqlite3"
    shutil.copy(written, copy)
    for name in (copy, folder):
        os.chown(name, NOBODY, NOBODY)
    copy.chmod(0o600)

    def look() -> object:
        os.seteuid(NOBODY)
        found = verify(copy)
        return found.findings, "unchanging copy" in str(found.still)

    folder.chmod(0o500)
    said = [said_in_a_fork(look)]
    folder.chmod(0o700)
    said.append(said_in_a_fork(look))
    left = os.listdir(folder)
    shutil.rmtree(folder)

    assert ["((), True)", "((), False)"] == said
    assert ["copy.sqlite3"] == left


# -- beside a writer --------------------------------------------------------------------------------------------------


def test_ledger_that_is_written_to_is_read_as_it_is(written: Path, read: Path) -> None:
    """While another path writes SQLite's own index is there, and what was written last is read by it."""
    store = open_sqlite(written)
    admit(store, "e2")
    connection, still = connect_to_read(str(read), 1.0)
    found = connection.execute("SELECT count(*) FROM effect").fetchone()[0]
    connection.close()
    store.close()

    assert (None, 2) == (still, found)


def test_ledger_that_is_open_is_not_taken_for_unchanging(written: Path, read: Path) -> None:
    """Where there is no log yet the lock of who has it open tells of him."""
    users = Users(str(written))
    users.join()
    with pytest.raises(StoreUnsafe, match="a program has it open by another path; copy it, with its -wal"):
        verify(read)
    users.close()

    assert verify(read)


@pytest.mark.parametrize("empty", [True, False])
def test_log_of_a_program_that_died_is_not_left_out(written: Path, read: Path, *, empty: bool) -> None:
    """What the log holds is not in the file: reading the file alone would hide it. An empty one may be a writer's."""
    log = written.with_name(f"{written.name}-wal")
    log.write_bytes(b"" if empty else b"\x37\x7f\x06\x82" + bytes(60))
    log.chmod(0o600)
    why = "a program may have it open by another path" if empty else "its log .*-wal holds what the file itself has not"
    with pytest.raises(StoreUnsafe, match=why):
        verify(read)


def test_change_that_was_not_finished_is_not_read(written: Path, read: Path) -> None:
    """The journal of another mode than ours says what has to be taken back first."""
    journal = written.with_name(f"{written.name}-journal")
    journal.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(504))
    with pytest.raises(StoreUnsafe, match="-journal says that a change of it was not finished"):
        verify(read)
    with pytest.raises(StoreUnsafe, match="-journal says that a change of it was not finished"), Glances(read):
        pass


def test_journal_that_somebody_changed_is_told_of(written: Path) -> None:
    """Who only reads is told as well as who opens it."""
    with closing(sqlite3.connect(written)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    with pytest.raises(StoreUnsafe, match="somebody changed the journal"):
        verify(written)


def test_refused_watching_leaves_nothing(written: Path, read: Path) -> None:
    """No descriptor stays where a ledger cannot be watched."""
    written.with_name(f"{written.name}-wal").write_bytes(bytes(64))
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(StoreUnsafe):
        Stirring(str(read))

    assert before == len(os.listdir("/proc/self/fd"))


def test_writer_who_comes_later_is_told_of(written: Path, read: Path) -> None:
    """What was read is not taken for certain once somebody has written, whether he is still there or gone."""
    with pytest.raises(StoreBusy, match="was changed while it was read as an unchanging copy"), Glances(read) as there:
        assert there.still is not None
        store = open_sqlite(written)
        admit(store, "e2")
        store.close()
        list(there.all())

    with Glances(read) as there:
        assert [] == list(there.all())


def test_error_in_the_block_stays_the_one(written: Path, read: Path) -> None:
    """Who looks and fails is told of his own failure first."""
    with pytest.raises(ZeroDivisionError), Glances(read):
        store = open_sqlite(written)
        admit(store, "e2")
        store.close()
        raise ZeroDivisionError


def test_file_system_of_others_is_not_unchanging(read: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody here knows what another machine writes."""
    monkeypatch.setattr("turnctl.ledger.reading.is_remote", lambda _folder: True)
    with pytest.raises(StoreUnsafe, match="other machines may write to it"), Glances(read):
        pass


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/a/x", True), ("/a/b/x", False), ("/a/b/c", True), ("/d/x", False), ("/x", False), ("/o/x", False)],
)
def test_options_of_the_file_system_decide(path: str, *, expected: bool) -> None:
    """A mount that is read-only of a file system that is not is no proof; nor is one on top of others."""
    mounts = (
        "1 0 8:1 / / rw - ext4 /dev/sda rw\n"
        "2 1 8:2 / /a ro,nosuid - iso9660 /dev/sr0 ro,relatime\n"
        "3 2 8:3 / /a/b rw - ext4 /dev/sdb rw\n"
        "4 3 8:4 / /a/b/c rw - squashfs /dev/loop0 ro,errors=continue\n"
        "5 1 8:1 /d /d ro - ext4 /dev/sda rw,errors=remount-ro\n"
        "6 1 0:9 / /o rw - overlay overlay ro,lowerdir=/d:/e\n"
    )

    assert expected == places.is_unwritable(path, mounts)
