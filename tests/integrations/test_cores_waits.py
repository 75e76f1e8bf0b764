"""Locks, places and connections that requests of httpcore wait for: a stop frees who waits, clean-up never breaks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from standins import Background, until

import turnctl
from turnctl.integrations.cores import making, waits
from turnctl.integrations.exchanges import begin, serving


@pytest.fixture(params=["httpcore", "httpcore2"])
def parts(request: pytest.FixtureRequest) -> Iterator[Any]:
    """``_synchronization`` of each core, with ours in it."""
    pytest.importorskip(request.param, reason=f"{request.param} is what these tests are about")
    making.ensure(request.param)
    return making.library(request.param).part("_synchronization")


def take(lock: Any) -> None:
    """Take and free ``lock`` for a request of the current turn."""
    exchange = begin("GET http://x/")
    with serving(exchange):
        try:
            with lock:
                pass
        finally:
            assert exchange is not None
            exchange.over()


def stopped_while(turn: turnctl.Turn, waiting: Any, fn: Any) -> float:
    """Stop ``turn`` when ``waiting()``; how long ``fn`` took to come back by that."""
    stopped_at: list[float] = []
    stopper = Background(lambda: (until(waiting), stopped_at.append(time.monotonic()), turn.stop("enough")))
    with pytest.raises(turnctl.CancelledError, match="enough"):
        fn()
    took = time.monotonic() - stopped_at[0] if stopped_at else 0.0
    stopper.result()
    return took


def test_who_waits_for_a_lock_is_freed(parts: Any) -> None:
    """At once, and without it; the next who comes has it."""
    lock = parts.Lock()
    with turnctl.turn() as turn:
        with lock:
            took = stopped_while(turn, lambda: "_turnctl_twin" in vars(lock), lambda: take(lock))
            assert lock._lock.locked()
    with turnctl.turn():
        take(lock)

    assert took < 1
    assert not lock._lock.locked()
    assert () == turn.report.notes


def test_lock_is_handed_on(parts: Any) -> None:
    """Who waits for a request, and who waits plainly, both get it when it is freed."""
    lock = parts.Lock()

    def plainly() -> None:
        with lock:
            pass

    with turnctl.turn():
        with lock:
            served = Background(turnctl.bind(lambda: take(lock)))
            plain = Background(plainly)
            assert until(lambda: vars(lock).get("_turnctl_twin") and vars(lock)["_turnctl_twin"]._waiters)
        served.result()
        plain.result()

    assert not lock._lock.locked()


def test_holder_from_before_the_change(parts: Any) -> None:
    """D4: who took the lock by the original wakes nobody; then it is looked at in slices, and the report says so."""
    lock = parts.Lock()
    lock._lock.acquire()  # as the original does
    with turnctl.turn() as turn:
        waiter = Background(turnctl.bind(lambda: take(lock)))
        assert until(lambda: any("50 ms" in note for note in turn.report.notes) or not waiter.is_running)
        lock._lock.release()
        waiter.result()

    assert any("slices" in note for note in turn.report.notes), turn.report.notes


def test_free_lock_is_taken_by_who_was_stopped(parts: Any) -> None:
    """D2: clean-up takes what is free, whatever the token says."""
    lock = parts.Lock()
    with turnctl.turn() as turn:
        exchange = begin("GET http://x/")
        with serving(exchange):
            turn.stop()
            with lock:
                held = lock._lock.locked()

    assert held


def test_brief_lock_is_waited_for(parts: Any) -> None:
    """One that is held for a few assignments only is waited for, stop or not."""
    lock = parts.Lock()
    waits.is_brief(lock)
    with turnctl.turn() as turn:
        exchange = begin("GET http://x/")
        turn.stop()
        lock.__enter__()
        timer = threading.Timer(0.02, lock.__exit__, (None, None, None))
        timer.start()
        with serving(exchange), lock:
            held = lock._lock.locked()
        timer.join()

    assert held


def test_places_that_are_owed_are_paid(parts: Any) -> None:
    """H4: a place that is taken back while it is in use is paid by who gives it back."""
    semaphore = parts.Semaphore(1)
    semaphore.acquire()
    mark = waits.owing.set(True)
    semaphore.acquire()
    waits.owing.reset(mark)
    semaphore.release()
    empty = semaphore._semaphore.acquire(False)
    semaphore.release()
    again = semaphore._semaphore.acquire(False)

    assert (False, True) == (empty, again)


def test_who_waits_for_an_event_is_freed(parts: Any) -> None:
    """As one does for a connection of a pool that is exhausted; a time-out is the library's own."""
    event = parts.Event()
    with turnctl.turn() as turn:
        exchange = begin("GET http://x/")
        with serving(exchange):
            with pytest.raises(Exception) as caught:
                event.wait(0.01)
            stopped_while(turn, lambda: event._event._cond._waiters, event.wait)

    assert "PoolTimeout" == type(caught.value).__name__
