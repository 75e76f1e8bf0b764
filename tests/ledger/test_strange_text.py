"""Text from whoever gives it, into a ledger and out of it again: it is kept, refused at once, or shown without harm."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import turnctl
from turnctl.errors import BadArgument, LedgerRefused, StoreDamaged, StoreFull
from turnctl.ledger import refusals
from turnctl.ledger.sent import bytes_of

HARM = "\x1b[2J\nsettled"
VERIFIER = Path(turnctl.__file__).parent / "ledger" / "verifier.py"


def _deep() -> list[object]:
    found: list[object] = []
    for _ in range(100_000):
        found = [found]
    return found


@pytest.mark.parametrize(
    "payload", ["\ud800", float("nan"), _deep(), 10**5000, {1: 2, "a": 3}, object()], ids=lambda one: type(one).__name__
)
def test_payload_that_cannot_be_kept_is_refused(payload: object) -> None:
    """Before anything is admitted, in a text of a readable length."""
    with turnctl.turn() as turn:
        with pytest.raises(BadArgument) as caught:
            turn.effect("mail.send", key="m1", payload=payload)

    assert len(str(caught.value)) < 400
    assert () == turn.report.effects


@pytest.mark.parametrize(
    ("receipt", "kept"),
    [
        ("250 \ud800", "250 \\ud800"),
        (memoryview(b"250 \xff"), "250 \\xff"),
        ({1: "ok", "a": 2}, "{1: 'ok', 'a': 2}"),
        (_deep(), "[[[[[[[...]]]]]]]"),
    ],
    ids=["surrogate", "bytes", "keys", "deep"],
)
def test_receipt_is_kept_in_any_form(receipt: object, kept: str) -> None:
    """What was sent and answered does not become unknown because of how the answer is written."""
    with turnctl.turn() as turn, turn.effect("mail.send", key="m1") as sent:
        sent.complete(receipt)
    (record,) = turn.report.effects

    assert ("completed", kept) == (record.disposition, record.receipt)


def test_adapter_is_an_adapter() -> None:
    """Anything else is refused before the effect is there."""
    with turnctl.turn() as turn, pytest.raises(BadArgument, match="adapter of effect mail.send 'm1'"):
        turn.effect("mail.send", key="m1", adapter="smtp")  # type: ignore[arg-type]


@pytest.mark.parametrize("probes", [None, {"mail.send": "look it up"}], ids=["none", "text"])
def test_probe_is_a_function(probes: object) -> None:
    """A probe that cannot be called is refused, also where there is nothing to ask about."""
    with turnctl.open_ledger("memory:") as ledger, pytest.raises(BadArgument):
        ledger.reconcile(probes)  # type: ignore[arg-type]


def test_names_make_no_lines_and_move_no_cursor(quick: Path) -> None:
    """Reports, reprs, and the verifier's own words: who gives a name or a reason draws nothing on a screen."""
    with turnctl.open_ledger(str(quick / "l.db")) as ledger:
        task = ledger.submit(f"acme{HARM}", f"job{HARM}")
        with turnctl.turn(task=task) as turn:
            with turn.effect(f"mail{HARM.replace(' ', '')}", key="m1") as sent:
                told = repr(sent)
            task.cancel(by=f"eve{HARM}", reason=f"no{HARM}")
        report = str(ledger.report(task))
        ledger.bundle(task, quick / "job.bundle")
    ran = [sys.executable, str(VERIFIER), str(quick / "job.bundle"), "--timeline"]
    lines = subprocess.run(ran, capture_output=True, text=True, check=True, timeout=30).stdout.splitlines()

    assert [] == [one for one in (told, repr(task), report, *lines) if not one.isprintable()]
    assert [] == [one for one in lines if one.startswith("settled")]


def test_path_of_a_bundle_may_be_bytes(quick: Path) -> None:
    """And one that is none is told by its own name, with nothing written."""
    with turnctl.open_ledger("memory:") as ledger:
        task = ledger.submit("acme", "job")
        ledger.bundle(task, os.fsencode(quick / "b\udcff"))
        with pytest.raises(BadArgument):
            ledger.bundle(task, "a\0b")
        with pytest.raises(FileNotFoundError) as caught:
            ledger.bundle(task, quick / "none" / "x")

    assert (quick / "b\udcff").exists()
    assert str(quick / "none" / "x") == caught.value.filename
    assert errno.ENOENT == caught.value.errno


def test_refusal_says_how_to_name_a_tenant(ledger: turnctl.Ledger) -> None:
    """Who closes an effect by its id alone is told what is missing, in the words for one that is not there."""
    with pytest.raises(LedgerRefused, match="tenant="):
        ledger.close_unknown("e-none", by="alice", reason="looked")


def test_full_disk_is_told_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where SQLite calls it an I/O error; without room for its index nothing else can be meant."""
    path = str(tmp_path / "l.db")
    written, index = sqlite3.OperationalError("disk I/O error"), sqlite3.OperationalError("disk I/O error")
    written.sqlite_errorcode, written.sqlite_errorname = 778, "SQLITE_IOERR_WRITE"
    index.sqlite_errorcode, index.sqlite_errorname = 4874, "SQLITE_IOERR_SHMSIZE"
    roomy = [refusals.told(one, path, "reading") for one in (written, index)]
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((4096, 4096, 10, 0, 0, 9, 9, 9, 0, 255)))
    full = [refusals.told(one, path, "reading") for one in (written, index)]

    assert [StoreDamaged, StoreFull] == [type(one) for one in roomy]
    assert [StoreFull, StoreFull] == [type(one) for one in full]
    assert "ulimit -f" in str(roomy[1])


def test_payload_of_many_bytes_is_kept() -> None:
    """Ten megabytes are a payload like any other."""
    assert 10_000_000 == len(bytes_of("x" * 10_000_000))
