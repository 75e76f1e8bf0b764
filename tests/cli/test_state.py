"""How a turn stands, in a line and in the exit status; and how turns are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launch import Ended, ask
from schemas import fits
from shelf import IDS, opened

from turnctl.cli.opened import glances

COMPLETED, FAILED, CANCELLED, UNRESOLVED, LOST, RUNNING = IDS

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("turn", "status", "line"),
    [
        (RUNNING, 0, "running, since 2026-11-30T12:05:00Z"),
        (COMPLETED, 0, "completed, 2026-11-30T12:00:15Z"),
        (FAILED, 1, "failed, 2026-11-30T12:01:03Z"),
        (LOST, 1, "lost, begun 2026-11-30T12:04:00Z"),
        (CANCELLED, 3, "cancelled, settled, 2026-11-30T12:02:04Z"),
        (UNRESOLVED, 7, "stopped, effects unresolved (1 unknown), 2026-11-30T12:03:10Z"),
    ],
)
def test_line_and_status_say_how_it_stands(shelf: Path, capfd: Capture, turn: str, status: int, line: str) -> None:
    """One line on stdout, and the same in the exit status, which -q leaves alone."""

    assert Ended(status, f"{turn} {line}\n", "") == ask(capfd, "status", turn)
    assert Ended(status, "", "") == ask(capfd, "status", "-q", turn)


@pytest.mark.parametrize(
    ("name", "turn"),
    [
        ("t3f", RUNNING),
        ("t2ddddd", UNRESOLVED),
        ("@", RUNNING),
        ("@1", RUNNING),
        ("@6", COMPLETED),
        ("session:build", RUNNING),
        ("i-3", CANCELLED),
    ],
)
def test_turns_are_named(shelf: Path, capfd: Capture, name: str, turn: str) -> None:
    """By the beginning of the id, by how new they are, by the session in which they run, by their incarnation."""

    assert turn == fits(json.loads(ask(capfd, "status", "--json", name).out))["turn_id"]


@pytest.mark.parametrize(
    ("name", "status", "word", "message"),
    [
        ("t9zzz", 4, "no_such_turn", "there is no turn t9zzz"),
        ("t2", 2, "bad_name", "'t2' is too short: the beginning of an id needs 3 letters"),
        ("@7", 4, "no_such_turn", "fewer than 7 turns are on record"),
        ("@0", 2, "bad_name", "'@0' is no name of a turn"),
        ("@x", 2, "bad_name", "'@x' is no name of a turn"),
        ("session:docs", 4, "no_such_turn", "no turn runs in session 'docs'"),
        ("session:night", 4, "no_such_turn", "no turn runs in session 'night'"),
        ("i-", 2, "bad_name", "'i-' is too short"),
        ("t?' OR 1", 4, "no_such_turn", "there is no turn t?' OR 1"),
        ("", 2, "bad_name", "'' is no name of a turn"),
        ("t\udcff3", 2, "bad_name", "'t\\udcff3' is no name of a turn"),
    ],
)
def test_bad_names_are_told(shelf: Path, capfd: Capture, name: str, status: int, word: str, message: str) -> None:
    """What is not there, and what is no name, each with its status and, for programs, its word."""
    ended = ask(capfd, "status", "--json", name)
    told = fits(json.loads(ended.out))

    assert (status, word) == (ended.status, told["code"])
    assert told["message"].startswith(message)
    assert f"turnctl: error: {told['message']}\nturnctl: hint: {told['hint']}\n" == ended.err
    assert Ended(status, "", ended.err) == ask(capfd, "status", name)


def test_name_that_fits_several_is_told(shelf: Path, capfd: Capture) -> None:
    """The beginning of several ids is 4, with those that it fits; a whole id is that turn, if another begins so too."""
    with opened(shelf) as more:
        for n in range(7):
            more.turn("tz" if n == 0 else f"tzz{n}", task=f"more-{n}")
    ended = ask(capfd, "status", "tzz")

    assert (4, "") == (ended.status, ended.out)
    said = "tzz fits several turns: tzz6, tzz5, tzz4, tzz3, tzz2 and more"
    assert f"turnctl: error: {said}\nturnctl: hint: give more of its letters\n" == ended.err
    assert 0 == ask(capfd, "status", "tz").status


def test_ids_are_as_short_as_they_can_be(shelf: Path) -> None:
    """The beginning that a terminal shows is no other turn's."""
    with opened(shelf) as more:
        more.turn("t3ffffff01", task="more")
    with glances(str(shelf)) as there:
        found = [there.shortest(one, 6) for one in ("t3ffffff01", RUNNING, COMPLETED)]

    assert ["t3ffffff0", "t3fffffff", "t1aaaa"] == found
