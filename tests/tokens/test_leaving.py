"""A turn that completes leaves no thread at a checkpoint: after the grace it raises, on that thread alone (P5)."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable

import pytest
from standins import BOUND, Background, until

import turnctl
from turnctl import CancelledError, Turn
from turnctl.testing import call_at
from turnctl.tokens import leaving

GRACE = 0.03


def never(turn: Turn) -> None:
    while True:
        turn.check()
        threading.Event().wait(0.001)


def asks_ambiently(_: Turn) -> None:
    while True:
        turnctl.check()
        threading.Event().wait(0.001)


def waits_for_a_pipe(turn: Turn) -> None:
    reading, writing = os.pipe()
    try:
        turn.select([reading])
    finally:
        os.close(reading)
        os.close(writing)


def waits_for_a_lock(turn: Turn) -> None:
    lock = turnctl.Lock()
    lock.acquire()
    turn.acquire(lock)


def waits_below(turn: Turn) -> None:
    with turn.child():
        turn.sleep(60)
    pytest.fail("the with of a child token took the end of the turn for its own")


def shields(turn: Turn) -> None:
    with turn.shield("60s"):
        turn.sleep(60)


def swallows(turn: Turn) -> None:
    while True:
        try:
            turn.sleep(60)
        except Exception:
            continue


WAITS: dict[str, Callable[[Turn], object]] = {
    "sleep": lambda turn: turn.sleep(60),
    "check": never,
    "ambient check": asks_ambiently,
    "event": lambda turn: turn.wait(threading.Event()),
    "queue": lambda turn: turn.get(queue.Queue()),
    "slices": lambda turn: turn.get(queue.SimpleQueue()),
    "lock": waits_for_a_lock,
    "pipe": waits_for_a_pipe,
    "call": lambda turn: turn.call(turn.sleep, 60),
    "child": waits_below,
    "shield": shields,
    "swallower": swallows,
}


def by_thread(turn: Turn, fn: Callable[[Turn], object]) -> None:
    turn.thread(fn, turn)


def by_job(turn: Turn, fn: Callable[[Turn], object]) -> None:
    turn.executor(1).submit(fn, turn)


def by_call(turn: Turn, fn: Callable[[Turn], object]) -> None:
    begun = threading.Event()
    Background(turn.call, lambda: (begun.set(), fn(turn)))
    begun.wait(BOUND)


@pytest.mark.parametrize(
    ("how", "what"),
    [(by_thread, name) for name in WAITS]
    + [(by_job, "sleep"), (by_job, "call"), (by_call, "sleep"), (by_call, "check")],
)
def test_thread_at_a_checkpoint_ends_with_its_turn(how: Callable[..., None], what: str) -> None:
    """Wherever it waits, nothing of it is alive when a turn that nobody stopped is over."""
    with turnctl.turn(grace=GRACE) as turn:
        how(turn, WAITS[what])
        # a call that comes too late is no call
        assert until(lambda: what != "call" or "call" in [one.kind for one in turn.report.activities])
    report = turn.report

    assert ("completed", "ended", ()) == (turn.outcome, report.execution, report.alive)
    assert {"cancelled"} == {one.state for one in report.activities if one.kind != "executor"}
    assert {} == leaving._sent


def test_what_is_raised_names_the_end_and_no_stop() -> None:
    """There was no stop, so there is none on record; the thread's hook is not told of it."""
    with turnctl.turn(grace=0) as turn:
        thread = turn.thread(turn.sleep, 60)
    with pytest.raises(
        CancelledError, match="has ended .completed., and this thread of it was still at work"
    ) as caught:
        thread.result()

    assert (None, None, None) == (caught.value.record, caught.value.cause, caught.value.reason)
    assert turn.token is caught.value.token


def test_thread_that_needs_its_grace_has_it() -> None:
    """What comes to its end within the grace is not interrupted."""
    with turnctl.turn(grace=BOUND) as turn:
        thread = turn.thread(lambda: (turn.sleep(0.02), turn.check(), "done")[2])

    assert "done" == thread.result()


def stuck(go: threading.Event) -> None:
    """Foreign code first, and a checkpoint of the turn it is in when that is over."""
    go.wait(BOUND)
    turnctl.check()


def test_own_code_of_the_caller_is_not_reached() -> None:
    """Checkpoints of the finished turn raise on the thread that was left behind, and on no other."""
    go = threading.Event()
    with turnctl.turn(grace=0) as turn:
        thread = turn.thread(stuck, go)
    named = turn.report.alive
    turn.check()
    turn.sleep(0.001)
    go.set()

    assert 1 == len(named)
    assert thread.wait(BOUND)
    with pytest.raises(CancelledError):
        thread.result()
    assert until(lambda: {} == leaving._sent)
    assert "ended" == turn.report.execution


def test_thread_that_was_lent_is_free_again() -> None:
    """A plain thread that ran a bound function goes on in another turn."""

    def lend(fn: Callable[[], None]) -> str:
        try:
            fn()
        except CancelledError:
            with turnctl.turn() as other:
                other.sleep(0.001)
        return str(other.outcome)

    with turnctl.turn(grace=0) as turn:
        lent = Background(lend, turn.bind(lambda: turn.sleep(60)))
        assert until(lambda: bool(turn.report.activities))

    assert "completed" == lent.result()


def test_turn_that_was_retired_ends_its_threads_with_itself() -> None:
    """A successor does not touch them: they run on as long as the frames of their turn do."""
    with turnctl.turn("chat", grace=0) as turn:
        thread = turn.thread(turn.sleep, 60)
        with turnctl.turn("other", inherit=False):
            successor = Background(lambda: turnctl.turn("chat", on_busy="retire", inherit=False).__enter__().end())
            successor.result()
        went_on = not thread.wait(0.05)

    assert went_on
    assert ("superseded", True) == (turn.outcome, thread.has_ended)


def test_stopped_turn_sends_nobody_off() -> None:
    """There the stop is what is raised, with its record, and nothing is waited for beyond the grace."""
    go = threading.Event()
    with turnctl.turn(grace=0) as turn:
        thread = turn.thread(stuck, go)
        turn.stop("enough")
    marked = dict(leaving._sent)
    go.set()
    with pytest.raises(CancelledError) as caught:
        thread.result()

    assert {} == marked
    assert "enough" == caught.value.reason


def test_call_that_is_left_while_the_turn_runs_goes_on() -> None:
    """A part of the turn was out of time, not the turn: its checkpoints let the function through."""
    go = threading.Event()
    went_on: list[str | None] = []

    def slow() -> None:
        go.wait(BOUND)
        turn.check()
        went_on.append(turn.outcome)

    with turnctl.turn(grace=0) as turn:
        with turn.child(timeout=0.01):
            turn.call(slow)
        go.set()
        passed = until(lambda: went_on)

    assert passed
    assert [None] == went_on


def test_wait_that_begins_meanwhile_sees_the_mark() -> None:
    """A thread that comes to its wait between the mark and the waking is not left in it."""
    go = threading.Event()

    def late() -> None:
        go.wait(BOUND)
        turn.sleep(60)

    def marked() -> None:
        go.set()
        assert until(lambda: thread.has_ended)

    with call_at("leaving.marked", marked), turnctl.turn(grace=0) as turn:
        thread = turn.thread(late)

    assert thread.has_ended
    assert () == turn.report.alive


def test_one_in_foreign_code_takes_no_time_from_the_others() -> None:
    """Those at a checkpoint have ended with the turn, however long one is waited for that is at none."""
    go = threading.Event()
    with turnctl.turn(grace=GRACE) as turn:
        turn.thread(go.wait, BOUND)
        waiting = [turn.thread(turn.sleep, 60) for _ in range(3)]
        turn.executor(1).submit(turn.sleep, 60)
    alive, ended = turn.report.alive, [one.has_ended for one in waiting]
    go.set()

    assert (1, [True] * 3) == (len(alive), ended)
    assert until(lambda: {} == leaving._sent)


def test_child_token_closed_under_a_thread_does_not_hold_it() -> None:
    """A wait there that begins after the end raises, and does not look again and again."""
    go, blocked = threading.Event(), threading.Event()
    with turnctl.turn(inherit=False) as other:
        helper = other.thread(blocked.wait, BOUND)
        with turnctl.turn(grace=0, inherit=False) as turn, turn.child():
            thread = turn.thread(lambda: (go.wait(BOUND), helper.wait(BOUND)))
        go.set()
        ended = thread.wait(1)
        blocked.set()

    assert ended
    with pytest.raises(CancelledError, match="has ended"):
        thread.result()


def test_job_that_ends_its_turn_goes_on_beside_another() -> None:
    """A thread that ends its own turn is not sent off, whatever else the executor has left."""
    go, begun = threading.Event(), threading.Event()

    def last() -> str:
        turn.end()
        turn.check()
        return "went on"

    with turnctl.turn(grace=0) as turn:
        pool = turn.executor(2)
        pool.submit(lambda: (begun.set(), go.wait(BOUND)))
        begun.wait(BOUND)
        job = pool.submit(last)
        assert until(job.done)
        go.set()

    assert "went on" == job.result()


def test_thread_held_by_the_pause_of_an_outer_turn_leaves() -> None:
    """A pause holds nobody who has to leave."""
    with turnctl.turn() as outer:
        with turnctl.turn(grace=0) as turn:
            thread = turn.thread(never, turn)
            outer.pause()
        ended = thread.has_ended
        outer.resume()

    assert ended
    assert () == turn.report.alive
