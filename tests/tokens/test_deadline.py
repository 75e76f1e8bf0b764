"""Deadlines fire at their time, never early, from one thread for all of them, which ends when idle."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from standins import BOUND, Background, until

import turnctl
from turnctl import BadArgument, BadDuration, clock
from turnctl.testing import FakeClock, call_at
from turnctl.tokens import deadline

OurThreads = Callable[[], list[str]]
TIMER = "turnctl-deadlines"


def timers() -> int:
    return sum(t.name == TIMER for t in threading.enumerate())


@pytest.fixture(autouse=True)
def _idle() -> Iterator[None]:
    assert until(lambda: timers() == 0)
    yield
    assert until(lambda: timers() == 0)


def test_fires_at_its_time_and_wakes_sleepers() -> None:
    """A sleep inside the turn ends at the deadline, not before, with cause ``deadline``."""
    begun = time.monotonic()
    with turnctl.turn(timeout="100ms") as turn:
        turnctl.sleep(BOUND)
    took = time.monotonic() - begun

    assert 0.1 <= took < 1.5
    assert ("cancelled", "deadline") == (turn.outcome, turn.cause)
    assert turn.token.reason is not None
    assert "timeout" in turn.token.reason


def test_wakes_every_kind_of_waiter() -> None:
    """Event, ``wait_cancelled`` and a callback all learn of it."""
    ran = threading.Event()
    with turnctl.turn(timeout="50ms") as turn:
        turn.on_cancel(ran.set)
        waiters = [Background(turn.event.wait), Background(turn.wait_cancelled)]

        assert [True, True] == [w.result() for w in waiters]
        assert ran.wait(BOUND)


def test_one_thread_serves_many_turns() -> None:
    """A hundred turns with deadlines have one timer thread, and it ends soon after the last."""
    with turnctl.turn(timeout="1h"):
        made = [turnctl.turn(timeout="1h", inherit=False) for _ in range(100)]
        for one in made:
            one.begin()
        during = timers()
        for one in made:
            one.end()

    assert 1 == during
    assert until(lambda: timers() == 0)


def test_turn_without_a_limit_has_no_timer() -> None:
    """The thread is started with the first deadline, not before."""
    with turnctl.turn() as turn:
        without = timers()
        turn.set_timeout("1h")
        with_one = timers()

    assert (0, 1) == (without, with_one)


def test_deadlines_fire_in_the_order_of_their_times() -> None:
    """A later turn with an earlier deadline is stopped first."""
    order: list[str] = []
    with turnctl.turn(timeout="120ms") as late, turnctl.turn(timeout="40ms", inherit=False) as early:
        late.on_cancel(lambda: order.append("late"), inline=True)
        early.on_cancel(lambda: order.append("early"), inline=True)
        assert until(lambda: len(order) == 2)

    assert ["early", "late"] == order


def test_moved_earlier_it_fires_earlier() -> None:
    """A running turn's deadline may come nearer."""
    with turnctl.turn(timeout="1h") as turn:
        first = turn.deadline
        turn.set_timeout("50ms")
        second = turn.deadline
        assert turn.wait_cancelled(BOUND)

    assert first is not None
    assert second is not None
    assert second < first
    assert "deadline" == turn.cause


def test_moved_later_it_does_not_fire_at_the_old_time() -> None:
    """A running turn's deadline may be put off."""
    with turnctl.turn(timeout="40ms") as turn:
        turn.set_timeout("1h")
        stopped = turn.wait_cancelled("120ms")

    assert not stopped
    assert "completed" == turn.outcome


def test_removed_it_never_fires() -> None:
    """``None`` takes the limit away."""
    for none in (None, "none"):
        with turnctl.turn(timeout="40ms") as turn:
            turn.set_timeout(none)
            limit = turn.deadline
            stopped = turn.wait_cancelled("100ms")

        assert limit is None
        assert not stopped


def test_set_from_another_thread_wakes_the_timer() -> None:
    """The timer thread that sleeps for an hour hears of an earlier deadline at once."""
    with turnctl.turn(timeout="1h") as turn, turnctl.turn(timeout="2h", inherit=False) as other:
        Background(other.set_timeout, "30ms").result()

        assert other.wait_cancelled(BOUND)
        assert not turn.cancelled


def test_deadline_in_the_past_trips_at_once() -> None:
    """A time that has passed stops the turn before the call returns, with cause ``deadline``."""
    with turnctl.turn() as turn:
        turn.set_deadline(time.monotonic() - 1)
        tripped = turn.token.cancelled

    assert tripped
    assert "deadline" == turn.cause


def test_timeout_is_told_as_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason of the stop has the limit itself, not what was left of it when the timer was set."""
    steps = itertools.count(time.monotonic(), 0.01)
    with turnctl.turn(inherit=False) as turn:
        with monkeypatch.context() as patch:
            patch.setattr("turnctl.tokens.turn.monotonic", lambda: next(steps))
            turn.set_timeout("500ms")
        assert until(lambda: turn.cancelled)

    assert "timeout of 0.5 s passed" == turn.token.reason


@pytest.mark.parametrize("value", [float("nan"), "5s"])
def test_time_that_is_none_is_refused(value: float) -> None:
    """What is no time is refused, and the deadlines of other turns still fire."""
    with turnctl.turn(timeout="100ms") as turn:
        with turnctl.turn(inherit=False) as other, pytest.raises((BadArgument, BadDuration)):
            other.set_deadline(value)
        fired = turn.wait_cancelled(3)

    assert fired


def test_bad_timeout_is_refused() -> None:
    """Nothing, less than nothing and what has no unit is no limit, at begin or later; the turn is unharmed."""
    values: list[Any] = [0, -1, "0s", "-1s", "5", "", float("nan"), float("inf"), True, object()]
    with turnctl.turn(timeout="1h") as turn:
        before = turn.deadline
        for value in values:
            with pytest.raises(BadDuration):
                turnctl.turn(timeout=value)
            with pytest.raises(BadDuration):
                turn.set_timeout(value)

        assert before == turn.deadline
        assert not turn.cancelled


def test_stopped_turn_is_not_stopped_again() -> None:
    """A deadline behind a stop keeps the first record."""
    for seconds in (0.03, 0.3, 3):
        with turnctl.turn(timeout=seconds) as turn:
            if turn.stop("first").kind != "accepted":
                continue  # this machine took longer than that to come here
            waited = turn.token.event.wait()
            assert until(lambda: timers() == 0)
        break

    assert waited
    assert ("user", "first") == (turn.cause, turn.token.reason)


def test_ended_turn_is_not_touched() -> None:
    """A deadline that has not passed at the end is taken back (promise 2)."""
    with turnctl.turn(timeout="40ms") as turn:
        pass
    assert until(lambda: timers() == 0)
    turn.set_timeout("1ms")

    assert ("completed", False, None) == (turn.outcome, turn.cancelled, turn.deadline)


def test_many_short_turns_with_long_limits_leave_no_heap() -> None:
    """Deadlines that were taken back do not pile up until their time."""
    for _ in range(2_000):
        with turnctl.turn(timeout="1h"):
            pass

    assert until(lambda: timers() == 0, within=2)


def test_standing_clock_does_not_fire_early() -> None:
    """While the monotonic clock stands still, as on a suspended machine, nothing fires; later it does."""
    stood_at = time.monotonic()
    standing = threading.Event()
    standing.set()

    class Standing:
        def monotonic(self) -> float:
            return stood_at if standing.is_set() else time.monotonic()

        def wall(self) -> float:
            return time.time()

        def block(self, lock: Any, seconds: float) -> bool:
            return bool(lock.acquire(True, seconds))

    fired = threading.Event()
    with clock.use(Standing()):
        timer = deadline.start(stood_at + 0.05, fired.set)
        early = fired.wait(0.3)
        standing.clear()
        later = fired.wait(BOUND)
        timer.cancel()

    assert (False, True) == (early, later)


def test_settled_when_all_that_is_due_has_been_called() -> None:
    """``settle`` comes back after the calls that were due, not before, and starts no thread where there is none."""
    called: list[int] = []
    idle = deadline.settle(0)
    without = timers()
    for number in range(50):
        deadline.start(clock.monotonic(), lambda number=number: called.append(number))  # type: ignore[misc]
    settled = deadline.settle(BOUND)

    assert (True, 0) == (idle, without)
    assert settled
    assert list(range(50)) == called


def test_order_that_comes_as_the_thread_leaves_is_served() -> None:
    """A deadline that is set in the moment in which the idle thread gives itself up is not forgotten."""
    fired = threading.Event()
    with call_at("deadline.idle", lambda: deadline.start(clock.monotonic(), fired.set)):
        deadline.start(clock.monotonic(), lambda: None)

        assert fired.wait(BOUND)


def test_settling_is_bounded() -> None:
    """A call that does not come back delays ``settle`` for as long as it is told."""
    gate, inside = threading.Event(), threading.Event()
    deadline.start(clock.monotonic(), lambda: (inside.set(), gate.wait(BOUND)))
    assert inside.wait(BOUND)
    settled = deadline.settle(0.05)
    gate.set()

    assert not settled


def test_fires_by_the_clock_in_use(fake_clock: FakeClock) -> None:
    """A deadline passes when the clock in use passes it, and has been carried out when ``advance`` returns."""
    fired: list[str] = []
    deadline.start(clock.monotonic() + 3600, lambda: fired.append("hour"))
    deadline.start(clock.monotonic() + 60, lambda: fired.append("minute"))
    fake_clock.advance(59)
    before = list(fired)
    fake_clock.advance(1)
    after = list(fired)
    fake_clock.advance(7200)

    assert ([], ["minute"], ["minute", "hour"]) == (before, after, fired)


def test_turn_stops_by_the_clock_in_use(fake_clock: FakeClock) -> None:
    """A turn's limit of five minutes passes when the test says so."""
    with turnctl.turn(timeout="5m") as turn:
        fake_clock.advance(299)
        before = turn.cancelled
        fake_clock.advance(1)
        after = turn.token.cause

    assert (False, "deadline") == (before, after)


def test_wall_clock_that_jumps_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An administrator who sets the clock stops nobody."""
    with turnctl.turn(timeout="1h") as turn:
        monkeypatch.setattr(time, "time", lambda: 4e9)
        stopped = turn.wait_cancelled("50ms")
        monkeypatch.undo()

    assert not stopped


def test_failing_call_does_not_end_the_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """One call that raises is reported, and the next one is still made."""
    told: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(args.exc_type))
    fired = threading.Event()

    def fails() -> None:
        raise ZeroDivisionError

    now = time.monotonic()
    deadline.start(now + 0.01, fails)
    deadline.start(now + 0.02, fired.set)

    assert fired.wait(BOUND)
    assert [ZeroDivisionError] == told


def test_deadline_keeps_no_token_alive() -> None:
    """What is forgotten is not kept for the sake of its limit."""

    class Target:
        def _deadline_passed(self, reason: str) -> None:
            raise AssertionError

    fired = threading.Event()
    at = time.monotonic() + 0.3
    deadline.cancel_at(Target(), at, "")
    deadline.start(at + 0.01, fired.set)

    assert fired.wait(BOUND)


def test_thread_comes_back_after_it_has_ended() -> None:
    """Idle is not over: the next deadline starts the thread again."""
    for _ in range(2):
        with turnctl.turn(timeout="10ms") as turn:
            assert turn.wait_cancelled(BOUND)
        assert until(lambda: timers() == 0)
