"""Waiters and setters of the latch at the same moment, many times: no wake-up is lost (P8).

The order of the two steps on either side is what holds this; ``tests/races/test_mutants.py`` shows that swapping
them breaks it, deterministically; here they meet by chance, which is helped by a race point between the two steps.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from crew import Crew, shaken
from faults import FAULTS, install
from holding import begun, leave_now

import turnctl
from turnctl import TurnEvent
from turnctl.tokens.event import park, release_all

pytestmark = [pytest.mark.switchinterval, pytest.mark.timeout(600)]


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    return 20_000 if request.config.getoption("--stress") else 1_000


@pytest.fixture
def crew() -> Iterator[Crew]:
    with Crew(8) as made:
        yield made


@pytest.fixture
def gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a thread give way between the two steps of the waiter, and between those of the setter."""
    for name in ("the waiter's two lines swapped", "the setter's two lines swapped"):
        install(FAULTS[name], FAULTS[name].marked, monkeypatch.setattr)


def mixed(chance: random.Random, waits: Callable[[], object], sets: Callable[[], object]) -> list[Callable[[], object]]:
    """Six waiters and two setters, in any order."""
    work = [waits] * 6 + [sets] * 2
    chance.shuffle(work)
    return work


@pytest.mark.usefixtures("gaps")
def test_event_wakes_all_who_came(crew: Crew, rounds: int) -> None:
    """An event that is set while threads come to wait for it: each of them returns (P8)."""
    chance = random.Random()
    for _ in range(rounds):
        event = TurnEvent()
        with shaken():
            crew.round(mixed(chance, event.wait, event.set))

        assert event.is_set()
        assert [] == event._waiters


@pytest.mark.parametrize("fault", ["the waiter's two lines swapped", "the setter's two lines swapped"])
def test_swapped_lines_lose_a_wakeup(crew: Crew, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same run, with the two steps of one side swapped, loses a wake-up before long (P8)."""
    install(FAULTS[fault], FAULTS[fault].broken, monkeypatch.setattr)
    chance = random.Random()
    woken = True
    for _ in range(3_000):
        event = TurnEvent()
        with shaken():
            work = mixed(chance, event.wait, event.set)
            woken = crew.round(work, within=0.5, rescue=lambda e=event: release_all(e._waiters))
        if not woken:
            break

    assert not woken, "no wake-up was lost: this run would not notice"


def test_token_wakes_all_who_came(crew: Crew, rounds: int) -> None:
    """A token that trips while its first waiters come, its event is made and children are born (P3, P8)."""
    chance = random.Random()
    for _ in range(rounds):
        turn = begun()
        token = turn.token

        def waits(token: turnctl.TurnToken = token) -> None:
            park(lambda: token.cancelled, None, token._grow().waiters)

        def waits_on_event(token: turnctl.TurnToken = token) -> None:
            assert token.event.wait()

        def waits_on_child(token: turnctl.TurnToken = token) -> None:
            child = token.child()
            assert child.event.wait()
            child.close()

        work = [waits, waits_on_event, waits_on_event, waits_on_child, waits_on_child, turn.cancel, turn.cancel, waits]
        chance.shuffle(work)
        with shaken():
            crew.round(work)
        leave_now(turn)

        assert [] == token._grow().waiters


def test_adopted_event_trips_its_turn(crew: Crew, rounds: int) -> None:
    """An event that the host sets while a turn adopts it: the turn is stopped, and who waits is woken (P2, P8)."""
    chance = random.Random()
    for _ in range(rounds):
        event = TurnEvent()
        turn = turnctl.turn(event=event)
        work = [turn.begin, event.set, event.wait, event.wait, event.set, event.wait, event.wait, event.wait]
        chance.shuffle(work)
        crew.round(work)

        assert ("event", True) == (turn.cause, turn.token.cancelled)
        leave_now(turn)


def test_end_lets_all_waiters_go(crew: Crew, rounds: int) -> None:
    """A turn that ends while threads come to wait for its event: untimed waits return, set or not (P4, P8)."""
    chance = random.Random()
    for _ in range(rounds):
        turn = begun()
        event = turn.token.event
        results: list[bool] = []
        work = [lambda event=event, results=results: results.append(event.wait())] * 6
        work += [lambda turn=turn: turnctl.end_turn(turn), turn.cancel]  # type: ignore[list-item]
        chance.shuffle(work)
        with shaken():
            crew.round(work)

        assert event.is_set() is (turn.outcome == "cancelled")
        assert {event.is_set()} == set(results)
