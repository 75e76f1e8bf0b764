"""Beginning and ending turns by call, and running a function in one."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any

import pytest
from interrupts import every_place
from standins import BOUND, Background, Thing, is_parked, own, until

import turnctl
from turnctl import (
    BadArgument,
    CancelledError,
    SessionBusy,
    ShuttingDown,
    StopAnswer,
    TurnctlError,
)
from turnctl.testing import pause_at
from turnctl.tokens import registry
from turnctl.tokens.current import bound

# -- begin_turn and end_turn --------------------------------------------------------------------------------------


def test_begin_binds_and_end_unbinds() -> None:
    """Between the two calls the token is the current one."""
    token = turnctl.begin_turn("chat", timeout="1h")
    during = (turnctl.current_token(), turnctl.session("chat").turn)
    decided = turnctl.end_turn(token)

    assert (token, "chat") == (during[0], token.session_id)
    assert during[1] is not None
    assert token is during[1].token
    assert decided
    assert ("completed", True) == (token.outcome, token.retired)
    assert turnctl.current_token() is None


@pytest.mark.parametrize("nothing", [None, "chat", 3, turnctl.CancelToken()])
def test_end_without_a_token_is_refused(nothing: object) -> None:
    """No session is forced clear by accident; the turn that runs is untouched."""
    with turnctl.turn("chat") as turn:
        with pytest.raises(BadArgument, match="needs the token"):
            turnctl.end_turn(nothing)  # type: ignore[arg-type]
        turn.check()

        assert turn is turnctl.session("chat").turn


def test_end_called_twice_says_false() -> None:
    """The first one stands."""
    token = turnctl.begin_turn()
    first = turnctl.end_turn(token, "failed")
    second = turnctl.end_turn(token)

    assert (True, False, "failed") == (first, second, token.outcome)


def test_end_of_another_turns_token_leaves_this_one_alone() -> None:
    """A late end of N does not touch N+1 of the same session."""
    first = turnctl.begin_turn("chat")
    turnctl.end_turn(first)
    second = turnctl.begin_turn("chat")
    late = turnctl.end_turn(first)
    holder = turnctl.session("chat").turn
    turnctl.check()
    turnctl.end_turn(second)

    assert not late
    assert holder is not None
    assert second is holder.token
    assert "completed" == second.outcome


def test_begin_without_end_is_displaced_by_the_next() -> None:
    """A turn that was begun and left behind is stale: the next one of its session takes over."""
    stale = turnctl.begin_turn("chat")
    fresh = turnctl.begin_turn("chat")
    turnctl.check()
    ended = turnctl.end_turn(stale)
    turnctl.check()
    turnctl.end_turn(fresh)

    assert ("cancelled", "displaced") == (stale.outcome, stale.cause)
    assert "completed" == fresh.outcome
    assert not ended
    assert turnctl.current_token() is None
    assert [] == registry.all_turns()


def test_session_begun_over_and_over_leaks_nothing() -> None:
    """A host that never ends its turns still leaves no turn, thread or doorbell but the last."""
    event = threading.Event()
    before = threading.active_count()
    for _ in range(50):
        token = turnctl.begin_turn("chat", event=event)
        token.on_cancel(int)
        event.clear()
    assert until(lambda: threading.active_count() <= before + 1)

    def are_gone() -> bool:
        gc.collect()  # the thread that is left may be that of the last but one, which ends with it
        return len(registry.all_turns()) == 1

    found = until(are_gone)
    turnctl.end_turn(token)

    assert found
    assert until(lambda: [] == list(event._cond._waiters))  # type: ignore[attr-defined]


def test_end_may_be_given_the_turn_itself() -> None:
    """Who holds the turn need not look for its token."""
    with turnctl.turn() as turn:
        decided = turnctl.end_turn(turn, "failed")

    assert decided
    assert "failed" == turn.outcome


@pytest.mark.parametrize("outcome", ["cancelled", "superseded", "", None, "done"])
def test_end_decides_completed_or_failed_only(outcome: str) -> None:
    """A stop is what makes a turn cancelled."""
    token = turnctl.begin_turn()
    with pytest.raises(BadArgument, match="stop it to have it cancelled"):
        turnctl.end_turn(token, outcome)  # type: ignore[arg-type]
    alive = not token.retired
    turnctl.end_turn(token)

    assert alive


@pytest.mark.parametrize(
    ("error", "outcome", "cause"),
    [
        (None, "completed", None),
        (ZeroDivisionError(), "failed", None),
        (KeyboardInterrupt(), "cancelled", "signal"),
        (GeneratorExit(), "cancelled", "closed"),
        (SystemExit(0), "completed", None),
        (SystemExit(2), "failed", None),
    ],
)
def test_error_given_to_the_end_decides(error: BaseException | None, outcome: str, cause: str | None) -> None:
    """As it would leaving a ``with``; nothing is raised."""
    token = turnctl.begin_turn()
    turnctl.end_turn(token, error=error)

    assert (outcome, cause) == (token.outcome, token.cause)


def test_end_after_a_stop_is_cancelled() -> None:
    """The boundary asks the token (promise 6)."""
    token = turnctl.begin_turn("chat")
    turnctl.stop("chat")
    with pytest.raises(CancelledError) as raised:
        turnctl.check()
    turnctl.end_turn(token, error=raised.value)

    assert "cancelled" == token.outcome


def test_end_on_another_thread_ends_the_turn() -> None:
    """The binding stays with the context it was made in, and is silent afterwards."""
    token = turnctl.begin_turn("chat")
    Background(turnctl.end_turn, token).result()
    turnctl.check()

    assert "completed" == token.outcome
    assert turnctl.session("chat").turn is None
    assert turnctl.current_turn() is None
    bound.set(None)


def test_two_ends_at_once_have_one_that_decided() -> None:
    """Exactly one of two calls is told True, the other waits for it and is told False (promise 3)."""
    token = turnctl.begin_turn()
    turn = turnctl.current_turn()
    assert turn is not None
    with pause_at("turn.end.deciding") as held:
        first = Background(turnctl.end_turn, token)
        assert held.reached.wait(BOUND)
        second = Background(turnctl.end_turn, token, "failed")
        assert is_parked(turn._over._waiters)
        held.release()
        answers = (first.result(), second.result())
    bound.set(None)

    assert [False, True] == sorted(answers)


def test_end_of_a_displaced_turn_decides_nothing() -> None:
    """Its outcome was decided by the one that displaced it; the end only ends what is left."""
    thing = Thing()
    begun = Background(lambda: turnctl.begin_turn("chat"))
    old = begun.result()
    turn = turnctl.session("chat").turn
    assert isinstance(turn, turnctl.Turn)
    own(turn, thing)
    with turnctl.turn("chat"):
        decided = turnctl.end_turn(old)

    assert not decided
    assert "cancelled" == old.outcome
    assert turn.is_over
    assert thing.ended.is_set()


# -- run_turn -----------------------------------------------------------------------------------------------------


def test_value_of_the_function_is_the_result() -> None:
    """Arguments go to the function, options to the turn."""
    result = turnctl.run_turn(lambda a, *, b: (a, b, turnctl.current_turn()), 1, b=2, options={"session_id": "chat"})

    assert (1, 2, result.turn) == result.unwrap()
    assert result.unwrap() == result.value
    assert "chat" == result.turn.session_id
    assert (False, None, None) == (result.cancelled, result.error, result.late_value)
    assert "completed" == result.report.state


def test_function_may_have_arguments_of_any_name() -> None:
    """``fn`` is positional only, so a function may have an argument of that name."""
    assert 3 == turnctl.run_turn(lambda fn, turn: fn + turn, fn=1, turn=2).unwrap()


def test_exception_of_the_function_is_kept() -> None:
    """``unwrap`` raises it, the call did not."""
    error = ZeroDivisionError("x")

    def fails() -> None:
        raise error

    result = turnctl.run_turn(fails)
    with pytest.raises(ZeroDivisionError) as raised:
        result.unwrap()

    assert error is raised.value
    assert (error, "failed", None) == (result.error, result.turn.outcome, result.value)


def test_stopped_run_is_a_result() -> None:
    """Nothing is raised; ``unwrap`` raises the stop with its record."""

    def body() -> str:
        turnctl.current_turn().stop("enough", by="ann")  # type: ignore[union-attr]
        turnctl.check()
        return "never"

    result = turnctl.run_turn(body)
    with pytest.raises(CancelledError) as raised:
        result.unwrap()

    assert (True, None, None) == (result.cancelled, result.value, result.late_value)
    assert ("enough", "user") == (raised.value.reason, raised.value.cause)
    assert result.turn.token is raised.value.token


def test_late_value_of_a_stopped_run_is_kept_apart() -> None:
    """A function that returned although it had been stopped: cancelled, and its value is at hand (promise 6)."""

    def body() -> str:
        turnctl.current_turn().stop()  # type: ignore[union-attr]
        return "late"

    result = turnctl.run_turn(body)

    assert (True, None, "late") == (result.cancelled, result.value, result.late_value)
    with pytest.raises(CancelledError):
        result.unwrap()


def test_none_is_a_value() -> None:
    """A function that returns nothing completed all the same."""
    assert turnctl.run_turn(lambda: None).unwrap() is None


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_ordinary_exception_passes_out(error: type[BaseException]) -> None:
    """The host's own interrupts are not caught."""

    def fails() -> None:
        raise error

    with pytest.raises(error):
        turnctl.run_turn(fails)

    assert [] == registry.all_turns()


def test_another_turns_stop_passes_out() -> None:
    """A stop of the enclosing turn ends that one, not only the run."""
    reached: list[int] = []
    with turnctl.turn() as outer:

        def body() -> None:
            outer.stop()
            outer.check()

        turnctl.run_turn(body)
        reached.append(1)

    assert [] == reached
    assert "cancelled" == outer.outcome


def test_run_that_cannot_begin_raises() -> None:
    """A busy session, a shutdown and a bad option are the caller's to know, not results of the function."""
    ran: list[int] = []
    with turnctl.turn("slot"):
        with pytest.raises(SessionBusy):
            turnctl.run_turn(ran.append, 1, options={"session_id": "slot"})
    with pytest.raises(BadArgument):
        turnctl.run_turn(ran.append, 1, options={"on_busy": "push"})
    turnctl.shutdown()
    try:
        with pytest.raises(ShuttingDown):
            turnctl.run_turn(ran.append, 1)
    finally:
        registry.reopen()

    assert [] == ran


def test_run_stopped_while_it_waits_for_its_session_is_a_result() -> None:
    """A stop by its id before it began is a stop like any other: a result, nothing raised."""
    ran: list[int] = []
    with turnctl.turn("slot") as holder:
        waiter = Background(
            lambda: turnctl.run_turn(ran.append, 1, options={"session_id": "slot", "turn_id": "w", "on_busy": "wait"})
        )
        assert is_parked(holder._over._waiters)
        turnctl.stop(turn_id="w")
        error = waiter.error()

    assert error is None
    assert waiter.result().cancelled
    assert [] == ran


def test_superseded_run_has_neither_value_nor_success() -> None:
    """A run whose session was retired under it did not complete, and ``unwrap`` does not say it was stopped."""

    def body() -> str:
        Background(lambda: turnctl.turn("slot", on_busy="retire").begin()).result()
        return "value"

    result = turnctl.run_turn(body, options={"session_id": "slot"})
    holder = turnctl.session("slot").turn
    assert isinstance(holder, turnctl.Turn)
    holder.end()

    assert ("superseded", False, None) == (result.turn.outcome, result.cancelled, result.value)
    with pytest.raises((CancelledError, TurnctlError), match=r"supersede|another turn|its session"):
        result.unwrap()


# -- the current turn ---------------------------------------------------------------------------------------------


def test_current_turn_is_the_innermost() -> None:
    """Also where a child's token is bound."""
    with turnctl.turn() as outer:
        with turnctl.turn() as inner, inner.child():
            inside = turnctl.current_turn()
        between = turnctl.current_turn()

    assert (inner, outer, None) == (inside, between, turnctl.current_turn())


def test_turn_methods_need_no_binding() -> None:
    """A thread that was handed the turn works with it."""
    with turnctl.turn() as turn:

        def work() -> bool:
            turn.check()
            turn.sleep(0)
            with turn.child() as child, turn.shield(), turn.activity("tool", "x"):
                child.check()
            return turn.wait_cancelled(0)

        assert not Background(work).result()
    assert ["completed"] == [a.state for a in turn.report.activities]


def test_end_of_a_turn_returns_its_report() -> None:
    """``turn.end()`` is the end and the account in one."""
    turn = turnctl.turn("chat")
    turn.begin()
    report = turn.end("failed")

    assert ("failed", "ended") == (report.outcome, report.execution)


def test_stop_without_wait_is_an_answer() -> None:
    """``turn.stop()`` never blocks."""
    with turnctl.turn() as turn:
        answer = turn.stop()

    assert isinstance(answer, StopAnswer)


# -- what a stop does not do --------------------------------------------------------------------------------------


def test_stop_does_no_work_on_its_callers_stack() -> None:
    """No thread is started, nothing is imported, opened, logged or written by a stop, in any of its ways."""
    program = textwrap.dedent(
        """
        import logging, sys, threading
        import turnctl

        logging.basicConfig(level=0, handlers=[logging.NullHandler()])
        seen, watching = [], False

        def hook(name, args):
            # looking up its own stack, for the place that asked, is seen as well and does nothing
            if watching and threading.get_ident() == main and name not in ("sys._getframe", "object.__getattr__"):
                seen.append(name)

        main = threading.get_ident()
        event = threading.Event()
        with turnctl.turn("chat", event=event, timeout="1h") as turn:
            turn.on_cancel(int)
            turn.child().on_cancel(int, inline=True)
            turn.sleep(0)
            stop, stop_all = turnctl.stop, turnctl.stop_all
            sys.addaudithook(hook)
            modules, threads = set(sys.modules), set(threading.enumerate())
            watching = True
            turn.token.cancel("a")
            turn.stop("b", grace="1s")
            stop("chat", kill=True)
            stop("nobody")
            stop_all()
            turn.event.is_set()
            watching = False
            new = {t for t in threading.enumerate()} - threads
            print(seen, sorted(set(sys.modules) - modules), new)
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)

    assert "[] [] set()\n" == done.stdout
    assert "" == done.stderr


@pytest.mark.parametrize(
    "misuse",
    [
        lambda: turnctl.stop([]),  # type: ignore[call-overload]
        lambda: turnctl.stop(5),  # type: ignore[call-overload]
        lambda: turnctl.stop("chat", expected_turn=[]),  # type: ignore[call-overload]
        lambda: turnctl.run_turn(5),  # type: ignore[arg-type]
        lambda: turnctl.handle_signals("chat"),  # type: ignore[arg-type]
        lambda: turnctl.CancelToken().on_cancel(5),  # type: ignore[arg-type]
    ],
)
def test_argument_of_the_wrong_kind_is_told_at_once(misuse: Callable[[], object]) -> None:
    """A misuse is an error of ours where it is made, not a silent refusal or a failure later."""
    with pytest.raises(BadArgument):
        misuse()


# -- what a newcomer met ------------------------------------------------------------------------------------------


def test_exit_without_begin_is_refused() -> None:
    """Leaving what was never entered says so, and blocks nobody."""
    with pytest.raises(turnctl.TurnctlError, match="has not begun"):
        turnctl.turn("chat").__exit__(None, None, None)


@pytest.mark.parametrize("body", ["ends", "fails", "is stopped"])
def test_strike_as_a_turn_is_left_ends_it(body: str) -> None:
    """A Ctrl-C at any function that the end of a turn calls passes out, and leaves it over, unbound, its session free.

    Python looks for a signal as a function is entered, so none may be called before the ``try``.
    """

    def leave() -> object:
        if body == "is stopped":
            turn.cancel("enough")
        try:
            return turn.__exit__(ValueError if body == "fails" else None, failure if body == "fails" else None, None)
        except ValueError:
            return None

    def press() -> None:
        raise KeyboardInterrupt

    failure, places = ValueError(), 0
    for where in ({"below": turnctl.Turn.__exit__.__code__}, {"within": (turnctl.Turn._undo_binding.__code__,)}):
        for strike in every_place(press, **where):
            turn = turnctl.turn("chat", grace=0)
            turn.__enter__()
            struck = False
            try:
                strike.run(leave)
            except KeyboardInterrupt:
                struck = True
            places += 1

            assert (True, None) == (turn.is_over, bound.get()), strike.struck_in
            assert struck == strike.happened, strike.struck_in
            assert "chat" not in registry.sessions, strike.struck_in
    assert places > 20


def test_turn_left_in_another_thread_binds_nothing_here() -> None:
    """A generator that is closed elsewhere leaves its turn: this context is outside of it again (promise 4)."""

    def steps() -> Iterator[None]:
        with turnctl.turn("chat"):
            yield

    running = steps()
    next(running)
    turnctl.stop("chat")
    Background(running.close).result()

    assert turnctl.current_token() is None
    turnctl.check()
    turnctl.sleep(0)


def test_straggler_of_a_turn_that_was_left_is_still_stopped() -> None:
    """A thread that carries the turn obeys its stop, also after the body has been left (promise 1)."""
    go = threading.Event()
    found: list[CancelledError] = []

    def straggle() -> None:
        go.wait(BOUND)
        try:
            turnctl.check()
        except CancelledError as error:
            found.append(error)

    with turnctl.turn() as turn:
        thread = threading.Thread(target=copy_context().run, args=(straggle,))
        thread.start()
        turn.stop("enough")
    go.set()
    thread.join(BOUND)

    assert ["enough"] == [error.reason for error in found]


def test_turn_ended_elsewhere_still_stops_its_frames() -> None:
    """Frames of a turn that somebody else ended may still run here: the stop reaches them."""
    token = turnctl.begin_turn("chat")
    turnctl.stop("chat")
    Background(turnctl.end_turn, token).result()

    with pytest.raises(CancelledError):
        turnctl.check()
    with turnctl.turn():
        turnctl.check()


def test_wait_for_the_session_is_part_of_the_timeout() -> None:
    """With on_busy="wait" the timeout bounds the waiting as well, and says who held it."""
    with turnctl.turn("chat") as holder, pytest.raises(SessionBusy, match=holder.turn_id):
        turnctl.turn("chat", on_busy="wait", timeout=0.05, inherit=False).begin()


@pytest.mark.parametrize(
    "misuse",
    [
        lambda: turnctl.turn(inherit="no"),
        lambda: turnctl.turn(reason=5),
        lambda: turnctl.stop("nobody", cause="zz"),
        lambda: turnctl.stop("nobody", reason=5),
        lambda: turnctl.stop("nobody", by=5),
        lambda: turnctl.CancelToken.any_of(1),
        lambda: turnctl.CancelToken.any_of([turnctl.CancelToken()]),
        lambda: turnctl.run_turn(int, options="x"),
        lambda: turnctl.register_cancel_event(None, threading.Event()),
        lambda: turnctl.turn().activity(None, None).__enter__(),
    ],
)
def test_argument_of_a_wrong_kind_is_refused(misuse: Callable[[], object]) -> None:
    """What cannot be is told at once, also where nothing runs, as BadArgument."""
    with pytest.raises(turnctl.BadArgument):
        misuse()


async def a_coroutine() -> None: ...


def a_generator() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize("fn", [a_coroutine, a_generator, 5])
def test_function_whose_body_would_not_run_is_refused(fn: Any) -> None:
    """Calling it would only make a coroutine or a generator, and report success."""
    with pytest.raises(turnctl.BadArgument, match=r"run_turn\(\) needs"):
        turnctl.run_turn(fn)
    with turnctl.turn() as turn:
        for refused in (turn.on_cancel, turn.thread):
            with pytest.raises(turnctl.BadArgument, match="needs a"):
                refused(fn)


def test_end_does_not_wait_for_its_own_thread() -> None:
    """A nested turn that this thread began and has not left cannot end while the thread waits for it."""
    outer, inner = turnctl.turn(grace="5s"), turnctl.turn(grace="5s")
    outer.__enter__()
    inner.__enter__()
    started = time.monotonic()
    outer.__exit__(None, None, None)
    took = time.monotonic() - started
    inner.__exit__(None, None, None)

    assert took < 2.5
    assert inner.cancelled


def test_things_of_ours_show_what_they_are() -> None:
    """A result and a session have a repr that tells which."""
    assert "completed" in repr(turnctl.run_turn(int))
    assert "'chat'" in repr(turnctl.session("chat"))
