"""Cancel against end: each row of the first tables of docs/guarantees.md, forced at race points (P2, P3, P6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from holding import begun, held, leave_now
from standins import Background, Thing, is_parked, until

import turnctl
from turnctl import CancelledError, Turn, end_turn


@pytest.fixture
def turn() -> Iterator[Turn]:
    made = begun(grace="60s")
    yield made
    leave_now(made)


def test_cancel_then_end(turn: Turn) -> None:
    """The stop enters before the end decides: accepted, cancelled, the event set before the end returns (P3)."""
    event = turn.token.event
    with held("turn.end.deciding", end_turn, turn) as ender:
        answer = turn.token.cancel("stop")
        was_set = event.is_set()
        ender.result()

    assert "accepted" == answer.kind
    assert was_set
    assert "cancelled" == turn.outcome
    assert turn.token.record is answer.record


@pytest.mark.parametrize("outcome", ["completed", "failed"])
@pytest.mark.parametrize("point", ["turn.end.decided", "turn.end.leaving"])
def test_end_then_cancel(turn: Turn, outcome: str, point: str) -> None:
    """The end has decided: the stop is told so, changes nothing and never sets the event (P2, P3)."""
    event = turn.token.event
    with held(point, end_turn, turn, outcome) as ender:
        answer = turn.token.cancel("too late")
        told = ender.result()

    assert ("already_ended", outcome, None) == (answer.kind, answer.outcome, answer.record)
    assert not answer
    assert told is True
    assert outcome == turn.outcome
    assert not event.is_set()
    assert not turn.token.cancelled
    assert turn.token.record is None


@pytest.mark.parametrize("outcome", ["completed", "failed"])
def test_end_in_the_log_and_ender_held_then_cancel(turn: Turn, outcome: str) -> None:
    """The end stands in the log and nothing of it shows yet: the stop is told what was decided (P3)."""
    event = turn.token.event
    with held("token.end.entered", end_turn, turn, outcome) as ender:
        answer = turn.token.cancel("too late")
        shown = turn.token.retired, turn.outcome
        ender.result()

    assert ("already_ended", outcome) == (answer.kind, answer.outcome)
    assert (True, outcome) == shown
    assert outcome == turn.outcome
    assert not event.is_set()


@pytest.mark.parametrize("point", ["token.end.entered", "turn.begin.registered"])
def test_superseded_then_cancel(point: str) -> None:
    """A newer turn has taken the session with on_busy="retire": the stop is refused, the event never set (P2)."""
    old = begun("chat")
    event = old.token.event
    newer = turnctl.turn("chat", on_busy="retire")
    with held(point, newer.begin) as beginner:
        answer = old.token.cancel("too late")
        beginner.result()
    shown = old.outcome, event.is_set(), newer.token.stopping
    leave_now(old, newer)

    assert ("refused", "retired", None) == (answer.kind, answer.why, answer.record)
    assert ("superseded", False, False) == shown


def test_soft_stop_then_end(turn: Turn) -> None:
    """A soft stop before the end: cancelled at level soft, and nothing was ever tripped (P3)."""
    event = turn.token.event
    with held("turn.end.deciding", end_turn, turn) as ender:
        answer = turn.cancel("finish this step", level="soft")
        ender.result()

    assert "accepted" == answer.kind
    assert ("cancelled", "soft") == (turn.outcome, turn.token.level)
    assert not event.is_set()
    assert not turn.token.cancelled


def test_soft_stop_then_cancel_then_end(turn: Turn) -> None:
    """A soft stop, then a cancel: the first record is kept, the level rises, the event is set (P3)."""
    event = turn.token.event
    with held("turn.end.deciding", end_turn, turn) as ender:
        first = turn.cancel("finish this step", level="soft")
        second = turn.cancel("now", level="cancel")
        was_set = event.is_set()
        ender.result()

    assert ("accepted", "already_cancelled") == (first.kind, second.kind)
    assert second.record is first.record is turn.token.record
    assert ("cancelled", "cancel", True) == (turn.outcome, turn.token.level, was_set)


def test_cancel_and_the_body_swallows_it() -> None:
    """A body that swallows everything still ends cancelled: the boundary asks the token (P6)."""
    with turnctl.turn() as turn:
        answer = Background(turn.cancel, "stop").result()
        try:
            turn.check()
        except BaseException:
            pass

    assert "accepted" == answer.kind
    assert "cancelled" == turn.outcome
    assert turn.token.event.is_set()


@pytest.mark.parametrize("event_asked_for", ["before", "while held", "after"])
@pytest.mark.parametrize("point", ["token.cancel.entered", "token.cancel.flagged"])
def test_canceller_held_before_the_flag_then_end(turn: Turn, point: str, event_asked_for: str) -> None:
    """The canceller stands still with its stop in the log: the end shows it, before it returns (P3)."""
    if event_asked_for == "before":
        _ = turn.token.event
    with held(point, turn.token.cancel, "stop") as canceller:
        if event_asked_for == "while held":
            _ = turn.token.event
        end_turn(turn)
        shown = turn.token.cancelled, turn.token.event.is_set(), turn.outcome
        answer = canceller.result()

    assert (True, True, "cancelled") == shown
    assert "accepted" == answer.kind
    assert answer.record is turn.token.record


def test_end_then_end_again(turn: Turn) -> None:
    """The first end stands, and the second is told False (P3)."""
    told = [end_turn(turn, "failed"), end_turn(turn, "completed")]

    assert [True, False] == told
    assert "failed" == turn.outcome


def test_two_ends_at_once(turn: Turn) -> None:
    """Of two ends that overlap one decides: it is told True, the other False (P3)."""
    with held("turn.end.deciding", end_turn, turn, "failed") as first:
        second = Background(end_turn, turn, "completed")
        waits = is_parked(turn._over._waiters)
        told = [first.result(), second.result()]

    assert waits
    assert [True, False] == told
    assert "failed" == turn.outcome


def test_displaced_while_its_end_begins() -> None:
    """A turn that is displaced before its end decides: the end did not decide, and is told so (P3)."""
    old = begun("chat")
    with held("turn.end.deciding", end_turn, old, "completed") as ender:
        newer = begun("chat")
        told = ender.result()
    leave_now(newer)

    assert ("cancelled", "displaced") == (old.outcome, old.cause)
    assert told is False


@pytest.mark.parametrize("how", [{"grace": 0}, {"level": "kill"}])
@pytest.mark.parametrize("outcome", ["completed", "failed"])
def test_cancel_while_processes_are_being_ended(turn: Turn, outcome: str, how: dict[str, Any]) -> None:
    """The outcome is decided and a thing is still being ended: the stop only shortens that (P3, P12)."""
    thing = Thing(ends="killed")
    turn.admit(thing)
    turn.watch(thing.wake)
    ender = Background(end_turn, turn, outcome)
    assert thing.in_end.wait(10)
    answer = turn.cancel("hurry", **how)
    told = ender.result()

    assert ("already_ended", outcome) == (answer.kind, answer.outcome)
    assert ["asked", "killed"] == thing.log
    assert told is True
    assert outcome == turn.outcome
    assert turn.token.record is None
    assert not turn.token.event.is_set()


# -- what leaves the body -------------------------------------------------------------------------------------


def of_another_turn() -> BaseException:
    other = begun(inherit=False)
    other.cancel("not this one")
    end_turn(other)
    return CancelledError("another one was cancelled", record=other.token.record, token=other.token)


def own(turn: Turn) -> BaseException:
    return CancelledError("stop", record=turn.token.record, token=turn.token)


def group(*errors: BaseException) -> BaseException:
    return BaseExceptionGroup("several", errors)


Leaving = tuple[Callable[[Turn], BaseException | None], bool, str | None, str, str | None]
# what leaves the body; whether the turn was tripped; what passes out; the outcome; the cause
EXITS: dict[str, Leaving] = {
    "nothing, not tripped": (lambda t: None, False, None, "completed", None),
    "nothing, tripped": (lambda t: None, True, None, "cancelled", "user"),
    "its own": (own, True, None, "cancelled", "user"),
    "another turn's, not tripped": (lambda t: of_another_turn(), False, "it", "failed", None),
    "another turn's, tripped": (lambda t: of_another_turn(), True, "it", "cancelled", "user"),
    "an error, not tripped": (lambda t: ValueError("no"), False, "it", "failed", None),
    "an error, tripped": (lambda t: ValueError("no"), True, "it", "cancelled", "user"),
    "KeyboardInterrupt": (lambda t: KeyboardInterrupt(), False, "it", "cancelled", "signal"),
    "KeyboardInterrupt, tripped": (lambda t: KeyboardInterrupt(), True, "it", "cancelled", "user"),
    "SystemExit 0": (lambda t: SystemExit(0), False, "it", "completed", None),
    "SystemExit None": (lambda t: SystemExit(), False, "it", "completed", None),
    "SystemExit 3": (lambda t: SystemExit(3), False, "it", "failed", None),
    "SystemExit 0, tripped": (lambda t: SystemExit(0), True, "it", "cancelled", "user"),
    "GeneratorExit": (lambda t: GeneratorExit(), False, "it", "cancelled", "closed"),
    "a group of its own": (lambda t: group(own(t), group(own(t))), True, None, "cancelled", "user"),
    "a mixed group, tripped": (lambda t: group(own(t), ValueError("no")), True, "rest", "cancelled", "user"),
    "a group, not tripped": (lambda t: group(of_another_turn(), ValueError("no")), False, "it", "failed", None),
}


@pytest.mark.parametrize("row", EXITS)
def test_what_leaves_the_body(row: str) -> None:
    """Each way out of the body has its outcome, and passes out what is not the turn's own (P6)."""
    make, is_tripped, passes, outcome, cause = EXITS[row]
    turn = turnctl.turn()
    left: BaseException | None = None
    came: BaseException | None = None
    try:
        with turn:
            if is_tripped:
                turn.cancel("stop")
            left = make(turn)
            if left is not None:
                raise left
    except BaseException as error:
        came = error

    assert (outcome, cause) == (turn.outcome, turn.cause)
    if passes == "rest":
        assert isinstance(came, BaseExceptionGroup)
        assert ["no"] == [str(error) for error in came.exceptions]
    else:
        assert (left if passes else None) is came
    assert (row == "an error, tripped") is any("raised while stopping" in note for note in turn.report.notes)


def test_value_that_came_late_is_kept() -> None:
    """A function that returns although its turn was stopped: cancelled, the value kept apart (P6)."""

    def body() -> str:
        turnctl.current_turn().cancel("stop")  # type: ignore[union-attr]
        return "late"

    result = turnctl.run_turn(body)

    assert (True, None, "late") == (result.cancelled, result.value, result.late_value)


def test_deadline_against_end(turn: Turn) -> None:
    """A deadline that passes while the end has not yet decided counts; its thread is nobody special (P3)."""
    with held("turn.end.deciding", end_turn, turn) as ender:
        turn.set_timeout(0.001)
        passed = until(lambda: turn.token.cancelled)
        ender.result()

    assert passed
    assert ("cancelled", "deadline") == (turn.outcome, turn.cause)
