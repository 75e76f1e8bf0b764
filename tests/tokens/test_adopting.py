"""An event of the host is shared both ways: its set is a stop, and a stop sets it."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
import time
from collections.abc import Callable

import pytest
from standins import BOUND, Background, Thing, own, until

import turnctl
from turnctl import BadArgument, CancelledError, EventMisuse, SessionBusy, TurnEvent

KINDS = [threading.Event, TurnEvent]
OurThreads = Callable[[], list[str]]


@pytest.mark.parametrize("kind", KINDS)
def test_hosts_set_stops_the_turn(kind: type[threading.Event]) -> None:
    """The host sets its event; the turn trips with cause ``event`` before ``set()`` returns."""
    event = kind()
    with turnctl.turn(event=event) as turn:
        event.set()
        tripped = turn.token.cancelled
        turn.check()

    assert tripped
    assert ("event", "cancelled") == (turn.cause, turn.outcome)


@pytest.mark.parametrize("kind", KINDS)
def test_stop_sets_the_hosts_event(kind: type[threading.Event]) -> None:
    """Whoever waits on the host's event learns of a stop."""
    event = kind()
    with turnctl.turn(event=event) as turn:
        waiter = Background(event.wait, BOUND)
        turn.stop()

        assert waiter.result()
    assert event.is_set()
    assert event is turn.event


def test_plain_event_is_set_by_the_bridge_thread() -> None:
    """Never on the canceller's stack, and only after the token has tripped."""
    seen: list[tuple[str, bool]] = []

    class Watched(threading.Event):
        def set(self) -> None:
            seen.append((threading.current_thread().name, turn.token.cancelled))
            super().set()

    event = Watched()
    with turnctl.turn(event=event) as turn:
        turn.stop()
        assert event.wait(BOUND)

    assert [(f"turnctl-bridge-{turn.turn_id}", True)] == seen


def test_turn_event_is_set_on_the_spot() -> None:
    """A ``TurnEvent`` needs no hop and no thread."""
    event = TurnEvent()
    with turnctl.turn(event=event) as turn:
        turn.stop()
        at_once = event.is_set()
        threads = [t.name for t in threading.enumerate() if turn.turn_id in t.name]

    assert at_once
    assert [] == threads


def test_turn_event_of_the_host_wakes_its_earlier_waiters() -> None:
    """Who waited before the turn began wakes as well."""
    event = TurnEvent()
    waiter = Background(event.wait)
    assert until(lambda: event._waiters)
    with turnctl.turn(event=event) as turn:
        turn.stop()

        assert waiter.result()


@pytest.mark.parametrize("kind", KINDS)
def test_event_set_at_begin_makes_the_turn_born_cancelled(kind: type[threading.Event]) -> None:
    """The first checkpoint raises, with cause ``event``."""
    event = kind()
    event.set()
    reached: list[int] = []
    with turnctl.turn(event=event) as turn:
        turnctl.check()
        reached.append(1)

    assert [] == reached
    assert ("cancelled", "event") == (turn.outcome, turn.cause)


def test_clear_by_the_host_does_not_take_the_stop_back() -> None:
    """A plain event can be cleared; the turn stays stopped."""
    event = threading.Event()
    with turnctl.turn(event=event) as turn:
        event.set()
        event.clear()
        still = turn.token.cancelled

    assert still
    assert "cancelled" == turn.outcome


def test_clear_at_start_does_no_harm() -> None:
    """A host that clears its event at start, and sets it later, is obeyed."""
    event = threading.Event()
    with turnctl.turn(event=event) as turn:
        event.clear()
        before = turn.cancelled
        event.set()

    assert not before
    assert "cancelled" == turn.outcome


def test_clear_of_an_adopted_turn_event_is_refused_once_set() -> None:
    """There the refusal can be told."""
    event = TurnEvent()
    with turnctl.turn(event=event) as turn:
        event.clear()
        turn.stop()
        with pytest.raises(EventMisuse):
            event.clear()


def test_event_set_after_the_end_reaches_nobody() -> None:
    """The doorbell is gone at the end; a later turn with the event is a matter of its own (promise 2)."""
    event = threading.Event()
    with turnctl.turn(event=event) as turn:
        inside = len(event._cond._waiters)  # type: ignore[attr-defined]
    left = len(event._cond._waiters)  # type: ignore[attr-defined]
    event.set()

    assert (1, 0) == (inside, left)
    assert "completed" == turn.outcome
    assert not turn.cancelled


@pytest.mark.parametrize("stopped", [False, True])
def test_no_doorbell_is_left_after_many_turns(stopped: bool) -> None:
    """A host that keeps one event for all turns of a session finds nothing left in it."""
    event = threading.Event()
    for _ in range(50):
        event.clear()
        with turnctl.turn("chat", event=event) as turn:
            if stopped:
                turn.stop()

    assert [] == list(event._cond._waiters)  # type: ignore[attr-defined]


def test_end_after_a_stop_leaves_the_event_set() -> None:
    """The event is set before the turn is over, though the bridge was slow."""
    event = threading.Event()
    with turnctl.turn(event=event) as turn:
        turn.stop()

    assert event.is_set()


def test_end_without_a_stop_leaves_the_event_unset() -> None:
    """A completed turn sets nobody's event."""
    event = threading.Event()
    with turnctl.turn(event=event) as turn:
        pass

    assert not event.is_set()
    assert not turn.cancelled


def test_soft_stop_leaves_the_event_unset() -> None:
    """Softly stopped, the host's event stays down, also at the end."""
    event = threading.Event()
    with turnctl.turn(event=event) as turn:
        turn.stop(soft=True)

    assert not event.is_set()
    assert "cancelled" == turn.outcome


def test_set_under_the_events_own_lock_trips() -> None:
    """A host that notifies while it holds the event's lock is obeyed at once, and nothing deadlocks."""
    event = threading.Event()
    ran: list[str] = []
    with turnctl.turn(event=event) as turn:
        turn.on_cancel(lambda: ran.append("bridge"))
        with event._cond:  # type: ignore[attr-defined]
            event._flag = True  # type: ignore[attr-defined]
            event._cond.notify_all()  # type: ignore[attr-defined]
            tripped = turn.token.cancelled
        assert until(lambda: ran)

    assert tripped
    assert "event" == turn.cause


def test_stop_while_a_host_holds_the_events_lock() -> None:
    """The canceller does not wait for the lock; the event follows when the lock is free."""
    event = threading.Event()
    with turnctl.turn(event=event) as turn:
        with event._cond:  # type: ignore[attr-defined]
            stopped = Background(turn.stop)
            answer = stopped.result()
            tripped = turn.token.cancelled
        assert event.wait(BOUND)

    assert answer
    assert tripped


def test_end_while_a_host_keeps_the_events_lock() -> None:
    """A lock that is not given back delays the end by a bound, and the report names the thread (promise 5)."""
    event = threading.Event()
    begun = time.monotonic()
    with event._cond:  # type: ignore[attr-defined]
        with turnctl.turn(event=event) as turn:
            turn.stop()
        took = time.monotonic() - begun
        report = turn.report

    assert took < BOUND
    assert "unproven" == report.execution
    assert turn.turn_id in report.alive[0]
    assert until(lambda: not any(turn.turn_id in t.name for t in threading.enumerate()))


@pytest.mark.parametrize("of_child", [False, True])
def test_inline_callback_does_not_run_under_the_events_lock(of_child: bool) -> None:
    """A host's set leaves inline callbacks to the bridge, since the event's lock is held at that moment."""
    event = threading.Event()
    ran: list[bool] = []
    with turnctl.turn(event=event) as turn:
        token = turn.child() if of_child else turn.token
        # is_set takes no lock, wait would: it tells whether the lock is free here
        registration = token.on_cancel(lambda: ran.append(event.wait(BOUND)), inline=True)
        setter = Background(event.set)
        setter.result()
        fired = until(lambda: ran, within=2)
        registration.unregister()

    assert fired


def test_event_of_another_process_is_refused() -> None:
    """A multiprocessing event cannot be watched without polling; the message names it and says what to do."""
    event = multiprocessing.get_context("fork").Event()
    with pytest.raises(BadArgument, match=r"must be a threading\.Event.*not multiprocessing.*turn\.stop\(\)"):
        turnctl.turn(event=event)  # type: ignore[arg-type]


def test_event_of_asyncio_is_refused() -> None:
    """An asyncio event belongs to a loop; the message names it and says what to do."""
    with pytest.raises(BadArgument, match=r"must be a threading\.Event.*not asyncio.*turn\.stop\(\)"):
        turnctl.turn(event=asyncio.Event())  # type: ignore[arg-type]


@pytest.mark.parametrize("event", [object(), "event", True, threading.Condition()])
def test_what_is_no_event_is_refused(event: object) -> None:
    """Anything else is refused before the turn begins."""
    with pytest.raises(BadArgument, match="event must be a threading.Event"):
        turnctl.turn(event=event)  # type: ignore[arg-type]


def test_event_without_a_queue_is_refused() -> None:
    """A subclass that waits in a way of its own would have to be polled."""

    class Odd(threading.Event):
        def __init__(self) -> None:
            pass

        def __repr__(self) -> str:
            return "<Odd>"

    with pytest.raises(BadArgument, match=r"hand in a turnctl\.TurnEvent"):
        turnctl.turn(event=Odd())


def test_turn_event_serves_one_turn() -> None:
    """One that belongs to a running turn, or did to one that has ended, is refused, with nothing begun."""
    event = TurnEvent()
    with turnctl.turn(event=event) as turn:
        with pytest.raises(EventMisuse, match="belongs to another turn"):
            turnctl.turn(event=event).begin()
        with pytest.raises(EventMisuse, match="belongs to another turn"):
            turnctl.turn(event=turn.token.event).begin()
        turn.check()
    with pytest.raises(EventMisuse, match="has ended"):
        turnctl.turn(event=event).begin()

    assert "completed" == turn.outcome


def test_plain_event_may_be_shared_by_turns() -> None:
    """One event of the host may stop several turns."""
    event = threading.Event()
    with turnctl.turn(event=event, inherit=False) as outer, turnctl.turn(event=event, inherit=False) as other:
        event.set()

    assert ("event", "event") == (outer.cause, other.cause)


@pytest.mark.parametrize("kind", KINDS)
def test_event_is_free_again_when_the_turn_could_not_begin(kind: type[threading.Event]) -> None:
    """A begin that was refused leaves the host's event as it was."""
    event = kind()
    with turnctl.turn("slot"):
        made = turnctl.turn("slot", event=event, on_busy="refuse", inherit=False)
        with pytest.raises(SessionBusy):
            Background(made.begin).result()
    with turnctl.turn("slot", event=event) as turn:
        event.set()

    assert "cancelled" == turn.outcome


def test_set_just_before_the_end_counts() -> None:
    """An event set in the body decides the outcome, though the body then returns at once."""
    event = threading.Event()
    with turnctl.turn(event=event) as turn:
        event._flag = True  # type: ignore[attr-defined]  # set() has stored the flag and not yet notified

    assert ("cancelled", "event") == (turn.outcome, turn.cause)


def test_hosts_set_reaches_what_the_turn_owns() -> None:
    """The bridge tells the watchers of a stop that came by the host's event."""
    event = threading.Event()
    wanted: list[bool] = []
    with turnctl.turn(event=event, grace="1s") as turn:
        thing = Thing(ends="asked")
        own(turn, thing)
        turn.watch(lambda: wanted.append(turn.stop_wanted()))
        event.set()
        assert until(lambda: True in wanted)

    assert thing.ended.is_set()


@pytest.mark.parametrize("kind", KINDS)
def test_set_that_races_the_begin_is_never_lost(kind: type[threading.Event]) -> None:
    """Set before, during or after the adoption: the turn is stopped."""
    for _ in range(100):
        event = kind()
        gate = threading.Barrier(2)

        def press(event: threading.Event = event, gate: threading.Barrier = gate) -> None:
            gate.wait(BOUND)
            event.set()

        presser = Background(press)
        made = turnctl.turn(event=event)
        gate.wait(BOUND)
        with made as turn:
            stopped = turn.wait_cancelled(BOUND)
        presser.result()

        assert stopped
        assert "event" == turn.cause


def test_error_of_an_adopted_stop_says_so() -> None:
    """The exception tells that the event was set."""
    event = threading.Event()
    with turnctl.turn(event=event) as turn:
        event.set()
        with pytest.raises(CancelledError, match=r"\(event\): event set"):
            turn.check()


def test_turn_with_an_event_leaves_no_thread(our_threads: OurThreads) -> None:
    """The bridge that watches the event ends with the turn (promise 5)."""
    with turnctl.turn(event=threading.Event()):
        during = our_threads()

    assert 1 == len(during)
    assert [] == our_threads()
