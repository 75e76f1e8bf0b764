"""Watching one turn: a line for each change, or a screen of its own; how it ends; and that the turn is left alone."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from launch import Ended, ask, finish, start, turnctl_argv
from ptys import CTRL_C, CTRL_Z, Screen, Shell
from schemas import fits
from shelf import IDS, At, opened

from turnctl.ledger import dealings, turnrows

COMPLETED, FAILED, CANCELLED, UNRESOLVED, LOST, RUNNING = IDS
Capture = pytest.CaptureFixture[str]
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


def _end(folder: Path) -> None:
    with opened(folder) as shelf:
        shelf.deal(dealings.close, "e-f0", "unknown", receipt=None, gen=1)
        shelf.deal(turnrows.end, RUNNING, "completed")


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        ([COMPLETED], 0, "completed; 0 processes; effects 4"),
        ([FAILED, "--until", "settled"], 1, "failed; 0 processes"),
        ([LOST], 1, "lost; 0 processes; the machine was started again"),
        ([CANCELLED], 3, "cancelled, settled; stop asked for by ana (wrong repo); 0 processes"),
        (
            [UNRESOLVED],
            7,
            "stopped, effects unresolved; stop asked for by ben (wrong list); 0 processes; effects 1+1?",
        ),
    ],
)
def test_what_is_over_is_told_at_once(shelf: Path, capfd: Capture, args: list[str], status: int, said: str) -> None:
    """One line, and the exit status that status has."""

    assert Ended(status, f"2026-11-30T12:05:30.000Z {args[0]} {said}\n", "") == ask(capfd, "watch", *args)


def test_each_change_is_a_line(shelf: Path, capfd: Capture, beside: Any) -> None:
    """What another process does is seen when it is done, and the end of the turn ends it."""
    beside(lambda: _end(shelf))
    status, out, err = ask(capfd, "watch", "--interval", "30s", RUNNING)
    lines = out.splitlines()

    assert (7, "") == (status, err)
    assert f"2026-11-30T12:05:30.000Z {RUNNING} running; 0 processes; effects 0+1?" == lines[0]
    assert f"2026-11-30T12:05:30.000Z {RUNNING} completed, effects unresolved; 0 processes; effects 0+1?" == lines[-1]


def test_each_change_is_an_object(shelf: Path, capfd: Capture, beside: Any) -> None:
    """With --jsonl, with what has changed; with --json one document at the end."""
    beside(lambda: _end(shelf))
    found = [fits(json.loads(one)) for one in ask(capfd, "watch", "--jsonl", RUNNING).out.splitlines()]
    last = fits(json.loads(ask(capfd, "watch", "--json", RUNNING).out))

    assert ["state", "processes", "effects", "stop"] == found[0]["changed"]
    assert "state" in {name for one in found[1:] for name in one["changed"]}
    assert last == found[-1]["turn"]


@pytest.mark.parametrize(
    ("args", "name", "word"),
    [([], RUNNING, "running"), (["--until", "settled"], UNRESOLVED, "stopped, effects unresolved")],
)
def test_time_passes(shelf: Path, capfd: Capture, args: list[str], name: str, word: str) -> None:
    """What is not so in time is 6, and said."""
    status, _, err = ask(capfd, "watch", "--timeout", "50ms", *args, name)

    assert (6, f"turnctl: 50ms have passed, and {name} is not there yet: {word}\n") == (status, err)


def test_ctrl_c_leaves_the_turn_alone(shelf: Path) -> None:
    """Who watched is told that it goes on, and it does."""
    process = start("watch", RUNNING, env={"TURNCTL_STATE_DIR": str(shelf)})
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    status, _, err = finish(process)

    assert -signal.SIGINT == status
    assert (
        f"turnctl: watching was ended, and the turn goes on: {RUNNING} running; turnctl stop {RUNNING} stops it\n"
        == (err)
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--until", "done"], "--until"),
        (["--timeout", "5"], "--timeout"),
    ],
)
def test_misuse_is_told(shelf: Path, capfd: Capture, args: list[str], message: str) -> None:
    """Wrong use is 2, and no data."""
    status, out, err = ask(capfd, "watch", *args, RUNNING)

    assert (2, "") == (status, out)
    assert err.startswith(f"turnctl: error: {message}")


# -- on a terminal ----------------------------------------------------------------------------------------------------


def _live(folder: Path, *args: str, **env: str) -> Screen:
    pytest.importorskip("rich", reason="live views need the extra 'live'")
    return Screen(turnctl_argv(*args), (20, 100), TERM="xterm", TURNCTL_STATE_DIR=str(folder), **env)


@pytest.mark.parametrize("args", [("top",), ("watch", RUNNING)], ids=["top", "watch"])
def test_view_that_is_hung_up_on_dies_of_it(shelf: Path, args: tuple[str, ...]) -> None:
    """By the signal, as the page says, and not with a word of what it could not show."""
    with _live(shelf, *args, PYTHONWARNINGS="error") as screen:
        screen.see("q ends")
        screen.hang_up()
        screen.ptyproc.wait()

        assert (signal.SIGHUP, None) == (screen.ptyproc.signalstatus, screen.ptyproc.exitstatus)


def test_last_state_stays(shelf: Path) -> None:
    """On a terminal it has a screen of its own; at the end what was seen last is on the first one."""
    with _live(shelf, "watch", RUNNING) as screen:
        screen.see(ENTER)
        screen.see("the turn goes on")
        modes = screen.modes()
        _end(shelf)
        screen.see(LEAVE)

        assert 7 == screen.ended()
        assert "completed, effects unresolved" in screen.shown
        assert "e-f0" in screen.shown
        assert "make test 'all of it'" in screen.shown
        assert 0 == modes[3] & 2  # keys come one by one


def test_ctrl_c_gives_the_terminal_back(shelf: Path) -> None:
    """Its settings are as before, and who watched is told that the turn goes on."""
    with _live(shelf, "watch", RUNNING) as screen:
        before = screen.modes()
        screen.see("the turn goes on")
        screen.send(CTRL_C)
        screen.see(LEAVE)
        screen.see("watching was ended, and the turn goes on")
        after = screen.modes()

        assert -signal.SIGINT == screen.ended()
        assert before == after


def test_a_signal_gives_the_terminal_back(shelf: Path) -> None:
    """Whoever ends it: the first screen is there, and it dies of that signal."""
    with _live(shelf, "watch", RUNNING) as screen:
        screen.see("the turn goes on")
        screen.kill(signal.SIGTERM)
        screen.see(LEAVE)

        assert -signal.SIGTERM == screen.ended()


def test_ctrl_z_gives_the_terminal_back(shelf: Path, tmp_path: Path) -> None:
    """While it is stopped the shell has its screen; fg draws the view anew."""
    pytest.importorskip("rich", reason="live views need the extra 'live'")
    with Shell(tmp_path) as shell:
        shell.line(f"TERM=xterm turnctl watch --state-dir {shelf} {RUNNING}")
        shell.see("the turn goes on")
        shell.send(CTRL_Z)
        shell.see(LEAVE)
        shell.prompt()
        shell.line("fg")
        shell.see(ENTER)
        shell.see("the turn goes on")
        shell.send("q")
        shell.see(LEAVE)
        shell.prompt()

        assert 130 == shell.exit_status()  # what stands behind && is for a turn that has completed


def test_without_rich_it_is_lines(shelf: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal without the extra each change is a line; and off a terminal rich is not loaded."""
    from turnctl.cli import live

    monkeypatch.setattr(live, "can_move", lambda: True)
    monkeypatch.setattr(live, "is_there", lambda: False)

    assert ask(capfd, "watch", COMPLETED).out.startswith("2026-11-30T12:05:30.000Z t1aaaaaaaa completed")
    monkeypatch.undo()
    told = "import atexit, sys; atexit.register(lambda: print('rich' in sys.modules))"
    process = start("watch", COMPLETED, before=told, env={"TURNCTL_STATE_DIR": str(shelf)})

    assert "False" == finish(process).out.splitlines()[-1]


def test_frame_says_what_is_open(shelf: Path) -> None:
    """The effect that nobody has told of stands first, with the word unresolved where nobody tells any more."""
    from turnctl.cli.opened import glances
    from turnctl.cli.watched import frame_of

    with glances(str(shelf)) as there:
        found = there.named(UNRESOLVED, 1)[0]
        frame = frame_of(there, found, At(0).now, is_last=True)
    lines = ["".join(cell.text for cell in row.cells) for one in frame.groups for row in (one.row, *one.below)]

    assert ["effects  2", "   e-d1  unknown  email.send 'k1'", "   e-d0  completed  email.send 'k0'"] == lines[1:4]
    assert () == frame.foot


def test_what_cannot_be_watched_is_told(shelf: Path, tmp_path: Path, capfd: Capture) -> None:
    """No such turn is 4, a state directory that cannot be used 5, both with a document; a screen is never begun."""
    nowhere = fits(json.loads(ask(capfd, "watch", "--json", "--state-dir", str(tmp_path / "none"), "@").out))
    unknown = ask(capfd, "watch", "--jsonl", "t9x")
    shelf.chmod(0o777)
    unusable = [ask(capfd, *args) for args in (("watch", "--json", RUNNING), ("top", "--json"))]

    assert "no_such_turn" == nowhere["code"]
    assert (4, "no_such_turn") == (unknown.status, fits(json.loads(unknown.out))["code"])
    assert [(5, "store_unsafe")] * 2 == [(one.status, fits(json.loads(one.out))["code"]) for one in unusable]


def test_purged_meanwhile_is_told(shelf: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn whose record goes while it is watched is not waited for."""
    from turnctl.ledger.glance import Glances
    from turnctl.ledger.stirring import Stirring

    def gone(self: Stirring, *_: object) -> set[int]:
        monkeypatch.setattr(Glances, "named", lambda *_: [])
        self._version = None
        return set()

    monkeypatch.setattr(Stirring, "wait", gone)
    status, out, err = ask(capfd, "watch", "--json", RUNNING)

    assert (4, "purged") == (status, fits(json.loads(out))["code"])
    assert f"turnctl: error: {RUNNING} was purged while it was watched\n" == err.splitlines(keepends=True)[0]
