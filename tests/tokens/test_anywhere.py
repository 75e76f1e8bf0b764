"""Cancel may be called from anywhere, at any moment, and never deadlocks (P7)."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from interrupts import every_place
from standins import Background, until

import turnctl
from turnctl import TurnEvent
from turnctl.tokens.event import release_all


@pytest.fixture
def on_signal() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Sets what a SIGUSR1 does, until the test ends."""
    before = signal.getsignal(signal.SIGUSR1)

    def use(fn: Callable[[], object]) -> None:
        signal.signal(signal.SIGUSR1, lambda *_: fn())

    yield use
    signal.signal(signal.SIGUSR1, before)


class Subject:
    """A turn with everything that a stop has to reach, in a state that no test has touched."""

    def __init__(self, *, has_parts: bool = True) -> None:
        self.turn = turnctl.turn(inherit=False)
        self.token = self.turn.begin()
        self.ran: list[str] = []
        self.parked: list[Any] = []
        self.answers: list[turnctl.StopAnswer] = []
        if has_parts:
            self.event = self.token.event
            self.child = self.token.child()
            self.parked = [threading.Lock() for _ in range(2)]
            for lock in self.parked:  # a parked thread is a lock on this list, and costs nothing to make
                lock.acquire()
                self.token._grow().waiters.append(lock)
            self.token.on_cancel(lambda: self.ran.append("ran"), inline=True)

    def cancel(self, reason: str = "stop") -> None:
        self.answers.append(self.turn.cancel(reason))

    def nobody_is_parked(self) -> bool:
        return all(lock.locked() is False for lock in self.parked)

    def check(self) -> None:
        """Everything that a stop has to reach was reached, once."""
        assert 1 >= [answer.kind for answer in self.answers].count("accepted"), self.answers
        assert {self.token.record} == {self.token.record, *(answer.record for answer in self.answers)}
        assert self.token.cancelled
        assert self.nobody_is_parked()
        if self.parked:
            assert self.event.is_set()
            assert self.child.cancelled
            assert ["ran"] == self.ran

    def end(self) -> None:
        if self.parked:
            self.child.close()
        turnctl.end_turn(self.turn)


OPERATIONS: dict[str, Callable[[Subject], object]] = {
    "cancel": lambda s: s.cancel("interrupted"),
    "set": lambda s: s.token.event.set(),
    "poll": lambda s: s.token.event.wait(0.000_001),
    "child": lambda s: s.token.child().close(),
    "on_cancel": lambda s: s.token.on_cancel(int, inline=True),
    "end": lambda s: turnctl.end_turn(s.turn),
}


@pytest.mark.parametrize("has_parts", [True, False])
@pytest.mark.parametrize("name", OPERATIONS)
def test_handler_at_every_instruction(
    name: str, has_parts: bool, on_signal: Callable[[Callable[[], object]], None]
) -> None:
    """A signal handler that cancels, at each instruction of each operation: no hang, one stop, all reached (P7)."""
    subjects: list[Subject] = []
    on_signal(lambda: subjects[-1].cancel("handler"))
    places = 0
    for interruption in every_place(lambda: signal.raise_signal(signal.SIGUSR1)):
        subject = Subject(has_parts=has_parts)
        subjects.append(subject)
        interruption.run(lambda subject=subject: OPERATIONS[name](subject))
        if not interruption.happened:
            subject.cancel()
        if subject.token.outcome is None or subject.token.record is not None:
            subject.check()
        subject.end()
        places += 1

    assert places > 20


def test_handler_that_is_interrupted_itself(on_signal: Callable[[Callable[[], object]], None]) -> None:
    """Handlers nest four deep, each in the cancel of the one before, at each of its instructions (P7)."""
    subjects: list[Subject] = []
    depth = [0]

    def handler() -> None:
        depth[0] += 1
        if depth[0] < 4:
            signal.raise_signal(signal.SIGUSR1)
        subjects[-1].cancel(f"handler {depth[0]}")
        subjects[-1].token.event.set()

    on_signal(handler)
    for interruption in every_place(lambda: signal.raise_signal(signal.SIGUSR1)):
        depth[0] = 0
        subjects.append(Subject())
        interruption.run(subjects[-1].cancel)
        subjects[-1].check()
        subjects[-1].end()

    assert 4 == depth[0] or not interruption.happened


def test_handler_at_every_instruction_of_a_wait(on_signal: Callable[[Callable[[], object]], None]) -> None:
    """A handler sets the event at each instruction of a wait for it: the wait returns (P7, P8)."""
    current: list[TurnEvent] = [TurnEvent()]
    struck: list[int] = [0]
    lost: list[int] = []
    over = threading.Event()

    def rescue() -> None:
        # once the waiter is parked no instruction is run: set it from here; if it was set before, it has hung
        while not over.wait(0.0005):
            event, number = current[0], struck[0]
            if event._waiters and not event.is_set():
                event.set()
            elif event._waiters and not until(lambda e=event: not e._waiters, within=5):
                lost.append(number)
                release_all(event._waiters)

    def handler() -> None:
        struck[0] += 1
        current[0].set()

    on_signal(handler)
    helper = Background(rescue)
    for interruption in every_place(lambda: signal.raise_signal(signal.SIGUSR1)):
        current[0] = TurnEvent()
        assert interruption.run(current[0].wait)
    over.set()
    helper.result()

    assert [] == lost
    assert struck[0] > 20


@pytest.mark.timeout(240)
@pytest.mark.parametrize("raises", [True, False])
def test_second_press_at_every_instruction_of_the_first(raises: bool, request: pytest.FixtureRequest) -> None:
    """Ctrl-C is pressed again at each instruction of the handler of the first: the turn is stopped, no error (P7).

    Tracing is slow since 3.12, so the ordinary run strikes at every third instruction there.
    """
    step = 3 if sys.version_info >= (3, 12) and not request.config.getoption("--stress") else 1
    before = signal.signal(signal.SIGINT, lambda *_: None)  # what a third press is passed on to
    try:
        for interruption in every_place(lambda: signal.raise_signal(signal.SIGINT), step=step):
            with turnctl.handle_signals(raises=raises), turnctl.turn() as turn:
                interruption.run(lambda: signal.raise_signal(signal.SIGINT))

            assert ("cancelled", "signal") == (turn.outcome, turn.cause)
            assert not interruption.happened or turn.token.level == "kill"
    finally:
        signal.signal(signal.SIGINT, before)


def test_parked_wait_is_woken_by_a_handler(on_signal: Callable[[Callable[[], object]], None]) -> None:
    """The main thread is parked in an untimed wait, and a signal's handler sets its event (P7, P8)."""
    subject = Subject(has_parts=False)
    event = subject.token.event
    on_signal(subject.cancel)

    def press() -> None:
        assert until(lambda: event._waiters)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    presser = Background(press)
    woken = event.wait(10)
    presser.result()
    subject.check()
    subject.end()

    assert woken


# -- exceptions that strike ----------------------------------------------------------------------------------------


class Strike(BaseException):
    """What another thread or a raising handler throws."""


def strike() -> None:
    raise Strike


def test_exception_at_every_instruction_of_set() -> None:
    """An exception strikes at each instruction of set(): where the flag is up, nobody stays parked (P8).

    Instructions, and not only those at which CPython looks for such exceptions, so it proves more than a
    thread that throws them can; and it says nothing of builds without the interpreter lock, where another
    thread may stand in the middle of the same list.
    """
    left_parked = []
    for interruption in every_place(strike):
        event = TurnEvent()
        parked = [threading.Lock() for _ in range(3)]
        for lock in parked:
            lock.acquire()
            event._waiters.append(lock)
        try:
            interruption.run(event.set)
        except Strike:
            pass
        if event.is_set() and any(lock.locked() for lock in parked):
            left_parked.append(interruption.struck_in)

    assert [] == left_parked


@pytest.mark.parametrize("operation", ["cancel", "set"])
def test_exception_at_every_instruction_of_cancel(operation: str) -> None:
    """An exception strikes at each instruction of a stop: where the stop is on record, nobody stays parked (P3, P8)."""
    left_parked = []
    for interruption in every_place(strike):
        subject = Subject()
        try:
            interruption.run(lambda s=subject: OPERATIONS[operation](s))
        except Strike:
            pass
        if subject.token.stopping and not (subject.token.cancelled and subject.nobody_is_parked()):
            left_parked.append(interruption.struck_in)
        subject.end()

    assert [] == left_parked


def test_wait_that_was_struck_leaves_the_event_as_it_was() -> None:
    """An exception strikes at each instruction of wait(): the event still wakes others, and keeps no lock (P7)."""
    for interruption in every_place(strike):
        event = TurnEvent()
        try:
            interruption.run(lambda e=event: e.wait(0.000_01))
        except Strike:
            pass
        kept = len(event._waiters)
        waiter = Background(event.wait)
        assert until(lambda e=event, n=kept: len(e._waiters) > n)
        event.set()

        assert waiter.result()
        assert kept <= 1


# -- finalizers, callbacks, tracing ----------------------------------------------------------------------------------


def test_finalizers_that_cancel_while_a_token_works() -> None:
    """With a garbage collection at every few allocations, finalizers cancel in the middle of all operations (P7)."""
    current: list[Subject] = []
    ran = [0]

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            ran[0] += 1
            if current:
                current[-1].turn.cancel("finalizer")
                current[-1].token.event.set()

    before = gc.get_threshold()
    gc.set_threshold(3, 2, 2)
    try:
        for i in range(400):
            Cycle()
            current[:] = [Subject()]
            Cycle()
            current[-1].token.event.wait(0)
            Cycle()
            current[-1].turn.cancel("loop")
            current[-1].token.check if i % 2 else current[-1].token.event.set()
            current[-1].check()
            current[-1].end()
    finally:
        gc.set_threshold(*before)
        current.clear()

    assert ran[0] > 400


@pytest.mark.parametrize("inline", [True, False])
def test_callback_of_the_token_cancels_it(inline: bool) -> None:
    """A callback cancels its own token, sets its event and registers another callback: each runs once (P7)."""
    subject = Subject(has_parts=False)
    order: list[str] = []

    def callback() -> None:
        order.append("first")
        subject.cancel("callback")
        subject.token.event.set()
        subject.turn.on_cancel(lambda: order.append("second"), inline=inline)

    subject.turn.on_cancel(callback, inline=inline)
    subject.cancel()
    came = until(lambda: len(order) == 2)
    subject.end()

    assert came
    assert ["first", "second"] == order
    assert "stop" == subject.token.reason


def test_callbacks_of_two_tokens_cancel_each_other() -> None:
    """Two tokens whose callbacks cancel the other, from two threads: both are cancelled, neither thread hangs (P7)."""
    for _ in range(50):
        one, two = Subject(has_parts=False), Subject(has_parts=False)
        one.turn.on_cancel(lambda two=two: two.cancel("other"), inline=True)
        two.turn.on_cancel(lambda one=one: one.cancel("other"), inline=True)
        threads = [Background(one.cancel), Background(two.cancel)]
        for thread in threads:
            thread.result()
        one.check()
        two.check()
        one.end()
        two.end()


def test_trace_function_that_cancels_on_every_line() -> None:
    """A debugger's trace function cancels at every line of ours, in every thread (P7)."""
    subject = Subject()
    threading.settrace(tracer := tracing(subject))
    sys.settrace(tracer)
    try:
        Background(subject.turn.cancel, "thread").result()
        subject.turn.cancel("main")
        subject.token.event.wait(1)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
    subject.check()
    subject.end()


def tracing(subject: Subject) -> Callable[..., Any]:
    def trace(frame: Any, event: str, arg: object) -> Any:
        if "turnctl" in frame.f_code.co_filename:
            subject.turn.cancel("tracer")
        return trace

    return trace
