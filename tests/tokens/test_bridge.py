"""The bridge thread carries the signal to what cannot wait for it, and never outlives its turn unnoticed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from standins import BOUND, Background, until

import turnctl
from turnctl.testing import call_at, pause_at

OurThreads = Callable[[], list[str]]


def test_turn_that_needs_none_starts_none(our_threads: OurThreads) -> None:
    """A turn without callbacks has no thread, nor a clock's without a limit."""
    with turnctl.turn("chat") as turn:
        turn.event.is_set()
        inside = our_threads()
        turn.stop()

    assert [] == inside
    assert [] == our_threads()


def test_cancel_starts_no_thread(our_threads: OurThreads) -> None:
    """The thread is there from the registration on; a stop adds none."""
    go = threading.Event()
    with turnctl.turn() as turn:
        turn.on_cancel(lambda: go.wait(BOUND))
        before = our_threads()
        turn.stop()
        after = our_threads()
        go.set()

    assert 1 == len(before)
    assert before == after


def test_all_of_a_turn_share_one_thread(our_threads: OurThreads) -> None:
    """Callbacks, watchers and children's callbacks are served by the one bridge."""
    with turnctl.turn(event=threading.Event()) as turn:
        turn.on_cancel(print)
        turn.child().on_cancel(int)
        turn.watch(lambda: None)
        inside = our_threads()

    assert [f"turnctl-bridge-{turn.turn_id}"] == inside
    assert [] == our_threads()


def test_end_of_the_turn_is_no_stop() -> None:
    """The bridge is let go at the end without telling anybody of a stop, and has ended when the turn is over."""
    told: list[int] = []
    with turnctl.turn() as turn:
        turn.on_cancel(lambda: told.append(1))
        bridge = next(t for t in threading.enumerate() if turn.turn_id in t.name)

    assert [] == told
    assert not bridge.is_alive()


def test_watchers_come_before_callbacks() -> None:
    """What turnctl carries itself goes first, though it was registered last."""
    order: list[str] = []
    with turnctl.turn() as turn:
        turn.on_cancel(lambda: order.append("callback"))
        turn.watch(lambda: order.append("watcher") if turn.stop_wanted() else None)
        turn.stop()
        assert until(lambda: "callback" in order)

    assert "watcher" == order[0]


def test_watcher_is_called_soon_if_a_stop_is_wanted_already() -> None:
    """It is not too late to watch a stopped turn."""
    called = threading.Event()
    with turnctl.turn() as turn:
        turn.stop()
        turn.watch(called.set)

        assert called.wait(BOUND)


def test_watcher_that_was_undone_is_not_called() -> None:
    """Its undo holds, and may be called twice."""
    calls: list[int] = []
    with turnctl.turn() as turn:
        undo = turn.watch(lambda: calls.append(1))
        undo()
        undo()
        turn.stop()

    assert [] == calls


def test_thread_blocked_in_a_callback_is_named(our_threads: OurThreads) -> None:
    """A thread in foreign code cannot be ended: the report counts and names it, and claims no end (promise 5)."""
    inside, go = threading.Event(), threading.Event()

    def blocks() -> None:
        inside.set()
        go.wait(BOUND * 2)

    begun = time.monotonic()
    with turnctl.turn("chat") as turn:
        turn.on_cancel(blocks)
        turn.stop()
        assert inside.wait(BOUND)
    took = time.monotonic() - begun
    report = turn.report
    go.set()

    assert took < BOUND
    assert "unproven" == report.execution
    assert 1 == len(report.alive)
    assert f"turnctl-bridge-{turn.turn_id}" in report.alive[0]
    assert "draining" == report.state
    assert "still alive: thread turnctl-bridge-" in str(report)
    assert until(lambda: not our_threads())


@pytest.mark.parametrize("stop", [True, False])
def test_thread_that_is_just_started_is_waited_for(stop: bool, our_threads: OurThreads) -> None:
    """An end that finds the thread neither there nor gone waits for it: it is not told as one in a callback."""
    turn = turnctl.turn()
    turn.begin()
    with pause_at("bridge.starting") as held:
        listing = Background(lambda: turn.on_cancel(int))
        assert held.reached.wait(BOUND)
        if stop:
            turn.stop()
        ending = Background(turn.end)
        assert until(lambda: turn.bridge.is_over)
        early = until(lambda: turn.is_over, within=0.05)
        held.release()
        ending.result()
        alive, threads = turn.report.alive, our_threads()
        with pytest.raises(turnctl.TurnOver):
            listing.result()

    assert (False, (), []) == (early, alive, threads)


def test_no_thread_is_started_after_the_end() -> None:
    """Who comes so late that the end of the turn has waited already gets an error, and no thread."""
    turn = turnctl.turn()
    turn.begin()
    with call_at("bridge.start", turn.end), pytest.raises(turnctl.TurnOver):
        turn.on_cancel(int)

    assert turn.bridge._thread is None
    assert () == turn.report.alive


def test_turn_that_ends_in_the_start_of_its_thread() -> None:
    """A handler that ends the turn on the very thread that starts the bridge does not wait for itself."""
    turn = turnctl.turn()
    turn.begin()
    began = time.monotonic()
    with call_at("bridge.starting", turn.end), pytest.raises(turnctl.TurnOver):
        turn.on_cancel(int)

    assert time.monotonic() - began < 1
    assert until(lambda: () == turn.report.alive)


def test_completed_turn_with_a_blocked_thread_claims_no_end(our_threads: OurThreads) -> None:
    """A host's clean-up that hangs keeps a completed turn ``finishing``."""
    inside, go = threading.Event(), threading.Event()

    def blocks() -> None:
        inside.set()
        go.wait(BOUND * 2)

    with turnctl.turn() as turn:
        turn.watch(lambda: blocks() if turn.token.retired else None)
    report = turn.report
    go.set()

    assert inside.is_set()
    assert ("completed", "unproven", "finishing") == (report.outcome, report.execution, report.state)
    assert until(lambda: not our_threads())


@pytest.mark.parametrize("times", [20, 10_000])
def test_thread_count_is_back_after_many_turns(times: int) -> None:
    """Turns with bridges, stopped or not, leave the count of threads where it was (promise 5)."""
    ran: list[int] = []
    before = threading.active_count()
    for n in range(times):
        with turnctl.turn("slot") as turn:
            if n % 2 == 0:
                turn.on_cancel(lambda: ran.append(1))
            if n % 4 == 0:
                turn.stop()

    assert before == threading.active_count()
    assert times // 4 == len(ran)


def test_two_turns_do_not_share_a_thread() -> None:
    """A callback that blocks in one turn delays no other turn's."""
    go, ran = threading.Event(), threading.Event()
    with turnctl.turn() as outer, turnctl.turn(inherit=False) as other:
        outer.on_cancel(lambda: go.wait(BOUND))
        other.on_cancel(ran.set)
        outer.stop()
        other.stop()
        independent = ran.wait(BOUND)
        go.set()

    assert independent


def test_bridge_made_by_two_threads_is_one(our_threads: OurThreads) -> None:
    """First callbacks registered at the same time start one thread."""
    gate = threading.Barrier(4)
    with turnctl.turn() as turn:

        def register() -> None:
            gate.wait(BOUND)
            turn.on_cancel(print)

        for one in [Background(register) for _ in range(4)]:
            one.result()
        count = len(our_threads())

    assert 1 == count


class Gate:
    """A lock that holds who gives it up until it is let."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.releasing, self.go = threading.Event(), threading.Event()

    def acquire(self, blocking: bool = True) -> bool:
        return self.lock.acquire(blocking)

    def locked(self) -> bool:
        return self.lock.locked()

    def release(self) -> None:
        self.releasing.set()
        self.go.wait(BOUND)
        self.lock.release()


@pytest.mark.parametrize("what", ["callback", "watcher"])
def test_late_comer_is_served_though_the_thread_is_leaving(what: str) -> None:
    """What is registered while an idle bridge gives its thread up still runs."""
    ran = threading.Event()
    with turnctl.turn() as turn:
        gate = Gate()
        turn.bridge._gate = gate  # type: ignore[assignment]
        turn.on_cancel(int)
        turn.stop()
        if not gate.releasing.wait(0.5):
            pytest.skip("this bridge keeps its thread until the turn is over")
        thread = turn.bridge._thread
        assert thread is not None
        if what == "callback":
            with pause_at("token.callback.listed") as held:
                late = Background(turn.on_cancel, ran.set)
                assert held.reached.wait(BOUND)
                gate.go.set()
                thread.join(0.2)  # it may be gone, or have seen the late comer
                held.release()
            late.result()
        else:
            undo = turn.watch(ran.set)
            gate.go.set()
        served = ran.wait(2)
        if what == "watcher":
            undo()

    assert served


def test_watchers_come_before_the_next_callback() -> None:
    """A change between two callbacks is carried before the second one, however many there are."""
    order: list[str] = []
    with turnctl.turn() as turn:

        def first() -> None:
            order.append("first")
            turn.stop(kill=True)

        turn.watch(lambda: order.append(f"watcher {turn.token.level}") if turn.stop_wanted() else None)
        turn.on_cancel(first)
        turn.on_cancel(lambda: order.append("second"))
        turn.stop()
        assert until(lambda: "second" in order)

    kept = [one for n, one in enumerate(order) if n == 0 or one != order[n - 1]]
    assert ["watcher cancel", "first", "watcher kill", "second"] == kept[:4]


def test_many_callbacks_run_in_one_round() -> None:
    """Without a change in between they cost no more than a walk."""
    ran: list[int] = []
    with turnctl.turn() as turn:
        for n in range(2000):
            turn.on_cancel(lambda n=n: ran.append(n))  # type: ignore[misc]
        began = time.monotonic()
        turn.stop()
        assert until(lambda: len(ran) == 2000)
        took = time.monotonic() - began

    assert list(range(2000)) == ran
    assert took < 2


def test_release_runs_once_when_the_turn_is_over(our_threads: OurThreads) -> None:
    """What belongs to the turn is given back by its end, on the thread that ends it, and needs no bridge thread."""
    told: list[int] = []
    with turnctl.turn() as turn:
        turn.bridge.at_over(lambda: told.append(threading.get_ident()))
        undo = turn.bridge.at_over(lambda: told.append(0))
        undo()
        undo()
        inside = our_threads()
    turn.bridge.finish()

    assert [threading.get_ident()] == told
    assert [] == inside


def test_release_that_comes_late_runs_at_once() -> None:
    """Listed after the bridge was let go, or while it is, it is not forgotten."""
    told: list[str] = []
    with turnctl.turn() as turn:
        bridge = turn.bridge
        with call_at("bridge.release.listed", bridge.finish):
            bridge.at_over(lambda: told.append("while"))
    bridge.at_over(lambda: told.append("after"))

    assert ["while", "after"] == told


def test_release_runs_though_a_callback_blocks() -> None:
    """A user's callback that holds the thread up holds nothing back that belongs to the turn (promise 5)."""
    inside, go = threading.Event(), threading.Event()
    told: list[int] = []

    def blocks() -> None:
        inside.set()
        go.wait(BOUND)

    with turnctl.turn() as turn:
        turn.bridge.at_over(lambda: told.append(1))
        turn.on_cancel(blocks)
        turn.stop()
        assert inside.wait(BOUND)
    before = list(told)
    go.set()

    assert [1] == before
    assert until(lambda: not turn.bridge.is_running)
