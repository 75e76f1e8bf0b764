"""The command's place on the terminal: no stop of the command goes unseen, whenever its signal comes."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from turnctl.cli import foreground as module
from turnctl.cli.foreground import Foreground


class NoTerminal:
    """A terminal that somebody else holds."""

    saved: Any = None

    def modes(self) -> None:
        return None

    def is_ours(self) -> bool:
        return False

    def take(self) -> None:
        """Nothing to take."""


class Stops(Foreground):
    """Sees the stops it is given, one at each look, and calls ``between`` after each look."""

    def __init__(self, *looks: int) -> None:
        super().__init__(NoTerminal(), is_stopping=lambda: False, quiet=True)  # type: ignore[arg-type]
        self.looks = list(looks)
        self.seen: list[int] = []
        self.signal_at: list[int] = []
        self._command = 4711

    def _stopped_by(self) -> int:
        found = self.looks.pop(0) if self.looks else 0
        if len(self.looks) in self.signal_at:
            self.signal_at.remove(len(self.looks))
            self._on_child(signal.SIGCHLD, None)
        return found

    def _stopped(self, number: int) -> None:
        self.seen.append(number)


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module.Sentinel, "start", lambda: None)
    made: list[Stops] = []

    def make(*looks: int) -> Stops:
        made.append(Stops(*looks))
        return made[0]

    yield make
    made[0]._command = None
    made[0].end(restore=False)


def test_stop_in_the_last_moment_of_a_look_is_seen(stops: Any) -> None:
    """A signal that comes when the last look has found nothing, and the look is not over, is not lost."""
    foreground = stops(0, signal.SIGTTIN)
    foreground.signal_at = [1]  # just after the look that found nothing
    foreground._on_child(signal.SIGCHLD, None)

    assert [signal.SIGTTIN] == foreground.seen


def test_stop_while_the_job_is_being_stopped_is_seen(stops: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that comes while Ctrl-Z stops our own job is looked at when that is over."""
    foreground = stops(signal.SIGTTIN)
    foreground._command = None
    foreground._terminal.shell_group = lambda: 1

    def stopped(*_: object) -> None:
        foreground._command = 4711
        foreground._on_child(signal.SIGCHLD, None)

    monkeypatch.setattr(foreground, "_stop_by", stopped)
    monkeypatch.setattr(foreground, "_resume", lambda **_: None)
    foreground._on_stop_key(signal.SIGTSTP, None)

    assert [signal.SIGTTIN] == foreground.seen


def test_ctrl_z_during_another_stop_is_carried_out_after_it(stops: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-Z that comes while a stop is dealt with stops command and job as soon as that is over (F6)."""
    foreground = stops(signal.SIGTTIN)
    foreground._terminal.shell_group = lambda: 1
    done: list[Any] = []
    monkeypatch.setattr(foreground, "_signal_command", done.append)
    monkeypatch.setattr(foreground, "_stop_by", lambda number, target: done.append("we"))

    def stopped(number: int) -> None:
        done.append(number)
        foreground._on_stop_key(signal.SIGTSTP, None)
        done.append("over")

    monkeypatch.setattr(foreground, "_stopped", stopped)
    foreground._look()

    assert [signal.SIGTTIN, "over", signal.SIGTSTP, "we", signal.SIGCONT] == done
