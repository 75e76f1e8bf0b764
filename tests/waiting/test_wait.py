"""Sleeping and waiting on a token wake at once when it trips, keep their time otherwise, and say which it was."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import threading
import time
from typing import Any

import pytest
from standins import BOUND, Background, is_parked, until

import turnctl
from turnctl import BadArgument, BadDuration, CancelledError
from turnctl.testing import call_at, pause_at
from turnctl.tokens.token import TurnToken
from turnctl.waiting.wait import sleep
from turnctl.waiting.wait import wait as wait_for
from turnctl.waiting.wait import wait_cancelled as wait


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


# -- waiting for a thing ------------------------------------------------------------------------------------------


def test_event_that_is_set_and_cleared_at_once(token: TurnToken) -> None:
    """As with ``Event.wait``, who waited while it was set is told, also if it has been cleared since."""
    event = threading.Event()
    with pause_at("waiting.woken") as held:
        waiter = Background(wait_for, token, event)
        assert is_parked(token._grow().waiters)
        event.set()
        assert held.reached.wait(BOUND)
        event.clear()
        held.release()

        assert waiter.result()


def test_event_is_left_as_it_was(token: TurnToken) -> None:
    """A wait that is over leaves nothing in the event's queue, and takes nobody's wake-up."""
    event = threading.Event()
    for _ in range(3):
        wait_for(token, event, 0.001)
    left = len(event._cond._waiters)  # type: ignore[attr-defined]
    waiters = [Background(wait_for, token, event), Background(event.wait, 10), Background(wait_for, token, event)]
    assert until(lambda: len(event._cond._waiters) == 3)  # type: ignore[attr-defined]
    event.set()

    assert 0 == left
    assert [True] * 3 == [waiter.result() for waiter in waiters]


def test_event_that_a_signal_handler_sets(token: TurnToken) -> None:
    """Our wait holds nothing of the event, so a handler on the same thread may set it: no hang."""
    event = threading.Event()

    def poke() -> None:
        assert is_parked(token._grow().waiters)
        signal.pthread_kill(main, signal.SIGUSR1)

    main = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, lambda *_: event.set())
    try:
        poker = Background(poke)
        found = wait_for(token, event, 10)
        poker.result()
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert found


def test_retired_turn_event_ends_an_untimed_wait(token: TurnToken) -> None:
    """The event of a turn that ended unset can never be set: False at once, while a timed wait keeps its time."""
    with turnctl.turn() as turn:
        event = turn.token.event
    begun = time.monotonic()
    untimed = wait_for(token, event)
    quick = time.monotonic() - begun
    timed = wait_for(token, event, "50ms")

    assert (False, False) == (untimed, timed)
    assert quick < 1
    assert 0.05 <= time.monotonic() - begun


def test_predicate_runs_and_ends_with_the_condition_held(token: TurnToken) -> None:
    """The lock is held while the predicate runs, after a stop and after its time, and let go in between."""
    condition = threading.Condition()
    held: list[bool] = []

    def predicate() -> bool:
        held.append(condition._is_owned())  # type: ignore[attr-defined]
        return False

    def stopped() -> bool:
        with condition:
            try:
                wait_for(token, predicate, on=condition)
            except CancelledError:
                return bool(condition._is_owned())  # type: ignore[attr-defined]
        return False

    with condition:
        wait_for(token, predicate, 0.01, on=condition)
        held.append(condition._is_owned())  # type: ignore[attr-defined]
    waiter = Background(stopped)
    assert is_parked(token._grow().waiters)
    free = condition.acquire(timeout=BOUND)
    condition.release()
    token.cancel()

    assert free
    assert waiter.result()
    assert len(held) >= 3
    assert all(held)


def test_predicate_under_a_nested_lock(token: TurnToken) -> None:
    """A condition that is held twice is let go wholly, and held twice again afterwards."""
    condition = threading.Condition()
    items: list[int] = []

    def put() -> None:
        with condition:
            items.append(1)
            condition.notify()

    def take() -> int:
        with condition, condition:
            wait_for(token, lambda: items, on=condition)
            condition.release()
            return_held = condition._is_owned()  # type: ignore[attr-defined]
            condition.acquire()
            return int(return_held) + len(items)

    waiter = Background(take)
    assert is_parked(token._grow().waiters)
    put()

    assert 2 == waiter.result()


def test_predicate_that_raises(token: TurnToken) -> None:
    """What the predicate raises comes out, with the condition held until the ``with`` is left."""
    condition = threading.Condition()

    def predicate() -> bool:
        raise OSError

    with pytest.raises(OSError), condition:
        wait_for(token, predicate, on=condition)

    assert condition.acquire(False)
    condition.release()


def test_pause_lets_go_of_the_condition() -> None:
    """A paused waiter does not keep the condition from others."""
    condition = threading.Condition()
    items: list[int] = []

    def take() -> bool:
        with condition:
            return turn.wait(lambda: items, on=condition)

    with turnctl.turn() as turn:
        waiter = Background(take)
        assert is_parked(turn.token._grow().waiters)
        turn.pause()
        with condition:
            items.append(1)
            condition.notify()
        assert is_parked(turn.token._grow().waiters)
        free = condition.acquire(timeout=BOUND)
        condition.release()
        turn.resume()
        found = waiter.result()

    assert free
    assert found


@pytest.mark.parametrize(
    ("args", "on", "error", "text"),
    [
        ((lambda: True,), threading.Condition(), RuntimeError, "not held"),
        ((threading.Event(),), threading.Condition(), BadArgument, "a function without arguments"),
        ((lambda: True,), threading.Lock(), BadArgument, "on= takes the threading.Condition"),
        ((lambda: True,), None, BadArgument, r"wait\(predicate, on=condition\)"),
        ((threading.Condition(),), None, BadArgument, "a Condition alone is never done"),
        ((5,), None, BadArgument, "cannot wait for int; give an Event"),
        ((None,), None, BadArgument, "cannot wait for NoneType"),
        ((multiprocessing.get_context("fork").Event(),), None, BadArgument, "multiprocessing.synchronize.Event"),
        ((asyncio.Event(),), None, BadArgument, "cannot wait for asyncio.locks.Event"),
        ((threading.Thread(),), None, RuntimeError, "has not been started"),
        ((threading.main_thread(),), None, RuntimeError, "the current thread"),
    ],
)
def test_what_cannot_be_awaited_is_refused(
    token: TurnToken, args: tuple[Any], on: Any, error: type[Exception], text: str
) -> None:
    """Each refusal says what it is and what to give, in a turn and outside."""
    for one in (token, None):
        with pytest.raises(error, match=text):
            wait_for(one, *args, on=on)


def test_thread_of_a_turn_is_awaited() -> None:
    """A thread that the turn started wakes its waiter without slices."""
    with turnctl.turn() as turn:
        gate = threading.Event()
        thread = turn.thread(gate.wait, BOUND)
        waiter = Background(turn.wait, thread)
        assert is_parked(turn.token._grow().waiters)
        gate.set()
        found = waiter.result()

    assert found
    assert () == turn.report.notes
