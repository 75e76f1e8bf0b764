"""Cancel against displacement: each row of the third table of docs/guarantees.md, forced at race points (P2, P3)."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextvars import copy_context
from typing import Any

import pytest
from holding import begun, held, leave_now
from standins import Background, Thing, is_parked, until

import turnctl
from turnctl import Turn, end_turn, points, stop
from turnctl.tokens import registry

_names = itertools.count()


@pytest.fixture
def session() -> str:
    return f"session {next(_names)}"


@pytest.fixture
def old(session: str) -> Iterator[Turn]:
    """A turn that holds the session, and whose frames are still at work."""
    made = begun(session, grace="60s")
    yield made
    leave_now(made)


def holder(session: str) -> turnctl.Turn | None:
    return turnctl.session(session).turn  # type: ignore[return-value]


def is_untouched(turn: Turn) -> bool:
    return (None, None, False) == (turn.token.record, turn.outcome, turn.token.cancelled)


def test_stop_then_displaced(session: str, old: Turn) -> None:
    """The stop comes when the newer turn has found the session busy: it is the old turn's, with its cause (P2)."""
    newer = turnctl.turn(session)
    with held("turn.begin.busy", newer.begin) as beginner:
        answer = stop(session, reason="the old one")
        beginner.result()
    shown = is_untouched(newer), holder(session) is newer
    leave_now(newer)

    assert "accepted" == answer.kind
    assert ("cancelled", "user", "the old one") == (old.outcome, old.cause, old.token.reason)
    assert (True, True) == shown


@pytest.mark.parametrize("point", ["turn.displace.tripped", "turn.begin.registered"])
def test_displaced_then_stop_by_id_while_it_drains(session: str, old: Turn, point: str) -> None:
    """The old frames still drain: cancelled already, cause displaced, and the grace may shorten (P2, P12)."""
    newer = turnctl.turn(session)
    with held(point, newer.begin) as beginner:
        before = old.kill_at()
        answer = stop(turn_id=old.turn_id, grace=1)
        after = old.kill_at()
        beginner.result()
    shown = is_untouched(newer)
    leave_now(newer)

    assert "already_cancelled" == answer.kind
    assert answer.record is old.token.record
    assert ("cancelled", "displaced") == (old.outcome, old.cause)
    assert before is not None
    assert after is not None
    assert before - 50 > after
    assert shown


def test_displaced_and_ended_then_stop_by_id(session: str, old: Turn) -> None:
    """The old turn is over: the turn itself still answers, its id is not known any more (P2)."""
    newer = begun(session)
    end_turn(old)
    held_on, by_id = old.cancel("late"), stop(turn_id=old.turn_id)
    shown = is_untouched(newer)
    leave_now(newer)

    assert ("already_ended", "cancelled") == (held_on.kind, held_on.outcome)
    assert ("refused", "no_turn") == (by_id.kind, by_id.why)
    assert shown


def test_displaced_then_cancel_on_the_old_token(session: str, old: Turn) -> None:
    """A token that has been retired changes nothing, also while its frames drain (P2)."""
    newer = begun(session)
    record = old.token.record
    answer = old.token.cancel("late", level="kill")
    shown = is_untouched(newer), old.token.level
    leave_now(newer)

    assert ("already_ended", "cancelled") == (answer.kind, answer.outcome)
    assert answer.record is record is old.token.record
    assert (True, "cancel") == shown


@pytest.mark.parametrize("ended", [False, True])
def test_stop_of_the_session_that_expects_the_old_turn(session: str, old: Turn, ended: bool) -> None:
    """A press that was meant for the old turn does not reach the new one (P2)."""
    newer = begun(session)
    if ended:
        end_turn(old)
    answer = stop(session, expected_turn=old.turn_id)
    shown = is_untouched(newer), stop(session, expected_turn=newer.turn_id).kind
    leave_now(newer)

    assert ("refused", "retired", old.turn_id) == (answer.kind, answer.why, answer.turn_id)
    assert (True, "accepted") == shown


@pytest.mark.parametrize("point", ["turn.end.decided", "turn.end.leaving"])
def test_old_completes_then_displacement(session: str, old: Turn, point: str) -> None:
    """A turn that has completed is not displaced any more, only its slot is taken (P3)."""
    with held(point, end_turn, old) as ender:
        newer = Background(begun, session).result()
        told = ender.result()
    shown = is_untouched(newer), holder(session) is newer
    leave_now(newer)

    assert told is True
    assert ("completed", None) == (old.outcome, old.token.record)
    assert (True, True) == shown


def test_retired_then_stop_by_token(session: str) -> None:
    """on_busy="retire": refused, superseded; the frames run on and only the turn's deadline still ends it (P2, P9)."""
    old = begun(session, timeout="200ms", grace="1ms")
    thing = Thing(ends="killed")
    old.admit(thing)
    wanted = threading.Event()
    old.watch(lambda: wanted.set() if old.stop_wanted() else None)
    newer = turnctl.turn(session, on_busy="retire")
    with held("token.end.entered", newer.begin) as beginner:
        during = old.token.cancel("late")
        beginner.result()
    after, by_turn = old.token.cancel("late"), old.cancel("late")
    old.check()
    ended_by_deadline = wanted.wait(10)
    old.check()
    end_turn(old)
    shown = is_untouched(newer)
    leave_now(newer)

    for answer in (during, after, by_turn):
        assert ("refused", "retired") == (answer.kind, answer.why)
    assert ("superseded", None, False) == (old.outcome, old.token.record, old.token.event.is_set())
    assert ended_by_deadline
    assert "killed" in thing.log
    assert shown


def test_two_beginnings_displace_at_once(session: str, old: Turn) -> None:
    """Both found the old turn: it is told once, the later one holds the session, the earlier is displaced (P2, P3)."""
    one, two = turnctl.turn(session, turn_id=f"{session} one"), turnctl.turn(session, turn_id=f"{session} two")
    with held("turn.begin.busy", one.begin) as first, held("turn.begin.busy", two.begin) as second:
        first.result()
        held_by_one = holder(session) is one
        second.result()
    shown = holder(session) is two, is_untouched(two)
    leave_now(one, two)

    assert held_by_one
    assert [f"displaced by turn {one.turn_id}"] == [entry.reason for entry in old.token._stops()]
    assert ("cancelled", "displaced") == (old.outcome, old.cause)
    assert ("cancelled", "displaced", f"displaced by turn {two.turn_id}") == (one.outcome, one.cause, one.token.reason)
    assert (True, True) == shown


@pytest.mark.parametrize("policy", ["displace", "retire"])
def test_late_end_of_the_old_turn(session: str, old: Turn, policy: Any) -> None:
    """The old frames come to their end when a newer turn runs: that is their own end only (P2)."""
    newer = begun(session, on_busy=policy)
    told = end_turn(old, "completed")
    shown = is_untouched(newer), holder(session) is newer, newer.is_over
    leave_now(newer)

    assert told is False
    assert ("cancelled" if policy == "displace" else "superseded") == old.outcome
    assert (True, True, False) == shown


def test_late_end_that_overlaps_the_displacement(session: str, old: Turn) -> None:
    """The old turn gives up its session while a newer one takes it: the newer one keeps it (P2)."""
    newer = turnctl.turn(session)
    with held("turn.end.leaving", end_turn, old) as ender, held("turn.begin.busy", newer.begin) as beginner:
        ender.result()
        beginner.result()
    shown = is_untouched(newer), holder(session) is newer
    leave_now(newer)

    assert "completed" == old.outcome
    assert (True, True) == shown


class _Slowly(dict[str, Any]):
    """A table in which a thread stands still before it makes an entry."""

    def __setitem__(self, key: str, value: Any) -> None:
        points.reach("test.table.entering")
        super().__setitem__(key, value)


def test_end_that_overlaps_the_displacement(session: str, old: Turn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old turn ends while the newer one moves it to the draining ones: it is over, and found no more (P2, P4)."""
    monkeypatch.setattr(registry, "draining", _Slowly())
    newer = turnctl.turn(session)
    with held("test.table.entering", newer.begin) as beginner:
        ender = Background(end_turn, old)
        until(lambda: not ender.is_running, within=0.5)  # it may have to wait for the other one
        beginner.result()
        ender.result()
    by_id, found = stop(turn_id=old.turn_id), old in registry.all_turns()
    leave_now(newer)

    assert old.is_over
    assert ("refused", "no_turn") == (by_id.kind, by_id.why)
    assert not found


@pytest.mark.parametrize("policy", ["displace", "retire", "refuse", "wait"])
@pytest.mark.parametrize("nested", [False, True])
def test_begin_in_a_session_that_an_enclosing_frame_holds(session: str, policy: Any, nested: bool) -> None:
    """A turn cannot take the session from the frame that it would run in, whatever on_busy says (P2)."""

    def begin_again() -> str:
        with pytest.raises(turnctl.SessionBusy, match="encloses this frame") as caught:
            turnctl.turn(session, on_busy=policy).begin()
        return caught.value.turn_id

    with turnctl.turn(session) as outer:
        if nested:
            with turnctl.turn():
                told = begin_again()
        else:
            told = begin_again()
        untouched = is_untouched(outer), holder(session) is outer

    assert outer.turn_id == told
    assert (True, True) == untouched


# -- waiting for the slot -------------------------------------------------------------------------------------


def test_waiting_turn_begins_when_the_slot_is_free(session: str, old: Turn) -> None:
    """on_busy="wait": begins with the end of the turn before it, which it does not touch (P2, P8)."""
    displacer = begun(session)
    waiter = Background(lambda: begun(session, on_busy="wait"))
    parked = is_parked(displacer._over._waiters)
    end_turn(displacer)
    newer = waiter.result()
    shown = holder(session) is newer
    leave_now(newer)

    assert parked
    assert ("completed", None) == (displacer.outcome, displacer.token.record)
    assert shown


def test_waiting_turn_begins_although_a_displaced_one_drains(session: str, old: Turn) -> None:
    """Who waits for the slot does not wait for frames that have lost it: they may never return (P2)."""
    waiter = Background(lambda: begun(session, on_busy="wait"))
    parked = is_parked(old._over._waiters)
    displacer = begun(session)
    end_turn(displacer)
    newer = waiter.result()
    shown = holder(session) is newer, old.is_over
    leave_now(newer)

    assert parked
    assert (True, False) == shown


def test_stop_of_a_turn_that_waits_for_its_slot(session: str, old: Turn) -> None:
    """A turn can be stopped by its id before it has its session; it then never begins (P2, P8)."""
    waiting = turnctl.turn(session, on_busy="wait")
    waiter = Background(waiting.begin)
    parked = is_parked(old._over._waiters)
    answer = stop(turn_id=waiting.turn_id)
    error = waiter.error()

    assert parked
    assert "accepted" == answer.kind
    assert isinstance(error, turnctl.CancelledError)
    assert waiting.is_over
    assert is_untouched(old)
    assert holder(session) is old


def test_begin_while_the_process_shuts_down(session: str) -> None:
    """A turn that begins while shutdown runs is either stopped by it or refused, never neither (P2)."""
    newer = turnctl.turn(session)
    try:
        with held("turn.begin.registered", newer.begin) as beginner:
            answers = turnctl.shutdown("test")
            beginner.result()
        with pytest.raises(turnctl.ShuttingDown):
            begun(session)
    finally:
        registry.reopen()
    leave_now(newer)

    assert ["accepted"] == [answer.kind for answer in answers if answer.turn_id == newer.turn_id]
    assert "shutdown" == newer.cause


def test_frame_of_a_displaced_turn_obeys_its_own_token(session: str) -> None:
    """A frame whose session has moved on keeps checking its own token, and so does a copy of its context (P1, P2)."""
    with turnctl.turn(session) as old:
        context = copy_context()
        newer = Background(begun, session).result()
        newer.cancel("the new one")
        with pytest.raises(turnctl.CancelledError) as caught:
            context.run(turnctl.check)
    leave_now(newer)

    assert caught.value.token is old.token
    assert "displaced" == caught.value.cause
