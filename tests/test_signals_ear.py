"""Each signal is counted once, in whatever order its byte is read, its handler runs and descriptors change hands."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import pytest
from standins import BOUND, until

from turnctl.signals.ear import Ear, Placed
from turnctl.testing import call_at, pause_at
from turnctl.tokens import registry


class Place:
    """Numbers the presses of SIGUSR1, and lists those that were carried out; ``runs`` counts the handler's."""

    def __init__(self) -> None:
        self.ear = Ear(self)
        self.numbered = 0
        self.done: list[int] = []
        self.runs = 0
        self.passed_on = 0
        self.passes_on = False
        self.at_place: list[object] = []
        self.stuck: threading.Event | None = None
        self.is_stuck = False

    def __call__(self, number: int) -> Placed | None:
        if number != signal.SIGUSR1:
            return None
        self.numbered += 1
        mine = self.numbered
        if self.at_place:
            fn = self.at_place.pop(0)
            assert callable(fn)
            fn()
        if self.passes_on:
            return Placed((), passes_on=True)
        return Placed([_Order(mine, self)], passes_on=False)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The Python handler."""
        self.runs += 1
        self.passed_on += self.ear.account(number, self)

    def settle(self) -> None:
        """Wait until the reader has read everything that was written so far."""
        rung: list[None] = []
        registry.on_signal.append(lambda: rung.append(None))
        os.write(self.ear._write, b"\0")
        assert until(lambda: rung)
        registry.on_signal.pop()


class _Order:
    def __init__(self, number: int, place: Place) -> None:
        self.number = number
        self.place = place

    def carry_out(self) -> None:
        """What is carried out twice shows once, as a stop does."""
        stuck = self.place.stuck
        if stuck is not None and threading.current_thread() is not threading.main_thread():
            self.place.is_stuck = True
            stuck.wait(BOUND)
        if self.number not in self.place.done:
            self.place.done.append(self.number)


@pytest.fixture
def place(leak_check: object) -> Iterator[Place]:
    """An ear for SIGUSR1, with its handler in place."""
    made = Place()
    before = signal.signal(signal.SIGUSR1, made.handle)
    made.ear.rearm()
    try:
        yield made
    finally:
        signal.signal(signal.SIGUSR1, before)
        made.ear.close()
        assert -1 == signal.set_wakeup_fd(-1)


@pytest.fixture
def host_fd() -> Iterator[tuple[int, int]]:
    """The two ends of a wake-up descriptor of the host's."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    try:
        yield read, write
    finally:
        os.close(read)
        os.close(write)


def press() -> None:
    """A signal whose handler has run when this returns."""
    signal.raise_signal(signal.SIGUSR1)


def test_reader_first(place: Place) -> None:
    """The reader carries the press out, and the handler finds it done (N2)."""
    with call_at("signals.handler.entered", lambda: until(lambda: place.done)):
        press()
    place.settle()

    assert (1, [1]) == (place.runs, place.done)


def test_handler_first(place: Place) -> None:
    """The handler carries the press out, and the reader finds nothing (N1)."""
    with pause_at("signals.reader.woken") as held:
        with call_at("signals.handler.entered", lambda: held.reached.wait(BOUND)):
            press()
        done = list(place.done)
    place.settle()

    assert [1] == done
    assert [1] == place.done


def test_handler_does_not_overtake_the_reader(place: Place) -> None:
    """What the reader has numbered and not carried out is carried out before the handler goes on (N4)."""
    with pause_at("signals.reader.numbered") as held:
        with call_at("signals.handler.entered", lambda: held.reached.wait(BOUND)):
            press()
        done = list(place.done)
    place.settle()

    assert [1] == done
    assert [1] == place.done


def test_handler_does_what_the_reader_is_stuck_in(place: Place) -> None:
    """A reader that is held in the middle of a stop does not hold the handler, which makes the stop as well (N4)."""
    place.stuck = threading.Event()
    with call_at("signals.handler.entered", lambda: until(lambda: place.is_stuck)):
        press()
    done = list(place.done)
    place.stuck.set()
    place.settle()

    assert [1] == done
    assert [1] == place.done


def test_two_signals_in_one_run_are_two_presses(place: Place) -> None:
    """Signals that come before the handler can run are one run of it, and each is counted (N1)."""
    main = threading.get_ident()

    def twice() -> None:
        # taken by this thread, so the main thread's wait goes on and its handler is due once, afterwards
        until(lambda: sys._current_frames()[main].f_code.co_name in ("join", "_wait_for_tstate_lock"))
        press()
        press()
        until(lambda: len(place.done) == 2)

    thread = threading.Thread(target=twice)
    thread.start()
    thread.join()
    place.settle()

    assert (1, [1, 2]) == (place.runs, place.done)


def test_mark_that_is_left_over_takes_no_later_press(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run for two signals leaves a mark; a call by the host that comes later is a press all the same (N1)."""
    monkeypatch.setattr("turnctl.signals.ear._LEFT_OVER_S", 0.0)
    os.write(place.ear._write, bytes([signal.SIGUSR1]))  # of a signal that has no run of its own
    place.settle()
    press()
    place.settle()
    two = list(place.done)
    place.handle(signal.SIGUSR1, None)

    assert [1, 2] == two
    assert [1, 2, 3] == place.done


def test_run_that_follows_at_once_takes_its_mark(place: Place) -> None:
    """A mark that is left may belong to a run that is about to begin: it is kept for a moment (N1)."""
    os.write(place.ear._write, bytes([signal.SIGUSR1]))
    place.settle()
    press()
    place.handle(signal.SIGUSR1, None)  # the run of the first one, late
    place.settle()

    assert [1, 2] == place.done


def test_handler_that_nests_before_one_counts(place: Place) -> None:
    """A second signal that comes before the first is counted: both are, once each."""
    with call_at("signals.handler.entered", press):
        press()
    place.settle()

    assert (2, [1, 2]) == (place.runs, place.done)


def test_byte_that_is_late_is_waited_for(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that runs before another thread has written the byte counts nothing by itself (N2)."""
    monkeypatch.setattr("turnctl.signals.ear._LATE_MS", BOUND * 1000)
    main = threading.get_ident()

    def write() -> None:
        until(lambda: sys._current_frames()[main].f_code.co_name == "_await_late")
        os.write(place.ear._write, bytes([signal.SIGUSR1]))

    thread = threading.Thread(target=write)
    thread.start()
    place.handle(signal.SIGUSR1, None)
    thread.join()
    place.settle()

    assert [1] == place.done


def test_call_by_the_host_is_a_press(place: Place) -> None:
    """A host that calls our handler with no signal behind it means a press (N2)."""
    place.handle(signal.SIGUSR1, None)
    press()
    place.settle()

    assert [1, 2] == place.done


def test_call_by_the_host_elsewhere_is_a_press(place: Place) -> None:
    """Also on a thread that may not look at the descriptor."""
    thread = threading.Thread(target=place.handle, args=(signal.SIGUSR1, None))
    thread.start()
    thread.join()

    assert [1] == place.done


def test_handler_counts_where_the_host_hears(place: Place, host_fd: tuple[int, int]) -> None:
    """With the host's descriptor set each run is a press; the host hears its signals and keeps the descriptor (N3)."""
    read, write = host_fd
    signal.set_wakeup_fd(write)
    press()
    press()
    now = signal.set_wakeup_fd(-1)
    place.settle()

    assert [1, 2] == place.done
    assert write == now
    assert bytes([signal.SIGUSR1] * 2) == os.read(read, 10)


def test_host_takes_the_descriptor_before_the_handler(place: Place, host_fd: tuple[int, int]) -> None:
    """The reader has heard it, then the host sets its own, then the handler runs: one press (N3)."""

    def host() -> None:
        until(lambda: place.done)
        signal.set_wakeup_fd(host_fd[1])

    with call_at("signals.handler.entered", host):
        press()
    signal.set_wakeup_fd(-1)
    place.settle()

    assert [1] == place.done


def test_old_mark_swallows_no_press(place: Place, host_fd: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte that no handler of ours ran for does not stand for a later press that only the handler sees (N3)."""
    signal.signal(signal.SIGUSR1, lambda *_: None)
    press()
    assert until(lambda: place.done)
    signal.signal(signal.SIGUSR1, place.handle)
    monkeypatch.setattr("turnctl.signals.ear._JUST_BEFORE_S", 0.0)
    signal.set_wakeup_fd(host_fd[1])
    press()
    signal.set_wakeup_fd(-1)

    assert [1, 2] == place.done


@pytest.mark.parametrize("how", ["the next turn", "the next signal"])
def test_descriptor_is_set_again(place: Place, how: str) -> None:
    """A descriptor that the host has reset is set again, and what came meanwhile is counted once."""
    ours = signal.set_wakeup_fd(-1)
    if how == "the next turn":
        place.ear.rearm()
    press()
    press()
    now = signal.set_wakeup_fd(ours)
    place.settle()

    assert ours == now
    assert [1, 2] == place.done


def test_signal_just_before_the_descriptor_is_set_again(place: Place) -> None:
    """A signal without a byte whose handler runs when the descriptor is ours again is a press (N2)."""
    ours = signal.set_wakeup_fd(-1)
    with call_at("signals.handler.entered", lambda: signal.set_wakeup_fd(ours)):
        press()
    place.settle()

    assert [1] == place.done


def test_byte_meant_for_the_host_is_handed_on(place: Place, host_fd: tuple[int, int]) -> None:
    """A signal that comes while we look which descriptor is set reaches the host (N3)."""
    read, write = host_fd
    signal.set_wakeup_fd(write)
    os.set_blocking(place.ear._write, False)
    with pause_at("signals.reader.woken"):
        os.write(place.ear._write, bytes([signal.SIGCHLD]))
        place.ear.rearm()
    now = signal.set_wakeup_fd(-1)

    assert write == now
    assert bytes([signal.SIGCHLD]) == os.read(read, 10)


def test_descriptor_that_the_host_has_closed_is_replaced(place: Place) -> None:
    """A number that is set but closed hears nothing: ours takes its place."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    ours = signal.set_wakeup_fd(write)
    os.close(read)
    os.close(write)
    place.ear.rearm()

    assert ours == signal.set_wakeup_fd(ours)


def test_other_signals_are_not_presses(place: Place) -> None:
    """A signal that is not ours is heard by whoever waits for one, and is no press."""
    rung: list[None] = []
    registry.on_signal.append(lambda: rung.append(None))
    before = signal.signal(signal.SIGUSR2, lambda *_: None)
    signal.raise_signal(signal.SIGUSR2)
    signal.signal(signal.SIGUSR2, before)
    found = until(lambda: rung)
    registry.on_signal.pop()

    assert found
    assert [] == place.done


def test_handler_that_nests_while_one_counts(place: Place) -> None:
    """A signal that comes in the middle of counting another: both are counted, once each, and nothing hangs."""
    with pause_at("signals.reader.woken") as held:
        place.at_place.append(lambda: signal.raise_signal(signal.SIGUSR1))
        with call_at("signals.handler.entered", lambda: held.reached.wait(BOUND)):
            press()
    place.settle()

    assert [1, 2] == sorted(place.done)


def test_strike_while_counting_loses_nothing_else(place: Place) -> None:
    """A handler of the host's that raises in the middle of counting does not take the other presses with it."""

    class Strike(BaseException):
        pass

    def strike() -> None:
        raise Strike

    with pause_at("signals.reader.woken"):
        place.at_place.append(strike)
        os.write(place.ear._write, bytes([signal.SIGUSR1] * 2))
        with pytest.raises(Strike):
            place.handle(signal.SIGUSR1, None)

        assert [2] == place.done


def test_previous_handler_is_due_on_the_main_thread(place: Place) -> None:
    """What the reader could not place is told to the handler that runs for it, once (N5)."""
    place.passes_on = True
    with call_at("signals.handler.entered", lambda: until(lambda: place.numbered)):
        press()
    place.passes_on = False
    press()
    place.settle()

    assert 1 == place.passed_on
    assert 2 == place.numbered


def test_pass_on_does_not_outlive_its_press(place: Place) -> None:
    """A press that nobody was there for and whose handler was the host's does not spoil a later one (N5)."""
    place.passes_on = True
    signal.signal(signal.SIGUSR1, lambda *_: None)
    press()
    assert until(lambda: place.numbered)
    signal.signal(signal.SIGUSR1, place.handle)
    place.passes_on = False
    press()
    place.settle()

    assert 0 == place.passed_on
    assert [2] == place.done


def test_descriptor_of_the_host_stays_at_the_end(host_fd: tuple[int, int]) -> None:
    """Closing the ear takes back its own descriptor only."""
    ear = Ear(lambda number: None)
    ear.rearm()
    signal.set_wakeup_fd(host_fd[1])
    ear.close()

    assert host_fd[1] == signal.set_wakeup_fd(-1)


@pytest.mark.parametrize("lacking", ["thread", "descriptor"])
def test_handler_alone_where_no_reader_is_to_be_had(monkeypatch: pytest.MonkeyPatch, lacking: str) -> None:
    """Where no thread or descriptor is to be had, each run of the handler is a press."""

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread") if lacking == "thread" else OSError("too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("threading.Thread.start" if lacking == "thread" else "os.pipe", refuse)
        place = Place()
        place.ear.rearm()
    place.handle(signal.SIGUSR1, None)
    place.ear.close()

    assert [1] == place.done
    assert -1 == signal.set_wakeup_fd(-1)
