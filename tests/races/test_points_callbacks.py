"""Callbacks, bridges and adopted events against a stop and an end, forced at race points (P2, P3, P5)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from holding import begun, held, leave_now
from standins import Background, until

import turnctl
from turnctl import Turn, TurnEvent, TurnToken, end_turn, points
from turnctl.tokens import bridge


@pytest.fixture
def turn() -> Iterator[Turn]:
    made = begun()
    yield made
    leave_now(made)


@pytest.mark.parametrize("inline", [True, False])
def test_callback_listed_while_the_token_trips(turn: Turn, inline: bool) -> None:
    """A callback that is listed while the token trips runs, once (P3)."""
    ran: list[str] = []
    with held("token.callback.listed", lambda: turn.on_cancel(lambda: ran.append("ran"), inline=inline)) as lister:
        turn.cancel("stop")
        lister.result()
    came = until(lambda: ran)
    end_turn(turn)

    assert came
    assert ["ran"] == ran


@pytest.mark.parametrize("inline", [True, False])
def test_callback_runs_once_from_two_threads(turn: Turn, inline: bool) -> None:
    """Two cancellers come to one callback: the one that takes it off the list runs it (P3)."""
    ran: list[str] = []
    registration = turn.on_cancel(lambda: ran.append("ran"), inline=inline)
    with held("token.callback.claimed", turn.cancel, "stop") as canceller:
        again = turn.cancel("stop", level="kill")
        by_hand = registration._run_once()
        canceller.result()
    end_turn(turn)

    assert "already_cancelled" == again.kind
    assert by_hand is False
    assert ["ran"] == ran


def test_callback_taken_back_while_it_is_claimed(turn: Turn) -> None:
    """unregister() of a callback that has been claimed says that it is too late, and waits if asked to (P3)."""
    ran: list[str] = []
    registration = turn.on_cancel(lambda: ran.append("ran"), inline=True)
    with held("token.callback.claimed", turn.cancel, "stop") as canceller:
        too_late = registration.unregister()
        waiting = Background(registration.unregister, 10)
        canceller.result()
        waited = waiting.result()

    assert (False, False, ["ran"]) == (too_late, waited, ran)


@pytest.mark.parametrize("tripped", [True, False])
def test_callback_listed_while_the_turn_ends(turn: Turn, tripped: bool) -> None:
    """A callback that comes while the turn ends runs or is refused; it is never kept and forgotten (P3, P5)."""
    ran: list[str] = []

    def list_it() -> str:
        try:
            turn.on_cancel(lambda: ran.append("ran"))
        except turnctl.TurnOver:
            return "refused"
        return "listed"

    _ = turn.bridge
    if tripped:
        turn.cancel("stop")
    with held("token.callback.listed", list_it) as lister:
        end_turn(turn)
        told = lister.result()
    until(lambda: ran or told == "refused" or not tripped)

    assert (["ran"] if tripped and told == "listed" else []) == ran
    assert tripped or told in ("listed", "refused")


class _Threading:
    """The threading module as a room sees it, with threads that stand at a point before they start."""

    class Thread(threading.Thread):
        def start(self) -> None:
            points.reach("test.thread.made")
            super().start()

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)


def test_bridge_that_starts_while_the_turn_ends(turn: Turn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end comes between the making of the bridge thread and its start: it ends the turn all the same (P5)."""
    monkeypatch.setattr(bridge, "threading", _Threading())
    with held("test.thread.made", turn.on_cancel, print) as lister:
        error = Background(end_turn, turn).error()
        over = turn.is_over
        try:
            lister.result()
        except turnctl.TurnOver:
            pass

    assert error is None
    assert over


@pytest.mark.parametrize("reads", range(1, 6))
def test_callback_of_a_turn_that_is_over_in_the_same_moment(
    turn: Turn, monkeypatch: pytest.MonkeyPatch, reads: int
) -> None:
    """The turn lets go of its token while a callback looks for its bridge: taken or refused, with our error (P2)."""
    slot: Any = TurnToken._turn
    left = [reads]

    def read(token: TurnToken) -> Any:
        value = slot.__get__(token)
        left[0] -= 1
        if left[0] == 0:
            end_turn(turn)
        return value

    monkeypatch.setattr(TurnToken, "_turn", property(read, slot.__set__))
    try:
        turn.on_cancel(print)
    except turnctl.TurnOver:
        pass

    assert turn.is_over is (left[0] <= 0)


def test_set_of_an_event_that_is_retired_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set that began before the event was a turn's and goes on after that turn changes nothing any more (P2)."""
    raise_flag = TurnEvent._raise_flag

    def slowly(event: TurnEvent) -> None:
        points.reach("test.event.setting")
        raise_flag(event)

    monkeypatch.setattr(TurnEvent, "_raise_flag", slowly)
    event = TurnEvent()
    with held("test.event.setting", event.set) as setter:
        turn = begun(event=event)
        end_turn(turn)
        before = event.is_set()
        setter.result()

    assert ("completed", False) == (turn.outcome, before)
    assert not event.is_set()


@pytest.mark.parametrize("kind", [TurnEvent, threading.Event])
def test_event_adopted_by_a_turn_that_is_born_tripped(kind: type[threading.Event], turn: Turn) -> None:
    """A turn begun in one that was stopped is born tripped, and shows it on the host's event (P1, P3)."""
    event = kind()
    shown: list[bool] = []
    with turnctl.turn() as outer:
        outer.cancel("all of it")
        with turnctl.turn(event=event) as inner:
            until(event.is_set, within=5)
            shown.append(event.is_set())

    assert "parent" == inner.cause
    assert [True] == shown


@pytest.mark.parametrize("kind", [TurnEvent, threading.Event])
def test_event_set_while_the_end_begins(kind: type[threading.Event]) -> None:
    """The host sets its event while the end has not yet decided: that counts as a stop (P3)."""
    event = kind()
    turn = begun(event=event)
    with held("turn.end.deciding", end_turn, turn) as ender:
        event.set()
        ender.result()

    assert ("cancelled", "event") == (turn.outcome, turn.cause)


@pytest.mark.parametrize("kind", [TurnEvent, threading.Event])
def test_event_set_after_the_end_has_decided(kind: type[threading.Event]) -> None:
    """The host sets its event when the end has decided: the outcome stands, and no turn is stopped (P2, P3)."""
    event = kind()
    turn = begun(event=event)
    with held("turn.end.decided", end_turn, turn) as ender:
        event.set()
        ender.result()

    assert ("completed", None) == (turn.outcome, turn.token.record)
    assert (kind is threading.Event) is event.is_set()
