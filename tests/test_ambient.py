"""Functions without a turn at hand: each obeys the turn of its context, and outside any does what it does anyway."""

from __future__ import annotations

import asyncio
import io
import os
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from standins import BOUND

import turnctl
from turnctl import CancelledError


def held_lock() -> turnctl.Lock:
    lock = turnctl.Lock()
    lock.acquire()
    return lock


def blocked_on_input() -> str:
    read, write = os.pipe()
    before, sys.stdin = sys.stdin, open(read, closefd=False)  # noqa: SIM115 - as Python makes it, closed below
    try:
        return turnctl.input()
    finally:
        sys.stdin.close()
        sys.stdin = before
        os.close(read)
        os.close(write)


def blocked_on_select() -> list[Any]:
    read, write = os.pipe()
    try:
        return turnctl.select([read])
    finally:
        os.close(read)
        os.close(write)


def blocked_in_a_call() -> object:
    free = threading.Event()
    return turnctl.call(free.wait, abort=free.set)


def blocked_in_a_stream() -> list[object]:
    free = threading.Event()

    def source() -> Any:
        free.wait()
        yield 1

    return list(turnctl.stream(source(), close=free.set))


class Nobody:
    """Is asked, and does not answer."""

    def post(self, question: turnctl.Question) -> None: ...

    def withdraw(self, question: turnctl.Question) -> None: ...


BLOCKED: dict[str, Callable[[], object]] = {
    "sleep": lambda: turnctl.sleep(60),
    "wait": lambda: turnctl.wait(threading.Event()),
    "get": lambda: turnctl.get(queue.Queue[int]()),
    "acquire": lambda: turnctl.acquire(held_lock()),
    "as_completed": lambda: list(turnctl.as_completed([Future[int]()])),
    "select": blocked_on_select,
    "call": blocked_in_a_call,
    "stream": blocked_in_a_stream,
    "run": lambda: turnctl.run(["sleep", "60"]),
    "run_coroutine": lambda: turnctl.run_coroutine(asyncio.sleep(60)),
    "ask": lambda: turnctl.ask("go on?", Nobody()),
    "input": blocked_on_input,
}


@pytest.mark.parametrize("name", BLOCKED)
def test_stop_of_the_current_turn_wakes_it(name: str) -> None:
    """Blocked in the turn of its context it raises when that is stopped, with the reason (P1)."""
    found: list[CancelledError] = []
    with turnctl.turn(grace="1s") as turn:
        threading.Timer(0.05, turn.stop, ("enough",)).start()
        try:
            BLOCKED[name]()
        except CancelledError as error:
            found.append(error)
            raise
        finally:
            waited = turn.wait_cancelled(BOUND)

    assert waited
    assert ["enough"] == [error.reason for error in found]
    assert "cancelled" == turn.outcome


@pytest.mark.parametrize("name", BLOCKED)
def test_stopped_turn_lets_nothing_begin(name: str) -> None:
    """With the turn stopped already it raises at once."""
    with turnctl.turn(grace="1s") as turn:
        turn.stop("enough")
        with pytest.raises(CancelledError, match="enough"):
            BLOCKED[name]()


def test_outside_any_turn_they_do_what_they_do_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a turn each is the plain call, with the plain results and the plain timeouts."""
    words: queue.Queue[str] = queue.Queue()
    words.put("one")
    done: Future[int] = Future()
    done.set_result(3)
    monkeypatch.setattr("sys.stdin", io.StringIO("typed\n"))

    turnctl.sleep(0)
    turnctl.check()
    assert "one" == turnctl.get(words)
    with pytest.raises(queue.Empty):
        turnctl.get(words, timeout=0.01)
    assert not turnctl.wait(threading.Event(), timeout=0.01)
    assert [done] == list(turnctl.as_completed([done]))
    lock = threading.Lock()
    assert (True, False) == (turnctl.acquire(lock), turnctl.acquire(lock, timeout=0.01))
    assert 3 == turnctl.call(len, "abc")
    assert ["a", "b"] == list(turnctl.stream(["a", "b"]))
    assert 3 == turnctl.bind(len)("abc")
    assert "typed" == turnctl.input()

    async def seven() -> int:
        return 7

    assert 7 == turnctl.run_coroutine(seven())


def test_call_outside_a_turn_runs_on_the_callers_thread() -> None:
    """There is nothing to race with, so no thread is started for it."""
    assert threading.get_ident() == turnctl.call(threading.get_ident)


def test_bound_function_obeys_its_turn_elsewhere() -> None:
    """A function bound in a turn meets that turn's stop on a plain thread."""
    found: list[BaseException] = []

    def work() -> None:
        try:
            turnctl.sleep(60)
        except CancelledError as error:
            found.append(error)

    with turnctl.turn() as turn:
        thread = threading.Thread(target=turnctl.bind(work))
        thread.start()
        turn.stop("enough")
        thread.join(BOUND)

    assert not thread.is_alive()
    assert ["enough"] == [error.reason for error in found if isinstance(error, CancelledError)]
