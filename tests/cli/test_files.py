"""A file is written whole or not at all, for its owner alone, and over nothing that is not meant."""

from __future__ import annotations

import os
import resource
import stat
from pathlib import Path

import pytest

from turnctl.cli.files import Occupied, put_file


def test_file_is_there_whole(tmp_path: Path) -> None:
    """With mode 0600 whatever the mask is, and nothing beside it."""
    before = os.umask(0o777)
    try:
        put_file(str(tmp_path / "f"), b"new", may_replace=lambda _: False)
    finally:
        os.umask(before)

    assert (b"new", 0o600) == ((tmp_path / "f").read_bytes(), stat.S_IMODE((tmp_path / "f").stat().st_mode))
    assert ["f"] == [one.name for one in tmp_path.iterdir()]


def test_full_disk_leaves_the_old_one(tmp_path: Path) -> None:
    """What was there stays as it was, and the error names the file that was meant."""
    (tmp_path / "f").write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as error:
            put_file(str(tmp_path / "f"), b"x" * 5000, may_replace=lambda _: True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert str(tmp_path / "f") == error.value.filename
    assert {"f": b"old"} == {one.name: one.read_bytes() for one in tmp_path.iterdir()}


def test_replaced_only_if_it_may_be(tmp_path: Path) -> None:
    """By how it begins; a link is nobody's file."""
    (tmp_path / "f").write_bytes(b"old")
    (tmp_path / "link").symlink_to("f")
    put_file(str(tmp_path / "f"), b"newer", may_replace=lambda there: there == b"old")

    for name in ("f", "link"):
        with pytest.raises(Occupied):
            put_file(str(tmp_path / name), b"newest", may_replace=lambda there: there == b"old")
    assert b"newer" == (tmp_path / "f").read_bytes()


def test_who_comes_first_keeps_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that somebody makes in between is not replaced."""

    def first(_fd: int) -> None:
        (tmp_path / "f").write_bytes(b"theirs")

    monkeypatch.setattr("turnctl.cli.files.os.fsync", first)
    with pytest.raises(Occupied):
        put_file(str(tmp_path / "f"), b"ours", may_replace=lambda _: True)

    assert {"f": b"theirs"} == {one.name: one.read_bytes() for one in tmp_path.iterdir()}
