"""A call that is interrupted is interrupted while its function runs, where that may be, and nowhere else."""

from __future__ import annotations

import contextlib
import contextvars
import queue
import select
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from standins import BOUND, Background, until

import turnctl
from turnctl import CancelledError
from turnctl.testing import pause_at
from turnctl.waiting import abandoned, call, inject
from turnctl.waiting.inject import Interrupted


@pytest.fixture(autouse=True)
def _short_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried for a second in real life is tried for a quarter of it here."""
    monkeypatch.setattr(call, "_THROWS", (0.05, 0.1, 0.1))


class Gate(threading.Event):
    """An event whose ``is_set`` is code of the user's, which may be interrupted."""

    def is_set(self) -> bool:
        return self._flag  # type: ignore[attr-defined, no-any-return]


class Spinning:
    """A function that runs Python code for ever, until it is interrupted or let go."""

    def __init__(self, around: Callable[[], Any] = contextlib.nullcontext) -> None:
        self.around = around
        self.inside = threading.Event()
        self.gate = Gate()
        self.seen: list[BaseException] = []
        self.cleaned = False
        self.rounds = 0

    def __call__(self) -> str:
        try:
            with self.around():
                self.spin()
        except BaseException as error:
            self.seen.append(error)
            raise
        finally:
            self.cleaned = True
        return "came back"

    def spin(self) -> None:
        self.inside.set()
        while not self.gate.is_set():
            self.rounds += 1


@pytest.fixture
def let_go() -> Iterator[list[threading.Event]]:
    """Events that are set at the end of the test, and nothing that was left behind runs after it."""
    gates: list[threading.Event] = []
    yield gates
    for gate in gates:
        gate.set()
    assert until(lambda: abandoned.count() == 0)


def calls(turn: turnctl.Turn, fn: Any) -> Background[Any]:
    """A call of ``fn`` on another thread; ``fn.inside`` is set."""
    calling = Background(lambda: turn.call(fn, interrupt=True))
    assert fn.inside.wait(BOUND)
    return calling


def test_python_code_is_interrupted(let_go: list[threading.Event]) -> None:
    """Stop, grace over: a loop is broken by a ``CancelledError`` like any other, its clean-up runs, it is accounted."""
    fn = Spinning()
    let_go.append(fn.gate)
    with turnctl.turn(grace=0.05) as turn:
        calling = calls(turn, fn)
        turn.cancel("enough")
        error = calling.error()

        assert isinstance(error, CancelledError)
        assert (turn.token, "enough", True) == (error.token, error.reason, fn.cleaned)
        assert error.late is not None
        assert isinstance(error.late.error, Interrupted)
    (seen,) = fn.seen
    assert isinstance(seen, CancelledError)
    assert (turn.token, turn.token.record) == (seen.token, seen.record)  # type: ignore[attr-defined]
    assert ["cancelled"] == [a.state for a in turn.report.activities]
    assert "was interrupted" == turn.report.activities[0].detail
    assert "ended" == turn.report.execution


def test_not_interrupted_before_the_grace_is_over(let_go: list[threading.Event]) -> None:
    """A function that comes back in the grace was never struck."""
    fn = Spinning()
    let_go.append(fn.gate)
    with turnctl.turn(grace=60) as turn:
        calling = calls(turn, fn)
        with pause_at("call.ending") as held:
            turn.cancel()
            assert held.reached.wait(BOUND)
            fn.gate.set()
        error = calling.error()

        assert isinstance(error, CancelledError)
        assert error.late is not None
        assert "came back" == error.late.value
    assert [] == fn.seen


def test_without_interrupt_nothing_is_thrown(let_go: list[threading.Event]) -> None:
    """It is an option, off by default."""
    fn = Spinning()
    let_go.append(fn.gate)
    with turnctl.turn(grace=0) as turn:
        calling = Background(lambda: turn.call(fn))
        assert fn.inside.wait(BOUND)
        turn.cancel()
        assert isinstance(calling.error(), CancelledError)
    fn.gate.set()
    assert until(lambda: abandoned.count() == 0)

    assert [] == fn.seen


def test_c_code_is_interrupted_when_it_comes_back(let_go: list[threading.Event]) -> None:
    """Until then the call is left behind and says so; then the function is interrupted at its next step."""
    near, far = socket.socketpair()
    inside = threading.Event()
    after: list[str] = []

    def receive() -> None:
        inside.set()
        near.recv(1)
        after.append("went on")  # pragma: no cover

    receive.inside = inside  # type: ignore[attr-defined]
    with near, far:
        with turnctl.turn(grace=0) as turn:
            calling = calls(turn, receive)
            begun = time.monotonic()
            turn.cancel()
            error = calling.error()

            assert isinstance(error, CancelledError)
            assert time.monotonic() - begun < BOUND
        (found,) = turn.report.activities
        assert "abandoned" == found.state
        assert "stands in C code, and is interrupted as soon as that returns" in str(found.detail)
        assert error.late is not None
        far.send(b"x")
        assert error.late.wait(BOUND)

    assert isinstance(error.late.error, Interrupted)
    assert ([], "was interrupted") == (after, turn.report.activities[0].late)


def test_function_in_c_is_never_interrupted(let_go: list[threading.Event]) -> None:
    """There is no Python in it that could take the throw, so what it returns is kept."""
    near, far = socket.socketpair()
    with near, far:
        with turnctl.turn(grace=0) as turn:
            calling = Background(lambda: turn.call(near.recv, 1, interrupt=True))
            assert until(lambda: any(a.kind == "call" for a in turn.report.activities))
            assert until(lambda: not select.select([near], [], [], 0)[0])
            turn.cancel()
            error = calling.error()
        assert isinstance(error, CancelledError)
        late = error.late
        assert late is not None
        if late.is_done:  # pragma: no cover - the stop was there before the thread began
            return
        far.send(b"x")
        assert late.wait(BOUND)

        assert (b"x", None) == (late.value, late.error)
    assert "could not be interrupted" in str(turn.report.activities[0].detail)


@pytest.mark.parametrize("apart", [False, True])
def test_shield_in_the_function_holds_it_off(let_go: list[threading.Event], apart: bool) -> None:
    """Under ``turnctl.shield`` the function is not struck, also in a context of its own; after it, it is."""
    leave = Gate()
    fn = Spinning()
    let_go += [fn.gate, leave]
    after: list[bool] = []

    def spins() -> None:
        with turnctl.shield(BOUND):
            fn.inside.set()
            while not leave.is_set():
                pass
            after.append(True)

    def work() -> None:
        try:
            contextvars.copy_context().run(spins) if apart else spins()
        finally:
            fn.seen.append(sys.exc_info()[1])  # type: ignore[arg-type]

    work.inside = fn.inside  # type: ignore[attr-defined]
    with turnctl.turn(grace=0) as turn:
        calling = calls(turn, work)
        turn.cancel()

        assert isinstance(calling.error(), CancelledError)
    assert "could not be interrupted" in str(turn.report.activities[0].detail)
    leave.set()
    assert until(lambda: abandoned.count() == 0)
    assert [True] == after
    assert not isinstance(fn.seen[0], Interrupted)  # raised by the end of the shield
    assert isinstance(fn.seen[0], CancelledError)


def test_struck_function_may_clean_up(let_go: list[threading.Event]) -> None:
    """While it handles the stop it is not struck again, however long that takes."""
    rest = Gate()
    inside = threading.Event()
    seen: list[str] = []
    let_go.append(rest)

    def work() -> None:
        inside.set()
        try:
            while True:
                pass
        except CancelledError:
            seen.append("struck")
            while not rest.is_set():
                pass
            seen.append("clean")
            raise

    work.inside = inside  # type: ignore[attr-defined]
    with turnctl.turn(grace=0) as turn:
        calling = calls(turn, work)
        turn.cancel()
        error = calling.error()
    assert isinstance(error, CancelledError)
    rest.set()
    assert error.late is not None
    assert error.late.wait(BOUND)

    assert ["struck", "clean"] == seen


def test_swallowed_interruption_is_repeated_and_named(
    let_go: list[threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bounded number of times; then it is said to be uncooperative and left behind."""
    monkeypatch.setattr(call, "_THROWS", (0.3, 0.3, 0.3))  # a busy machine may keep a thread from running for long
    gate, inside = Gate(), threading.Event()
    let_go.append(gate)
    swallowed: list[BaseException] = []

    def work() -> None:
        inside.set()
        while not gate.is_set():
            try:
                spin()
            except BaseException as error:
                swallowed.append(error)

    def spin() -> None:
        while not gate.is_set():
            pass

    work.inside = inside  # type: ignore[attr-defined]
    with turnctl.turn(grace=0) as turn:
        calling = calls(turn, work)
        begun = time.monotonic()
        turn.cancel()

        assert isinstance(calling.error(), CancelledError)
        assert time.monotonic() - begun < BOUND
    assert 3 == len(swallowed)
    assert "uncooperative, and went on after being interrupted 3 times" in str(turn.report.activities[0].detail)


@pytest.mark.parametrize("place", ["wait", "callback", "finalizer", "nested call"])
def test_own_frames_and_finalizers_are_spared(let_go: list[threading.Event], place: str) -> None:
    """Not in a wait of turnctl's, not in a function that one of turnctl's calls, not in ``__del__``."""
    gate, inside = Gate(), threading.Event()
    let_go.append(gate)
    other = turnctl.turn(inherit=False)
    other.begin()

    def spin() -> None:
        inside.set()
        while not gate.is_set():
            pass

    class Dropped:
        def __del__(self) -> None:
            spin()

    def work() -> None:
        if place == "wait":
            inside.set()
            other.wait_cancelled(BOUND)
        elif place == "callback":
            child = other.child()
            child.on_cancel(spin, inline=True)
            child.cancel()
        elif place == "nested call":
            other.call(spin)
        else:
            Dropped()

    work.inside = inside  # type: ignore[attr-defined]
    with turnctl.turn(grace=0) as turn:
        calling = calls(turn, work)
        turn.cancel()

        assert isinstance(calling.error(), CancelledError)
    (found,) = turn.report.activities
    assert "could not be interrupted" in str(found.detail)

    gate.set()
    other.cancel()
    if place != "nested call":  # there the other turn's stop comes out of it
        assert until(lambda: abandoned.count() == 0)
        assert "returned a value (NoneType) after the stop" == turn.report.activities[0].late
    other.end()


def test_throw_that_comes_late_is_taken_back(let_go: list[threading.Event]) -> None:
    """Looked at while the function ran, thrown when it has come back: the value stands, and no later step is struck."""
    fn = Spinning()
    let_go.append(fn.gate)
    with turnctl.turn(grace=0) as turn:
        calling = calls(turn, fn)
        with pause_at("inject.looked") as looked:
            turn.cancel()
            assert looked.reached.wait(BOUND)
            with pause_at("inject.back") as back:
                fn.gate.set()
                assert back.reached.wait(BOUND)
                looked.release()
                error = calling.error()

    assert isinstance(error, CancelledError)
    assert error.late is not None
    assert error.late.wait(BOUND)
    assert ("came back", None, []) == (error.late.value, error.late.error, fn.seen)


def test_one_throw_at_a_time() -> None:
    """While one is pending there is no second (I5); it strikes when the function is back in Python."""
    near, far = socket.socketpair()
    context = contextvars.copy_context()
    with near, far, turnctl.turn() as turn:
        injection = inject.Injection(turn.token)

        def receive() -> None:
            near.recv(1)

        running = Background(lambda: context.run(injection.run, receive, (), {}))
        assert until(lambda: injection.throw(context))

        assert (False, True) == (injection.throw(context), injection.is_pending)
        far.send(b"x")
        assert isinstance(running.error(), Interrupted)
        assert (1, 1, False) == (injection.thrown, injection.delivered, injection.is_pending)
        assert not injection.throw(context)  # it has come back


def test_value_survives_a_throw_at_its_return() -> None:
    """One that is pending as the function returns is taken back: the value is there, and no later step is struck."""
    assert inject._load()
    with turnctl.turn() as turn:
        injection = inject.Injection(turn.token)

        def fn() -> str:
            injection.thrown += 1
            # thrown by C code in a step after which the interpreter looks for nothing, and none follows in here
            (_,) = map(inject._set, (threading.get_ident(),), (Interrupted,))  # type: ignore[arg-type]
            return "value"

        assert "value" == injection.run(fn, (), {})
        assert 10 == sum(1 for _ in range(10))


def test_without_the_interpreters_help(let_go: list[threading.Event], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not to be had the call is left behind, and says that it could not be interrupted."""
    monkeypatch.setattr(inject, "_load", lambda: False)
    fn = Spinning()
    let_go.append(fn.gate)
    with turnctl.turn(grace=0) as turn:
        calling = calls(turn, fn)
        turn.cancel()

        assert isinstance(calling.error(), CancelledError)
    assert "could not be interrupted" in str(turn.report.activities[0].detail)


@pytest.mark.switchinterval
def test_throws_at_every_moment(let_go: list[threading.Event]) -> None:
    """Whenever it falls, it strikes the function or nobody: values are whole, and shielded stretches complete."""
    for round_ in range(60):
        entered: list[int] = []
        left: list[int] = []
        inside = threading.Event()

        def work(entered: list[int] = entered, left: list[int] = left, inside: threading.Event = inside) -> int:
            inside.set()
            for number in range(3000):
                with turnctl.shield(BOUND):
                    entered.append(number)
                    left.append(number)
            return len(left)

        with turnctl.turn(grace=0.0003 * (round_ % 7)) as turn:
            calling = Background(lambda turn=turn, work=work: turn.call(work, interrupt=True))  # type: ignore[misc]
            assert inside.wait(BOUND)
            turn.cancel()
            error = calling.error()

            if isinstance(error, CancelledError):  # or the function was faster than the stop
                assert error.late is not None
                assert error.late.wait(BOUND)
                assert error.late.error is not None or error.late.value == 3000
            else:
                assert error is None
        assert entered == left


# -- where nobody may be struck ---------------------------------------------------------------------------------------


def spin_until(gate: threading.Event, inside: threading.Event) -> None:
    inside.set()
    while not gate.is_set():
        pass


def dropped_generator(gate: threading.Event, inside: threading.Event) -> None:
    def source() -> Iterator[int]:
        try:
            yield 1
        finally:
            spin_until(gate, inside)

    for _ in source():
        break


def dropped_deaf_generator(gate: threading.Event, inside: threading.Event) -> None:
    def source() -> Iterator[int]:
        try:
            yield 1
        except GeneratorExit:
            pass
        spin_until(gate, inside)

    items = source()
    next(items)
    del items


def closed_generator(gate: threading.Event, inside: threading.Event) -> None:
    def source() -> Iterator[int]:
        try:
            yield 1
        finally:
            try:
                raise KeyError
            except KeyError:
                spin_until(gate, inside)

    items = source()
    next(items)
    items.close()  # type: ignore[attr-defined]


def dropped_coroutine(gate: threading.Event, inside: threading.Event) -> None:
    class Pending:
        def __await__(self) -> Iterator[int]:
            yield 1

    async def work() -> None:
        try:
            await Pending()  # type: ignore[misc]
        finally:
            spin_until(gate, inside)

    coroutine = work()
    coroutine.send(None)
    del coroutine


class Thing:
    """May be referred to weakly."""


def weak_callback(gate: threading.Event, inside: threading.Event) -> None:
    thing = Thing()
    ref = weakref.ref(thing, lambda _: spin_until(gate, inside))
    del thing
    assert ref() is None


def weak_finalize(gate: threading.Event, inside: threading.Event) -> None:
    thing = Thing()
    weakref.finalize(thing, spin_until, gate, inside)
    del thing


def library(gate: threading.Event, inside: threading.Event) -> None:
    source: queue.Queue[int] = queue.Queue()
    threading.Thread(target=lambda: (gate.wait(BOUND), source.put(1)), daemon=True).start()
    inside.set()
    source.get()


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (dropped_generator, "closing a generator"),
        (dropped_deaf_generator, "in a finalizer"),
        (closed_generator, "closing a generator"),
        (dropped_coroutine, "closing a generator"),
        (weak_callback, "in a finalizer"),
        (weak_finalize, "in a finalizer"),
        (library, "in code of the standard library"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_nobody_is_struck_there(
    let_go: list[threading.Event],
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[threading.Event, threading.Event], None],
    why: str,
) -> None:
    """In a finalizer of any kind, in a generator that is closed, in the standard library; the account says which."""
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    gate, inside = Gate(), threading.Event()
    let_go.append(gate)
    with turnctl.turn(grace=0) as turn:
        calling = Background(lambda: turn.call(work, gate, inside, interrupt=True))
        assert inside.wait(BOUND)
        assert until(lambda: work is not library or "in wait" in "".join(turn.activities.all()[0].owned.alive()))  # type: ignore[union-attr]
        turn.cancel()
        error = calling.error()
    gate.set()

    assert isinstance(error, CancelledError)
    (found,) = turn.report.activities
    assert "could not be interrupted: when last looked at, it " in str(found.detail)
    assert why in str(found.detail)
    assert error.late is not None
    assert error.late.wait(BOUND)
    assert ([], None) == (ignored, error.late.error)


def test_throw_that_a_finalizer_eats_is_repeated(
    let_go: list[threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that fall into finalizers that are not to be told from calls are noticed and do not count."""
    monkeypatch.setattr(call, "_THROWS", (0.5, 0.5, 0.5))
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    gate, inside = Gate(), threading.Event()
    let_go.append(gate)
    eaten: list[str] = []

    class Dropped:
        def __init__(self) -> None:
            self.ref = weakref.ref(self, lambda _: (spin_until(gate, inside), eaten.append("not struck")))

    def drop() -> None:
        local = Dropped()
        held.append(local.ref)

    held: list[Any] = []

    def work() -> None:
        for _ in range(5):
            drop()  # its local goes as it returns, which looks like a call
        eaten.append("went on")
        spin_until(gate, inside)

    with turnctl.turn(grace=0) as turn:
        calling = Background(lambda: turn.call(work, interrupt=True))
        assert inside.wait(BOUND)
        turn.cancel()
        error = calling.error()
    gate.set()

    assert isinstance(error, CancelledError)
    assert error.late is not None
    assert isinstance(error.late.error, Interrupted)
    assert (["went on"], [], ignored.append) == (eaten, ignored, sys.unraisablehook)
    (found,) = turn.report.activities
    assert ("cancelled", "was interrupted") == (found.state, found.detail)


@pytest.mark.switchinterval
def test_queue_of_an_interrupted_call_can_still_be_used(
    let_go: list[threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock is left free by every interruption, wherever it fell."""
    monkeypatch.setattr(call, "_THROWS", (0.5, 0.5, 0.5))
    struck = 0
    for round_ in range(100):  # how many rounds it takes is the scheduler's affair
        if struck > 3:
            break
        source: queue.Queue[int] = queue.Queue()
        gate, inside = Gate(), threading.Event()
        let_go.append(gate)

        def work(
            source: queue.Queue[int] = source, gate: threading.Event = gate, inside: threading.Event = inside
        ) -> None:
            inside.set()
            while not gate.is_set():
                source.put(1)
                source.get()

        with turnctl.turn(grace=0.001 * (round_ % 5)) as turn:
            calling = Background(lambda turn=turn, work=work: turn.call(work, interrupt=True))  # type: ignore[misc]
            assert inside.wait(BOUND)
            turn.cancel()
            error = calling.error()
            gate.set()
            assert isinstance(error, CancelledError)
            assert error.late is not None
            assert error.late.wait(BOUND)
            struck += isinstance(error.late.error, Interrupted)

        assert source.mutex.acquire(timeout=BOUND)
    assert struck > 3, struck
