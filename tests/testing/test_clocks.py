"""The clock of the test moves waits and deadlines, in their order, and leaves nobody behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from standins import BOUND, Background, until

from turnctl import BadArgument, BadDuration, clock
from turnctl.testing import FakeClock
from turnctl.tokens.event import TurnEvent, park, release_all


def sleep(seconds: float) -> None:
    """A wait that nothing but the time ends."""
    park(lambda: False, seconds, [])


@pytest.fixture
def fake() -> Iterator[FakeClock]:
    made = FakeClock(monotonic=1_000.0)
    with made.used():
        yield made


def test_wait_ends_when_its_time_has_come(fake: FakeClock) -> None:
    """An hour passes in no time, and not a second before it has been passed."""
    begun = time.monotonic()
    waiter = Background(sleep, 3600)
    fake.wait_for_sleepers()
    fake.advance(3599)
    early = waiter.is_running
    fake.advance(1)
    waiter.result()

    assert early
    assert time.monotonic() - begun < 2


def test_waits_end_in_the_order_of_their_times(fake: FakeClock) -> None:
    """One advance over several due times wakes each at its own time, in order."""
    ended: list[tuple[str, float]] = []

    def wait(name: str, seconds: float) -> None:
        sleep(seconds)
        ended.append((name, clock.monotonic()))

    waiters = [Background(wait, name, seconds) for name, seconds in (("c", 3.0), ("a", 1.0), ("b", 2.0))]
    fake.wait_for_sleepers(3)
    fake.advance(10)
    for waiter in waiters:
        waiter.result()

    assert [("a", 1001.0), ("b", 1002.0), ("c", 1003.0)] == ended


def test_thread_that_waits_again_is_woken_again(fake: FakeClock) -> None:
    """A loop of sleeps makes all its rounds within one advance, each at its time."""
    seen: list[float] = []

    def rounds() -> None:
        for _ in range(20):
            sleep(0.1)
            seen.append(round(clock.monotonic() - 1000, 9))

    worker = Background(rounds)
    fake.wait_for_sleepers()
    fake.advance(2)
    worker.result()

    assert [round(0.1 * n, 9) for n in range(1, 21)] == seen


@pytest.mark.parametrize("parts", [(0.1, 0.2), (0.3,), (0.1, 0.1, 0.1)])
def test_rounding_of_sums_does_not_matter(fake: FakeClock, parts: tuple[float, ...]) -> None:
    """Spans that add up to the time of a wait end it, whatever the last bit of their sum."""
    fake.advance(0.7)
    waiter = Background(sleep, 0.3)
    fake.wait_for_sleepers()
    for part in parts:
        fake.advance(part)

    waiter.result()


def test_what_is_waited_for_still_wakes_at_once(fake: FakeClock) -> None:
    """A wait of an hour ends with its event, and the clock has not moved."""
    event = TurnEvent()
    waiter = Background(event.wait, 3600)
    fake.wait_for_sleepers()
    event.set()

    assert waiter.result()
    assert 0 == fake.sleepers
    assert 1000.0 == fake.monotonic()


def test_event_and_time_at_once_leave_no_wait_behind(fake: FakeClock) -> None:
    """A wait whose event comes together with its time ends, by whichever was first."""
    for _ in range(200):
        waiters: list[object] = []
        flag: list[bool] = []
        waiter = Background(park, lambda: bool(flag), 1.0, waiters)  # noqa: B023
        fake.wait_for_sleepers()
        setter = Background(lambda: (flag.append(True), release_all(waiters)))  # type: ignore[arg-type] # noqa: B023
        fake.advance(1)
        setter.result()
        waiter.result()

    assert 0 == fake.sleepers


def test_untimed_wait_is_no_sleeper(fake: FakeClock) -> None:
    """What waits without a time is not ended by any advance."""
    event = TurnEvent()
    waiter = Background(event.wait)
    assert until(lambda: event._waiters)
    fake.advance(1e9)
    running = waiter.is_running
    event.set()

    assert running
    assert waiter.result()
    assert 0 == fake.sleepers


def test_advance_does_not_hang_on_a_thread_that_runs_on(fake: FakeClock) -> None:
    """A woken thread that then waits for something else holds the advance up for a moment only."""
    gate = threading.Event()
    waiter = Background(lambda: (sleep(1), gate.wait(BOUND)))
    fake.wait_for_sleepers()
    begun = time.monotonic()
    fake.advance(1)
    took = time.monotonic() - begun
    gate.set()
    waiter.result()

    assert took < 1


def test_sleepers_that_do_not_come_are_told(fake: FakeClock) -> None:
    """Waiting for a sleeper that is none ends with what was found."""
    with pytest.raises(AssertionError, match="0 of 1 threads are in a timed wait"):
        fake.wait_for_sleepers(within=0.05)


def test_wait_goes_on_when_the_clock_is_put_away() -> None:
    """A wait that is left over goes on by the real clock, and ends at about its time."""
    fake = FakeClock()
    with fake.used():
        waiter = Background(sleep, 2.0)
        fake.wait_for_sleepers()
        fake.advance(1.0)
        running = waiter.is_running
    waiter.result()

    assert running
    assert waiter.ended_at is not None
    assert waiter.ended_at - waiter.started_at < 4


@pytest.mark.parametrize("span", [float("nan"), float("inf"), None, "5", -1, True])
def test_time_that_is_no_span_is_refused(fake: FakeClock, span: Any) -> None:
    """It says what is wrong and comes back; the clock stands where it stood."""
    before = clock.monotonic()
    with pytest.raises((BadArgument, BadDuration)):
        fake.advance(span)
    with pytest.raises(BadArgument):
        fake.jump(span if span != -1 else float("-inf"))

    assert before == clock.monotonic()


def test_span_may_be_text(fake: FakeClock) -> None:
    """As everywhere where a duration is asked for."""
    before = clock.monotonic()
    fake.advance("1m30s")

    assert before + 90 == clock.monotonic()


def test_starts_where_the_real_clock_stands() -> None:
    """A time that was fixed on the real clock just before is not long past, nor far away."""
    assert abs(FakeClock().monotonic() - time.monotonic()) < 2


def test_clocks_move_together_but_for_a_jump(fake: FakeClock) -> None:
    """A record and a span agree, also for who looks in the middle of an advance."""
    began = clock.wall()
    seen: list[tuple[float, float]] = []
    waiter = Background(lambda: (sleep(5), seen.append((clock.monotonic() - 1000, clock.wall() - began))))
    fake.wait_for_sleepers()
    fake.advance(20)
    waiter.result()

    assert [(5.0, 5.0)] == seen
    assert (20.0, 20.0) == (clock.monotonic() - 1000, clock.wall() - began)
