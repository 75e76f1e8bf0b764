"""Sleeping and waiting on a token wake at once when it trips, keep their time otherwise, and say which it was."""

from __future__ import annotations

import threading
import time

import pytest
from standins import BOUND, Background, is_parked, until

import turnctl
from turnctl import BadDuration, CancelledError
from turnctl.testing import call_at
from turnctl.tokens.token import TurnToken
from turnctl.waiting.wait import sleep, wait


@pytest.fixture
def token() -> TurnToken:
    return TurnToken("t1")


def test_sleep_keeps_its_time(token: TurnToken) -> None:
    """Not stopped, it sleeps as long as it was asked, not less."""
    begun = time.monotonic()
    sleep(token, "60ms")
    took = time.monotonic() - begun

    assert 0.06 <= took < 1
    assert [] == token._grow().waiters


def test_sleep_wakes_at_once_on_a_stop(token: TurnToken) -> None:
    """A sleeper is told in one hop, far sooner than its time."""
    sleeper = Background(sleep, token, 60)
    assert is_parked(token._grow().waiters)
    stopped_at = time.monotonic()
    token.cancel("enough")
    error = sleeper.error()
    assert sleeper.ended_at is not None

    assert isinstance(error, CancelledError)
    assert token.record is error.record
    assert sleeper.ended_at - stopped_at < 1
    assert [] == token._grow().waiters


@pytest.mark.parametrize("duration", [0, "0s", 60])
def test_sleep_of_a_stopped_token_does_not_begin(token: TurnToken, duration: float) -> None:
    """A checkpoint at its start, also for no time at all."""
    token.cancel()
    begun = time.monotonic()
    with pytest.raises(CancelledError):
        sleep(token, duration)

    assert time.monotonic() - begun < 1


def test_sleep_is_a_checkpoint_at_its_end(token: TurnToken) -> None:
    """A stop that comes as the time is over is not passed by."""
    token.event.is_set()
    timer = threading.Timer(0.02, token.cancel)
    timer.start()
    with pytest.raises(CancelledError):
        while True:
            sleep(token, "1ms")
    timer.join()


def test_sleep_goes_on_through_a_soft_stop_and_an_end(token: TurnToken) -> None:
    """Neither interrupts: a soft stop waits for the step, and an end without a stop is none."""
    for disturb in (lambda: token.cancel(level="soft"), lambda: token._retire("completed")):
        sleeper = Background(sleep, token, 0.1)
        assert is_parked(token._grow().waiters)
        disturb()

        assert sleeper.error() is None
        assert sleeper.ended_at is not None
        assert 0.1 <= sleeper.ended_at - sleeper.started_at


def test_many_sleepers_wake(token: TurnToken) -> None:
    """Every thread that sleeps on the token or below it is told."""
    child = token.child()
    sleepers = [Background(sleep, one, 60) for one in (token, child) for _ in range(5)]
    assert is_parked(token._grow().waiters, 5)
    assert is_parked(child._grow().waiters, 5)
    token.cancel()

    assert [CancelledError] * 10 == [type(s.error()) for s in sleepers]


def test_stop_between_the_check_and_the_sleep_is_not_lost(token: TurnToken) -> None:
    """A stop at any moment of going to sleep wakes or prevents it."""
    for _ in range(200):
        one = TurnToken("t")
        gate = threading.Barrier(2)

        def go(one: TurnToken = one, gate: threading.Barrier = gate) -> None:
            gate.wait(BOUND)
            sleep(one, 60)

        sleeper = Background(go)
        gate.wait(BOUND)
        one.cancel()

        assert isinstance(sleeper.error(), CancelledError)


def test_sleep_in_a_turn_is_ambient() -> None:
    """``turnctl.sleep`` finds the turn by itself, ``turn.sleep`` needs no binding."""
    with turnctl.turn() as turn:
        waiting = Background(turn.sleep, 60)
        assert is_parked(turn.token._grow().waiters)
        turn.stop()
        with pytest.raises(CancelledError):
            turnctl.sleep(60)

        assert isinstance(waiting.error(), CancelledError)


def test_sleep_outside_a_turn_is_plain() -> None:
    """There is nothing to stop it, so it only sleeps."""
    begun = time.monotonic()
    turnctl.sleep("20ms")

    assert 0.02 <= time.monotonic() - begun < 1


def test_sleep_fits_where_a_sleep_is_asked_for() -> None:
    """A retry library may take ``turnctl.sleep`` for its own, and the stop ends the retrying."""
    tenacity = pytest.importorskip("tenacity")
    attempts: list[int] = []

    def flaky() -> None:
        attempts.append(1)
        if len(attempts) == 3:
            turnctl.current_turn().stop()  # type: ignore[union-attr]
        raise OSError

    retrying = tenacity.Retrying(sleep=turnctl.sleep, wait=tenacity.wait_fixed(0.001))
    with turnctl.turn() as turn:
        retrying(flaky)

    assert ("cancelled", 3) == (turn.outcome, len(attempts))


@pytest.mark.parametrize("value", [-1, "5", "", "-1s", None, "none", float("nan"), float("inf"), True, object()])
def test_bad_time_to_sleep_is_refused(token: TurnToken, value: float) -> None:
    """A sleep takes a duration, in a turn and outside."""
    with turnctl.turn() as turn:
        for call in (turn.sleep, turnctl.sleep, lambda value: sleep(token, value)):
            with pytest.raises(BadDuration, match="sleep"):
                call(value)
    with pytest.raises(BadDuration, match="sleep"):
        turnctl.sleep(value)


def test_wait_tells_of_the_stop(token: TurnToken) -> None:
    """It returns the stop instead of raising it, timed or not, before and after."""
    waiters = [Background(wait, token), Background(wait, token, 60)]
    assert is_parked(token._grow().waiters, 2)
    token.cancel()

    assert [True, True] == [w.result() for w in waiters]
    assert wait(token)
    assert wait(token, 60)


def test_wait_gives_up_in_time(token: TurnToken) -> None:
    """Not stopped in time: False, not before."""
    begun = time.monotonic()
    found = wait(token, "50ms")

    assert not found
    assert 0.05 <= time.monotonic() - begun < 1
    assert not wait(token, 0)


@pytest.mark.parametrize("none", [None, "none"])
def test_wait_without_a_time_ends_with_the_turn(none: str | None) -> None:
    """A helper thread that waits for a stop is let go when the turn ends without one (promise 5)."""
    with turnctl.turn() as turn:
        waiter = Background(turn.wait_cancelled, none)
        assert is_parked(turn.token._grow().waiters)

    assert not waiter.result()
    assert not Background(turn.wait_cancelled).result()


def test_wait_with_a_time_ends_with_the_turn() -> None:
    """So is one that would have waited longer."""
    with turnctl.turn() as turn:
        waiter = Background(turn.wait_cancelled, 3)
        assert is_parked(turn.token._grow().waiters)
    let_go = until(lambda: not waiter.is_running, within=1)
    found = waiter.result()

    assert let_go
    assert not found


@pytest.mark.parametrize("value", [-1, "5", "", float("nan"), float("inf"), True, object()])
def test_bad_time_to_wait_is_refused(value: float) -> None:
    """A wait takes a duration or none; so does the wait for the end."""
    with turnctl.turn() as turn:
        for call in (turn.wait_cancelled, turn.wait_over):
            with pytest.raises(BadDuration, match="timeout"):
                call(value)


def test_wait_for_the_end() -> None:
    """``wait_over`` returns when the turn is over, and not when it is only decided."""
    waiters: list[Background[bool]] = []
    decided: list[bool] = []

    def look() -> None:
        decided.append(waiters[0].is_running)

    with call_at("turn.end.leaving", look), turnctl.turn() as turn:
        early = turn.wait_over("10ms")
        waiters.append(Background(turn.wait_over))
        assert is_parked(turn._over._waiters)

    assert not early
    assert [True] == decided
    assert waiters[0].result()
    assert turn.wait_over()
