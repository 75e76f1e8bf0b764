"""What a warden is told ahead of the stops of a command's owner."""

from __future__ import annotations

import errno
import math
import signal
from typing import Any

import pytest
from standins import until

import turnctl
from turnctl import clock
from turnctl.processes.foresight import BACKUP_S, Foresight, foresee
from turnctl.processes.scoped import scoped
from turnctl.processes.warded import Warded
from turnctl.testing import FakeClock

pytestmark = pytest.mark.usefixtures("wardens")

NOBODY = Foresight(None, ())
STOPS = {int(signal.SIGINT), int(signal.SIGTERM)}


def _due_s(foresight: Foresight) -> float | None:
    return None if foresight.due_s is None else math.ceil(foresight.due_s - BACKUP_S)  # less a moment


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float | None, tuple[int, ...]]]:
    """What wardens are told after the start."""
    calls: list[tuple[float | None, tuple[int, ...]]] = []

    def unheard(_self: Warded, due_s: float | None, numbers: tuple[int, ...], _ear: int) -> None:
        calls.append((due_s, numbers))

    monkeypatch.setattr(Warded, "unheard", unheard)
    return calls


def test_turn_without_limits_foresees_nothing() -> None:
    """Without a deadline and without handlers there is nothing to be told."""
    with turnctl.turn() as turn:
        assert NOBODY == foresee(turn, is_here=True)


def test_nearest_deadline_is_foreseen() -> None:
    """Of the deadlines of a turn, the one around it and a token in it, the nearest counts."""
    with turnctl.turn(timeout="20s"), turnctl.turn(timeout="40s") as inner:
        assert 20.0 == _due_s(foresee(inner, is_here=True))
        with inner.token.child(timeout="5s"):
            assert 5.0 == _due_s(foresee(scoped(inner), is_here=True))
            assert 20.0 == _due_s(foresee(scoped(inner), is_here=False))


def test_shield_delays_what_is_foreseen() -> None:
    """Under a shield a deadline counts from the end of the shield at the earliest, and no signal does."""
    with turnctl.handle_signals(), turnctl.turn(timeout="2s") as turn, turn.shield("30s"):
        turn.cancel()
        found = foresee(turn, is_here=True)

    assert (30.0, ()) == (_due_s(found), found.numbers)


def test_other_clock_foresees_nothing() -> None:
    """Where a stand-in clock is in use a warden is told nothing, since it goes by the system's."""
    with clock.use(FakeClock()), turnctl.turn(timeout="2s") as turn:
        assert NOBODY == foresee(turn, is_here=True)


def test_signals_that_stop_the_turn_are_foreseen() -> None:
    """Handlers for all turns, or for one around it, stop a turn; those for another turn do not."""
    with turnctl.turn() as outer, turnctl.turn() as inner:
        with turnctl.handle_signals():
            assert set(foresee(inner, is_here=True).numbers) >= STOPS
        with turnctl.handle_signals(outer):
            assert set(foresee(inner, is_here=True).numbers) >= STOPS
        with turnctl.handle_signals(inner):
            assert () == foresee(outer, is_here=True).numbers
        assert () == foresee(inner, is_here=True).numbers


def test_moved_deadline_is_told(told: list[Any]) -> None:
    """A deadline that is moved while the command runs is told to its warden."""
    with turnctl.turn(timeout="1m", grace=0) as turn:
        with turn.popen(["sleep", "60"], capture=False):
            turn.set_timeout("5m")
            assert until(lambda: told)
            turn.set_timeout(None)
            assert until(lambda: told[-1] == (None, ()))
        assert 299 < told[0][0] - BACKUP_S <= 300


def test_handlers_set_later_are_told(told: list[Any]) -> None:
    """Handlers that are set or taken back while a command runs are told to its warden."""
    with turnctl.turn(grace=0) as turn, turn.popen(["sleep", "60"], capture=False):
        with turnctl.handle_signals():
            assert until(lambda: told)
            assert set(told[-1][1]) >= STOPS
        assert until(lambda: told[-1] == (None, ()))


def test_no_descriptor_for_the_ear_ends_nothing(told: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none is left to lend signals with, the command goes on without, and the outcome says so."""

    def refuse() -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("turnctl.processes.foresight.stops.lend_unread", refuse)
    with turnctl.turn(grace=0) as turn, turn.popen(["sleep", "60"], capture=False) as process:
        with turnctl.handle_signals():
            assert until(lambda: told)
            assert (None, ()) == told[-1]
            assert process.poll() is None
        process.kill()
        notes = process.outcome().notes

    assert any(note.endswith("no signal to it ends the command: Too many open files") for note in notes)


def test_leftovers_are_told_of_too(told: list[Any]) -> None:
    """Leftovers that nobody waits for go by the turn's deadline as it is moved."""
    with turnctl.turn(timeout="1m", grace=0) as turn:
        done = turn.run(["sh", "-c", "sleep 60 & exec >/dev/null 2>&1"])
        assert done.outcome.leftovers
        told.clear()
        turn.set_timeout("5m")
        assert until(lambda: told)
