"""A callback of a stop runs once, on the bridge thread, in its own context; its failure is reported, not lost."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable

import pytest
from standins import BOUND, Background, until

import turnctl
from turnctl import BadDuration, TurnOver
from turnctl.testing import call_at, pause_at
from turnctl.tokens.token import TurnToken

OurThreads = Callable[[], list[str]]


def test_runs_once_on_the_bridge_thread() -> None:
    """The canceller's stack never runs it, however often the stop is repeated."""
    ran: list[str] = []
    with turnctl.turn() as turn:
        turn.on_cancel(lambda: ran.append(threading.current_thread().name))
        for _ in range(3):
            turn.stop()
        assert until(lambda: ran)

    assert [f"turnctl-bridge-{turn.turn_id}"] == ran


def test_all_have_run_when_the_turn_is_over() -> None:
    """The end waits for callbacks that are due, though nobody else did."""
    ran: list[int] = []
    with turnctl.turn() as turn:
        for n in range(20):
            turn.on_cancel(lambda n=n: ran.append(n))  # type: ignore[misc]
        turn.stop()

    assert list(range(20)) == ran


def test_none_runs_without_a_stop() -> None:
    """A turn that completes calls nobody."""
    ran: list[int] = []
    with turnctl.turn() as turn:
        turn.on_cancel(lambda: ran.append(1))
        turn.on_cancel(lambda: ran.append(2), inline=True)

    assert [] == ran


def test_first_in_first_out_over_the_whole_turn() -> None:
    """The order of registration holds across the turn and its children."""
    ran: list[str] = []
    with turnctl.turn() as turn:
        child = turn.child()
        turn.on_cancel(lambda: ran.append("first"))
        child.on_cancel(lambda: ran.append("second"))
        turn.on_cancel(lambda: ran.append("third"))
        turn.stop()

    assert ["first", "second", "third"] == ran


def test_runs_in_the_context_of_its_registration() -> None:
    """A context variable is read as it was where the callback was registered."""
    name = contextvars.ContextVar("name", default="nobody")
    seen: list[object] = []
    with turnctl.turn() as turn:
        name.set("ann")
        turn.on_cancel(lambda: seen.append((name.get(), turnctl.current_token())))
        name.set("bob")
        turn.stop()

    assert [("ann", turn.token)] == seen


def test_change_of_context_inside_stays_inside() -> None:
    """Two callbacks of one context do not see what the other set."""
    name = contextvars.ContextVar("name", default="nobody")
    seen: list[str] = []

    def swap() -> None:
        seen.append(name.get())
        name.set("somebody")

    with turnctl.turn() as turn:
        turn.on_cancel(swap)
        turn.on_cancel(swap)
        turn.stop()

    assert ["nobody", "nobody"] == seen
    assert "nobody" == name.get()


@pytest.mark.parametrize("inline", [False, True])
def test_failure_is_in_the_report_and_stops_no_other(inline: bool) -> None:
    """What a callback raises never reaches the canceller; the report names it, and the next one runs."""
    ran: list[int] = []

    def fails() -> None:
        raise ValueError("no such socket")

    with turnctl.turn() as turn:
        registration = turn.on_cancel(fails, inline=inline)
        turn.on_cancel(lambda: ran.append(1), inline=inline)
        answer = turn.stop()

    assert answer
    assert [1] == ran
    assert isinstance(registration.error, ValueError)
    notes = [note for note in turn.report.notes if "callback failed" in note]
    assert 1 == len(notes)
    assert "fails" in notes[0]
    assert notes[0].endswith("ValueError: no such socket")


def test_failure_of_a_childs_callback_is_in_the_turns_report() -> None:
    """A turn's report tells of the whole tree of tokens."""

    def fails() -> None:
        raise KeyboardInterrupt

    with turnctl.turn() as turn:
        child = turn.child()
        child.on_cancel(fails)
        turn.stop()

    assert 1 == len([note for note in turn.report.notes if "KeyboardInterrupt" in note])


def test_registered_after_the_trip_runs_on_the_bridge() -> None:
    """It is not too late before the turn is over."""
    ran: list[str] = []
    with turnctl.turn() as turn:
        turn.stop()
        turn.on_cancel(lambda: ran.append(threading.current_thread().name))
        assert until(lambda: ran)

    assert [f"turnctl-bridge-{turn.turn_id}"] == ran


def test_registered_inline_after_the_trip_runs_at_once() -> None:
    """An inline callback of a tripped token has run when the call returns."""
    ran: list[int] = []
    with turnctl.turn() as turn:
        turn.stop()
        turn.on_cancel(lambda: ran.append(threading.get_ident()), inline=True)

    assert [threading.get_ident()] == ran


@pytest.mark.parametrize("stop_first", [True, False])
@pytest.mark.parametrize("inline", [True, False])
def test_registered_after_the_end_is_refused(inline: bool, stop_first: bool) -> None:
    """Once the turn is over nothing would run it."""
    with turnctl.turn() as turn:
        child = turn.child()
        if stop_first:
            turn.stop()
    # a child may still be cancelled by itself, which an inline callback needs no bridge for
    for one in (turn, turn.token) if inline else (turn, turn.token, child):
        with pytest.raises(TurnOver):
            one.on_cancel(print, inline=inline)


@pytest.mark.parametrize("stop_first", [True, False])
def test_registered_on_a_closed_child_is_refused(stop_first: bool, our_threads: OurThreads) -> None:
    """A child that has ended runs no callback and starts no thread for one."""
    with turnctl.turn() as turn:
        child = turn.child()
        if stop_first:
            child.cancel()
        child.close()
        with pytest.raises(TurnOver):
            child.on_cancel(print)
        left = our_threads()

    assert [] == left


@pytest.mark.parametrize("served", [False, True])
def test_registered_while_the_turn_leaves_is_refused(served: bool) -> None:
    """A callback that comes after the bridge was let go is refused, and leaves no thread behind (promise 5)."""
    refused: list[bool] = []

    def late() -> None:
        try:
            turn.on_cancel(print)
        except TurnOver:
            refused.append(True)

    with call_at("turn.end.leaving", late), turnctl.turn() as turn:
        if served:
            turn.on_cancel(print)

    assert [True] == refused


def test_listed_while_the_stop_comes_still_runs() -> None:
    """A stop between listing a callback and reading the flag is seen by one of the two."""
    ran: list[str] = []
    with turnctl.turn() as turn:
        with call_at("token.callback.listed", turn.stop):
            turn.on_cancel(lambda: ran.append("bridge"))
        assert until(lambda: ran)
    with turnctl.turn() as other:
        with call_at("token.callback.listed", other.stop):
            other.on_cancel(lambda: ran.append("inline"), inline=True)

    assert ["bridge", "inline"] == ran


def test_taken_back_never_runs() -> None:
    """``unregister`` before the stop says True, and the callback does not run."""
    ran: list[int] = []
    with turnctl.turn() as turn:
        registration = turn.on_cancel(lambda: ran.append(1))
        with turn.on_cancel(lambda: ran.append(2)):
            pass
        taken = registration.unregister()
        again = registration.unregister(wait=True)
        turn.stop()

    assert (True, False) == (taken, again)
    assert [] == ran


def test_taking_back_waits_for_a_running_one() -> None:
    """``unregister(wait=True)`` returns only when the callback has."""
    inside, go = threading.Event(), threading.Event()
    order: list[str] = []

    def slow() -> None:
        inside.set()
        go.wait(BOUND)
        order.append("callback")

    with turnctl.turn() as turn:
        registration = turn.on_cancel(slow)
        turn.stop()
        assert inside.wait(BOUND)
        at_once = registration.unregister()
        timed = registration.unregister(wait=0.02)
        waiter = Background(lambda: (registration.unregister(wait=True), order.append("unregister")))
        assert until(lambda: registration._done._waiters)
        go.set()
        waiter.result()

    assert (False, False) == (at_once, timed)
    assert ["callback", "unregister"] == order


def test_taking_back_waits_for_one_just_claimed() -> None:
    """A callback that the bridge has taken off the list but not begun is waited for as well."""
    ran: list[int] = []
    with turnctl.turn() as turn:
        registration = turn.on_cancel(lambda: ran.append(1))
        with pause_at("token.callback.claimed") as held:
            turn.stop()
            assert held.reached.wait(BOUND)
            waiter = Background(registration.unregister, True)
            assert until(lambda: registration._done._waiters)
            waiting = waiter.is_running
            held.release()

        assert not waiter.result()

    assert waiting
    assert [1] == ran


def test_taking_back_from_inside_itself_does_not_wait() -> None:
    """A callback may take itself back, waiting or not."""
    found: list[bool] = []
    with turnctl.turn() as turn:
        registration = turn.on_cancel(lambda: found.append(registration.unregister(wait=True)))
        turn.stop()
        assert until(lambda: found)

    assert [False] == found


def test_taking_back_after_a_completed_turn_does_not_wait() -> None:
    """A callback that never ran and never will is nothing to wait for."""
    with turnctl.turn() as turn:
        registration = turn.on_cancel(print)
    waiter = Background(registration.unregister, 1.0)
    waiter.result()
    assert waiter.ended_at is not None

    assert waiter.ended_at - waiter.started_at < 0.9


@pytest.mark.parametrize("wait", [-1, float("nan"), "5"])
def test_bad_time_to_wait_is_refused(wait: float) -> None:
    """The time of ``unregister`` is a duration like any other."""
    with turnctl.turn() as turn:
        registration = turn.on_cancel(print)
        turn.stop()
        with pytest.raises(BadDuration):
            registration.unregister(wait=wait)


def test_inline_runs_on_the_cancellers_stack_after_the_flag() -> None:
    """Inline callbacks find everything visible, also the flags of the children."""
    token = TurnToken("t")
    child = token.child()
    seen: list[object] = []
    registration = token.on_cancel(
        lambda: seen.append((threading.get_ident(), token.cancelled, child.cancelled, token.event.is_set())),
        inline=True,
    )
    token.cancel()
    registration.unregister()

    assert [(threading.get_ident(), True, True, True)] == seen


def test_soft_stop_runs_no_callback_and_its_raise_does() -> None:
    """Callbacks are for what has to be interrupted."""
    ran: list[int] = []
    with turnctl.turn() as turn:
        registration = turn.on_cancel(lambda: ran.append(1))
        turn.stop(soft=True)
        turn.token._bridge().ring()
        quiet = not until(lambda: ran, within=0.05)
        turn.stop()
        assert until(lambda: ran)
        registration.unregister(wait=True)

    assert quiet
    assert [1] == ran


def test_callback_may_do_what_it_likes_with_its_token() -> None:
    """Cancel, set, register, make children: none of it deadlocks (promise 7)."""
    done: list[str] = []

    def anything() -> None:
        turn.token.cancel("again")
        turn.event.set()
        assert turn.child().cancelled
        turn.on_cancel(lambda: done.append("nested"))
        done.append("outer")

    with turnctl.turn() as turn:
        turn.on_cancel(anything)
        turn.stop()
        assert until(lambda: len(done) == 2)

    assert ["outer", "nested"] == done
    assert () == turn.report.notes


def test_callback_may_end_its_turn() -> None:
    """The bridge thread does not wait for itself."""
    with turnctl.turn() as turn:
        turn.on_cancel(turn.end)
        turn.stop()
        assert turn.wait_over(BOUND)

    assert "cancelled" == turn.outcome


def test_repr_names_the_callback() -> None:
    """What is printed of a registration says whose it is."""
    with turnctl.turn() as turn:
        text = repr(turn.on_cancel(print))

    assert "print" in text
    assert turn.turn_id in text


def test_free_tokens_bridge_ends_with_its_work(our_threads: OurThreads) -> None:
    """A token of no turn gets a thread of its own for callbacks, and that thread ends by itself."""
    token = turnctl.CancelToken()
    ran: list[int] = []
    token.on_cancel(lambda: ran.append(1))
    during = our_threads()
    token.cancel()

    assert ["turnctl-bridge-token"] == during
    assert until(lambda: ran and not our_threads())


def test_forgotten_free_token_keeps_no_thread(our_threads: OurThreads) -> None:
    """Nobody can trip it any more, so its bridge ends."""
    token = turnctl.CancelToken()
    registration = token.on_cancel(print)
    registration.unregister()
    del token, registration

    assert until(lambda: not our_threads())


def test_wait_of_a_callback_does_not_delay_the_canceller() -> None:
    """``stop`` returns while the callback still runs."""
    go = threading.Event()
    with turnctl.turn() as turn:
        turn.on_cancel(lambda: go.wait(BOUND))
        begun = time.monotonic()
        turn.stop()
        took = time.monotonic() - begun
        go.set()

    assert took < 1
