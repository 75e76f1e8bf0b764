"""The signal of a loop: one stop falls to one run, whenever it is fired."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import turnctl
from turnctl import StopAnswer, points
from turnctl.agent import CancelSignal
from turnctl.agent.slots import CLOSED, Bound, Place, Slot, place, read
from turnctl.testing import call_at
from turnctl.tokens.asked import Stop


def _stop() -> Stop:
    return Stop("user", "cancel", 0.0, 0.0)


# -- the state machine ------------------------------------------------------------------------------------------------


def test_place_of_a_stop_is_its_order_in_the_log() -> None:
    """Every log of up to two stops, a beginning and an end, in every order, says one thing of each stop."""
    with turnctl.turn() as turn:
        bound, stops = Bound(turn), [_stop(), _stop()]
        for n in range(1, 5):
            for log in itertools.permutations([*stops, bound, CLOSED], n):
                order = list(log)
                for stop in [one for one in order if isinstance(one, Stop)]:
                    at = order.index(stop)
                    began, ended = (order.index(one) if one in order else None for one in (bound, CLOSED))
                    if ended is not None and ended < at:
                        expected: Place = "next"
                    elif began is None:
                        expected = "armed"
                    else:
                        expected = "during" if began < at else "before"

                    assert expected == place(order, stop), order


def test_what_follows_the_end_of_a_log_does_not_count() -> None:
    """Who reads a log stops at its end, and takes the first beginning."""
    with turnctl.turn() as turn:
        early, late, bound = _stop(), _stop(), Bound(turn)

        assert ([early], bound, True) == read([early, bound, CLOSED, late, Bound(turn)])
        assert ([early], None, False) == read([early])


def test_a_slot_is_closed_once() -> None:
    """Closing again gives the same next slot, and keeps what was said."""
    slot = Slot()
    following = slot.close(was_stopped=True)

    assert following is slot.close(was_stopped=False)
    assert slot.was_stopped
    assert [CLOSED] == slot.log


# -- one run after the other ------------------------------------------------------------------------------------------


@contextmanager
def _run(signal: CancelSignal, *, work: Callable[[turnctl.Turn], object] | None = None) -> Iterator[turnctl.Turn]:
    """A run as the loop makes it: begin, work, decide, end."""
    turn = turnctl.turn()
    try:
        with turn:
            signal._begin(turn)
            turn.check()
            if work is not None:
                work(turn)
        yield turn
    finally:
        signal._end(turn)


def test_a_stop_while_idle_is_of_the_next_run_alone() -> None:
    """Fired while nothing runs, a stop cancels exactly the next run, before its work, with its own reason."""
    signal = CancelSignal()
    worked: list[int] = []
    answer = signal.cancel("too early", by="ann")

    assert "armed" == answer.kind
    assert signal.is_cancelled()
    assert not signal.reset()
    with _run(signal, work=lambda _: worked.append(1)) as first:
        pass
    assert ("cancelled", "too early", []) == (first.outcome, first.token.reason, worked)
    assert answer.record is first.token.record
    assert not signal.is_cancelled()
    with _run(signal, work=lambda _: worked.append(2)) as second:
        pass
    assert ("completed", [2]) == (second.outcome, worked)


def test_two_stops_while_idle_are_one() -> None:
    """Firing twice is firing once: the second answer names the first record, and one run is cancelled."""
    signal = CancelSignal()
    first, second = signal.cancel("one"), signal.cancel("two")

    assert first.record is second.record
    outcomes = []
    for _ in range(2):
        with _run(signal) as turn:
            pass
        outcomes.append(turn.outcome)
    assert ["cancelled", "completed"] == outcomes


def test_a_stop_of_a_run_is_not_of_the_next() -> None:
    """Fired while a run runs it is that run's, also when it is fired again."""
    signal = CancelSignal()
    answers = []
    with _run(signal, work=lambda _: answers.extend([signal.cancel("a"), signal.cancel("b")])) as first:
        pass
    with _run(signal) as second:
        pass

    assert ["accepted", "already_cancelled"] == [one.kind for one in answers]
    assert ["cancelled", "completed"] == [first.outcome, second.outcome]


def test_a_stop_in_the_closing_window_is_answered_by_its_run() -> None:
    """Between the decision of a run and its end a stop is told the outcome, and neither waits nor is lost."""
    signal = CancelSignal()
    with _run(signal) as first:
        answer = signal.cancel()
        assert "already_ended" == answer.kind
        assert "completed" == answer.outcome
        assert not signal.is_cancelled()
    with _run(signal) as second:
        pass

    assert ["completed", "completed"] == [first.outcome, second.outcome]


@pytest.mark.parametrize("when", ["running", "closing", "over", "next"])
def test_a_stop_that_names_a_run_reaches_it_or_nobody(when: str) -> None:
    """A stop aimed at a run that is over is refused, does not arm, and does not touch the one after it."""
    signal = CancelSignal()
    answers = []
    with _run(signal, work=lambda t: when == "running" and answers.append(signal.cancel(run_id=t.turn_id))) as first:
        if when == "closing":
            answers.append(signal.cancel(run_id=first.turn_id))
    if when == "over":
        answers.append(signal.cancel(run_id=first.turn_id))
    with _run(signal, work=lambda _: when == "next" and answers.append(signal.cancel(run_id=first.turn_id))) as second:
        pass

    kinds = {"running": "accepted", "closing": "already_ended", "over": "refused", "next": "refused"}
    assert [kinds[when]] == [one.kind for one in answers]
    assert ("cancelled" if when == "running" else "completed", "completed") == (first.outcome, second.outcome)


@pytest.mark.parametrize("at", ["signal.bound", "signal.closing", "signal.closed"])
def test_a_stop_inside_a_step_of_the_run_falls_to_one(at: str) -> None:
    """A stop that interrupts the beginning or the end of a run, as a handler does, cancels that one or the next."""
    signal = CancelSignal()
    outcomes, answers = [], []
    with call_at(at, lambda: answers.append(signal.cancel())):
        for _ in range(3):
            with _run(signal) as turn:
                pass
            outcomes.append(turn.outcome)

    kinds = {"signal.bound": "accepted", "signal.closing": "already_ended", "signal.closed": "armed"}
    cancelled = {"signal.bound": 0, "signal.closing": None, "signal.closed": 1}
    assert [kinds[at]] == [one.kind for one in answers]
    assert ["cancelled" if n == cancelled[at] else "completed" for n in range(3)] == outcomes


@pytest.mark.parametrize("at", ["signal.entering", "signal.entered"])
@pytest.mark.parametrize("what", ["begins", "runs", "begins twice"])
def test_a_run_inside_a_step_of_a_stop(at: str, what: str) -> None:
    """A canceller held at a step while runs begin and end: the stop falls to one, and the answer says which."""
    signal = CancelSignal()
    turns: list[turnctl.Turn] = []

    def run() -> None:
        for _ in range(2 if what == "begins twice" else 1):
            with _run(signal, work=turns.append) as turn:
                pass
            turns.append(turn)

    def begin() -> None:
        turn = turnctl.turn().__enter__()
        signal._begin(turn)
        turns.append(turn)

    with call_at(at, begin if what == "begins" else run):
        answer = signal.cancel("now")
    if what == "begins":
        turn = turns[0]
        turn.__exit__(None, None, None)
        signal._end(turn)
        assert ("accepted", "cancelled") == (answer.kind, turn.outcome)
        return
    ended = {id(one): one.outcome for one in turns}
    if at == "signal.entering":
        assert "armed" == answer.kind
        assert {"completed"} == set(ended.values())
        with _run(signal) as following:
            pass
        assert "cancelled" == following.outcome
    else:
        assert "accepted" == answer.kind
        assert "cancelled" == next(iter(ended.values()))
        with _run(signal) as following:
            pass
        assert "completed" == following.outcome


def test_an_end_that_was_struck_does_not_hold_the_signal() -> None:
    """A run whose end never came about is over for the signal when the next one begins."""
    signal = CancelSignal()
    with turnctl.turn() as lost:
        signal._begin(lost)
    with _run(signal) as turn:
        assert "refused" == signal.cancel(run_id=lost.turn_id).kind

    assert "completed" == turn.outcome


# -- waiting ----------------------------------------------------------------------------------------------------------


def _watch(signal: CancelSignal) -> tuple[threading.Thread, list[bool]]:
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(signal.wait(10)))
    thread.start()
    while not signal._waiters:
        time.sleep(0.001)
    return thread, seen


def test_a_watcher_waits_on_through_a_run_that_is_not_stopped() -> None:
    """One that waited through a run without a stop wakes for the stop of the next."""
    signal = CancelSignal()
    thread, seen = _watch(signal)
    with _run(signal):
        pass
    assert thread.is_alive()
    with _run(signal, work=lambda t: t.cancel()):  # by another path
        pass
    thread.join(10)

    assert [True] == seen


def test_a_watcher_sees_a_stop_whose_run_is_over() -> None:
    """A thread that comes up late has not missed it."""
    signal = CancelSignal()
    start = signal._current()
    with _run(signal, work=lambda _: signal.cancel()):
        pass
    thread, seen = _watch(signal)
    signal.cancel()
    thread.join(10)

    assert start.was_stopped
    assert [True] == seen
    assert signal.wait(0)


def test_wait_gives_up_in_time() -> None:
    """Without a stop it returns False when its time is over."""
    assert not CancelSignal().wait(0.01)


def test_misuse_is_told_before_anything_is_recorded() -> None:
    """A run id that is none, a wrong level or grace: an error, and nothing is armed."""
    signal = CancelSignal()
    for options in ({"run_id": ""}, {"level": "hard"}, {"grace": "soon"}, {"cause": "whim"}):
        with pytest.raises(turnctl.TurnctlError):
            signal.cancel(**options)  # type: ignore[arg-type]

    assert not signal.is_cancelled()
    assert "clear" in repr(signal)


# -- threads ----------------------------------------------------------------------------------------------------------


def _fire(signal: CancelSignal, ready: threading.Barrier, pause: float, fires: int, answers: list[StopAnswer]) -> None:
    ready.wait()
    until = time.perf_counter() + pause
    while time.perf_counter() < until:
        pass
    answers.extend(signal.cancel() for _ in range(fires))


def _tries(count: int) -> None:
    """Fire at random about the end of runs; each stop has one answer, and the runs agree with the answers."""
    signal = CancelSignal()
    chance = random.Random(8)
    for _ in range(count):
        pause, fires = chance.random() * 60e-6, chance.randrange(1, 3)
        ready: threading.Barrier = threading.Barrier(2)
        answers: list[StopAnswer] = []

        thread = threading.Thread(target=_fire, args=(signal, ready, pause, fires, answers))
        thread.start()
        outcomes: dict[str, str | None] = {}
        ready.wait()
        for _ in range(2):
            with _run(signal) as turn:
                pass
            outcomes[turn.turn_id] = turn.outcome
        thread.join()
        was_armed = signal.is_cancelled()
        with _run(signal) as last:
            pass
        outcomes[last.turn_id] = last.outcome
        with _run(signal) as fresh:
            pass

        assert "completed" == fresh.outcome  # nothing is carried on
        cancelled = {name for name, outcome in outcomes.items() if outcome == "cancelled"}
        said = {one.turn_id for one in answers if one.kind in ("accepted", "already_cancelled")}
        late = {one.turn_id for one in answers if one.kind == "already_ended" and one.outcome == "completed"}
        armed = [one for one in answers if one.kind == "armed"]
        assert said <= cancelled
        assert late.isdisjoint(cancelled)
        assert was_armed <= bool(armed)
        assert len(cancelled - said) <= len(armed)  # each other one was stopped by a stop that had been armed
        assert bool(cancelled) == bool(said or armed)  # no stop is lost, none comes from nowhere


def test_each_stop_about_the_end_of_a_run_has_one_answer() -> None:
    """Random stops about the closing window: answered by that run or the next, never erased, never twice."""
    _tries(500)


@pytest.mark.stress
@pytest.mark.switchinterval
@pytest.mark.timeout(300)
def test_ten_thousand_stops_about_the_end_of_a_run() -> None:
    """The same, ten thousand times, with threads that are switched all the time."""
    _tries(10_000)


def test_points_are_silent_without_a_test() -> None:
    """No hook is left in place."""
    assert points.hook is None
