"""The list of effects: what got out, what may have, what that rests on, and who has to decide."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launch import Ended, ask
from schemas import fits
from shelf import gone, opened

Capture = pytest.CaptureFixture[str]

HEADER = "EFFECT  TURN        KIND        KEY  ADMITTED              DISPOSITION  LEVEL   DECISION  EVIDENCE\n"
UNKNOWN = "e-d1    t2dddddddd  email.send  k1   2026-11-30T12:03:04Z  unknown      high    page      -\n"
ON_ITS_WAY = "e-f0    t3ffffffff  email.send  k0   2026-11-30T12:05:01Z  pending      medium  -         -\n"
OF_ONE = """\
EFFECT  TURN        KIND        KEY  ADMITTED              DISPOSITION  LEVEL   DECISION  EVIDENCE
e-a0    t1aaaaaaaa  email.send  k0   2026-11-30T12:00:01Z  completed    medium  -         msg-e-a0
e-a1    t1aaaaaaaa  email.send  k1   2026-11-30T12:00:04Z  completed    medium  -         msg-e-a1
e-a2    t1aaaaaaaa  email.send  k2   2026-11-30T12:00:07Z  completed    medium  -         msg-e-a2
e-a3    t1aaaaaaaa  email.send  k3   2026-11-30T12:00:10Z  rejected     medium  -         msg-e-a3
"""
ONE = """\
e-d1  email.send 'k1'  unknown
  turn        t2dddddddd
  admitted    2026-11-30T12:03:04Z, at revision 1
  payload     5 bytes, sha256 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824
  level       high
  adapter     none
  decision    at once: ask its receiver, or close it by name (turnctl reconcile --effect e-d1)
history
  2026-11-30T12:03:04Z  effect.admitted by worker
  2026-11-30T12:03:05Z  effect.claimed by worker
  2026-11-30T12:03:06Z  effect.unknown by worker
"""


def test_open_ones_are_shown(shelf: Path, capfd: Capture) -> None:
    """Without a turn those whose outcome nobody has told, and who has to decide of them."""

    assert Ended(0, HEADER + UNKNOWN + ON_ITS_WAY, "") == ask(capfd, "effects")


def test_those_of_a_turn_are_shown(shelf: Path, capfd: Capture) -> None:
    """With a turn all of it, each with the receipt that it rests on."""

    assert Ended(0, OF_ONE, "") == ask(capfd, "effects", "t1a")


@pytest.mark.parametrize(
    ("args", "found"),
    [
        (["-a"], "a0 a1 a2 a3 d0 d1 f0"),
        (["-a", "--disposition", "rejected", "--disposition", "unknown"], "a3 d1"),
        (["@3"], "d0 d1"),
        (["t2c"], ""),
        (["@3", "--disposition", "completed"], "d0"),
    ],
)
def test_some_are_chosen(shelf: Path, capfd: Capture, args: list[str], found: str) -> None:
    """By turn and disposition; with -q as ids alone."""

    assert Ended(0, "".join(f"e-{one}\n" for one in found.split()), "") == ask(capfd, "effects", "-q", *args)


@pytest.mark.parametrize(("args", "status"), [([], 7), (["@3"], 7), (["t1a"], 0), (["show", "e-d1"], 7), (["@"], 0)])
def test_check_is_in_the_exit_status(shelf: Path, capfd: Capture, args: list[str], status: int) -> None:
    """7 where one of those shown is unresolved; one that is on its way in a running turn is not."""

    assert status == ask(capfd, "effects", "--check", *args).status


def test_one_is_shown_whole(shelf: Path, capfd: Capture) -> None:
    """All that is known of one, with what there is to do, and its history."""

    assert Ended(0, ONE, "") == ask(capfd, "effects", "show", "e-d1")


def test_documents_and_lines_fit_their_schemas(shelf: Path, capfd: Capture) -> None:
    """--json is one document, --jsonl an object a line, of the same objects; a definitive word has its receipt."""
    document = fits(json.loads(ask(capfd, "effects", "-a", "--json").out))
    lines = [fits(json.loads(one)) for one in ask(capfd, "effects", "-a", "--jsonl").out.splitlines()]
    one = fits(json.loads(ask(capfd, "effects", "show", "e-a3", "--json").out))

    assert lines == document["effects"]
    assert [None, "page"] == [lines[4]["escalation"], lines[5]["escalation"]]
    assert {"source": "provider", "body": "msg-e-a3"} == one["receipt"]
    assert ["effect.admitted", "effect.claimed", "receipt.kept", "effect.rejected"] == [
        e["kind"] for e in one["events"]
    ]


def test_what_a_lost_turn_was_sending_is_unresolved(shelf: Path, capfd: Capture) -> None:
    """What a turn had claimed whose process is gone is unresolved at once, before anybody has noted that it is gone."""
    with opened(shelf) as more:
        inc = more.turn("t4gggggggg", task="more", holder=gone())
        more.effect(inc, "e-g0", "k0", None, consequence="low")
    (line,) = [one for one in ask(capfd, "effects").out.splitlines() if one.startswith("e-g0")]

    assert line.endswith("pending      low     wait      -")
    assert "completed" != ask(capfd, "status", "t4g").out.split()[1]
    assert 7 == ask(capfd, "effects", "--check", "t4g").status


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (["t9z"], 4, "there is no turn t9z"),
        (["show", "e-z"], 4, "there is no effect e-z"),
        (["show", "e-a"], 4, "e-a fits several effects: e-a0, e-a1, e-a2, e-a3"),
        (["show"], 2, "say which effect: turnctl effects show EFFECT"),
        (["show", "a", "b"], 2, "say which effect: turnctl effects show EFFECT"),
        (["t1a", "t2b"], 2, "one turn at a time, not 't1a t2b'"),
        (["-a", "t1a"], 2, "--all is of every turn; leave out which one, or --all"),
        (["--json", "--jsonl"], 2, "--json is one document and --jsonl a line for each; give one of them"),
        (["--disposition", "done"], 2, "--disposition: 'done' is not one of 'pending'"),
    ],
)
def test_misuse_is_told(shelf: Path, capfd: Capture, args: list[str], status: int, message: str) -> None:
    """What is not there is 4, wrong use is 2, and there is no data but a document that says so with JSON."""
    ended = ask(capfd, "effects", *args)

    assert (status, "--json" in args) == (ended.status, bool(ended.out))
    assert ended.err.startswith(f"turnctl: error: {message}")


def test_no_ledger_is_no_effects(tmp_path: Path, capfd: Capture) -> None:
    """Where nothing was recorded there are none, and no turn of any name."""
    nowhere = str(tmp_path / "nowhere")
    header = "EFFECT  TURN  KIND  KEY  ADMITTED  DISPOSITION  LEVEL  DECISION  EVIDENCE\n"

    said = f"turnctl: no turn is on record in {nowhere}\n"

    assert Ended(0, header, said) == ask(capfd, "effects", "--state-dir", nowhere)
    assert 4 == ask(capfd, "effects", "@", "--state-dir", nowhere).status
