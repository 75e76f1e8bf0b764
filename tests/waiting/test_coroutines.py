"""Asyncio under a turn: the stop becomes an event of the loop, or cancels the coroutine, and changes its class."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from standins import BOUND, Background, until

import turnctl
from turnctl import BadArgument, CancelledError, Turn, TurnOver
from turnctl.testing import call_at, pause_at
from turnctl.waiting.coroutines import _Running, run_coroutine

T = TypeVar("T")


async def within(awaitable: Coroutine[Any, Any, T]) -> T:
    return await asyncio.wait_for(awaitable, BOUND)


# -- the event ------------------------------------------------------------------------------------------------------


def test_event_is_set_by_a_stop_from_outside() -> None:
    """A coroutine that waits for it goes on when another thread stops the turn."""

    async def body(turn: Turn) -> bool:
        event = turn.bridge_asyncio()
        asyncio.get_running_loop().call_soon(threading.Thread(target=turn.stop).start)
        await within(event.wait())
        return event.is_set()

    with turnctl.turn() as turn:
        got = asyncio.run(body(turn))

    assert got


def test_event_of_a_stopped_turn_is_set_already() -> None:
    """Stop, then bridge: set when the call returns, with nothing posted."""
    with turnctl.turn() as turn:
        turn.stop()
        loop = asyncio.new_event_loop()
        event = turn.bridge_asyncio(loop)
        loop.close()

        assert event.is_set()
        assert not event.release()


def test_stop_while_the_event_is_listed() -> None:
    """A stop between listing and reading the token is posted to the loop."""
    with turnctl.turn() as turn:
        loop = asyncio.new_event_loop()
        with call_at("bridge.listed", turn.stop):
            event = turn.bridge_asyncio(loop)
        loop.run_until_complete(within(event.wait()))
        loop.close()

        assert event.is_set()


def test_end_without_a_stop_leaves_it_unset() -> None:
    """The bridge ends with the turn without reporting a cancel, and its thread with it (promise 5)."""
    before = threading.active_count()
    loop = asyncio.new_event_loop()
    with turnctl.turn() as turn:
        event = turn.bridge_asyncio(loop)
    after = threading.active_count()
    turn.stop()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()

    assert not event.is_set()
    assert before == after


def test_closed_loop_is_harmless() -> None:
    """Nothing is posted to it, nothing raised or reported, and the next bridge is signalled."""
    event = threading.Event()
    with turnctl.turn() as turn:
        loop = asyncio.new_event_loop()
        turn.bridge_asyncio(loop)
        turn.bridge_event(event)
        loop.close()
        turn.stop()

    assert event.is_set()
    assert () == turn.report.notes


class ClosesLate(asyncio.SelectorEventLoop):
    """A loop that closes between the question and the post."""

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> Any:
        self.close()
        return super().call_soon_threadsafe(*args, **kwargs)


class Fails(asyncio.SelectorEventLoop):
    """A loop that cannot post although it is open."""

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no room")


@pytest.mark.parametrize(("kind", "told"), [(ClosesLate, 0), (Fails, 1)])
def test_only_the_error_of_a_closed_loop_is_harmless(kind: type[asyncio.SelectorEventLoop], told: int) -> None:
    """Another ``RuntimeError`` of the loop is in the report."""
    with turnctl.turn() as turn:
        loop = kind()
        turn.bridge_asyncio(loop)
        turn.stop()
    loop.close()

    assert told == len([note for note in turn.report.notes if "bridge failed" in note])


def test_released_event_is_not_set() -> None:
    """``release`` takes it off the turn before the turn is over."""
    loop = asyncio.new_event_loop()
    with turnctl.turn() as turn:
        event = turn.bridge_asyncio(loop)
        released = event.release()
        turn.stop()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()

    assert released
    assert not event.is_set()


@pytest.mark.parametrize("stop", [False, True])
def test_event_of_a_turn_that_is_over_is_refused(stop: bool) -> None:
    """Nothing would carry a stop to it."""
    with turnctl.turn() as turn:
        if stop:
            turn.stop()
    loop = asyncio.new_event_loop()
    with pytest.raises(TurnOver):
        turn.bridge_asyncio(loop)
    loop.close()


def test_event_needs_a_loop() -> None:
    """Off a loop's thread the loop has to be named."""
    with turnctl.turn() as turn:
        with pytest.raises(BadArgument, match="no running loop"):
            turn.bridge_asyncio()
        with pytest.raises(BadArgument, match="needs an event loop"):
            turn.bridge_asyncio("loop")  # type: ignore[arg-type]


@pytest.mark.parametrize("times", [20, pytest.param(1000, marks=pytest.mark.stress)])
def test_bridged_calls_leave_no_thread(times: int) -> None:
    """Sequential bridged calls, half of them stopped: threads at baseline, no error of a closed loop."""
    before = threading.active_count()
    took: list[float] = []

    async def body(turn: Turn, stop: bool) -> None:
        event = turn.bridge_asyncio()
        if stop:
            threading.Thread(target=turn.stop).start()
            began = time.perf_counter()
            await within(event.wait())
            took.append(time.perf_counter() - began)

    for n in range(times):
        with turnctl.turn("slot") as turn:
            asyncio.run(body(turn, n % 2 == 0))

        assert () == turn.report.notes

    assert before == threading.active_count()
    assert times // 2 == len(took)
    assert sorted(took)[len(took) // 2] < 0.1  # far below any poll that would be worth its while


# -- coroutines -----------------------------------------------------------------------------------------------------


def test_value_comes_out() -> None:
    """A coroutine that is not stopped gives its value, and is accounted for under its name."""

    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    with turnctl.turn() as turn:
        got = turn.run_coroutine(answer(), name="question")

    assert 42 == got
    assert [("question", "completed")] == [(a.name, a.state) for a in turn.report.activities]


def test_stop_from_outside_cancels_the_coroutine() -> None:
    """Inside it is asyncio's ``CancelledError``, outside ours, which has the other as its cause."""
    inside: list[BaseException] = []
    started = threading.Event()

    async def body() -> None:
        try:
            started.set()
            await asyncio.sleep(60)
        except asyncio.CancelledError as error:
            inside.append(error)
            raise

    with turnctl.turn() as turn:
        running = Background(run_coroutine, turn, body())
        assert started.wait(BOUND)
        began = time.monotonic()
        turn.stop("enough")
        error = running.error()
        took = time.monotonic() - began

    assert isinstance(error, CancelledError)
    assert turn.token is error.token
    assert error.late is not None
    assert isinstance(error.late.error, CancelledError)
    assert isinstance(error.late.error.__cause__, asyncio.CancelledError)
    assert "enough" in str(inside[0])
    assert took < 1
    assert ["cancelled"] == [a.state for a in turn.report.activities]


def test_result_after_the_stop_is_kept_and_not_returned() -> None:
    """A coroutine that finishes all the same gives no value: it is evidence."""
    started = threading.Event()

    async def body() -> str:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
        return "done anyway"

    with turnctl.turn() as turn:
        running = Background(run_coroutine, turn, body())
        assert started.wait(BOUND)
        turn.stop()
        error = running.error()

    assert isinstance(error, CancelledError)
    assert error.late is not None
    assert "done anyway" == error.late.value


def test_stopped_before_it_began_never_runs() -> None:
    """It is closed without having run, and nothing complains that it was not awaited."""
    ran: list[int] = []

    async def body() -> None:
        ran.append(1)

    with turnctl.turn() as turn:
        turn.stop()
        with pytest.raises(CancelledError):
            run_coroutine(turn, body())

    assert [] == ran


def test_stop_while_the_worker_starts_is_not_missed() -> None:
    """A stop before there is a task cancels it when there is one, or it never runs."""

    async def body() -> None:
        await asyncio.sleep(60)

    with turnctl.turn() as turn:
        began = time.monotonic()
        with call_at("worker.admitted", turn.stop), pytest.raises(CancelledError):
            run_coroutine(turn, body())
        took = time.monotonic() - began

    assert took < 2


def test_stop_before_there_is_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop that comes when the loop runs and the task is not yet made cancels the task when it is."""
    asked = threading.Event()
    cancel = _Running.cancel

    def told(running: _Running[Any]) -> None:
        cancel(running)
        asked.set()

    monkeypatch.setattr(_Running, "cancel", told)

    async def body() -> None:
        await asyncio.sleep(60)

    with turnctl.turn() as turn:
        with pause_at("coroutine.starting") as held:
            running = Background(run_coroutine, turn, body())
            assert held.reached.wait(BOUND)
            turn.stop()
            assert asked.wait(BOUND)
            began = time.monotonic()
            held.release()
            error = running.error()
            took = time.monotonic() - began

    assert isinstance(error, CancelledError)
    assert took < 2


def test_own_exception_passes_out() -> None:
    """What the coroutine raises is the caller's, its own asyncio ``CancelledError`` included."""

    async def fails() -> None:
        raise ValueError("no")

    async def cancels_itself() -> None:
        raise asyncio.CancelledError("mine")

    with turnctl.turn() as turn:
        with pytest.raises(ValueError, match="no"):
            run_coroutine(turn, fails())
        with pytest.raises(asyncio.CancelledError):
            run_coroutine(turn, cancels_itself())

    assert "completed" == turn.outcome


def test_checkpoint_in_a_task_group_comes_out_as_one_stop() -> None:
    """A group of nothing but stops is a stop; asyncio would leave it a group."""
    started = threading.Event()

    async def task(turn: Turn) -> None:
        started.set()
        while True:
            turn.check()
            await asyncio.sleep(0.001)

    async def body(turn: Turn) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(task(turn))
            group.create_task(task(turn))

    with turnctl.turn() as turn:
        running = Background(run_coroutine, turn, body(turn))
        assert started.wait(BOUND)
        turn.stop()
        error = running.error()

    assert isinstance(error, CancelledError)


def test_coroutine_sees_the_callers_context() -> None:
    """Context variables and the turn reach the coroutine and its tasks."""
    name = contextvars.ContextVar("name", default="nobody")

    async def body() -> tuple[str, object]:
        async def inner() -> tuple[str, object]:
            return name.get(), turnctl.current_turn()

        return await asyncio.create_task(inner())

    with turnctl.turn() as turn:
        name.set("ann")
        got = run_coroutine(turn, body())

    assert ("ann", turn) == got


def test_coroutine_obeys_a_child_token() -> None:
    """The limit of an inner ``with turn.child(timeout=...)`` cancels it, and passes out there."""

    async def body() -> None:
        await asyncio.sleep(60)

    with turnctl.turn() as turn:
        with turn.child(timeout=0.02) as child:
            run_coroutine(turn, body())

    assert child.cancelled
    assert "completed" == turn.outcome


def test_thread_with_a_running_loop_is_refused() -> None:
    """It would block that loop, whose own tasks could not go on."""

    async def inner() -> None:
        pass

    async def body(turn: Turn) -> None:
        with pytest.raises(BadArgument, match="would block the event loop"):
            run_coroutine(turn, inner())

    with turnctl.turn() as turn:
        asyncio.run(body(turn))


@pytest.mark.parametrize("thing", [None, 3, run_coroutine])
def test_what_is_no_coroutine_is_refused(thing: Any) -> None:
    """An async function that was not called is the usual slip."""
    with turnctl.turn() as turn, pytest.raises(BadArgument, match="call the async function first"):
        run_coroutine(turn, thing)


def test_coroutine_that_blocks_its_loop_is_left_and_named() -> None:
    """It cannot be cancelled, so after the grace it is abandoned and the report says so (promise 5)."""
    started, go = threading.Event(), threading.Event()

    async def blocks() -> None:
        started.set()
        go.wait(BOUND)

    with turnctl.turn(grace=0.05) as turn:
        running = Background(run_coroutine, turn, blocks())
        assert started.wait(BOUND)
        turn.stop()
        error = running.error()
    alive = turn.report.alive
    go.set()

    assert isinstance(error, CancelledError)
    assert 1 == len(alive)
    assert "blocks" in alive[0]
    assert until(lambda: not turn.report.alive)
