"""A blocking call raced with the stop: each row of the table, and what is left when the function does not come back."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import gc
import os
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from standins import BOUND, Background, ctrl_c_once, is_parked, until

import turnctl
from turnctl import BadArgument, CancelledError, TurnOver
from turnctl.errors import TooManyAbandoned
from turnctl.testing import call_at, pause_at
from turnctl.waiting import abandoned


class Blocking:
    """A function that blocks in C code until it is let go, and says when it is in there."""

    def __init__(self, value: Any = "late") -> None:
        self.value = value
        self.inside = threading.Event()
        self.gate = threading.Event()
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        self.inside.set()
        assert self.gate.wait(BOUND)
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


@pytest.fixture
def blocking() -> Iterator[Blocking]:
    """One, which is let go at the end of the test at the latest."""
    made = Blocking()
    yield made
    made.gate.set()


def started(turn: turnctl.Turn, fn: Any, *args: Any, **options: Any) -> Background[Any]:
    """A call of ``fn`` by another thread, which is running when this returns."""
    calling = Background(lambda: turn.call(fn, *args, **options))
    assert fn.inside.wait(BOUND)
    return calling


def only_activity(turn: turnctl.Turn) -> Any:
    (found,) = turn.report.activities
    return found


# -- without a stop ---------------------------------------------------------------------------------------------------


def test_call_returns_what_the_function_returns() -> None:
    """Arguments go in, the value comes out, the account says completed."""
    with turnctl.turn() as turn:
        assert {"a": 1, "abort_": 2} == turn.call(dict, a=1, abort_=2)

    found = only_activity(turn)
    assert ("call", "dict", "completed", None) == (found.kind, found.name, found.state, found.late)


def test_call_raises_what_the_function_raises() -> None:
    """The same exception, with the line it came from; the account says failed."""
    error = KeyError("x")

    def fails() -> None:
        raise error

    with turnctl.turn() as turn:
        with pytest.raises(KeyError) as raised:
            turn.call(fails)

    assert error is raised.value
    assert "fails" in [entry.name for entry in raised.traceback]
    assert ("failed", "raised KeyError: 'x'") == (only_activity(turn).state, only_activity(turn).detail)


def test_stop_iteration_of_the_function_passes() -> None:
    """It is an exception like any other, also where the call may be interrupted."""
    with turnctl.turn() as turn:
        for interrupt in (False, True):
            with pytest.raises(StopIteration):
                turn.call(next, iter(()), interrupt=interrupt)


def test_call_carries_the_context_of_the_caller() -> None:
    """Context variables and the turn are those of the caller; the thread is not."""
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("mine")
    with turnctl.turn() as turn:
        seen = turn.call(lambda: (variable.get(), turnctl.current_turn(), threading.current_thread().daemon))

        assert ("mine", turn, True) == seen
    assert threading.main_thread() is threading.current_thread()


def test_call_leaves_no_thread_when_it_returns() -> None:
    """The thread is gone with the call, not some time later."""
    before = threading.active_count()
    with turnctl.turn() as turn:
        for _ in range(50):
            turn.call(int)

            assert before == threading.active_count()


def test_call_without_a_turn_is_plain() -> None:
    """It runs on the caller's thread."""
    from turnctl.waiting.call import call

    assert threading.get_ident() == call(None, threading.get_ident, (), {})


def test_result_of_a_call_is_not_kept_by_its_turn() -> None:
    """A long turn with many calls does not hold what they returned."""

    class Big:
        pass

    with turnctl.turn() as turn:
        ref = weakref.ref(turn.call(Big))
        gc.collect()

        assert ref() is None


async def a_coroutine() -> int:
    return 1


def a_generator() -> Iterator[int]:
    yield 1


async def an_async_generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("args", "options", "words"),
    [
        ((3,), {}, "needs a function to call, not 3"),
        ((int,), {"abort": 3}, "abort must be a function without arguments or None, not 3"),
        ((int,), {"interrupt": "no"}, "interrupt is True or False, not 'no'"),
        ((int,), {"interrupt": None}, "interrupt is True or False, not None"),
        ((a_coroutine,), {}, "only makes a coroutine"),
        ((functools.partial(a_coroutine),), {}, "only makes a coroutine"),
        ((a_generator,), {}, r"only makes a generator; use turn.stream\(fn\(...\)\)"),
        ((functools.partial(a_generator),), {}, "only makes a generator"),
        ((an_async_generator,), {}, "only makes a coroutine"),
        ((int,), {"prefer": "both"}, "unknown prefer 'both'; use cancel or result"),
    ],
)
def test_misuse_of_call_is_refused(args: Any, options: Any, words: str) -> None:
    """Before anything is started, with what to do instead."""
    with turnctl.turn() as turn:
        with pytest.raises(BadArgument, match=words):
            turn.call(*args, **options)

    assert () == turn.report.activities


# -- table 7, in its order --------------------------------------------------------------------------------------------


def test_stopped_turn_starts_no_call(blocking: Blocking) -> None:
    """Stop, then call: the function is never started."""
    with turnctl.turn() as turn:
        turn.cancel()
        with pytest.raises(CancelledError) as raised:
            turn.call(blocking)

        assert raised.value.late is None
    assert 0 == blocking.calls
    assert () == turn.report.activities


def test_stop_between_the_look_and_the_start(blocking: Blocking) -> None:
    """The thread looks once more: a function that was stopped before it began does not begin."""
    with turnctl.turn() as turn:
        with call_at("worker.admitted", turn.cancel):
            with pytest.raises(CancelledError):
                turn.call(blocking)

    assert 0 == blocking.calls
    assert "cancelled" == only_activity(turn).state


def test_result_then_stop_gives_the_result() -> None:
    """The call is through; the next checkpoint raises."""
    with turnctl.turn() as turn:
        value = turn.call(int, "7")
        turn.cancel()
        with pytest.raises(CancelledError):
            turn.check()

    assert 7 == value
    assert "completed" == only_activity(turn).state


@pytest.mark.parametrize("prefer", ["cancel", "result"])
def test_result_and_stop_both_there(blocking: Blocking, prefer: Any) -> None:
    """``prefer`` decides what is given; the loser is kept."""
    blocking.gate.set()
    with turnctl.turn() as turn:
        with call_at("call.looking", turn.cancel):
            if prefer == "result":
                assert "late" == turn.call(blocking, prefer=prefer)
            else:
                with pytest.raises(CancelledError) as raised:
                    turn.call(blocking, prefer=prefer)

                assert (True, "late", None) == (
                    raised.value.late.is_done,
                    raised.value.late.value,
                    raised.value.late.error,
                )

    found = only_activity(turn)
    assert "completed" == found.state
    late = None if prefer == "result" else "its value came together with the stop and was not given"
    assert late == found.late


def test_abort_unblocks_the_function() -> None:
    """Stop, abort, the function comes back with an error: that is the cause and in ``late``."""
    near, far = socket.socketpair()
    with near, far, turnctl.turn(grace=60) as turn:
        inside = threading.Event()

        def receive() -> bytes:
            inside.set()
            data = near.recv(1)
            if not data:
                raise ConnectionError("cut")
            return data

        calling = Background(lambda: turn.call(receive, abort=lambda: near.shutdown(socket.SHUT_RDWR)))
        assert inside.wait(BOUND)
        stopped_at = time.monotonic()
        turn.stop("enough")
        error = calling.error()

        assert isinstance(error, CancelledError)
        assert ("enough", "ConnectionError('cut')") == (error.reason, repr(error.__cause__))
        assert error.late is not None
        assert error.__cause__ is error.late.error
        assert calling.ended_at is not None
        assert calling.ended_at - stopped_at < 1
    found = only_activity(turn)
    assert ("cancelled", "raised ConnectionError after the stop: cut") == (found.state, found.detail)


def test_value_that_comes_in_the_grace_is_late(blocking: Blocking) -> None:
    """Stop, the function comes back in the grace with a value: it is kept and not returned, whatever is preferred."""
    with turnctl.turn(grace=60) as turn:
        calling = started(turn, blocking, prefer="result")
        with pause_at("call.ending") as held:
            turn.cancel()
            assert held.reached.wait(BOUND)
            blocking.gate.set()
        error = calling.error()

        assert isinstance(error, CancelledError)
        assert error.late is not None
        assert "late" == error.late.value
        assert error.__cause__ is None
    found = only_activity(turn)
    assert ("cancelled", "returned a value (str) after the stop") == (found.state, found.late)


def test_call_that_does_not_come_back_is_left_behind(blocking: Blocking) -> None:
    """Stop, grace over, no interrupt: named with its line, counted, and its value is evidence later."""
    with turnctl.turn(grace=0.05) as turn:
        calling = started(turn, blocking)
        turn.cancel()
        error = calling.error()

        assert isinstance(error, CancelledError)
        assert error.late is not None
        assert (False, None) == (error.late.is_done, error.late.value)
        assert 1 == abandoned.count()
    found = only_activity(turn)
    assert "abandoned" == found.state
    assert "did not come back within the grace" in found.detail
    assert "Blocking" in turn.report.alive[0]
    assert "threading.py:" in turn.report.alive[0]
    assert "unproven" == turn.report.execution

    blocking.gate.set()
    assert error.late.wait(BOUND)
    assert "late" == error.late.value
    assert until(lambda: turn.report.alive == ())
    assert "returned a value (str) after the stop" == only_activity(turn).late
    assert ("abandoned", "ended", 0) == (only_activity(turn).state, turn.report.execution, abandoned.count())


def test_function_that_sees_the_stop_itself() -> None:
    """The function raises ``CancelledError`` at a checkpoint of its own: that one is raised."""
    inside = threading.Event()
    seen: list[BaseException] = []

    def work() -> None:
        inside.set()
        try:
            turnctl.sleep(60)
        except CancelledError as error:
            seen.append(error)
            raise

    with turnctl.turn(grace=60) as turn:
        calling = Background(lambda: turn.call(work))
        assert inside.wait(BOUND)
        turn.cancel()

        assert calling.error() is seen[0]
    found = only_activity(turn)
    assert ("cancelled", None) == (found.state, found.late)


def test_error_and_stop_both_there(blocking: Blocking) -> None:
    """Whatever is preferred the stop is raised, from the error; the turn notes it."""
    blocking.value = OSError("broken")
    blocking.gate.set()
    with turnctl.turn() as turn:
        with call_at("call.looking", turn.cancel):
            with pytest.raises(CancelledError) as raised:
                turn.call(blocking, prefer="result")

    assert blocking.value is raised.value.__cause__
    assert "failed" == only_activity(turn).state
    assert "raised while stopping: call Blocking: OSError: broken" in turn.report.notes


def leave_behind(blocking: Blocking) -> None:
    """One more call that does not come back."""
    blocking.inside.clear()
    with turnctl.turn(grace=0) as turn:
        calling = started(turn, blocking)
        turn.cancel()

        assert isinstance(calling.error(), CancelledError)


def test_too_many_calls_left_behind(blocking: Blocking) -> None:
    """At the limit a call is refused before it starts; from half of it on each call warns."""
    before = abandoned.set_limit(3)
    try:
        for _ in range(2):
            leave_behind(blocking)
        assert (2, 2) == (abandoned.count(), blocking.calls)
        with turnctl.turn() as turn:
            with pytest.warns(RuntimeWarning, match="2 calls that were stopped have not come back; at 3 no new"):
                assert 4 == turn.call(int, "4")

            assert 3 == abandoned.set_limit(2)
            with pytest.raises(TooManyAbandoned, match=r"call of Blocking is not started: 2 calls") as raised:
                turn.call(blocking)

            assert (2, 2, 2) == (blocking.calls, raised.value.count, raised.value.limit)
            abandoned.set_limit(None)
            assert 5 == turn.call(int, "5")
    finally:
        abandoned.set_limit(before)
        blocking.gate.set()
    assert until(lambda: abandoned.count() == 0)


# -- around the table -------------------------------------------------------------------------------------------------


def test_second_stop_shortens_the_grace(blocking: Blocking) -> None:
    """A call that is in its grace hears of a shorter one, before the end of the turn and in it."""
    for late in (False, True):
        one = Blocking()
        with turnctl.turn(grace=60) as turn:
            calling = started(turn, one)
            if late:
                ending = Background(turn.end)
                assert until(lambda t=turn: t.outcome is not None)  # type: ignore[misc]
            else:
                with pause_at("call.ending") as held:
                    turn.cancel()
                    assert held.reached.wait(BOUND)
            assert is_parked(turn.activities.all()[0].owned.waiters)  # type: ignore[union-attr]
            turn.cancel(level="kill")

            assert isinstance(calling.error(), TurnOver if late else CancelledError)
            if late:
                ending.result()
        assert "abandoned" == only_activity(turn).state
        one.gate.set()


def test_failing_abort_is_reported(blocking: Blocking) -> None:
    """Its error is in the report and changes nothing else."""

    def abort() -> None:
        blocking.gate.set()
        raise ValueError("no socket")

    with turnctl.turn(grace=60) as turn:
        calling = started(turn, blocking, abort=abort)
        turn.cancel()

        assert isinstance(calling.error(), CancelledError)
    assert any("failed: ValueError: no socket" in note for note in turn.report.notes)


def test_abort_that_blocks_delays_nothing_further(blocking: Blocking) -> None:
    """It has the grace like the function; then it is named and the call goes on."""
    abort = Blocking()
    with turnctl.turn(grace=0.05) as turn:
        calling = started(turn, blocking, abort=abort)
        turn.cancel()

        assert isinstance(calling.error(), CancelledError)
        assert 2 == abandoned.count()
    assert any("abort of call" in note and "has not come back" in note for note in turn.report.notes)
    abort.gate.set()
    blocking.gate.set()
    assert until(lambda: abandoned.count() == 0)


def test_abort_that_blocks_is_named_at_the_end(blocking: Blocking) -> None:
    """Both threads are in the report, as long as they run."""
    abort = Blocking()
    with turnctl.turn(grace=0.05) as turn:
        calling = started(turn, blocking, abort=abort)
        turn.cancel()
        assert isinstance(calling.error(), CancelledError)

    assert 2 == len(turn.report.alive)
    assert "thread abort of Blocking (" in turn.report.alive[1]
    blocking.gate.set()
    assert until(lambda: len(turn.report.alive) == 1)
    assert "unproven" == turn.report.execution
    abort.gate.set()
    assert until(lambda: turn.report.alive == ())
    assert "ended" == turn.report.execution


def test_abort_that_blocks_holds_no_function_that_is_back(blocking: Blocking) -> None:
    """The call raises at once; the abort is the turn's, whose end gives it the grace and names it."""
    abort = Blocking()

    def unblock() -> None:
        blocking.gate.set()
        abort()

    with turnctl.turn(grace=60) as turn:
        calling = started(turn, blocking, abort=unblock)
        stopped_at = time.monotonic()
        turn.cancel()
        error = calling.error()

        assert isinstance(error, CancelledError)
        assert error.late is not None
        assert "late" == error.late.value
        assert calling.ended_at is not None
        assert calling.ended_at - stopped_at < 1
        turn.cancel(level="kill")  # the rest of the grace, at the end of the turn
    called, aborting = turn.report.activities
    assert ("cancelled", "abort", "abandoned") == (called.state, aborting.kind, aborting.state)
    assert "thread abort of Blocking (" in turn.report.alive[0]
    assert "unproven" == turn.report.execution
    abort.gate.set()
    assert until(lambda: turn.report.alive == ())


def test_abort_that_takes_long_is_waited_for_by_the_turn(blocking: Blocking) -> None:
    """One that comes back within the grace has ended with the turn."""
    abort = Blocking()

    def unblock() -> None:
        blocking.gate.set()
        abort()

    with turnctl.turn(grace=60) as turn:
        calling = started(turn, blocking, abort=unblock)
        turn.cancel()
        assert isinstance(calling.error(), CancelledError)
        threading.Timer(0.05, abort.gate.set).start()

    called, aborting = turn.report.activities
    assert ("cancelled", "abort", "completed") == (called.state, aborting.kind, aborting.state)
    assert ((), "ended") == (turn.report.alive, turn.report.execution)


@pytest.mark.parametrize("by", ["caller", "end of the turn"])
def test_strike_between_the_claim_and_the_abort(blocking: Blocking, by: str) -> None:
    """A Ctrl-C as its thread is about to start leaves the abort to whoever comes next, once."""
    aborted: list[int] = []

    def abort() -> None:
        aborted.append(1)
        blocking.gate.set()

    def strike() -> None:
        raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt), turnctl.turn(grace=60) as turn:
        with call_at("call.aborting", strike):
            calling = started(turn, blocking, abort=abort)
            if by == "caller":
                turn.cancel()
                assert isinstance(calling.error(), KeyboardInterrupt)
                assert [] == aborted
            turn.end()

    assert isinstance(calling.error(), KeyboardInterrupt if by == "caller" else type(None))  # it has its value
    assert [1] == aborted
    assert "ended" == turn.report.execution


def test_abort_runs_once_and_is_no_checkpoint(blocking: Blocking) -> None:
    """It runs outside the stopped turn, so clean-up in it does not raise; nobody runs it twice."""
    seen: list[object] = []

    def abort() -> None:
        turnctl.check()
        seen.append(turnctl.current_turn())

    with turnctl.turn(grace=0.05) as turn:
        calling = Background(contextvars.copy_context().run, lambda: turn.call(blocking, abort=abort))
        assert blocking.inside.wait(BOUND)
        turn.cancel()
        assert isinstance(calling.error(), CancelledError)

    assert [None] == seen
    assert () == tuple(note for note in turn.report.notes if "abort" in note)


def test_call_under_a_shield_goes_on(blocking: Blocking) -> None:
    """The stop waits for the end of the shield; a value that comes before is given."""
    with turnctl.turn(grace=60) as turn:

        def work() -> object:
            with turn.shield(BOUND):
                return turn.call(blocking)

        calling = Background(work)
        assert blocking.inside.wait(BOUND)
        turn.cancel()
        blocking.gate.set()
        error = calling.error()

        assert isinstance(error, CancelledError)
        assert error.late is None  # raised at the end of the shield, not by the call
    assert "completed" == only_activity(turn).state


def test_stop_strikes_when_the_shield_is_over(blocking: Blocking) -> None:
    """The limit of a shield ends the wait as if the stop came then."""
    with turnctl.turn(grace=0) as turn:

        def work() -> object:
            with turn.shield(0.1):
                return turn.call(blocking)

        calling = Background(work)
        assert blocking.inside.wait(BOUND)
        turn.cancel()
        error = calling.error()

        assert isinstance(error, CancelledError)
        assert error.late is not None
    assert "abandoned" == only_activity(turn).state


def test_nested_call_ends_from_the_inside(blocking: Blocking) -> None:
    """Only the innermost is left behind; the one around it comes back with the stop."""
    with turnctl.turn(grace=0.1) as turn:
        calling = Background(lambda: turn.call(lambda: turn.call(blocking)))
        assert blocking.inside.wait(BOUND)
        turn.cancel()

        assert isinstance(calling.error(), CancelledError)
    outer, inner = turn.report.activities
    assert ("cancelled", "abandoned") == (outer.state, inner.state)


def test_child_token_stops_a_call_in_it(blocking: Blocking) -> None:
    """A call inside ``with turn.child(timeout=)`` obeys that timeout; the turn goes on."""
    with turnctl.turn(grace=0.05) as turn:
        with turn.child(timeout=0.05) as child:
            turn.call(blocking)

        assert ("deadline", False) == (child.cause, turn.cancelled)
        assert 3 == turn.call(int, "3")


def test_call_of_a_turn_that_is_over_is_refused() -> None:
    """Decided without a stop: ``TurnOver``, and nothing is started."""
    with turnctl.turn() as turn:
        pass
    with pytest.raises(TurnOver):
        turn.call(int)


def test_turn_that_ends_around_a_call(blocking: Blocking) -> None:
    """A call on another thread is ended with the turn; without a stop it says so, or gives what came in the grace."""
    for comes in (True, False):
        one = Blocking()
        aborted: list[int] = []

        def abort(comes: bool = comes, one: Blocking = one, aborted: list[int] = aborted) -> None:
            aborted.append(1)
            if comes:
                one.gate.set()

        with turnctl.turn(grace=60 if comes else 0.05) as turn:
            calling = started(turn, one, abort=abort)
        if comes:
            assert "late" == calling.result()
            assert "completed" == only_activity(turn).state
        else:
            assert isinstance(calling.error(), TurnOver)
            assert "abandoned" == only_activity(turn).state
        assert [1] == aborted  # although both the caller and the end of the turn saw to it
        one.gate.set()


def test_interrupted_caller_leaves_the_call_to_its_turn(blocking: Blocking) -> None:
    """Ctrl-C reaches the waiting main thread at once; the call is aborted and ends with the turn."""
    begun = time.monotonic()
    with ctrl_c_once(blocking.inside):
        with pytest.raises(KeyboardInterrupt):
            with turnctl.turn(grace=60) as turn:
                try:
                    turn.call(blocking, abort=blocking.gate.set)
                finally:
                    assert blocking.gate.wait(BOUND)  # by the abort, before the turn ends

    assert time.monotonic() - begun < BOUND
    assert ("cancelled", "signal") == (turn.outcome, turn.cause)
    assert only_activity(turn).state in ("completed", "cancelled")


def test_swallowed_stop_is_raised_by_the_next_call(blocking: Blocking) -> None:
    """A body that eats the stop gets it again at its next call, which starts nothing."""
    eaten: list[BaseException] = []
    with turnctl.turn(grace=0) as turn:
        turn.cancel()
        for _ in range(3):
            try:
                turn.call(blocking)
            except BaseException as error:
                eaten.append(error)

    assert [CancelledError] * 3 == [type(e) for e in eaten]
    assert (0, "cancelled") == (blocking.calls, turn.outcome)


def test_many_calls_and_stops_at_every_moment() -> None:
    """Whenever the stop falls, each call gives its value or the stop, and nothing is left."""
    for round_ in range(150):
        with turnctl.turn(grace=60) as turn:
            stopper = threading.Timer(0.0001 * (round_ % 10), turn.cancel)
            stopper.start()
            given = 0
            late = None
            try:
                while turn.call(int, "1") == 1:
                    given += 1
            except CancelledError as error:
                late = error.late
            stopper.join()

        assert late is None or late.is_done
        states = [a.state for a in turn.report.activities]
        assert given <= states.count("completed") <= given + 1
        assert "ended" == turn.report.execution


def test_process_exits_with_a_call_left_behind() -> None:
    """What cannot be ended does not keep the process from exiting."""
    code = (
        "import time, turnctl\n"
        "with turnctl.turn(grace=0) as turn:\n"
        "    turn.call(time.sleep, 0)\n"  # loads what it needs
        "    turn.set_timeout(0.2)\n"
        "    turn.call(time.sleep, 60)\n"
        "print(turn.report.alive, flush=True)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, env=env, check=True)

    assert "thread sleep" in done.stdout
    assert "" == done.stderr
