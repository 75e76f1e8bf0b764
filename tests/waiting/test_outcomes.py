"""A stop against what a wait is waiting for: each row of the outcome table, forced, for each thing to wait for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from standins import BOUND, Background, is_parked, until
from things import KINDS, ADescriptor, APredicate, AQueue, ASemaphore, Thing

import turnctl
from turnctl import CancelledError
from turnctl.testing import call_at, pause_at
from turnctl.tokens.token import TurnToken


@pytest.fixture
def token() -> TurnToken:
    return TurnToken("t1")


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def thing(request: pytest.FixtureRequest) -> Iterator[Thing]:
    made = request.param()
    yield made
    made.close()


def outcome(fn: Callable[..., Any], *args: Any) -> Any:
    """What it gave, or the type of what it raised."""
    try:
        return fn(*args)
    except BaseException as error:
        return type(error)


def is_waiting(token: TurnToken) -> bool:
    """Whether somebody stands on the token, by a lock or by a bell."""
    parts = token._grow()
    return until(lambda: parts.waiters or parts.bells)


def test_stop_then_the_wait_begins(token: TurnToken, thing: Thing) -> None:
    """A stop that came before is raised, and what is ready is not touched."""
    token.cancel()
    thing.make_ready()
    found = outcome(thing.wait, token)

    assert CancelledError is found
    assert thing.is_untouched()


def test_thing_is_there_and_no_stop(token: TurnToken, thing: Thing) -> None:
    """What is ready is given at once, also to a wait that has no time."""
    thing.make_ready()

    assert thing.gives == thing.wait(token, 0)


def test_thing_wakes_the_waiter(token: TurnToken, thing: Thing) -> None:
    """The thing itself ends the wait, and nothing of the wait stays on the token."""
    waiter = Background(thing.wait, token)
    if not thing.is_sliced:
        assert is_waiting(token)
    thing.make_ready()

    assert thing.gives == waiter.result()
    assert ([], []) == (token._grow().waiters, token._grow().bells)


def test_stop_wakes_the_waiter(token: TurnToken, thing: Thing) -> None:
    """The stop ends the wait at once, nothing is touched, and nothing of the wait stays on the token."""
    waiter = Background(thing.wait, token)
    if not thing.is_sliced:
        assert is_waiting(token)
    stopped_at = time.monotonic()
    token.cancel()
    error = waiter.error()
    assert waiter.ended_at is not None
    thing.make_ready()

    assert isinstance(error, CancelledError)
    assert token.record is error.record
    assert waiter.ended_at - stopped_at < 1
    assert thing.is_untouched()
    assert ([], []) == (token._grow().waiters, token._grow().bells)


def test_thing_and_stop_are_both_there(token: TurnToken, thing: Thing) -> None:
    """When the waiter, woken by the stop, looks up and finds both, it raises and leaves the thing where it is."""
    with call_at("waiting.woken", token.cancel if thing.is_sliced else thing.make_ready):
        waiter = Background(thing.wait, token)
        if not thing.is_sliced:
            assert is_waiting(token)
            token.cancel()
        error = waiter.error()
    if thing.is_sliced:
        thing.make_ready()

    assert isinstance(error, CancelledError)
    assert thing.is_untouched()


def test_stop_before_the_woken_waiter_has_looked(token: TurnToken, thing: Thing) -> None:
    """The thing has woken the waiter, the stop comes before it has looked: it raises, and the thing stays."""
    with call_at("waiting.woken", token.cancel):
        waiter = Background(thing.wait, token)
        if thing.is_sliced:
            error = waiter.error()
            thing.make_ready()
        else:
            assert is_waiting(token)
            thing.make_ready()
            error = waiter.error()

    assert isinstance(error, CancelledError)
    assert thing.is_untouched()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.is_taken], ids=lambda kind: kind.__name__)
def test_thing_is_taken_then_the_stop(token: TurnToken, kind: type[Thing]) -> None:
    """What was taken is given; the next checkpoint raises."""
    thing = kind()
    thing.make_ready()
    with call_at("waiting.taken", token.cancel):
        found = thing.wait(token)
    with pytest.raises(CancelledError):
        token.check()
    thing.close()

    assert thing.gives == found


def test_time_is_over(token: TurnToken, thing: Thing) -> None:
    """Without a stop the wait ends as the standard library's does, not before its time, and touches nothing."""
    begun = time.monotonic()
    found = outcome(thing.wait, token, "30ms")
    took = time.monotonic() - begun
    thing.make_ready()

    assert thing.gives_up == found
    assert 0.03 <= took < 1.5
    assert thing.is_untouched()


def test_no_time_at_all(token: TurnToken, thing: Thing) -> None:
    """A timeout of 0 looks once."""
    assert thing.gives_up == outcome(thing.wait, token, 0)


def test_time_is_over_and_the_stop_is_there(token: TurnToken, thing: Thing) -> None:
    """Of the two the stop is told."""
    with call_at("waiting.woken", token.cancel):
        for timeout in (0.01, 0.1, 1.0):
            found = outcome(thing.wait, token, timeout)
            if token.cancelled:
                break
            assert thing.gives_up == found  # on a busy machine the time was over before the wait began

    assert CancelledError is found


def test_shield_holds_the_stop_back(token: TurnToken, thing: Thing) -> None:
    """Under a shield the wait goes on through a stop, to the thing."""

    def shielded() -> Any:
        with token.shield("20s"):
            found.append(thing.wait(token))

    found: list[Any] = []
    waiter = Background(shielded)
    if not thing.is_sliced:
        assert is_waiting(token)
    token.cancel()
    if not thing.is_sliced:
        assert is_waiting(token)
    still = waiter.is_running
    thing.make_ready()
    error = waiter.error()

    assert still
    assert [thing.gives] == found
    assert isinstance(error, CancelledError)


def test_shield_ends_in_a_wait(token: TurnToken, thing: Thing) -> None:
    """When the shield's limit passes the wait raises, with the stop before it and during it."""

    def shielded() -> Any:
        with token.shield("60ms"):
            if is_before:
                token.cancel()
            return thing.wait(token)

    for is_before in (False, True):
        begun = time.monotonic()
        waiter = Background(shielded)
        if not is_before and not thing.is_sliced:
            assert is_waiting(token)
        token.cancel()
        error = waiter.error()

        assert isinstance(error, CancelledError)
        assert 0.06 <= time.monotonic() - begun < 1.5


def test_kill_passes_the_shield(token: TurnToken, thing: Thing) -> None:
    """A stop of level kill ends a wait under a shield."""

    def shielded() -> Any:
        with token.shield("20s"):
            return thing.wait(token)

    waiter = Background(shielded)
    if not thing.is_sliced:
        assert is_waiting(token)
    token.cancel()
    token.cancel(level="kill")

    assert isinstance(waiter.error(), CancelledError)


def test_retired_token_is_no_stop(token: TurnToken, thing: Thing) -> None:
    """The end of a turn that was not stopped lets its waits go on as plain ones."""
    waiter = Background(thing.wait, token)
    if not thing.is_sliced:
        assert is_waiting(token)
    token._retire("completed")
    token.cancel()
    still = waiter.is_running
    thing.make_ready()

    assert still
    assert thing.gives == waiter.result()


def test_soft_stop_does_not_interrupt(token: TurnToken, thing: Thing) -> None:
    """A soft stop waits for the step in hand."""
    waiter = Background(thing.wait, token)
    token.cancel(level="soft")
    thing.make_ready()

    assert thing.gives == waiter.result()


def test_paused_turn_takes_nothing(thing: Thing) -> None:
    """While its turn is paused a waiter leaves the thing alone; it takes it when the turn goes on."""
    with turnctl.turn() as turn:
        waiter = Background(thing.wait, turn.token)
        if not thing.is_sliced:
            assert is_waiting(turn.token)
        turn.pause()
        if isinstance(thing, ADescriptor):
            # its bell is there before its last look, and that takes what comes before: so have it look up
            turn.token._nudge()
            assert is_parked(turn.token._grow().waiters)
        thing.make_ready()
        if thing.is_sliced:
            turn.resume()
        else:
            assert is_parked(turn.token._grow().waiters)
            still = waiter.is_running
            turn.resume()

            assert still

        assert thing.gives == waiter.result()


def test_wait_without_a_token_is_plain(thing: Thing) -> None:
    """Outside a turn each wait works as the standard library's does."""
    early = outcome(thing.wait, None, 0.02)
    waiter = Background(thing.wait, None)
    thing.make_ready()

    assert thing.gives_up == early
    assert thing.gives == waiter.result()


def test_report_names_what_polled(thing: Thing) -> None:
    """Only the few waits that go by slices are named in the turn's notes, once each."""
    with turnctl.turn() as turn:
        for _ in range(2):
            outcome(thing.wait, turn.token, 0.001)
    named = [note for note in turn.report.notes if "slices of 50 ms" in note]

    assert (1 if thing.is_sliced else 0) == len(named)


@pytest.mark.parametrize("kind", [AQueue, ASemaphore, APredicate], ids=lambda kind: kind.__name__)
def test_stop_as_the_lock_is_taken_again(kind: type[Thing]) -> None:
    """A stop between the checkpoint of a turn that was paused once and the look under the lock is still seen."""
    thing = kind()
    with turnctl.turn() as turn:
        turn.pause()
        turn.resume()
        with pause_at("waiting.asked") as first, pause_at("waiting.asked") as second:
            waiter = Background(thing.wait, turn.token)
            last = first if kind is APredicate else second  # a predicate asks with the lock held already
            if last is second:
                assert first.reached.wait(BOUND)
                first.release()
            assert last.reached.wait(BOUND)
            thing.make_ready()
            turn.cancel()
            first.release()
            second.release()
            error = waiter.error()

    assert isinstance(error, CancelledError)
    assert thing.is_untouched()
