"""Locks and semaphores are acquired under a stop, never held by nobody, and our own lock is a lock."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from standins import Background, is_parked, until

import turnctl
from turnctl import BadArgument, CancelledError
from turnctl.testing import call_at
from turnctl.tokens.token import TurnToken
from turnctl.waiting.locks import Lock, acquire


@pytest.fixture
def token() -> TurnToken:
    return TurnToken("t1")


def test_foreign_lock_is_taken_by_a_slice_as_the_stop_arrives(token: TurnToken) -> None:
    """The stop comes after the look and before the slice: True, and the lock is the caller's."""
    lock = threading.Lock()
    lock.acquire()

    def both() -> None:
        lock.release()
        token.cancel()

    with call_at("waiting.slice", both):
        found = acquire(token, lock)
    is_held = lock.locked()
    with pytest.raises(CancelledError):
        acquire(token, lock)

    assert found
    assert is_held


def test_foreign_rlock_is_the_callers(token: TurnToken) -> None:
    """An RLock is acquired on the caller's own thread, so the caller can enter it again and leave it."""
    lock = threading.RLock()
    found = [acquire(token, lock), acquire(token, lock)]
    lock.release()
    lock.release()
    with pytest.raises(RuntimeError):
        lock.release()

    assert [True, True] == found


def test_semaphore_counts(token: TurnToken) -> None:
    """Each acquire takes one; a bounded one can be released as often, and no more."""
    semaphore = threading.BoundedSemaphore(2)
    found = [acquire(token, semaphore), acquire(token, semaphore), acquire(token, semaphore, 0)]
    semaphore.release(2)
    with pytest.raises(ValueError, match="released too many times"):
        semaphore.release()

    assert [True, True, False] == found


def test_semaphore_with_an_acquire_of_its_own() -> None:
    """A class that has changed ``acquire`` is asked by it, in slices."""
    asked: list[int] = []

    class Loud(threading.Semaphore):
        def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:  # type: ignore[override]
            asked.append(1)
            return super().acquire(blocking, timeout)

    found = acquire(None, Loud())

    assert found
    assert [1] == asked


@pytest.mark.parametrize("thing", [object(), 5, None, asyncio.Lock(), asyncio.Semaphore()])
def test_what_is_no_lock_is_refused(token: TurnToken, thing: Any) -> None:
    """The message names what it is and what can be given."""
    with pytest.raises(BadArgument, match=r"cannot wait to acquire .*; give a turnctl.Lock"):
        acquire(token, thing)


# -- our own ------------------------------------------------------------------------------------------------------


def test_our_lock_is_a_lock() -> None:
    """It has the public methods of ``threading.Lock``, and they do the same."""
    lock = Lock()
    names = [name for name in dir(threading.Lock()) if not name.startswith("_") and not name.endswith("_lock")]
    with lock as entered:
        held = (lock.locked(), lock.acquire(False), lock.acquire(timeout=0.01), repr(lock))
    free = (lock.locked(), repr(lock), lock.acquire(), lock.release())
    with pytest.raises(RuntimeError):
        lock.release()
    with pytest.raises(ValueError, match="timeout"):
        lock.acquire(False, 1)
    with pytest.raises(ValueError, match="timeout"):
        lock.acquire(timeout=-2)

    assert [] == [name for name in names if not hasattr(lock, name)]
    assert entered is True
    assert (True, False, False, "<turnctl.Lock held>") == held
    assert (False, "<turnctl.Lock free>", True, None) == free


def test_our_lock_waits_plainly() -> None:
    """Its own acquire is no checkpoint: clean-up of a stopped turn may use it."""
    lock = Lock()
    with turnctl.turn() as turn:
        turn.cancel()
        with lock:
            waiter = Background(lock.acquire)
            assert is_parked(lock._waiters)
        found = waiter.result()
        lock.release()

    assert found


def test_our_lock_serves_a_condition(token: TurnToken) -> None:
    """A ``threading.Condition`` made on it works, and can be acquired without slices."""
    condition = threading.Condition(Lock())
    with turnctl.turn() as turn:
        with condition:
            waiter = Background(turn.acquire, condition)
            assert is_parked(turn.token._grow().waiters)
        found = waiter.result()
        condition.notify()
        condition.release()

    assert found
    assert () == turn.report.notes


@pytest.mark.switchinterval
def test_our_lock_excludes() -> None:
    """Under stops, timeouts and plain holders at most one thread is inside, and nobody stays parked on a free lock."""
    lock = Lock()
    inside: list[int] = []
    worst: list[int] = []
    turns_inside: list[int] = []
    over = threading.Event()

    def enter() -> None:
        inside.append(1)
        worst.append(len(inside))
        inside.pop()
        turns_inside.append(1)
        lock.release()

    def stopped() -> None:
        while not over.is_set():
            one = TurnToken("t")
            timer = threading.Timer(0.0005, one.cancel)
            timer.start()
            try:
                if acquire(one, lock, 0.0007):
                    enter()
            except CancelledError:
                pass
            timer.join()

    def plain() -> None:
        while not over.is_set():
            lock.acquire()
            enter()

    threads = [Background(stopped), Background(stopped), Background(plain), Background(plain)]
    busy = until(lambda: len(turns_inside) > 2000)
    over.set()
    errors = [thread.error() for thread in threads]

    assert busy
    assert 1 == max(worst)
    assert [None] * 4 == errors
    assert not lock.locked()
    assert [] == lock._waiters


def test_our_lock_is_free_in_a_forked_child() -> None:
    """What ``threading`` calls after a fork leaves it free, without waiters."""
    lock = Lock()
    lock.acquire()
    waiter = Background(lock.acquire, True, 10)
    assert is_parked(lock._waiters)
    waiters = list(lock._waiters)
    lock._at_fork_reinit()
    free = not lock.locked()
    for one in waiters:
        one.release()
    taken = waiter.result()

    assert free
    assert taken
