"""A state directory that cannot be used, in every command: what it says, in words and in JSON, and its status.

The texts are written by hand. ``{ledger}`` is the file, ``{dir}`` its directory.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from everycommand import CALLS, GO_ON, NEED_NO_STATE, READ_BY_OPENING, TELL_IN_THEIR_WAY, argv, paths
from launch import Ended, ask
from schemas import fits

Capture = pytest.CaptureFixture[str]

DIRECTLY = sorted(set(CALLS) - set(TELL_IN_THEIR_WAY))
ROOT = os.geteuid() == 0
SALVAGE = (
    "nothing was changed, so keep the file and its -wal as they are: copy both away while no program has them open, "
    "try `sqlite3 COPY .recover` on the copy, or put a backup in their place"
)


def is_a_file(state: Path) -> None:
    shutil.rmtree(state)
    state.write_text("notes")


def is_anothers(state: Path) -> None:
    os.chown(state, 12345, 12345)


def is_open_to_the_group(state: Path) -> None:
    state.chmod(0o770)


def has_a_file_that_is_anothers(state: Path) -> None:
    os.chown(state / "ledger.sqlite3", 12345, 12345)


def is_of_a_newer_schema(state: Path) -> None:
    with closing(sqlite3.connect(state / "ledger.sqlite3", isolation_level=None)) as connection:
        connection.execute(
            "UPDATE meta SET schema_version = 99, min_reader = 99, min_writer = 99, written_by = 'turnctl 9.0'"
        )
        connection.execute("PRAGMA user_version=99")


def is_damaged(state: Path) -> None:
    path = state / "ledger.sqlite3"
    size = path.stat().st_size - 4096
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xaa" * size)


def is_no_database(state: Path) -> None:
    (state / "ledger.sqlite3").write_bytes(b"no database " * 1000)


def is_another_programs(state: Path) -> None:
    path = state / "ledger.sqlite3"
    path.unlink()
    (state / "ledger.sqlite3.hwm").unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE photos (name TEXT)")
    path.chmod(0o600)


def is_empty(state: Path) -> None:
    (state / "ledger.sqlite3.hwm").unlink()
    (state / "ledger.sqlite3").write_bytes(b"")


def has_lost_its_ledger(state: Path) -> None:
    (state / "ledger.sqlite3").unlink()


class Expected(NamedTuple):
    """What is said; where those that open the ledger say more, ``opening`` is their message and hint."""

    word: str
    message: str
    hint: str
    opening: tuple[str, str] | None = None

    def of(self, name: str, state: Path) -> tuple[str, str]:
        chosen = self.opening if self.opening is not None and name in READ_BY_OPENING else (self.message, self.hint)
        ledger = state / "ledger.sqlite3"
        message, hint = (text.replace("{ledger}", str(ledger)).replace("{dir}", str(state)) for text in chosen)
        return message, hint


KINDS: dict[Callable[[Path], None], Expected] = {
    is_a_file: Expected("store_unsafe", "{dir} is no folder", "name another place for the ledger: TURNCTL_STATE_DIR"),
    is_open_to_the_group: Expected(
        "store_unsafe",
        "folder {dir} can be reached by others (mode 0770), and a ledger holds payloads and receipts",
        "keep it in a folder of its own, and if this is one: chmod 0700 {dir}",
    ),
    is_of_a_newer_schema: Expected(
        "store_toonew",
        "{ledger} was written by turnctl 9.0, which this turnctl cannot read",
        "use that version or a later one",
        opening=(
            "{ledger} was written by turnctl 9.0 (schema 99), and turnctl {version} knows schemas up to 1",
            "use that version or a later one: nothing was changed",
        ),
    ),
    is_no_database: Expected(
        "store_foreign",
        "reading {ledger} failed (SQLITE_NOTADB: file is not a database)",
        "this is no ledger of turnctl, and it was left as it is: name another file",
    ),
    is_another_programs: Expected(
        "store_foreign",
        "{ledger} is a database of another program",
        "name another file",
        opening=(
            "{ledger} is a database of another program (application id 0): it was left as it is",
            "name another file",
        ),
    ),
    is_empty: Expected(
        "store_foreign",
        "{ledger} is as good as empty, and no ledger",
        "name another file",
        opening=("{ledger} is as good as empty, and no ledger: it was left as it is", "name another file"),
    ),
    is_damaged: Expected(
        "store_damaged",
        "reading {ledger} failed (SQLITE_CORRUPT: database disk image is malformed)",
        f"the file is damaged: {SALVAGE}",
    ),
    has_lost_its_ledger: Expected(
        "store_lost",
        "the ledger {ledger} is gone, and its mark is there",
        "put the right file back",
        opening=(
            "the ledger {ledger} is gone, and its {ledger}.hwm is there: what it had acknowledged is not all there",
            (
                "put the right files back, or decide that what is there now holds "
                "(turnctl.ledger.opening.take_as_it_is), which gives up what is gone"
            ),
        ),
    ),
}
if ROOT:
    KINDS[is_anothers] = Expected(
        "store_unsafe",
        "folder {dir} belongs to user 12345, and this process acts as 0",
        "run it as the owner, or keep a ledger of your own",
    )
    KINDS[has_a_file_that_is_anothers] = Expected(
        "store_unsafe",
        "file {ledger} belongs to user 12345, and this process acts as 0",
        "run it as the owner, or keep a ledger of your own",
    )

#: what says it in another way, and why
ELSEWHERE = {
    # damage is what it looks for, and tells on stdout
    (is_damaged, "ledger verify"): 1,
}


def test_every_command_is_listed() -> None:
    """A command that nobody has listed would have none of these tests."""

    assert paths() == sorted({**CALLS, **NEED_NO_STATE, **GO_ON})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_unusable_state_is_told(shelf: Path, tmp_path: Path, capfd: Capture, kind: Callable[[Path], None]) -> None:
    """Status 5, one line and a hint on stderr, and with --json the same as one document; nothing else on stdout."""
    kind(shelf)
    for name in DIRECTLY:
        found = ask(capfd, *argv(name, "--json", out=str(tmp_path / "out")))
        if (kind, name) in ELSEWHERE:
            assert ELSEWHERE[kind, name] == found.status, (name, found)
            continue
        message, hint = expected_of(kind, name, shelf)
        told = fits(json.loads(found.out))

        assert (5, KINDS[kind].word, message, hint) == (found.status, told["code"], told["message"], told["hint"]), name
        assert f"turnctl: error: {message}\nturnctl: hint: {hint}\n" == found.err, name
    assert Ended(5, "", found.err) == ask(capfd, *argv(name, out=str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()


def expected_of(kind: Callable[[Path], None], name: str, state: Path) -> tuple[str, str]:
    from turnctl import __version__

    message, hint = KINDS[kind].of(name, state)
    return message.replace("{version}", __version__), hint


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_doctor_finds_unusable_state(shelf: Path, capfd: Capture, kind: Callable[[Path], None]) -> None:
    """The doctor does not fail of it: it is what it looks for, and says with the remedy."""
    kind(shelf)
    found = ask(capfd, "doctor", "--only", "state", "--json")
    checks = {one["id"]: one for one in fits(json.loads(found.out))["checks"]}
    message, hint = expected_of(kind, "ledger verify", shelf)

    assert (1, "") == (found.status, found.err)
    assert ("fail", message, hint) == tuple(checks["state.ledger"][key] for key in ("status", "summary", "remediation"))


def test_no_state_is_no_turns(tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing was ever recorded it is as where nothing is on record, which is no fault of the directory: no turn
    is there, lists are empty, nothing is purged; and what is about the ledger itself finds none."""
    state = tmp_path / "none"
    monkeypatch.setenv("TURNCTL_STATE_DIR", str(state))
    statuses = {name: ask(capfd, *argv(name, "--json", out=str(tmp_path / "out"))) for name in DIRECTLY}
    no_turn = (4, f"there is no turn @: none is on record in {state}")
    no_ledger = (4, f"there is no ledger {state}/ledger.sqlite3")
    expected = dict.fromkeys(DIRECTLY, no_turn) | {"ps": (0, None), "ledger prune": (0, None)}
    expected |= {"ledger backup": no_ledger, "ledger verify": no_ledger}

    assert expected == {
        name: (int(found.status), json.loads(found.out).get("message")) for name, found in statuses.items()
    }
    assert not state.exists()


@pytest.mark.parametrize(
    ("call", "out"),
    [
        ("ps", "ID  SESSION  STATE  BEGAN  PROCS  EFFECTS  COMMAND\n"),
        ("effects", "EFFECT  TURN  KIND  KEY  ADMITTED  DISPOSITION  LEVEL  DECISION  EVIDENCE\n"),
        ("reconcile", "nothing is unresolved\n"),
        ("ledger prune --older-than 1d", "0 incarnations purged\n"),
        ("ledger prune --older-than 1d --dry-run", "0 incarnations would be purged\n"),
    ],
)
def test_empty_list_says_where_it_looked(tmp_path: Path, capfd: Capture, call: str, out: str) -> None:
    """Since another directory may have been meant; not with -q."""
    state = str(tmp_path / "none")
    said = f"turnctl: no turn is on record in {state}\n"

    assert Ended(0, out, said) == ask(capfd, *call.split(), "--state-dir", state)
    assert Ended(0, "", "") == ask(capfd, *call.split(), "-q", "--state-dir", state)


@pytest.mark.parametrize("call", ["effects show e-1", "reconcile --effect e-1"])
def test_effect_is_told_as_one_where_none_is(tmp_path: Path, capfd: Capture, call: str) -> None:
    """It is no turn that was asked for."""
    found = ask(capfd, *call.split(), "--state-dir", str(tmp_path / "none"), "--json")
    told = fits(json.loads(found.out))

    assert (4, "no_such_effect") == (found.status, told["code"])
    assert f"there is no effect e-1: none is on record in {tmp_path}/none" == told["message"]


@pytest.mark.parametrize("args", [("--all",), ("--all", "-y"), ("--all", "--dry-run")])
def test_stopping_all_needs_no_ledger(tmp_path: Path, capfd: Capture, args: tuple[str, ...]) -> None:
    """Where nothing is on record nothing runs: it is so, and no directory is made."""
    state = tmp_path / "none"
    found = ask(capfd, "stop", *args, "--state-dir", str(state))
    in_json = ask(capfd, "stop", *args, "--json", "--state-dir", str(state))

    assert Ended(0, "nothing runs\n", "") == found
    assert (0, []) == (in_json.status, fits(json.loads(in_json.out))["stops"])
    assert not state.exists()
