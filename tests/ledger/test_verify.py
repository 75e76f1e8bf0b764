"""Reading a whole ledger finds what somebody changed in it, also where SQLite finds nothing wrong."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from stores import admit, fill

from turnctl.errors import StoreForeign
from turnctl.ledger.opening import init, open_sqlite
from turnctl.ledger.rows import chained
from turnctl.ledger.verify import verify


@pytest.fixture
def filled(place: Path) -> Path:
    store = open_sqlite(place)
    fill(store)
    store.close()
    return place


def tampered(path: Path, *statements: str) -> str:
    """What is found when the triggers did not stand in the way."""
    connection = sqlite3.connect(path, isolation_level=None)
    for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {trigger}")
    connection.execute("PRAGMA ignore_check_constraints=ON")
    for statement in statements:
        connection.execute(statement)
    connection.close()
    return "\n".join(verify(path).findings)


def test_ledger_that_is_behind_its_mark_is_told(filled: Path) -> None:
    """What opening refuses is a finding: a copy that was put back, and a mark that cannot be read or is another's."""
    copy, mark = filled.read_bytes(), filled.with_name(f"{filled.name}.hwm")
    store = open_sqlite(filled)
    with closing(store):
        admit(store, "e9")
    filled.write_bytes(copy)
    behind = verify(filled)
    mark.write_bytes(b"nothing")
    unread = verify(filled)
    mark.unlink()

    assert [True, True] == ["behind what it had acknowledged" in str(behind), "hwm cannot be read" in str(unread)]
    assert verify(filled)


def test_whole_ledger_has_no_findings(filled: Path) -> None:
    """All of it is read, and nothing found."""
    found = verify(filled)

    assert (2, ()) == (found.incarnations, found.findings)
    assert found.lines > 10
    assert found


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("UPDATE log SET actor = 'eve' WHERE n = 2", "line 2 of i1 was changed after it was written"),
        ("UPDATE log SET at = at + 1 WHERE n = 2", "line 2 of i1 was changed"),
        ("DELETE FROM log WHERE inc = 'i1' AND n = 3", "line 3 of i1 is missing"),
        ("DELETE FROM log WHERE inc = 'i2' AND n = (SELECT max(n) FROM log WHERE inc = 'i2')", "lines at its end"),
        ("DELETE FROM head WHERE inc = 'i1'", "the log of i1 has no head"),
        ("DELETE FROM log WHERE inc = 'i2'", "the log of i2 is gone"),
        ("DELETE FROM log WHERE inc = 'i2'", "lines were written"),
        ("UPDATE head SET n = 1 WHERE inc = 'i1'", "the head of i1 says 1 lines"),
        ("UPDATE task SET state = 'completed' WHERE inc = 'i1'", "the log says 'running'"),
        ("UPDATE effect SET payload_sha = 'x' WHERE effect_id = 'e2'", "effect e2 is not as its log says: payload_sha"),
        ("UPDATE payload SET body = x'00' WHERE effect_id = 'e2'", "the payload of effect e2 is not the one"),
        ("DELETE FROM payload WHERE effect_id = 'e2'", "the payload of effect e2 is gone"),
        ("DELETE FROM activity", "activity i1/a1 is in the log, and not among the rows"),
        ("UPDATE interest SET live = 0", "interest d/i1 is not as its log says"),
        ("UPDATE shared SET state = 'ended'", "shared d is not as its log says"),
        ("DELETE FROM shared", "shared d is in the log, and not among the rows"),
        ("UPDATE cancellation SET reason = 'other'", "cancellation i2 is not as its log says: reason"),
        ("DELETE FROM cancellation", "which its cancellation does not bear out"),
        ("UPDATE effect SET authority = 'another'", "effect e0 belongs to another store"),
        ("INSERT INTO detached VALUES (9, 'y', 'i1', 'eve', '', 0, NULL, '')", "no log tells of it"),
        ("UPDATE lease SET inc = 'i7' WHERE inc = 'i1'", "1 rows of lease are of incarnations that have no log"),
        ("UPDATE receipt SET body = 'other'", "receipt e0/r completed is not as its log says: body"),
        ("UPDATE effect SET inc = 'i2', admitted_rev = 9 WHERE effect_id = 'e2'", "after the cancellation"),
    ],
)
def test_what_was_changed_is_found(filled: Path, statement: str, finding: str) -> None:
    """Lines, rows, heads, payloads, owners: each against what the log says of it."""
    assert finding in tampered(filled, statement)


def test_bit_that_sqlite_does_not_see_is_found(filled: Path) -> None:
    """One bit of a row's text: the pages are sound, and the row is not what its log says."""
    data = bytearray(filled.read_bytes())
    at = data.rindex(b"somebody else")
    data[at] ^= 1
    filled.write_bytes(data)
    connection = sqlite3.connect(filled)
    sound = connection.execute("PRAGMA quick_check").fetchone()[0]
    connection.close()

    assert "ok" == sound
    assert not verify(filled)


def test_line_that_was_made_anew_is_found(filled: Path) -> None:
    """A changed line with a hash that fits it does not fit the next one."""
    connection = sqlite3.connect(filled)
    row = connection.execute("SELECT * FROM log WHERE inc = 'i1' AND n = 2").fetchone()
    connection.close()
    pos, inc, n, kind, _, authority, read_only, subject, body, at, before, _ = row
    made = chained(before, inc, n, kind, "eve", authority, bool(read_only), subject, body, at)
    found = tampered(filled, f"UPDATE log SET actor = 'eve', hash = '{made}' WHERE pos = {pos}")

    assert "line 3 of i1 does not follow the one before it" in found


def test_body_that_is_no_json_is_told(filled: Path) -> None:
    """What cannot be read is a finding, and no traceback."""
    found = tampered(filled, "UPDATE log SET body = '{' WHERE n = 1")

    assert "it cannot be read any further" in found
    with pytest.raises(json.JSONDecodeError):
        json.loads("{")


def test_many_findings_end_somewhere(filled: Path) -> None:
    """Who reads them is spared what is all alike."""
    tampered(filled, "UPDATE effect SET kind = 'x'")
    found = verify(filled, most=2).findings

    assert "only the first 2 are told" in found[-1]
    assert 3 == len(found)


def test_verify_reads_beside_a_writer(filled: Path) -> None:
    """It reads one state, and takes nothing from who writes, in this process or another."""
    store = open_sqlite(filled)
    admit(store, "more")

    assert verify(filled)
    admit(store, "and more")
    store.close()
    assert verify(filled)


def test_empty_and_foreign_are_told_apart(quick: Path) -> None:
    """A ledger without a task is whole; what is no ledger is refused."""
    init(quick / "ledger.db")
    other = quick / "other"
    other.write_bytes(b"x" * 4096)
    other.chmod(0o600)

    assert verify(quick / "ledger.db")
    with pytest.raises(StoreForeign):
        verify(other)
