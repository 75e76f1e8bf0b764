"""``turnctl bundle``: which turn, where to, and the verifier that comes from elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from launch import ask, finish, start
from schemas import fits
from shelf import IDS

from turnctl.ledger.verifier import Bundle

Capture = pytest.CaptureFixture[str]
COMPLETED, FAILED, *_, RUNNING = IDS


@pytest.mark.parametrize("name", [COMPLETED, COMPLETED[:4], "i-1", "session:build", "@"])
def test_turn_is_found_by_its_names(shelf: Path, capfd: Capture, tmp_path: Path, name: str) -> None:
    """An id of a turn or of an incarnation, the beginning of one, a session, the newest."""
    made = ask(capfd, "bundle", name, "-o", str(tmp_path / "b"), "--json")
    document = fits(json.loads(made.out))
    data = (tmp_path / "b").read_bytes()

    assert (0, "") == (made.status, made.err)
    assert ("i-6" if name in ("@", "session:build") else "i-1") == document["inc"] == Bundle(data).root
    assert (sha256(data).hexdigest(), len(data), None) == (
        *(document["fingerprint"], document["size"], document["refused"]),
    )


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [("tzzzz", 4, "no_such_turn"), ("i-", 2, "bad_name"), ("t1", 2, "bad_name"), ("@9", 4, "no_such_turn")],
)
def test_name_that_fits_none_or_several_is_told(
    shelf: Path, capfd: Capture, tmp_path: Path, name: str, status: int, code: str
) -> None:
    """And nothing is written."""
    found = ask(capfd, "bundle", name, "-o", str(tmp_path / "b"), "--json")

    assert (status, code) == (found.status, fits(json.loads(found.out))["code"])
    assert not (tmp_path / "b").exists()


def test_purged_one_is_told_to_be_stale(shelf: Path, capfd: Capture, tmp_path: Path) -> None:
    """By the id of its incarnation, as long as its tombstone is there."""
    ask(capfd, "ledger", "prune", "--older-than", "0s")
    found = ask(capfd, "bundle", "i-1", "-o", str(tmp_path / "b"))

    assert 4 == found.status
    assert "was purged" in found.err


def test_written_bundle_is_told_in_one_line(shelf: Path, capfd: Capture, tmp_path: Path) -> None:
    """With how many logs are in it, of which one is one."""
    made = ask(capfd, "bundle", COMPLETED, "-o", str(tmp_path / "b"))

    assert made.out.startswith(f"{tmp_path / 'b'}: i-1, 1 log, ")


def test_bundle_replaces_nothing(shelf: Path, capfd: Capture, tmp_path: Path) -> None:
    """A file that is there stays; a folder that is not there is told."""
    (tmp_path / "b").write_text("mine")
    there = ask(capfd, "bundle", "@", "-o", str(tmp_path / "b"), "--json")
    nowhere = ask(capfd, "bundle", "@", "-o", str(tmp_path / "none" / "b"), "--json")

    assert (2, "file_exists") == (there.status, fits(json.loads(there.out))["code"])
    assert (1, "not_written") == (nowhere.status, fits(json.loads(nowhere.out))["code"])
    assert "mine" == (tmp_path / "b").read_text()


def test_bundle_and_verifier_go_to_stdout(shelf: Path, capfd: Capture, tmp_path: Path) -> None:
    """Written to files by a shell, they work where no turnctl is; the fingerprint is said on stderr."""
    made = ask(capfd, "bundle", FAILED, "-o", "-", "--no-payloads", "--self")
    (tmp_path / "b").write_text(made.out)
    (tmp_path / "verifier.py").write_text(ask(capfd, "bundle", "--verifier").out)
    argv = [sys.executable, "-I", str(tmp_path / "verifier.py"), str(tmp_path / "b"), "--timeline"]
    done = subprocess.run(argv, capture_output=True, text=True, cwd="/")

    assert (0, 0) == (made.status, done.returncode), done.stdout
    assert f"turnctl: fingerprint {sha256(made.out.encode()).hexdigest()}\n" == made.err
    assert done.stdout.startswith("accepted: ")
    assert "task.failed" in done.stdout


@pytest.mark.parametrize("args", [[], ["@"], ["-o", "x"], ["@", "-o", ""], ["@", "-o", "-", "--json"]])
def test_wrong_use_is_told(shelf: Path, capfd: Capture, args: list[str]) -> None:
    """With status 2 and what is right."""
    found = ask(capfd, "bundle", *args)

    assert (2, "--json" in args) == (found.status, bool(found.out))
    assert "turnctl: error: " in found.err


def test_commands_load_what_they_need_alone() -> None:
    """Help loads no store; the entry point works as a process of its own."""
    names = {"sqlite3", "psutil", "structlog", "asyncio"}
    code = f"import atexit, sys; atexit.register(lambda: print([*({names!r} & set(sys.modules))], file=sys.stderr))"
    for args in (("bundle", "-h"), ("ledger", "prune", "-h")):
        ended = finish(start(*args, before=code))
        assert (0, "[]\n") == (ended.status, ended.err)
