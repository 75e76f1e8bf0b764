"""What is shown while a command waits: something that moves for a person who looks, a line a state for all others."""

from __future__ import annotations

import os
import pty
import select
import threading
from collections.abc import Iterator

import pytest
from standins import until

from turnctl.cli import progress, talk
from turnctl.cli.progress import Progress, can_move

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """What is said goes to a terminal; its other end. This process is in its foreground."""
    there, here = pty.openpty()
    for module in (progress, talk):
        monkeypatch.setattr(module, "_STDERR", here)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(progress, "_is_in_front", lambda: True)
    yield there
    os.close(there)
    os.close(here)


def _read(fd: int, wanted: str) -> str:
    """What is shown, up to there."""
    data = ""
    while wanted not in data:
        data += os.read(fd, 4096).decode("utf-8", "ignore")
    return data


@pytest.mark.parametrize(
    ("env", "as_json", "quiet", "moves"),
    [
        ({}, False, 0, True),
        ({"NO_COLOR": "1"}, False, 0, True),
        ({"CI": "true"}, False, 0, False),
        ({"CI": "true", "FORCE_COLOR": "1"}, False, 0, False),
        ({"TERM": "dumb"}, False, 0, False),
        ({}, True, 0, False),
        ({}, False, 1, False),
    ],
)
def test_only_for_a_person_something_moves(
    terminal: int, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], as_json: bool, quiet: int, moves: bool
) -> None:
    """On a terminal, not in CI, for a program, quietly or where lines cannot be drawn anew; colour is another thing."""
    for name, value in env.items():
        monkeypatch.setenv(name, value)

    assert moves == can_move(as_json=as_json, quiet=quiet)


def test_elsewhere_nothing_moves(monkeypatch: pytest.MonkeyPatch, capfd: Capture) -> None:
    """Also with FORCE_COLOR."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")

    assert not can_move(as_json=False, quiet=0)


def test_line_moves_and_goes(terminal: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is drawn in one place, with what is done and how long it takes; what is said takes its place, and it goes."""
    monkeypatch.setattr(progress, "_AFTER_S", 0.0)
    monkeypatch.setattr(progress, "_TURN_S", 0.01)
    with Progress(moves=True, quiet=False) as shown:
        shown.within(30.0)
        shown.state("holding \x1brows", 3, 4)
        first = _read(terminal, " left)")
        talk.say("a word")
        said = _read(terminal, "turnctl: a word")
        assert "\r\x1b[K" == talk.clearing
    last = _read(terminal, "\r\x1b[K")
    while not _is_empty(terminal):
        last += os.read(terminal, 4096).decode("utf-8", "ignore")

    assert "⠋ holding \\x1brows ██████████████████░░░░░░ 75% (0s, 30s left)" in first
    assert "\r\x1b[Kturnctl: a word" in said
    assert last.endswith("\r\x1b[K")
    assert ("", False) == (talk.clearing, any(one.name == "turnctl-progress" for one in threading.enumerate()))


def _is_empty(fd: int) -> bool:
    return not select.select([fd], [], [], 0)[0]


def test_what_is_quick_shows_nothing(terminal: int) -> None:
    """What is over at once leaves the terminal as it was."""
    with Progress(moves=True, quiet=False) as shown:
        shown.state("quick")

    assert _is_empty(terminal)


def test_each_state_is_a_line_elsewhere(monkeypatch: pytest.MonkeyPatch, capfd: Capture) -> None:
    """Once, when it takes longer; nothing with -q, and nothing of what is over at once."""
    with Progress(moves=False, quiet=False) as shown:
        shown.state("at once")
    monkeypatch.setattr(progress, "_QUICK_S", 0.0)
    with Progress(moves=False, quiet=True) as shown:
        shown.state("quietly")
    with Progress(moves=False, quiet=False) as shown:
        for done, text in enumerate(("reading", "reading", "hashing")):
            shown.state(text, done, 3)

    assert "turnctl: reading\nturnctl: hashing\n" == capfd.readouterr().err


def test_nothing_is_drawn_from_the_background(terminal: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job in the background leaves the terminal to who is in front."""
    asked: list[bool] = []
    monkeypatch.setattr(progress, "_AFTER_S", 0.0)
    monkeypatch.setattr(progress, "_TURN_S", 0.001)
    monkeypatch.setattr(progress, "_is_in_front", lambda: bool(asked.append(True)))
    with Progress(moves=True, quiet=False) as shown:
        shown.state("working")
        until(lambda: len(asked) > 3)

    assert _is_empty(terminal)
