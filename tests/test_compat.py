"""Hosts that keep a cancel event per session: begun around it, ended by it, and never by another one."""

from __future__ import annotations

import gc
import threading

import pytest
from standins import Background, until

import turnctl
from turnctl import BadArgument, TurnEvent, register_cancel_event, unregister_cancel_event
from turnctl.tokens import registry

KINDS = [threading.Event, TurnEvent]


def bridges() -> list[str]:
    return [t.name for t in threading.enumerate() if "turnctl-bridge" in t.name]


@pytest.mark.parametrize("kind", KINDS)
def test_event_is_shared_both_ways(kind: type[threading.Event]) -> None:
    """Setting it stops the turn, stopping the session sets it."""
    event = kind()
    token = register_cancel_event("chat", event)
    event.set()
    by_event = (token.cancelled, token.cause)
    ended = unregister_cancel_event("chat", event)
    other = kind()
    register_cancel_event("chat", other)
    answer = turnctl.stop("chat")
    set_by_stop = other.wait(5)
    unregister_cancel_event("chat", other)

    assert (True, "event") == by_event
    assert ended
    assert answer
    assert set_by_stop
    assert [] == registry.all_turns()


def test_registering_binds_nothing() -> None:
    """The host's context stays as it was; the session's turn is found by its name."""
    event = threading.Event()
    token = register_cancel_event("chat", event)
    bound = turnctl.current_token()
    with turnctl.session("chat"):
        by_session = turnctl.current_token()
    unregister_cancel_event("chat", event)

    assert bound is None
    assert token is by_session
    assert "completed" == token.outcome


def test_unregistering_with_another_event_is_refused() -> None:
    """An older task's late clean-up leaves the newer turn's stop working."""
    older, newer = threading.Event(), threading.Event()
    first = register_cancel_event("chat", older)
    second = register_cancel_event("chat", newer)
    late = unregister_cancel_event("chat", older)
    answer = turnctl.stop("chat")
    newer_set = newer.wait(5)
    right = unregister_cancel_event("chat", newer)

    assert (False, True) == (late, right)
    assert answer
    assert newer_set
    assert not older.is_set()
    assert ("superseded", "cancelled") == (first.outcome, second.outcome)
    assert not first.cancelled


@pytest.mark.parametrize("clean_up", [True, False])
def test_earlier_registration_leaves_no_thread(clean_up: bool) -> None:
    """Each call retires the earlier turn; whether or not that is cleaned up late, its thread ends (promise 5)."""
    before = len(bridges())
    events = [threading.Event() for _ in range(20)]
    for event in events:
        register_cancel_event("chat", event)
        if clean_up and event is not events[0]:
            unregister_cancel_event("chat", events[events.index(event) - 1])
    assert until(lambda: len(bridges()) <= before + 1)
    gc.collect()
    live = len(registry.all_turns())
    unregister_cancel_event("chat", events[-1])

    assert 1 == live
    assert until(lambda: len(bridges()) == before)
    assert [[]] * 20 == [list(e._cond._waiters) for e in events]  # type: ignore[attr-defined]
    assert [] == registry.all_turns()


def test_unregistering_what_is_not_there_says_false() -> None:
    """Nothing runs, or it was ended before."""
    event = threading.Event()
    nothing = unregister_cancel_event("chat", event)
    register_cancel_event("chat", event)
    first, second = unregister_cancel_event("chat", event), unregister_cancel_event("chat", event)

    assert (False, True, False) == (nothing, first, second)


def test_turn_without_an_event_is_not_this_calls_to_end() -> None:
    """The message says what is."""
    with turnctl.turn("chat") as turn:
        with pytest.raises(BadArgument, match="end it with end_turn"):
            unregister_cancel_event("chat", threading.Event())
        turn.check()


@pytest.mark.parametrize("event", [None, object(), "event"])
def test_what_is_no_event_is_refused(event: object) -> None:
    """Before anything begins."""
    try:
        with pytest.raises(BadArgument, match="event must be a threading.Event"):
            register_cancel_event("chat", event)  # type: ignore[arg-type]
        found = turnctl.session("chat").turn
    finally:
        for turn in registry.all_turns():
            turnctl.end_turn(turn.token)

    assert found is None


def test_event_that_is_set_stops_the_turn_at_once() -> None:
    """A host that forgot to clear its event is told by the first check."""
    event = threading.Event()
    event.set()
    token = register_cancel_event("chat", event)
    cancelled = token.cancelled
    unregister_cancel_event("chat", event)

    assert cancelled
    assert "event" == token.cause


def test_one_event_may_serve_turn_after_turn() -> None:
    """The host clears it and registers it again; each turn is a new one."""
    event = threading.Event()
    outcomes = []
    for n in range(4):
        event.clear()
        token = register_cancel_event("chat", event)
        if n % 2:
            event.set()
        unregister_cancel_event("chat", event)
        outcomes.append(token.outcome)

    assert ["completed", "cancelled"] * 2 == outcomes


def test_worker_of_the_session_obeys_it() -> None:
    """Old code on a thread that names its session stops at its next checkpoint."""
    event = threading.Event()
    register_cancel_event("chat", event)
    begun = threading.Event()

    def worker() -> None:
        with turnctl.session("chat"):
            begun.set()
            turnctl.sleep(60)

    thread = Background(worker)
    begun.wait(5)
    event.set()
    error = thread.error()
    unregister_cancel_event("chat", event)

    assert isinstance(error, turnctl.CancelledError)


def test_late_clean_up_ends_what_its_own_turn_has_left() -> None:
    """The command of a turn that lost its session ends with that turn's clean-up; the newer turn's runs on (P9)."""
    older, newer = threading.Event(), threading.Event()
    commands = []
    for event in (older, newer):
        register_cancel_event("chat", event)
        with turnctl.session("chat"):
            commands.append(turnctl.popen(["sleep", "60"]))
    late = unregister_cancel_event("chat", older)
    states = [command.poll() is None for command in commands]
    ended = unregister_cancel_event("chat", newer)

    assert (False, True) == (late, ended)
    assert [False, True] == states
    assert commands[1].poll() is not None
    assert [] == registry.all_turns()


def test_clean_up_of_one_event_ends_all_around_it() -> None:
    """A host that registers its one event again, before it has cleaned up, leaves nothing behind."""
    event = threading.Event()
    tokens = []
    for _ in range(3):
        tokens.append(register_cancel_event("chat", event))
    ended = unregister_cancel_event("chat", event)

    assert ended
    assert ["superseded", "superseded", "completed"] == [token.outcome for token in tokens]
    assert [] == registry.all_turns()
