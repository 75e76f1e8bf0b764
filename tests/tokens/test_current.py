"""A frame obeys the token bound to its context, else its session's running turn, else nothing."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from standins import Background

import turnctl
from turnctl import BadArgument, CancelledError

T = TypeVar("T")


def test_check_is_silent_without_a_session() -> None:
    """Outside any turn nothing happens."""
    turnctl.check()

    assert turnctl.current_token() is None
    assert turnctl.current_turn() is None


def test_check_is_silent_for_a_session_without_a_turn() -> None:
    """A bound session that runs nothing has nothing to obey."""
    with turnctl.session("chat"):
        turnctl.check()

        assert turnctl.current_token() is None


def test_with_binds_and_unbinds() -> None:
    """Inside the ``with`` the turn's token is the current one, after it the one before (promise 1)."""
    with turnctl.turn() as outer:
        with turnctl.turn() as inner:
            inside = (turnctl.current_token(), turnctl.current_turn())
        after = turnctl.current_token()

    assert (inner.token, inner) == inside
    assert outer.token is after
    assert turnctl.current_token() is None


def test_unbound_frame_falls_back_to_its_sessions_turn() -> None:
    """A thread that only knows the session obeys the turn that runs there."""

    def frame() -> None:
        with turnctl.session("chat"):
            assert turnctl.current_turn() is turn
            turnctl.check()

    with turnctl.turn("chat") as turn:
        before = Background(frame).error()
        turn.stop()
        after = Background(frame).error()

    assert before is None
    assert isinstance(after, CancelledError)
    assert turn.token is after.token


def test_session_that_is_not_bound_is_never_guessed() -> None:
    """The only turn of the process is not obeyed by who has nothing to do with it."""
    with turnctl.turn("chat") as turn:
        turn.stop()

        assert Background(turnctl.check).error() is None


def test_bound_token_wins_over_the_session() -> None:
    """A frame of a turn obeys that turn, whatever session it also names."""
    other = turnctl.turn("other", inherit=False)
    other.begin()
    with turnctl.turn("chat") as turn, turnctl.session("other"):
        other.stop()
        turnctl.check()
        current = turnctl.current_token()
    other.end()

    assert turn.token is current


def test_sessions_nest() -> None:
    """The inner name holds inside the inner ``with``."""
    first, second = (turnctl.turn(name, inherit=False) for name in ("first", "second"))
    first.begin()
    second.begin()
    with turnctl.session("first"):
        with turnctl.session("second"):
            inside = turnctl.current_turn()
        outside = turnctl.current_turn()
    for turn in (first, second):
        turn.end()

    assert (second, first) == (inside, outside)


def test_session_object_may_be_entered_twice() -> None:
    """One object binds as often as it is entered."""
    session = turnctl.session("chat")
    with turnctl.turn("chat", inherit=False) as turn:
        found = session.turn

        def frame() -> object:
            with session, session:
                pass
            with session:
                return turnctl.current_turn()

        inside = Background(frame).result()

    assert (turn, turn) == (found, inside)
    assert session.turn is None


@pytest.mark.parametrize("name", ["", None, 3, b"chat"])
def test_bad_session_name_is_refused(name: str) -> None:
    """A name is a text that is not empty."""
    with pytest.raises(BadArgument, match="session_id must be a non-empty str"):
        turnctl.session(name)


def test_displaced_frame_keeps_checking_its_own_token() -> None:
    """A stop of the new turn does not abort an old frame, a stop of its own does."""
    go_on, checked, end = threading.Event(), threading.Event(), threading.Event()
    old: list[turnctl.Turn] = []

    def frames_of_the_old_turn() -> None:
        with turnctl.turn("chat") as turn:
            old.append(turn)
            checked.set()
            go_on.wait()
            turnctl.check()
            checked.set()
            end.wait()

    frame = Background(frames_of_the_old_turn)
    checked.wait()
    checked.clear()
    with turnctl.turn("chat", on_busy="retire") as new:
        new.stop()
        go_on.set()
        passed = checked.wait()
        end.set()
        frame.result()

    assert passed
    assert ("superseded", False) == (old[0].outcome, old[0].cancelled)
    assert "cancelled" == new.outcome


def test_thread_without_context_is_not_bound() -> None:
    """A plain thread inherits nothing; a copied context binds it."""
    with turnctl.turn() as turn:
        turn.stop()
        plain = Background(turnctl.check).error()
        copied = Background(contextvars.copy_context().run, turnctl.check).error()

    assert plain is None
    assert isinstance(copied, CancelledError)


def test_context_that_outlives_the_turn_is_silent() -> None:
    """A frame that is still bound to a completed turn is not stopped by the next one (promise 4)."""
    with turnctl.turn("chat"):
        context = contextvars.copy_context()
    with turnctl.turn("chat") as second:
        second.stop()
        error = Background(context.run, turnctl.check).error()

    assert error is None


# -- generators and foreign contexts ------------------------------------------------------------------------------


def step(generator: Iterator[T], *, on_thread: bool = True) -> T:
    """One ``next()`` in a context copy of its own, as web frameworks do it."""
    context = contextvars.copy_context()
    if on_thread:
        return Background(context.run, next, generator).result()
    return context.run(next, generator)


def events(seen: list[turnctl.Turn], fail: BaseException | None = None) -> Generator[int, None, None]:
    with turnctl.turn("chat") as turn:
        seen.append(turn)
        for n in range(3):
            turn.check()
            yield n
        if fail is not None:
            raise fail


@pytest.mark.parametrize("on_thread", [True, False])
def test_generator_in_foreign_contexts_leaves_quietly(on_thread: bool) -> None:
    """Every ``next()`` in its own context copy, on another thread: the turn ends and nothing raises."""
    seen: list[turnctl.Turn] = []
    generator = events(seen)
    items = [step(generator, on_thread=on_thread) for _ in range(3)]
    with pytest.raises(StopIteration):
        step(generator, on_thread=on_thread)

    assert [0, 1, 2] == items
    assert "completed" == seen[0].outcome
    assert turnctl.current_token() is None


def test_generator_in_foreign_contexts_can_be_stopped() -> None:
    """The turn's own methods work in every step, whatever context it runs in."""
    seen: list[turnctl.Turn] = []
    generator = events(seen)
    step(generator)
    turnctl.stop("chat")
    with pytest.raises(StopIteration):
        step(generator)

    assert "cancelled" == seen[0].outcome


def test_exception_leaves_a_generator_unharmed() -> None:
    """The body's own exception passes out, not an error about contexts."""
    seen: list[turnctl.Turn] = []
    generator = events(seen, ZeroDivisionError())
    for _ in range(3):
        step(generator)
    with pytest.raises(ZeroDivisionError):
        step(generator)

    assert "failed" == seen[0].outcome


@pytest.mark.parametrize("where", ["here", "in a foreign context", "on another thread"])
def test_closing_a_generator_ends_its_turn(where: str) -> None:
    """A client that goes away closes the generator: cancelled, cause ``closed``, nothing raised."""
    seen: list[turnctl.Turn] = []
    generator = events(seen)
    step(generator)
    close: Callable[[], object] = {
        "here": generator.close,
        "in a foreign context": lambda: contextvars.copy_context().run(generator.close),
        "on another thread": lambda: Background(generator.close).result(),
    }[where]
    close()

    assert ("cancelled", "closed") == (seen[0].outcome, seen[0].cause)


def test_generator_leaves_a_turn_of_its_consumer_bound() -> None:
    """Leaving in a context where another turn is bound takes nothing away from that one."""
    seen: list[turnctl.Turn] = []
    generator = events(seen)
    step(generator)
    with turnctl.turn("consumer") as turn:
        rest = list(generator)
        current = turnctl.current_turn()

    assert [1, 2] == rest
    assert turn is current


def test_generator_in_one_context_unbinds_what_it_bound() -> None:
    """Driven the plain way, the turn is bound between the steps and gone after them."""
    seen: list[turnctl.Turn] = []
    generator = events(seen)
    next(generator)
    between = turnctl.current_turn()
    rest = list(generator)

    assert seen[0] is between
    assert [1, 2] == rest
    assert turnctl.current_token() is None


def test_interleaved_generators_end_in_any_order() -> None:
    """Of two generators in one context each obeys its own turn, and an ended one stays bound nowhere (promise 4)."""
    turns: list[turnctl.Turn] = []
    obeyed: list[object] = []

    def in_session(name: str) -> Generator[int, None, None]:
        with turnctl.turn(name, inherit=False) as turn:
            turns.append(turn)
            yield 1
            obeyed.append(turnctl.current_turn())
            yield 2

    first, second = in_session("one"), in_session("two")
    next(first)
    next(second)
    turns[0].stop()
    first.close()
    rest = list(second)

    assert [2] == rest
    assert [turns[1]] == obeyed
    assert ("cancelled", "completed") == (turns[0].outcome, turns[1].outcome)
    assert turnctl.current_token() is None
    turnctl.check()


def test_session_and_shield_and_child_leave_foreign_contexts() -> None:
    """Everything that is entered with ``with`` may be left in another context."""

    def generator(turn: turnctl.Turn) -> Generator[int, None, None]:
        with turnctl.session("chat"), turn.shield(), turn.child():
            yield 1

    with turnctl.turn() as turn:
        made = generator(turn)
        items = [step(made)]
        with pytest.raises(StopIteration):
            step(made)

    assert [1] == items
    assert "completed" == turn.outcome


def test_pool_threads_keep_nothing() -> None:
    """A pool thread that ran one turn runs the next job unbound (promise 4)."""

    def job() -> str | None:
        with turnctl.turn("slot") as turn:
            turn.stop()
        return turn.outcome

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(job).result()
        after = pool.submit(turnctl.current_token).result()
        pool.submit(turnctl.check).result()

    assert ("cancelled", None) == (first, after)
