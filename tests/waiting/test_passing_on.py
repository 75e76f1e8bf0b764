"""No wake-up is lost: a waiter that was woken for something and leaves without it hands the wake-up on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from standins import Background, is_parked, until
from things import ALock, APredicate, AQueue, ASemaphore, OurQueue, Thing

import turnctl
from turnctl import CancelledError, Turn
from turnctl.testing import call_at, pause_at
from turnctl.tokens.tracing import add_tracer

ONE_AT_A_TIME = [AQueue, OurQueue, ASemaphore, ALock, APredicate]
FOREIGN: dict[type[Thing], Callable[[Any], Any]] = {
    AQueue: lambda thing: thing.queue.get(timeout=10),
    ASemaphore: lambda thing: thing.lock.acquire(timeout=10),
    APredicate: lambda thing: _wait_plainly(thing),
}


def _wait_plainly(thing: APredicate) -> bool:
    with thing.condition:
        return bool(thing.condition.wait_for(lambda: thing.items, 10))


@pytest.fixture(params=ONE_AT_A_TIME, ids=lambda kind: kind.__name__)
def thing(request: pytest.FixtureRequest) -> Iterator[Thing]:
    made = request.param()
    yield made
    made.close()


@pytest.fixture
def turns() -> Iterator[tuple[Turn, ...]]:
    made = (turnctl.turn(), turnctl.turn(), turnctl.turn())
    for turn in made:
        turn.begin()
    yield made
    for turn in made:
        turn.resume()
        turnctl.end_turn(turn)


def waiting(turn: Turn, thing: Thing) -> Background[Any]:
    """A thread that stands in a wait of ``turn``."""
    waiter = Background(thing.wait, turn.token)
    assert is_parked(turn.token._grow().waiters)
    return waiter


def foreign(thing: Thing) -> Background[Any]:
    """A thread that stands in the standard library's own wait."""
    inside = thing.queue.not_empty if isinstance(thing, AQueue) else getattr(thing, "condition", None)
    queue = (inside or thing.lock._cond)._waiters  # type: ignore[attr-defined]
    before = len(queue)
    waiter = Background(FOREIGN[type(thing)], thing)
    assert until(lambda: len(queue) > before)
    return waiter


def outcome(fn: Callable[[], Any]) -> Any:
    """What it gave, or the type of what it raised."""
    try:
        return fn()
    except BaseException as error:
        return type(error)


def second(turn: Turn, thing: Thing, kind: str) -> Background[Any]:
    return waiting(turn, thing) if kind == "ours" else foreign(thing)


WAYS = [(kind, how) for kind in ONE_AT_A_TIME for how in ("ours", "foreign") if how == "ours" or kind in FOREIGN]
each_way = pytest.mark.parametrize(
    ("thing", "other"), WAYS, ids=lambda x: getattr(x, "__name__", x), indirect=["thing"]
)


@each_way
def test_woken_waiter_is_stopped(thing: Thing, other: str, turns: tuple[Turn, ...]) -> None:
    """The first waiter is woken, and stopped before it has looked: the second gets the thing."""
    first = waiting(turns[0], thing)
    rest = second(turns[1], thing, other)
    with call_at("waiting.woken", turns[0].token.cancel, thread=first.thread):
        thing.make_ready()
        error = first.error()

    assert isinstance(error, CancelledError)
    assert rest.result()


@each_way
def test_stopped_waiter_is_woken_as_it_leaves(thing: Thing, other: str, turns: tuple[Turn, ...]) -> None:
    """The first waiter is about to leave by a stop when it is woken for the thing: the second gets that."""
    first = waiting(turns[0], thing)
    rest = second(turns[1], thing, other)
    with pause_at("waiting.woken", thread=first.thread) as held:
        turns[0].token.cancel()
        assert held.reached.wait(10)
        thing.make_ready()
        held.release()
        error = first.error()

    assert isinstance(error, CancelledError)
    assert rest.result()


@each_way
def test_waiter_is_woken_as_its_time_is_over(thing: Thing, other: str, turns: tuple[Turn, ...]) -> None:
    """The first waiter has run out of time when it is woken: one of the two gets the thing, none sleeps beside it."""
    with pause_at("waiting.woken") as held:
        first = Background(thing.wait, turns[0].token, 0.01)
        assert held.reached.wait(10)
        rest = second(turns[1], thing, other)
        thing.make_ready()
        held.release()
        has_it = outcome(first.result) == thing.gives
    if has_it and other == "ours":
        turns[1].cancel()
    elif has_it:
        thing.make_ready()
    rest.error()

    assert has_it or rest.result()


@each_way
def test_woken_waiter_is_thrown_out(thing: Thing, other: str, turns: tuple[Turn, ...]) -> None:
    """An exception of a signal handler in the woken waiter takes nobody's wake-up with it."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    first = waiting(turns[0], thing)
    rest = second(turns[1], thing, other)
    with call_at("waiting.woken", interrupt, thread=first.thread):
        thing.make_ready()
        error = first.error()

    assert isinstance(error, KeyboardInterrupt)
    assert rest.result()


@each_way
def test_woken_waiter_is_paused(thing: Thing, other: str, turns: tuple[Turn, ...]) -> None:
    """A waiter whose turn is paused does not sit on a wake-up: the other one gets the thing."""
    first = waiting(turns[0], thing)
    rest = second(turns[1], thing, other)
    turns[0].pause()
    thing.make_ready()
    found = rest.result()
    still = first.is_running
    turns[0].cancel()

    assert found
    assert still
    assert isinstance(first.error(), CancelledError)


def test_traced_waiters_do_not_wake_each_other(thing: Thing, turns: tuple[Turn, ...]) -> None:
    """Waiters that take the long way of a checkpoint hand nothing on once nothing is there."""
    asked: list[object] = []
    undo = [add_tracer(turn.token, asked.append) for turn in turns]
    waiters = [waiting(turn, thing) for turn in turns]
    thing.make_ready()
    one_has_it = until(lambda: sum(waiter.is_running for waiter in waiters) < 3 or isinstance(thing, APredicate))
    before = len(asked)
    spins = until(lambda: len(asked) > before + 20, within=0.1)
    for turn, take_back in zip(turns, undo, strict=True):
        turn.cancel()
        take_back()
    errors = [waiter.error() for waiter in waiters]

    assert one_has_it
    assert not spins
    assert None in errors
