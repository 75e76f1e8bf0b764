"""The turns that run and their processes: once, for programs, and live on a terminal of any size."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from launch import ask, turnctl_argv
from ptys import Screen
from schemas import fits
from shelf import IDS, opened

from turnctl.ledger import dealings
from turnctl.ledger.identity import identity_of
from turnctl.records.changes import evolve
from turnctl.records.tasks import OwnedActivity

RUNNING = IDS[-1]
LOST = IDS[-2]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def tree(shelf: Path) -> Iterator[int]:
    """The running turn has a command, a shell with a child; its number."""
    shell = subprocess.Popen(
        ["bash", "-c", "sleep 7.25 & echo; read -r _; kill $!; wait"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert shell.stdout is not None
    shell.stdout.readline()
    holder = identity_of(shell.pid)
    with opened(shelf) as more:
        row = OwnedActivity("i-6", "command", "process", "bash", 1, begun_at=1.0, process=holder)
        more.deal(dealings.own, row, 1)
        other = evolve(holder, started=holder.started + 1)
        more.deal(dealings.own, evolve(row, inc="i-5", process=other), 1)
    yield shell.pid
    shell.communicate(b"\n")


def test_processes_stand_below_their_turn(shelf: Path, tree: int, capfd: Capture) -> None:
    """The command and what it started, each once; who has the number of another turn's command now is not its own."""
    document = fits(json.loads(ask(capfd, "top", "--json", "--sort", "procs").out))
    turn, other = document["turns"]

    assert RUNNING == turn["turn"]["turn_id"]
    assert [(0, "bash"), (1, "sleep")] == [(one["depth"], one["name"]) for one in turn["processes"]]
    assert (LOST, []) == (other["turn"]["turn_id"], other["processes"])
    assert (tree, "sleep 7.25") == (turn["processes"][0]["pid"], turn["processes"][1]["command"])


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ([], [LOST, RUNNING]),
        (["--sort", "procs"], [RUNNING, LOST]),
        (["--sort", "effects"], [RUNNING, LOST]),
        (["-s", "night"], [LOST]),
        (["-s", "nobody's"], []),
    ],
)
def test_order_is_as_asked_for(shelf: Path, tree: int, capfd: Capture, args: list[str], found: list[str]) -> None:
    """By age, processes or effects; by session."""
    document = json.loads(ask(capfd, "top", "--json", *args).out)

    assert found == [one["turn"]["turn_id"] for one in document["turns"]]


@pytest.mark.parametrize(
    ("args", "hint"),
    [([], "turnctl ps --watch 1s --jsonl"), (["--once"], "turnctl ps, or turnctl top --json")],
)
def test_without_a_terminal_it_is_refused(shelf: Path, capfd: Capture, args: list[str], hint: str) -> None:
    """2, with what there is instead."""
    status, out, err = ask(capfd, "top", *args)

    assert (2, "") == (status, out)
    assert [
        "turnctl: error: turnctl top needs a terminal that it can draw on",
        f"turnctl: hint: {hint}",
    ] == err.splitlines()


def test_without_rich_it_is_refused(shelf: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """2, with what to install, and what there is instead."""
    from turnctl.cli import live

    monkeypatch.setattr(live, "can_move", lambda: True)
    monkeypatch.setattr(live, "is_there", lambda: False)
    status, out, err = ask(capfd, "top")

    assert (2, "") == (status, out)
    assert "pip install 'turnctl[live]'" in err
    assert err.endswith("turnctl: hint: turnctl ps --watch 1s --jsonl\n")


def test_no_ledger_is_no_turns(tmp_path: Path, capfd: Capture) -> None:
    """Where nothing was recorded yet."""

    assert [] == fits(json.loads(ask(capfd, "top", "--json", "--state-dir", str(tmp_path / "nowhere")).out))["turns"]


def test_columns_make_room_for_the_command() -> None:
    """On a narrow terminal the least telling columns go, and a session that no turn has."""
    from turnctl.cli.frames import Cell
    from turnctl.cli.top import _columns

    def row(state: str, session: str) -> dict[str, Cell]:
        texts = {"ID": "t3ffff", "STATE": state, "AGE": "12s", "PROCS": "2", "EFFECTS": "0+1?", "SESSION": session}
        return {name: Cell(text) for name, text in texts.items()} | {"COMMAND": Cell("make")}

    rows = [row("cancellation requested", "build")]

    assert ["ID", "STATE", "AGE", "PROCS", "EFFECTS", "SESSION", "COMMAND"] == _columns(rows, 100)
    assert ["ID", "STATE", "AGE", "PROCS", "EFFECTS", "COMMAND"] == _columns(rows, 80)
    assert ["ID", "STATE", "AGE", "COMMAND"] == _columns(rows, 60)
    assert "SESSION" not in _columns([row("running", "-")], 200)


def test_live_view(shelf: Path, tree: int) -> None:
    """It is drawn on a screen of its own, again for another size, and its last state stays."""
    pytest.importorskip("rich", reason="live views need the extra 'live'")
    argv = turnctl_argv("top", "--interval", "30s", "--sort", "procs")
    with Screen(argv, (12, 80), TERM="xterm", TURNCTL_STATE_DIR=str(shelf)) as screen:
        screen.see("\x1b[?1049h")
        screen.see("turnctl top   2 turns, 2 processes")
        screen.see("sleep 7.25")
        screen.see("q ends")
        screen.setwinsize(4, 40)
        screen.see("turnctl top   2 turns, 2 processes")
        screen.see("and 2 more turns")
        screen.send("jj")
        screen.see("lines 2 to 2 of 4")
        screen.send("\x1b[5~\x1b[A")
        screen.see("and 2 more turns")
        screen.send("q")
        screen.see("\x1b[?1049l")

        assert 0 == screen.ended()
        assert "turnctl top   2 turns, 2 processes" in screen.shown


def test_one_look(shelf: Path, tree: int) -> None:
    """With --once on a terminal all of it, on the screen that is there."""
    pytest.importorskip("rich", reason="live views need the extra 'live'")
    with Screen(turnctl_argv("top", "--once"), (3, 80), TERM="xterm", TURNCTL_STATE_DIR=str(shelf)) as screen:
        assert 0 == screen.ended()
        assert "\x1b[?1049h" not in screen.shown
        assert "sleep 7.25" in screen.shown
