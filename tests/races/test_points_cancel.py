"""Cancel against cancel: each row of the second table of docs/guarantees.md, forced at race points (P3, P7)."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from holding import begun, held, leave_now
from standins import Background, until

import turnctl
from turnctl import CancelToken, Turn, points
from turnctl.testing import call_at
from turnctl.tokens.core import TokenCore


@pytest.fixture
def turn() -> Iterator[Turn]:
    made = begun(grace="60s")
    yield made
    leave_now(made)


@pytest.fixture
def follow_point(monkeypatch: pytest.MonkeyPatch) -> str:
    """A point where a parent's canceller stands before each child, after it has read the list of children."""
    follow = TokenCore._follow

    def at_the_child(kid: TokenCore, *args: Any) -> Any:
        points.reach("test.follow")
        return follow(kid, *args)

    monkeypatch.setattr(TokenCore, "_follow", at_the_child)
    return "test.follow"


@pytest.mark.parametrize("point", ["token.cancel.entered", "token.cancel.flagged"])
def test_cancel_then_cancel(turn: Turn, point: str) -> None:
    """The second is told of the first, even while the first has not returned, and finds the flag up (P3)."""
    with held(point, turn.cancel, "first") as first:
        second = turn.cancel("second")
        shown = turn.token.cancelled
        answer = first.result()

    assert ("accepted", "already_cancelled") == (answer.kind, second.kind)
    assert second.record is answer.record is turn.token.record
    assert "first" == turn.token.reason
    assert shown


@pytest.mark.parametrize("given", [None, 50])
def test_cancel_then_cancel_with_a_shorter_grace(turn: Turn, given: float | None) -> None:
    """A shorter grace ends sooner; the record stays (P3, P12)."""
    first = turn.cancel("first", grace=given)
    before = turn.kill_at()
    second = turn.cancel("second", grace=2)
    after = turn.kill_at()

    assert "already_cancelled" == second.kind
    assert second.record is first.record
    assert before is not None
    assert after is not None
    assert before - 40 > after


@pytest.mark.parametrize("given", [None, 2])
def test_cancel_then_cancel_with_a_longer_grace(turn: Turn, given: float | None) -> None:
    """A longer grace changes nothing: it is never extended (P12)."""
    first = turn.cancel("first", grace=given)
    before = turn.kill_at()
    second = turn.cancel("second", grace=600)

    assert "already_cancelled" == second.kind
    assert second.record is first.record
    assert before == turn.kill_at()


def test_longer_grace_reaches_no_child_either(turn: Turn) -> None:
    """A turn begun inside one whose grace was to be extended gets no more time than its parent (P12)."""
    turn.cancel("first")
    turn.cancel("second", grace=600)
    child = CancelToken.any_of(turn.token)
    ends = [stop.at + (60 if stop.grace_s is None else stop.grace_s) for stop in child._stops()]
    child.close()

    assert turn.kill_at() == min(ends)


def test_soft_stops_with_a_shorter_grace_then_cancel(turn: Turn) -> None:
    """A grace of 0 given with a soft stop is a grace: the cancel that follows has no more than that (P12)."""
    turn.cancel("finish this step", level="soft", grace=30)
    turn.cancel("and then be quick", level="soft", grace=0)
    turn.cancel("now")
    at = turn.kill_at()

    assert at is not None
    assert time.monotonic() >= at


def test_soft_then_cancel(turn: Turn) -> None:
    """A cancel after a soft stop raises the level and trips (P3)."""
    first = turn.cancel("finish this step", level="soft")
    before = turn.token.cancelled
    second = turn.cancel("now")

    assert ("accepted", "already_cancelled") == (first.kind, second.kind)
    assert second.record is first.record
    assert (False, True, "cancel") == (before, turn.token.cancelled, turn.token.level)


def test_cancel_then_soft(turn: Turn) -> None:
    """A level never falls (P3)."""
    first = turn.cancel("now")
    second = turn.cancel("finish this step", level="soft")

    assert ("already_cancelled", "cancel") == (second.kind, turn.token.level)
    assert second.record is first.record


def test_cancel_then_kill(turn: Turn) -> None:
    """A kill after a cancel leaves no more grace (P3, P12)."""
    first = turn.cancel("now")
    second = turn.cancel("at once", level="kill")
    at = turn.kill_at()

    assert ("already_cancelled", "kill") == (second.kind, turn.token.level)
    assert second.record is first.record
    assert at is not None
    assert time.monotonic() >= at


@pytest.mark.parametrize("has_parts", [False, True])
@pytest.mark.parametrize("level", ["soft", "cancel", "kill"])
def test_both_at_once(turn: Turn, level: Any, has_parts: bool) -> None:
    """Two requests that both saw an empty log: exactly one is accepted, and both carry its record (P3)."""
    if has_parts:
        _ = turn.token.event
    with held("token.cancel.entering", turn.cancel, "one") as one:
        with held("token.cancel.entering", lambda: turn.cancel("two", level=level)) as two:
            answers = [two.result(), one.result()]

    assert ["accepted", "already_cancelled"] == [answer.kind for answer in answers]
    assert answers[0].record is answers[1].record is turn.token.record
    assert "two" == turn.token.reason
    assert turn.token.cancelled


@contextmanager
def handling(fn: Callable[[], object]) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, lambda *_: fn())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    ("point", "kinds"),
    [
        ("token.cancel.entering", ["accepted", "already_cancelled"]),
        ("token.cancel.entered", ["already_cancelled", "accepted"]),
        ("token.cancel.flagged", ["already_cancelled", "accepted"]),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_cancel_interrupted_by_a_handler_that_cancels(turn: Turn, point: str, kinds: list[str], nested: bool) -> None:
    """A handler cancels while its own thread stands in cancel: no deadlock, the log's order decides (P7)."""
    _ = turn.token.event
    answers: list[turnctl.StopAnswer] = []

    def handler() -> None:
        if nested and len(answers) < 1:
            answers.append(turn.token.cancel("first in the handler"))
            signal.raise_signal(signal.SIGUSR1)
        answers.append(turn.token.cancel("handler"))

    with handling(handler), call_at(point, lambda: signal.raise_signal(signal.SIGUSR1)):
        outer = turn.token.cancel("outer")

    assert kinds == [answers[0].kind, outer.kind]
    assert 1 == [*(a.kind for a in answers), outer.kind].count("accepted")
    assert {turn.token.record} == {outer.record, *(answer.record for answer in answers)}
    assert turn.token.event.is_set()


def test_parents_cancel_then_childs_own(turn: Turn) -> None:
    """A child that its parent's stop has reached is cancelled already, with cause parent (P3)."""
    child = turn.child()
    parents = turn.cancel("all of it")
    childs = child.cancel("this part")
    child.close()

    assert ("accepted", "already_cancelled") == (parents.kind, childs.kind)
    assert ("parent", "all of it") == (child.cause, child.reason)
    assert child.record is not None
    assert child.record.origin is parents.record


@pytest.mark.parametrize("level", ["soft", "cancel", "kill"])
@pytest.mark.parametrize("has_event", [False, True])
def test_childs_own_cancel_then_parents(turn: Turn, follow_point: str, level: Any, has_event: bool) -> None:
    """A child cancelled while the parent's stop stands before it keeps its own record; its level may rise (P3)."""
    child = turn.child()
    if has_event:
        _ = child.event
    with held(follow_point, turn.cancel, "all of it") as canceller:
        childs = child.cancel("this part", level=level)
        parents = canceller.result()
    child.close()

    assert ("accepted", "accepted") == (childs.kind, parents.kind)
    assert ("user", "this part") == (child.cause, child.reason)
    assert ("kill" if level == "kill" else "cancel") == child.level
    assert child.cancelled
    assert not has_event or child.event.is_set()


@pytest.mark.parametrize("has_event", [False, True])
def test_childs_end_then_parents_cancel(turn: Turn, follow_point: str, has_event: bool) -> None:
    """A child that ends while the parent's stop stands before it is not reached (P2)."""
    child = turn.child()
    if has_event:
        _ = child.event
    with held(follow_point, turn.cancel, "all of it") as canceller:
        child.close()
        parents = canceller.result()

    assert "accepted" == parents.kind
    assert ("completed", None, False) == (child.outcome, child.record, child.cancelled)
    assert not child.event.is_set()


def test_child_born_while_the_parent_is_cancelled(turn: Turn) -> None:
    """The child is on its parent's list and has not read its log: it is reached (P3)."""
    with held("token.child.listed", turn.child) as birth:
        turn.cancel("all of it")
        child = birth.result()
    child.close()

    assert child.cancelled
    assert ("parent", "all of it") == (child.cause, child.reason)


@pytest.mark.parametrize("point", ["token.cancel.entered", "token.cancel.flagged"])
def test_child_born_behind_the_parents_canceller(turn: Turn, point: str) -> None:
    """The stop is in the parent's log and goes no further yet: the child is born tripped (P3)."""
    with held(point, turn.cancel, "all of it"):
        child = turn.child()
        shown = child.cancelled
    child.close()

    assert shown
    assert "parent" == child.cause


def test_child_born_after_the_list_was_read(turn: Turn, follow_point: str) -> None:
    """The parent's canceller has read the list and stands before another child: the new one is born tripped (P3)."""
    other = turn.child()
    with held(follow_point, turn.cancel, "all of it"):
        child = turn.child()
        shown = child.cancelled
    child.close()
    other.close()

    assert shown


def test_turn_born_while_the_one_around_it_is_cancelled() -> None:
    """A turn is as much its parent's child as a token is: never neither born tripped nor reached (P3)."""
    outer = turnctl.turn()

    def begin_inside() -> Turn:
        with outer:
            inner = begun()
            shown.append((inner.token.cancelled, inner.cause))
            turnctl.end_turn(inner)
            return inner

    shown: list[tuple[bool, str | None]] = []
    with held("token.child.listed", begin_inside) as beginner:
        outer.cancel("all of it")
        beginner.result()

    assert [(True, "parent")] == shown


def test_grandchild_born_while_the_childs_flag_goes_up(turn: Turn, follow_point: str) -> None:
    """A tree that grows while a stop runs down it: every token is reached or born tripped (P3)."""
    child = turn.child()
    with held(follow_point, turn.cancel, "all of it") as canceller:
        grandchild = child.child()
        canceller.result()
    grandchild.close()
    child.close()

    assert ("parent", "parent") == (child.cause, grandchild.cause)
    assert grandchild.cancelled


# -- the public event, made while a stop runs -----------------------------------------------------------------


def test_event_made_while_it_is_cancelled(turn: Turn) -> None:
    """The event is asked for while a stop stands in the log: it is set when it is given out (P3)."""
    with held("token.cancel.entered", turn.cancel, "stop"):
        event = turn.token.event
        shown = event.is_set()

    assert shown


def test_event_that_is_being_made_shows_the_stop(turn: Turn) -> None:
    """The token has tripped and a thread stands still while it makes the event: others see it set (P3)."""
    turn.cancel("stop")
    with held("token.event.made", lambda: turn.token.event):
        shown = turn.token.event.is_set()

    assert shown


def test_waiter_on_an_event_that_is_being_made(turn: Turn) -> None:
    """The same, and another thread waits on that event: it wakes (P3, P8)."""
    turn.cancel("stop")
    with held("token.event.made", lambda: turn.token.event) as maker:
        waiter = Background(turn.token.event.wait, 3)
        until(lambda: not waiter.is_running or turn.token._grow().waiters)
        maker.result()
        woken = waiter.result()
    took = (waiter.ended_at or 0) - waiter.started_at

    assert woken
    assert 2 > took
