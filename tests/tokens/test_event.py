"""``TurnEvent`` is a ``threading.Event`` that goes up once, and a parked thread costs nothing."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import threading
import time
import warnings

import pytest
from interrupts import every_place
from standins import BOUND, Background, is_parked, until

import turnctl
from turnctl import EventMisuse, TokenMisuse, TurnEvent
from turnctl.tokens import event as event_module
from turnctl.tokens import registry
from turnctl.tokens.event import park, release_all


def test_is_an_event_by_type() -> None:
    """Code that asks for a ``threading.Event`` takes it."""
    assert isinstance(TurnEvent(), threading.Event)


def test_set_is_seen_and_stays() -> None:
    """It goes up with the first set, and three sets are no more than one."""
    event = TurnEvent()
    before = event.is_set()
    for _ in range(3):
        event.set()

    assert not before
    assert event.is_set()
    assert event.wait()
    assert event.wait(0)


def test_ten_waiters_wake() -> None:
    """Every thread that waits, timed or not, wakes with the set and is told True."""
    event = TurnEvent()
    waiters = [Background(event.wait, *args) for args in [()] * 5 + [(BOUND,)] * 5]
    assert is_parked(event._waiters, 10)
    event.set()

    assert [True] * 10 == [w.result() for w in waiters]
    assert [] == event._waiters


def test_timed_wait_gives_up_in_time() -> None:
    """A wait of a time returns False after it, not before, and leaves nothing on the list."""
    event = TurnEvent()
    begun = time.monotonic()
    found = event.wait(0.05)
    took = time.monotonic() - begun

    assert not found
    assert 0.05 <= took < 1
    assert [] == event._waiters


@pytest.mark.parametrize("timeout", [0, -1, 0.0])
def test_wait_of_no_time_is_a_question(timeout: float) -> None:
    """A time of nothing or less asks and returns at once, as with any Event."""
    assert not TurnEvent().wait(timeout)


def test_time_beyond_what_locks_can_is_accepted() -> None:
    """A time that the platform's locks cannot take waits as long as it has to."""
    event = TurnEvent()
    waiter = Background(event.wait, threading.TIMEOUT_MAX * 4)
    assert is_parked(event._waiters)
    event.set()

    assert waiter.result()


def test_clear_of_an_unset_event_does_nothing() -> None:
    """Hosts call ``clear()`` at start; that is no misuse."""
    event = TurnEvent()
    event.clear()
    event.set()

    assert event.is_set()


def test_clear_of_a_set_event_is_refused() -> None:
    """A stop that was accepted cannot be taken back."""
    event = TurnEvent()
    event.set()
    with pytest.raises(EventMisuse, match="cannot be cleared.*begin a new turn"):
        event.clear()

    assert event.is_set()


def test_retired_unset_event_lets_untimed_waiters_go() -> None:
    """Nobody can set it any more, so a wait without a time returns False, now and later."""
    with turnctl.turn() as turn:
        event = turn.event
        waiter = Background(event.wait)
        assert is_parked(event._waiters)

    assert not waiter.result()
    assert not Background(event.wait).result()


def test_retired_unset_event_keeps_the_time_of_a_timed_wait() -> None:
    """``while not event.wait(5)`` does not spin once the turn has ended."""
    with turnctl.turn() as turn:
        event = turn.event
        during = Background(event.wait, 0.2)
        assert is_parked(event._waiters)
    begun = time.monotonic()
    after = event.wait(0.05)
    took = time.monotonic() - begun

    assert not during.result()
    assert during.ended_at is not None
    assert 0.2 <= during.ended_at - during.started_at
    assert not after
    assert 0.05 <= took


def test_retired_unset_event_cannot_be_set() -> None:
    """After the end ``set()`` does nothing, and ``clear()`` is still allowed (promises 2 and 4)."""
    with turnctl.turn() as turn:
        event = turn.event
    event.set()
    event.clear()

    assert not event.is_set()
    assert not turn.cancelled
    assert "completed" == turn.outcome


def test_retired_set_event_stays_set() -> None:
    """The event of a stopped turn still tells of it, and every wait returns at once."""
    with turnctl.turn() as turn:
        event = turn.event
        turn.stop()

    assert event.is_set()
    assert event.wait()
    assert event.wait(BOUND)


@pytest.mark.parametrize("state", ["alone", "of a turn", "retired"])
def test_every_attribute_of_an_event_is_answered(state: str) -> None:
    """No attribute of this Python's Event is missing: it works, or the refusal says what to do."""
    names = {*dir(threading.Event()), *vars(threading.Event())}
    with turnctl.turn() as turn:
        event = TurnEvent() if state == "alone" else turn.event
        if state != "retired":
            refused = [name for name in names if not can_be_read(event, name)]
    if state == "retired":
        refused = [name for name in names if not can_be_read(event, name)]

    assert {"set", "clear", "wait", "is_set", "_flag"} <= names
    assert refused == [name for name in names if name == "_cond"]


def can_be_read(event: threading.Event, name: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            getattr(event, name)
        except EventMisuse as refusal:
            return "turn(event=" not in str(refusal)
    return True


@pytest.mark.skipif(not hasattr(threading.Event, "isSet"), reason="this Python has no isSet")
def test_old_name_of_the_question_works() -> None:
    """``isSet``, where Python still has it, is ``is_set``."""
    event = TurnEvent()
    event.set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)

        assert event.isSet()  # type: ignore[attr-defined]


def test_pickling_is_refused_with_a_hint() -> None:
    """An event lives in one process; the refusal says what to pass instead."""
    with pytest.raises(TokenMisuse, match="pass the turn id"):
        pickle.dumps(TurnEvent())


def test_copy_is_the_event_itself() -> None:
    """A copy that could not be stopped would be worse than none."""
    event = TurnEvent()

    assert event is copy.copy(event)
    assert event is copy.deepcopy([event])[0]


def test_repr_tells_the_state() -> None:
    """What is printed tells unset, set and retired apart."""
    event, other = TurnEvent(), TurnEvent()
    before = repr(event)
    event.set()
    other._retire()

    assert before.endswith(": unset>")
    assert repr(event).endswith(": set>")
    assert repr(other).endswith(": retired>")


def test_set_wakes_all_though_cut_short() -> None:
    """An exception inside ``set()`` leaves nobody parked who waited when it began (E3)."""

    class Struck(list):  # type: ignore[type-arg]
        shots = 1

        def remove(self, item: object) -> None:
            if self.shots:
                self.shots -= 1
                raise KeyboardInterrupt
            super().remove(item)

    waiters = Struck()
    flag: list[int] = []
    parked = [Background(park, lambda: bool(flag), None, waiters) for _ in range(4)]
    assert is_parked(waiters, 4)
    flag.append(1)
    with pytest.raises(KeyboardInterrupt):
        release_all(waiters)

    assert [True] * 4 == [p.result() for p in parked]


def test_exception_in_a_wait_leaves_the_event_usable() -> None:
    """A waiter that is cut short takes its lock off the list, and later waiters still wake."""
    event = TurnEvent()
    asked: list[int] = []

    def question() -> bool:
        asked.append(1)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        park(question, None, event._waiters)
    left = list(event._waiters)
    waiter = Background(event.wait)
    assert is_parked(event._waiters)
    event.set()

    assert [] == left
    assert waiter.result()


def switches(native_id: int) -> int:
    """How often the kernel has let that thread run after a wait."""
    with open(f"/proc/self/task/{native_id}/status", encoding="ascii") as status:
        return sum(int(line.split()[1]) for line in status if "ctxt_switches" in line)


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="no /proc to count context switches in")
@pytest.mark.parametrize("way", ["event", "timed event", "wait_cancelled", "sleep", "adopted event", "busy session"])
def test_parked_thread_never_runs(way: str) -> None:
    """A thread that is parked is not run again before the stop: nothing polls (promise 8)."""
    host = threading.Event() if way == "adopted event" else None
    with turnctl.turn("slot", event=host) as turn:
        blocked = {
            "event": lambda: turn.event.wait(),
            "timed event": lambda: turn.event.wait(BOUND * 3),
            "wait_cancelled": lambda: turn.wait_cancelled(),
            "sleep": lambda: turn.sleep(BOUND * 3),
            "adopted event": lambda: turn.wait_cancelled(BOUND * 3),
            "busy session": lambda: turnctl.turn("slot", on_busy="wait").begin(),
        }[way]
        thread = Background(blocked)
        lists = (turn.token._grow().waiters, turn._over._waiters)
        assert until(lambda: any(lists))
        watched = {thread.thread.native_id, *(t.native_id for t in threading.enumerate() if "bridge" in t.name)}
        assert until(lambda: all(asleep(i) for i in watched if i))
        before = {i: switches(i) for i in watched if i}
        time.sleep(0.25)
        after = {i: switches(i) for i in watched if i}
        if way == "busy session":
            for one in registry.all_turns():
                one.cancel()
        turn.stop()
        thread.error()

    assert before == after


def asleep(native_id: int) -> bool:
    with open(f"/proc/self/task/{native_id}/stat", encoding="ascii") as stat:
        return stat.read().rpartition(") ")[2].startswith("S")


# -- a crowd --------------------------------------------------------------------------------------------------


def crowd_of(event: TurnEvent, count: int) -> list[Background[bool]]:
    waiters = [Background(event.wait) for _ in range(count)]
    assert until(lambda: len(event._waiters) >= count)
    return waiters


def test_crowd_is_woken_to_the_last() -> None:
    """More waiters than are woken at once: each wakes the next, and none stays parked (E5)."""
    event = TurnEvent()
    waiters = crowd_of(event, 100)
    event.set()

    assert [True] * 100 == [waiter.result() for waiter in waiters]
    assert {} == event_module._carried


def test_crowd_passes_those_that_leave_by_themselves() -> None:
    """Timed waiters that leave in the middle of it hand on what they were given to carry."""
    for _ in range(20):
        event = TurnEvent()
        timed = [Background(event.wait, 0.01) for _ in range(40)]
        waiters = crowd_of(event, 40)
        until(lambda: len(event._waiters) < 75)  # noqa: B023 - some are just leaving
        event.set()

        assert [True] * 40 == [waiter.result() for waiter in waiters]
        for one in timed:
            one.result()
        assert {} == event_module._carried


def test_crowd_wakes_although_a_carrier_is_struck() -> None:
    """An exception at any step of the thread that has to wake the next leaves nobody parked (E5)."""

    class Struck(Exception):
        pass

    def strike() -> None:
        raise Struck

    for interruption in every_place(strike):
        event = TurnEvent()
        waiters: list[Background[bool]] = []

        def crowd(event: TurnEvent = event, waiters: list[Background[bool]] = waiters) -> None:
            until(lambda: event._waiters or interruption.happened)  # noqa: B023
            waiters += [Background(event.wait) for _ in range(24)]
            until(lambda: len(event._waiters) > 24 or interruption.happened)  # noqa: B023
            event.set()

        setter = Background(crowd)
        with contextlib.suppress(Struck):
            interruption.run(event.wait)
        setter.result()

        assert [True] * 24 == [waiter.result() for waiter in waiters], interruption.struck_in
        # struck in the very look at what it carries it leaves an entry behind, of a crowd that others have woken
        assert [] == [lock for crowd in event_module._carried.values() for lock in crowd[0]], interruption.struck_in
        event_module._carried.clear()
