"""Threads of a turn, and what is bound to one: they obey it wherever they run, and are accounted for."""

from __future__ import annotations

import contextvars
import functools
import gc
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from standins import BOUND, Background, until

import turnctl
from turnctl import BadArgument, CancelledError, TurnOver
from turnctl.testing import call_at
from turnctl.waiting.threads import bind

Hooked = list[threading.ExceptHookArgs]


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch) -> Hooked:
    """What came to the thread hook."""
    found: Hooked = []
    monkeypatch.setattr(threading, "excepthook", found.append)
    return found


# -- turn.thread ----------------------------------------------------------------------------------------------------


def test_result_comes_back() -> None:
    """The function runs with its arguments, and its value is there to be asked for, more than once."""
    with turnctl.turn() as turn:
        thread = turn.thread(divmod, 7, 2)
        got = (thread.result(), thread.result("1s"))

    assert ((3, 1), (3, 1)) == got
    assert thread.has_ended
    assert [("thread", "divmod", "completed")] == [(a.kind, a.name, a.state) for a in turn.report.activities]


def test_thread_sees_the_callers_context_and_turn() -> None:
    """Context variables reach it as they were when it was started (Python below 3.14 gives it none)."""
    name = contextvars.ContextVar("name", default="nobody")
    with turnctl.turn() as turn:
        name.set("ann")
        thread = turn.thread(lambda: (name.get(), turnctl.current_turn()), name="look")
        name.set("bob")
        got = thread.result()

    assert ("ann", turn) == got
    assert "look" == thread.name


def test_thread_started_from_outside_obeys_the_turn() -> None:
    """Where nothing, or another turn, is bound the turn's own token is."""
    seen: list[object] = []
    with turnctl.turn() as turn, turnctl.turn() as inner:
        seen.append(turn.thread(turnctl.current_turn).result())
        seen.append(Background(lambda: inner.thread(turnctl.current_turn).result()).result())

    assert [turn, inner] == seen


def test_thread_obeys_the_child_token_of_its_starter() -> None:
    """A limit that the starter is under holds for the thread as well."""
    with turnctl.turn() as turn, turn.child() as child:
        got = turn.thread(turnctl.current_token).result()

    assert child is got


def test_stop_reaches_the_thread() -> None:
    """It raises at its checkpoint at once, quietly, and is accounted for as cancelled."""
    with turnctl.turn() as turn:
        thread = turn.thread(turnctl.sleep, 60)
        began = time.monotonic()
        turn.stop()
        error = Background(thread.result).error()
        took = time.monotonic() - began

    assert isinstance(error, CancelledError)
    assert took < 1
    assert ["cancelled"] == [a.state for a in turn.report.activities]


def test_stopped_turn_starts_nothing() -> None:
    """With the token tripped the function is never called, in the starter or on the way (biased)."""
    ran: list[int] = []
    with turnctl.turn() as turn:
        with call_at("worker.admitted", turn.stop):
            thread = turn.thread(ran.append, 1)
        assert until(lambda: thread.has_ended)
        with pytest.raises(CancelledError):
            turn.thread(ran.append, 2)

    assert [] == ran
    assert ["cancelled"] == [a.state for a in turn.report.activities]


def test_turn_that_is_over_starts_nothing() -> None:
    """Nobody would account for it."""
    with turnctl.turn() as turn:
        pass
    with pytest.raises(TurnOver):
        turn.thread(print)


def test_no_thread_outlives_its_turn() -> None:
    """The end of a turn that completes waits for its threads, within the grace (promise 5)."""
    ended: list[int] = []

    def slow() -> None:
        time.sleep(0.05)
        ended.append(1)

    with turnctl.turn() as turn:
        thread = turn.thread(slow)

    assert [1] == ended
    assert thread.has_ended
    assert "ended" == turn.report.execution


def test_thread_in_foreign_code_is_named() -> None:
    """What does not come back in the grace is left behind: named, counted, its result kept as evidence (promise 5)."""
    go = threading.Event()
    with turnctl.turn(grace=0.05) as turn:
        thread = turn.thread(lambda: go.wait(BOUND) and "late")
        turn.stop()
    report = turn.report
    go.set()

    assert "unproven" == report.execution
    assert 1 == len(report.alive)
    assert "test_threads.py" in report.alive[0] or "threading.py" in report.alive[0]
    assert thread.wait(BOUND)
    assert [("abandoned", "returned")] == [(a.state, a.late) for a in turn.report.activities]


def test_result_is_a_checkpoint_of_the_caller() -> None:
    """Who waits wakes at once when its own turn is stopped; the result stays to be had."""
    go = threading.Event()
    with turnctl.turn() as turn:
        thread = turn.thread(lambda: go.wait(BOUND))
        with turnctl.turn() as inner:
            threading.Timer(0.02, inner.stop).start()
            thread.result()
        go.set()
        got = thread.result()

    assert inner.cancelled
    assert got is True


def test_stop_is_looked_at_before_the_result() -> None:
    """Result and stop both there: the caller is told of the stop (table 6)."""
    with turnctl.turn() as turn:
        thread = turn.thread(int)
        assert thread.wait(BOUND)
        turn.stop()
        error = Background(bind(turn, lambda: None)).error()
        with pytest.raises(CancelledError):
            thread.result()

    assert isinstance(error, CancelledError)
    assert 0 == thread.result()


def test_result_that_is_not_there_in_time() -> None:
    """A timeout is the standard library's error, and names the thread."""
    go = threading.Event()
    with turnctl.turn() as turn:
        thread = turn.thread(go.wait, BOUND, name="slow")
        waited = thread.wait(0.01)
        with pytest.raises(TimeoutError, match="slow"):
            thread.result("10ms")
        text = repr(thread)
        go.set()

    assert not waited
    assert "runs" in text
    assert "has come back" in repr(thread)


def fails() -> None:
    raise ValueError("no")


def test_exception_comes_out_of_result(hooked: Hooked) -> None:
    """Who holds the thread is told by ``result`` and by the report, and nobody else is."""
    with turnctl.turn() as turn:
        thread = turn.thread(fails)
        with pytest.raises(ValueError, match="no"):
            thread.result()

    assert [] == hooked
    assert [("failed", "raised ValueError: no")] == [(a.state, a.detail) for a in turn.report.activities]


@pytest.mark.parametrize("first", ["ended", "gone"])
def test_exception_that_nobody_can_ask_for_goes_to_the_hook(hooked: Hooked, first: str) -> None:
    """A thread that failed and whose handle is gone, in either order, tells once, as a plain thread does."""
    go = threading.Event()

    def body() -> None:
        go.wait(BOUND)
        fails()

    with turnctl.turn() as turn:
        thread = turn.thread(body)
        if first == "ended":
            go.set()
            assert thread.wait(BOUND)
            before = len(hooked)
            del thread
        else:
            del thread
            before = len(hooked)
            go.set()
        assert until(lambda: hooked)

    assert 0 == before
    assert ["ValueError"] == [type(args.exc_value).__name__ for args in hooked]
    assert "turnctl-thread" in hooked[0].thread.name  # type: ignore[union-attr]
    assert ["failed"] == [a.state for a in turn.report.activities]


def test_own_stop_is_quiet(hooked: Hooked) -> None:
    """A thread that ends by its turn's stop is no failure; by another's it is."""
    other = turnctl.turn(inherit=False)
    other.begin()
    with turnctl.turn() as turn:
        ready = threading.Barrier(3)

        def waits(token: Any) -> None:
            ready.wait(BOUND)
            token.wait_cancelled(BOUND)
            token.check()

        turn.thread(waits, turn)
        turn.thread(waits, other)
        ready.wait(BOUND)
        other.stop()
        turn.stop()
        assert until(lambda: hooked)
    other.end()

    assert [other.token] == [args.exc_value.token for args in hooked]  # type: ignore[union-attr]


@pytest.mark.parametrize("thing", [None, 3, "print"])
def test_what_cannot_be_called_is_refused(thing: Any) -> None:
    """A misuse is told before anything is started."""
    with turnctl.turn() as turn:
        for call in (turn.thread, turn.bind):
            with pytest.raises(BadArgument, match="needs a function to call"):
                call(thing)

    assert () == turn.report.activities


def test_functions_that_only_make_something_are_refused() -> None:
    """A coroutine or generator function would run later, elsewhere, unbound."""

    async def coroutine() -> None: ...

    def generator() -> Iterator[int]:
        yield 1

    with turnctl.turn() as turn:
        for call in (turn.thread, turn.bind):
            with pytest.raises(BadArgument, match="run_coroutine"):
                call(coroutine)
            with pytest.raises(BadArgument, match="turn.iterate"):
                call(generator)


# -- bind -----------------------------------------------------------------------------------------------------------


def test_bound_function_obeys_the_turn_anywhere() -> None:
    """In a plain pool, and in several threads at once, checkpoints inside obey the turn."""
    gate = threading.Barrier(4)

    def look(n: int) -> tuple[int, object]:
        gate.wait(BOUND)
        return n, turnctl.current_turn()

    with ThreadPoolExecutor(4) as pool, turnctl.turn() as turn:
        got = [future.result() for future in [pool.submit(turn.bind(look), n) for n in range(4)]]

    assert [(n, turn) for n in range(4)] == got
    assert ["bound"] * 4 == [a.kind for a in turn.report.activities]
    assert ["completed"] * 4 == [a.state for a in turn.report.activities]


def test_tools_in_a_plain_pool_are_stopped_and_the_pool_goes_on() -> None:
    """Eight tools asleep in a pool all raise at once as stopped, not failed; the next turn uses the same pool."""
    asleep = threading.Barrier(9)

    def tool() -> None:
        asleep.wait(BOUND)
        turnctl.sleep(60)

    with ThreadPoolExecutor(8) as pool:
        with turnctl.turn() as turn:
            futures = [pool.submit(turn.bind(tool)) for _ in range(8)]
            asleep.wait(BOUND)
            began = time.monotonic()
            turn.stop()
            errors = [future.exception(BOUND) for future in futures]
            took = time.monotonic() - began
        with turnctl.turn() as later:
            again = pool.submit(later.bind(turnctl.current_turn)).result()

    assert all(isinstance(error, CancelledError) for error in errors)
    assert took < 1
    assert ["cancelled"] * 8 == [a.state for a in turn.report.activities]
    assert later is again


def test_bound_function_runs_in_the_context_of_its_binding() -> None:
    """It sees the variables as they were, and what it sets stays inside, call by call."""
    name = contextvars.ContextVar("name", default="nobody")

    def swap() -> str:
        before = name.get()
        name.set("somebody")
        return before

    with turnctl.turn() as turn:
        name.set("ann")
        bound = turn.bind(swap)
        name.set("bob")
        got = [bound(), Background(bound).result()]

    assert ["ann", "ann"] == got
    assert "bob" == name.get() or "nobody" == name.get()
    assert "swap" in bound.__qualname__


def test_bound_function_of_a_stopped_turn_is_not_called() -> None:
    """Biased: it raises the stop instead; when the turn is over without one, it refuses."""
    ran: list[int] = []
    with turnctl.turn() as turn:
        bound = turn.bind(ran.append)
        turn.stop()
        error = Background(bound, 1).error()
    with turnctl.turn() as other:
        late = other.bind(ran.append)
    refused = Background(late, 2).error()

    assert isinstance(error, CancelledError)
    assert isinstance(refused, TurnOver)
    assert [] == ran


def test_bound_call_in_foreign_code_is_named() -> None:
    """A plain thread of the host's that runs a bound function counts like one of the turn's own."""
    go = threading.Event()
    with turnctl.turn(grace=0.05) as turn:
        thread = Background(turn.bind(lambda: go.wait(BOUND)))
        assert until(lambda: turn.report.activities)
        turn.stop()
    alive = turn.report.alive
    go.set()
    thread.result()

    assert 1 == len(alive)
    assert () == turn.report.alive


def test_bound_call_may_end_its_turn() -> None:
    """It does not wait for itself."""
    turn = turnctl.turn(grace=60)
    turn.begin()
    began = time.monotonic()
    turn.bind(turn.end)()

    assert turn.is_over
    assert time.monotonic() - began < 5


def test_exception_of_a_bound_call_comes_out() -> None:
    """It is the caller's, and in the report."""
    with turnctl.turn() as turn:
        with pytest.raises(ValueError, match="no"):
            turn.bind(fails)()

    assert ["failed"] == [a.state for a in turn.report.activities]


def test_bind_without_a_turn_carries_the_context() -> None:
    """Library code may bind whether or not there is a turn."""
    name = contextvars.ContextVar("name", default="nobody")
    name.set("ann")
    bound = bind(None, name.get)

    assert "ann" == Background(bound).result()


def test_bound_call_keeps_no_result() -> None:
    """A turn with very many bound calls does not hold what they returned."""

    class Big:
        pass

    with turnctl.turn() as turn:
        found = weakref.ref(turn.bind(Big)())
        gc.collect()

        assert found() is None


# -- iterate --------------------------------------------------------------------------------------------------------


def seen(turns: list[object], ends: list[str], count: int = 3) -> Iterator[int]:
    try:
        for n in range(count):
            turns.append(turnctl.current_turn())
            yield n
    finally:
        ends.append("closed")


def elsewhere(fn: Callable[..., Any], *args: Any) -> Any:
    """Run on another thread, in a copy of this context."""
    return Background(functools.partial(contextvars.copy_context().run, fn, *args)).result()


def test_each_item_in_a_context_of_its_own() -> None:
    """Every ``next`` in its own context copy on another thread obeys the turn, and nothing raises."""
    turns: list[object] = []
    ends: list[str] = []
    turn = turnctl.turn()
    turn.begin()
    items = turn.iterate(seen(turns, ends))
    got = [elsewhere(next, items, None) for _ in range(4)]
    turn.end()

    assert [0, 1, 2, None] == got
    assert [turn] * 3 == turns
    assert ["closed"] == ends


def test_with_inside_a_generator_in_foreign_contexts() -> None:
    """A whole ``with turn()`` whose steps ran in fresh contexts on other threads is left without an error."""

    def source() -> Iterator[object]:
        with turnctl.turn() as turn:
            for item in turn.iterate(seen([], [])):
                yield item, turn
            with turn.child() as child:
                yield child, turn

    generator = source()
    items = [elsewhere(next, generator) for _ in range(4)]
    with pytest.raises(StopIteration):
        next(generator)
    turn = items[0][1]

    assert [0, 1, 2] == [item for item, _ in items[:3]]
    assert ("completed", True) == (turn.outcome, turn.is_over)


def test_bindings_inside_the_source_hold_from_item_to_item() -> None:
    """The source has one context from its first step to its last."""
    found: list[bool] = []

    def source() -> Iterator[int]:
        with turn.child() as child:
            for n in range(3):
                found.append(turnctl.current_token() is child)
                yield n

    with turnctl.turn() as turn:
        items = turn.iterate(source())
        for _ in range(4):
            elsewhere(next, items, None)

    assert [True] * 3 == found


def test_stop_comes_before_the_next_item() -> None:
    """It is a checkpoint before each item, and closes the source once."""
    turns: list[object] = []
    ends: list[str] = []
    with turnctl.turn() as turn:
        source = seen(turns, ends)  # held here, so that nobody else closes it
        items = turn.iterate(source)
        next(items)
        turn.stop()
        with pytest.raises(CancelledError):
            next(items)

    assert [turn] == turns
    assert ["closed"] == ends


def test_source_is_closed_when_the_iterator_is() -> None:
    """Left early or forgotten, a generator is closed, and a file of the host's is not."""
    ends: list[str] = []

    class File:
        closed = False

        def __iter__(self) -> File:
            return self

        def __next__(self) -> int:
            return 1

        def close(self) -> None:
            self.closed = True

    file = File()
    with turnctl.turn() as turn:
        source = seen([], ends)
        for _ in turn.iterate(source):
            break
        gc.collect()
        for _ in turn.iterate(file):
            break
        gc.collect()

    assert ["closed"] == ends
    assert not file.closed


def test_source_is_closed_though_nothing_was_asked_for() -> None:
    """Closing the iterator before its first item closes a source that has begun elsewhere, in the turn's context."""
    closed: list[bool] = []

    def items() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            closed.append(turnctl.current_turn() is turn)

    with turnctl.turn() as turn:
        source = items()
        next(source)
        iterator = turn.iterate(source)
        iterator.close()  # type: ignore[attr-defined]

    assert [True] == closed


def test_what_cannot_be_iterated_is_refused() -> None:
    """A misuse is told at once, not with the first item."""
    with turnctl.turn() as turn, pytest.raises(BadArgument, match="iterate over"):
        turn.iterate(3)  # type: ignore[arg-type]


# -- the process ----------------------------------------------------------------------------------------------------


def test_process_exits_with_everything_parked() -> None:
    """A live turn with bridges, a thread and a job asleep in C code keeps no process from exiting."""
    code = """
        import socket, threading, time, turnctl
        turn = turnctl.turn()
        turn.begin()
        turn.on_cancel(print)
        turn.bridge_fd()
        turn.bridge_event(threading.Event())
        asleep = threading.Barrier(3)
        def tool():
            asleep.wait(10)
            time.sleep(60)
        thread = turn.thread(tool)
        pool = turn.executor(1)
        job = pool.submit(tool)
        waiting = pool.submit(tool)
        asleep.wait(10)
        print("ready", flush=True)
    """
    program = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    with program:
        assert program.stdout is not None
        ready = program.stdout.readline()
        began = time.monotonic()
        status = program.wait(BOUND)
        took = time.monotonic() - began

    assert "ready\n" == ready
    assert 0 == status
    assert took < 5
