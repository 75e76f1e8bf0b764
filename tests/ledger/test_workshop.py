"""What a maker of a copy leaves when it is killed goes with the next copy; what is anybody else's stays."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from turnctl.ledger import workshop
from turnctl.ledger.copying import backup
from turnctl.ledger.workshop import abandon_all, clear_dead

OURS = ["ledger", "ledger-wal", "lock"]


@contextmanager
def maker(folder: Path, *, at: str = "made") -> Iterator[int]:
    """The pid of a fork that is making a copy there, and goes no further; it is killed with the block."""
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        if at == "begun":
            workshop.fcntl.flock = lambda *_: (os.write(told, b"."), signal.pause())  # type: ignore[attr-defined]
        with workshop.workshop(str(folder)) as path:
            for ending in ("", "-wal"):
                Path(path + ending).write_bytes(b"half of it")
            os.write(told, b".")
            signal.pause()
    try:
        assert b"." == os.read(ready, 1)
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ready)
        os.close(told)


def left(folder: Path) -> Path:
    """What a maker leaves that is killed."""
    with maker(folder):
        pass
    (place,) = folder.glob(".turnctl-backup-*")
    return place


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "copies"
    made.mkdir()
    return made


def test_copy_takes_away_what_a_killed_one_left(place: Path, folder: Path) -> None:
    """And says so; nothing else lies about afterwards."""
    found = left(folder)
    lists = sorted(os.listdir(found))
    made = backup(place, folder / "copy")

    assert OURS == lists
    assert (str(found),) == made.cleared
    assert ["copy"] == os.listdir(folder)
    assert () == backup(place, folder / "other").cleared


def test_copy_of_a_maker_that_lives_stays(place: Path, folder: Path) -> None:
    """Two copies may be made beside each other, also where one of them is stopped for long."""
    with maker(folder) as pid:
        os.kill(pid, signal.SIGSTOP)
        made = backup(place, folder / "copy")
        (theirs,) = folder.glob(".turnctl-backup-*")

        assert () == made.cleared
        assert OURS == sorted(os.listdir(theirs))


def test_one_that_is_being_begun_stays(folder: Path) -> None:
    """Whose maker has no lock yet: nobody can tell that it is dead."""
    with maker(folder, at="begun"):
        assert () == clear_dead(str(folder))
        assert 1 == len(list(folder.iterdir()))


@pytest.mark.parametrize("what", ["file", "mark", "link", "name", "lock", "pipe", "owner"])
def test_what_is_not_ours_stays(folder: Path, tmp_path: Path, what: str) -> None:
    """A folder that somebody has put something into, without our mark, behind a link, of another name or user."""
    found = left(folder)
    if what == "file":
        (found / "notes.txt").write_text("mine")
    elif what == "mark":
        (found / "lock").write_bytes(b"somebody's\n")
    elif what == "link":
        found.rename(tmp_path / "elsewhere")
        found.symlink_to(tmp_path / "elsewhere")
    elif what == "name":
        found = found.rename(folder / ".turnctl-backup-mine")
    elif what == "owner":
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder to somebody else")
        os.chown(found, 12_345, 12_345)
    else:
        (found / "lock").unlink()
        if what == "pipe":
            os.mkfifo(found / "lock")
    before = sorted(os.listdir(found))

    assert () == clear_dead(str(folder))
    assert before == sorted(os.listdir(found))
    assert {"ledger", "ledger-wal"} <= set(before)


def test_nothing_is_cleared_where_locks_may_not_hold(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system that other machines share a maker may live there."""
    found = left(folder)
    monkeypatch.setattr(workshop, "is_remote", lambda _folder: True)

    assert () == clear_dead(str(folder))
    assert found.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_folder_that_cannot_be_listed_is_written_to() -> None:
    """Who may only write there makes his copy, and clears nothing."""
    drop = Path(tempfile.mkdtemp(dir="/tmp"))  # that of the test can be entered by its owner alone
    drop.chmod(0o733)
    pid = os.fork()
    if pid == 0:
        os.seteuid(12_345)
        with workshop.workshop(str(drop)):
            os._exit(0 if clear_dead(str(drop)) == () else 1)
    _, status = os.waitpid(pid, 0)
    shutil.rmtree(drop)

    assert 0 == status


def test_two_that_clear_are_in_nobodys_way(folder: Path) -> None:
    """While one takes it away the other leaves it alone."""
    found = left(folder)
    with open(found / "lock", "rb") as file:
        workshop.fcntl.flock(file, workshop.fcntl.LOCK_EX)  # type: ignore[attr-defined]
        assert () == clear_dead(str(folder))
    assert (str(found),) == clear_dead(str(folder))


def test_process_that_ends_leaves_nothing(folder: Path) -> None:
    """Whoever is interrupted takes its own away."""
    with workshop.workshop(str(folder)) as path:
        Path(path).write_bytes(b"half of it")
        abandon_all()
        gone = list(folder.iterdir())

    assert [] == gone
