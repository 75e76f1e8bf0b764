"""A file is there whole or not at all, and a writer that is killed leaves nothing for long; by each who writes one."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forks import said_in_a_fork

import turnctl
from turnctl import beside
from turnctl.beside import put_whole
from turnctl.cli import summary
from turnctl.cli.completing.places import MARK, put_there
from turnctl.cli.files import put_file
from turnctl.ledger.bundling import put_new

LEFT = ".f.staged-0123456789ab"


@pytest.fixture(params=["nameless", "named"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way to write beside the place; the second is that of file systems without files that have no name."""
    if request.param == "named":
        monkeypatch.setattr(beside, "_nameless", lambda _: None)
    return str(request.param)


def around(path: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in path.parent.iterdir()}


def killed(work: Callable[[], object], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do it in a process that is killed as it comes to that function of the system."""

    def dying() -> object:
        monkeypatch.setattr(os, name, lambda *_, **__: os.kill(os.getpid(), 9))
        return work()

    assert "" == said_in_a_fork(dying)


@pytest.mark.usefixtures("way")
def test_file_is_put_whole(tmp_path: Path) -> None:
    """New, or in the place of another one, with nothing beside it; what is not to be replaced stays."""
    path = tmp_path / "f"
    put_whole(str(path), b"one", is_new=True)
    put_whole(str(path), b"two")
    with pytest.raises(FileExistsError) as error:
        put_whole(str(path), b"three", is_new=True)

    assert str(path) == error.value.filename
    assert {"f": b"two"} == around(path)


@pytest.mark.usefixtures("way")
def test_permissions_are_those_of_the_old_one_or_given(tmp_path: Path) -> None:
    """Whatever the mask is, where they are given."""
    path = tmp_path / "f"
    path.write_bytes(b"old")
    path.chmod(0o640)
    put_whole(str(path), b"new")
    kept = stat.S_IMODE(path.stat().st_mode)
    before = os.umask(0o777)
    try:
        put_whole(str(path), b"newer", mode=0o600)
    finally:
        os.umask(before)

    assert (0o640, 0o600) == (kept, stat.S_IMODE(path.stat().st_mode))


@pytest.mark.parametrize("at", ["fsync", "replace"])
def test_kill_leaves_the_old_file(tmp_path: Path, way: str, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And at the most one beside it, which the next who writes there takes away."""
    path = tmp_path / "f"
    path.write_bytes(b"old")
    killed(lambda: put_whole(str(path), b"new"), at, monkeypatch)
    left = around(path)
    put_whole(str(path), b"next")

    assert b"old" == left["f"]
    assert (1 if (way, at) == ("nameless", "fsync") else 2) == len(left)
    assert {"f": b"next"} == around(path)


def test_kill_of_a_new_one_leaves_nothing(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name it never has another one than its own."""
    path = tmp_path / "f"
    killed(lambda: put_whole(str(path), b"new", is_new=True), "link", monkeypatch)

    assert (0 if way == "nameless" else 1) == len(around(path))


def test_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There it is renamed, and still replaces nothing that is there."""

    def refuses(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(beside, "_nameless", lambda _: None)
    monkeypatch.setattr(os, "link", refuses)
    path = tmp_path / "f"
    put_whole(str(path), b"new", is_new=True)
    with pytest.raises(FileExistsError):
        put_whole(str(path), b"newer", is_new=True)

    assert {"f": b"new"} == around(path)


def failing(code: int) -> Callable[..., None]:
    def refuses(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    return refuses


def stage(path: str) -> None:
    with turnctl.turn() as turn, turn.staged(path) as file:
        file.write("new")


WRITERS: list[Callable[[str], object]] = [
    stage,
    lambda path: put_file(path, b"new", may_replace=lambda _: True),
    lambda path: put_new(path, b"new"),
    lambda path: put_there(path, f"{MARK}\n"),
    lambda path: summary.write(path, {}),
    summary.check,
]


@pytest.mark.parametrize("writer", WRITERS, ids=["staged", "report", "bundle", "completion", "summary", "check"])
def test_each_writer_takes_away_what_a_killed_one_left(tmp_path: Path, writer: Callable[[str], object]) -> None:
    """Of the same file alone; what is of another name or kind is left."""
    path = tmp_path / "f"
    (tmp_path / LEFT).write_bytes(b"half of it")
    others = [".f.staged-notes", ".g.staged-0123456789ab", "f.staged-0123456789ab", f"{LEFT}0"]
    for name in others:
        (tmp_path / name).write_bytes(b"theirs")
    (tmp_path / ".f.staged-00000000aaaa").symlink_to(tmp_path / others[0])
    os.mkfifo(tmp_path / ".f.staged-00000000ffff")
    writer(str(path))
    left = sorted(one.name for one in tmp_path.iterdir() if one != path)

    assert sorted([*others, ".f.staged-00000000aaaa", ".f.staged-00000000ffff"]) == left


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_what_is_another_users_is_left(tmp_path: Path) -> None:
    """In a folder that several write to."""
    (tmp_path / LEFT).write_bytes(b"half of it")
    os.chown(tmp_path / LEFT, 12_345, 12_345)
    put_whole(str(tmp_path / "f"), b"new")

    assert {"f": b"new", LEFT: b"half of it"} == around(tmp_path / "f")


@pytest.mark.usefixtures("way")
def test_file_system_that_keeps_no_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There the file is put all the same."""
    monkeypatch.setattr(os, "fchmod", failing(errno.EPERM))
    put_whole(str(tmp_path / "f"), b"new", mode=0o600)

    assert {"f": b"new"} == around(tmp_path / "f")


@pytest.mark.usefixtures("way")
def test_failure_before_the_first_byte_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file, and no descriptor."""
    monkeypatch.setattr(os, "fchmod", failing(errno.EIO))
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="Input/output error"):
        put_whole(str(tmp_path / "f"), b"new", mode=0o600)

    assert ({}, before) == (around(tmp_path / "f"), len(os.listdir("/proc/self/fd")))


def test_file_is_never_open_to_more_than_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before it has the permissions of that: who opens it then could read what is written later."""
    shown = []
    give = os.fchmod

    def spy(fd: int, mode: int) -> None:
        shown.append(stat.S_IMODE(os.fstat(fd).st_mode) & 0o077)
        give(fd, mode)

    monkeypatch.setattr(beside, "_nameless", lambda _: None)
    monkeypatch.setattr(os, "fchmod", spy)
    path = tmp_path / "f"
    path.touch(mode=0o600)
    put_whole(str(path), b"new")

    assert [0] == shown


def test_one_that_is_not_locked_yet_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer who clears up takes away a file that is made and not locked yet: then there is another one."""
    monkeypatch.setattr(beside, "_nameless", lambda _: None)
    path = tmp_path / "f"
    lock = beside._lock
    theirs: list[str] = []

    def late(fd: int) -> bool:
        if not theirs:
            theirs.append("written")
            other = threading.Thread(target=put_whole, args=(str(path), b"theirs"))
            other.start()
            other.join(5)
        return lock(fd)

    monkeypatch.setattr(beside, "_lock", late)
    put_whole(str(path), b"ours")

    assert {"f": b"ours"} == around(path)
