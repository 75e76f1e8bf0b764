"""Futures are waited for under a stop, in the order in which they are done, and keep their results."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from standins import Background, is_parked

import turnctl
from turnctl import BadArgument, CancelledError
from turnctl.testing import call_at
from turnctl.tokens.token import TurnToken
from turnctl.waiting.futures import as_completed
from turnctl.waiting.wait import wait


@pytest.fixture
def token() -> TurnToken:
    return TurnToken("t1")


def made(count: int) -> list[Future[int]]:
    return [Future() for _ in range(count)]


@pytest.mark.parametrize(
    "end",
    [lambda f: f.set_result(1), lambda f: f.set_exception(OSError()), lambda f: f.cancel()],
    ids=["result", "exception", "cancelled"],
)
def test_future_is_done_in_whatever_way(token: TurnToken, end: Callable[[Future[int]], Any]) -> None:
    """A result, an exception and a cancellation each end the wait, which raises none of them."""
    future: Future[int] = Future()
    waiter = Background(wait, token, future)
    assert is_parked(token._grow().waiters)
    end(future)

    assert waiter.result()


def test_futures_come_as_they_are_done(token: TurnToken) -> None:
    """The order is that of being done, one given twice comes once, and those that were done come first."""
    first, second, third = made(3)
    second.set_result(2)
    found: list[Future[int]] = []

    def collect() -> None:
        found.extend(as_completed(token, [first, second, third, first]))

    collector = Background(collect)
    assert is_parked(token._grow().waiters)
    third.set_result(3)
    first.set_result(1)

    assert collector.error() is None
    assert [second, third, first] == found


def test_no_futures(token: TurnToken) -> None:
    """Of none there is none."""
    assert [] == list(as_completed(token, []))
    assert [] == list(as_completed(None, [], 0))


def test_stop_before_the_next_future(token: TurnToken) -> None:
    """Two are done, one was given, then the stop: it raises before the second, which keeps its result."""
    first, second = made(2)
    first.set_result(1)
    second.set_result(2)
    giving = as_completed(token, [first, second])
    given = next(giving)
    token.cancel()
    with pytest.raises(CancelledError):
        next(giving)

    assert first is given
    assert 2 == second.result(0)
    assert [] == list(giving)


def test_future_that_is_done_between_hanging_up_and_looking(token: TurnToken) -> None:
    """One that rings and is found done as well comes once."""
    first, second = made(2)
    with call_at("waiting.asked", lambda: (second.set_result(2), first.set_result(1))):
        found = list(as_completed(token, [first, second], 5))

    assert [second, first] == found


def test_time_is_over_for_the_rest(token: TurnToken) -> None:
    """Those that are done come all the same."""
    first, second = made(2)
    first.set_result(1)
    giving = as_completed(token, [first, second], "50ms")
    given = next(giving)
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match="1 \\(of 2\\) futures unfinished"):
        next(giving)

    assert first is given
    assert time.monotonic() - begun < 1.5


def test_time_begins_with_the_first_that_is_asked_for(token: TurnToken) -> None:
    """As in the standard library: what passes between the call and the loop does not count."""
    (future,) = made(1)
    giving = as_completed(token, [future], 0.2)
    theirs = concurrent.futures.as_completed([future], 0.2)
    time.sleep(0.3)
    waiters = [Background(lambda one=one: next(iter(one))) for one in (giving, theirs)]  # type: ignore[misc]
    assert is_parked(token._grow().waiters)
    future.set_result(1)

    assert [future, future] == [waiter.result() for waiter in waiters]


@pytest.mark.parametrize("what", [None, 1, Future()])
def test_what_is_no_list_of_futures_is_refused(token: TurnToken, what: Any) -> None:
    """At the call, not at the first item."""
    with pytest.raises(BadArgument, match=r"takes an iterable of futures, not .*; give a list"):
        as_completed(token, what)
    with pytest.raises(BadArgument, match=r"takes concurrent.futures.Future objects, not"):
        as_completed(token, [what if what is None else Future])
    with pytest.raises(BadArgument, match="cannot wait for the class Future"):
        wait(token, Future)


@pytest.mark.parametrize("leave", [lambda g: g.close(), lambda g: None], ids=["closed", "dropped"])
def test_nothing_stays_with_the_futures(token: TurnToken, leave: Callable[[Any], object]) -> None:
    """Leaving early, and waiting in vain, leave nothing in the queue of a future that goes on."""
    first, second = made(2)
    first.set_result(1)
    giving = as_completed(token, [first, second])
    next(giving)
    leave(giving)
    del giving
    for _ in range(3):
        wait(token, second, 0)
        wait(token, second, 0.001)

    assert [] == list(second._condition._waiters)  # type: ignore[attr-defined]
    assert [] == second._done_callbacks  # type: ignore[attr-defined]


def test_real_executor() -> None:
    """Work of a thread pool is collected within a turn, and a stop leaves the collecting at once."""
    with ThreadPoolExecutor(2) as pool, turnctl.turn() as turn:
        gate = TurnToken("gate")
        quick = [pool.submit(pow, 2, n) for n in range(5)]
        found = sorted(future.result() for future in turn.as_completed(quick))
        slow = pool.submit(gate.event.wait, 10)
        collector = Background(lambda: list(turn.as_completed([slow])))
        assert is_parked(turn.token._grow().waiters)
        turn.cancel()
        error = collector.error()
        is_done = slow.done()
        gate.cancel()

    assert [1, 2, 4, 8, 16] == found
    assert isinstance(error, CancelledError)
    assert not is_done


def test_thousand_futures(token: TurnToken) -> None:
    """A thousand are collected in a time that grows with their number, not with its square."""
    futures = made(1000)
    collector = Background(lambda: list(as_completed(token, futures)))
    assert is_parked(token._grow().waiters)
    begun = time.monotonic()
    for future in futures:
        future.set_result(0)
    found = collector.result()

    assert 1000 == len(found)
    assert time.monotonic() - begun < 5


def test_future_of_an_event_loop_is_refused(token: TurnToken) -> None:
    """It may only be asked on the thread of its loop; the message says what to do."""
    loop = asyncio.new_event_loop()
    future = loop.create_future()
    try:
        with pytest.raises(BadArgument, match="run_coroutine_threadsafe"):
            wait(token, future)
        with pytest.raises(BadArgument, match=r"takes concurrent.futures.Future objects, not _asyncio.Future"):
            as_completed(token, [future])
    finally:
        loop.close()
