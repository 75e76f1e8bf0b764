"""Items are taken from every kind of queue under a stop, none is lost, and our own queue is a queue."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import queue
import signal
import sys
import threading
import time
import weakref
from collections import Counter
from typing import Any

import pytest
from standins import BOUND, Background, is_parked, until

import turnctl
from turnctl import BadArgument, BadDuration, CancelledError
from turnctl.tokens.token import TurnToken
from turnctl.waiting.queues import SimpleQueue, get


@pytest.fixture
def token() -> TurnToken:
    return TurnToken("t1")


@pytest.mark.parametrize(
    ("kind", "order"),
    [(queue.Queue, [3, 1, 2]), (queue.LifoQueue, [2, 1, 3]), (queue.PriorityQueue, [1, 2, 3])],
)
def test_each_queue_keeps_its_order(token: TurnToken, kind: type[queue.Queue[int]], order: list[int]) -> None:
    """Items come in the order of the queue's own get, and count as got for ``task_done`` and ``join``."""
    source = kind()
    for item in (3, 1, 2):
        source.put(item)
    found = []
    for _ in range(3):
        found.append(get(token, source))
        source.task_done()
    source.join()

    assert order == found


def test_full_queue_has_room_again(token: TurnToken) -> None:
    """Taking an item wakes a putter that is blocked on a full queue."""
    source: queue.Queue[int] = queue.Queue(1)
    source.put(1)
    putter = Background(source.put, 2, True, 10)
    assert until(lambda: source.not_full._waiters)  # type: ignore[attr-defined]

    assert 1 == get(token, source)
    assert putter.error() is None
    assert 2 == get(token, source)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="queues cannot be shut down before Python 3.13")
def test_queue_that_was_shut_down(token: TurnToken) -> None:
    """What is left is given, then ``ShutDown`` is raised; who waits is woken."""
    source: Any = queue.Queue()
    waiter = Background(get, token, source)
    assert is_parked(token._grow().waiters)
    source.shutdown()
    error = waiter.error()
    rest: Any = queue.Queue()
    rest.put(1)
    rest.shutdown()
    last = get(token, rest)
    with pytest.raises(queue.ShutDown):  # type: ignore[attr-defined, unused-ignore]
        get(token, rest)
    token.cancel()
    with pytest.raises(CancelledError):
        get(token, rest)

    assert isinstance(error, queue.ShutDown)  # type: ignore[attr-defined, unused-ignore]
    assert 1 == last


def test_queue_with_a_get_of_its_own() -> None:
    """A class that has changed ``get`` is asked by it, in slices, and is named."""

    class Loud(queue.Queue[int]):
        def get(self, block: bool = True, timeout: float | None = None) -> int:
            return super().get(block, timeout) * 10

    with turnctl.turn() as turn:
        source = Loud()
        waiter = Background(turn.get, source)
        assert until(lambda: turn.notes)
        source.put(1)
        found = waiter.result()

    assert 10 == found
    assert "Loud in slices of 50 ms" in turn.report.notes[0]


def test_queue_whose_waiters_cannot_be_joined(token: TurnToken) -> None:
    """Where the private list of waiters is missing it goes by slices."""
    source: Any = queue.Queue()
    inner = source.not_empty

    class Sealed:
        def __enter__(self) -> Any:
            return inner.__enter__()

        def __exit__(self, *error: object) -> None:
            inner.__exit__(*error)

        def __getattr__(self, name: str) -> Any:
            if name == "_waiters":
                raise AttributeError(name)
            return getattr(inner, name)

    source.not_empty = Sealed()
    waiter = Background(get, token, source)
    source.put(1)

    assert 1 == waiter.result()


class Recording(queue.SimpleQueue):  # type: ignore[type-arg]
    """Remembers how it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[bool, float | None]] = []

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        self.asked.append((block, timeout))
        return super().get(block, timeout)


class Mailbox:
    """A class of somebody's, with such a queue inside."""

    def __init__(self) -> None:
        self.inner = Recording()
        self.put, self.get, self.get_nowait = self.inner.put, self.inner.get, self.inner.get_nowait


@pytest.mark.parametrize("make", [Recording, Mailbox])
@pytest.mark.parametrize("timeout", [None, 0, 0.12, BOUND])
@pytest.mark.parametrize("in_turn", [True, False])
def test_foreign_simple_queue_is_never_asked_for_a_time(make: Any, timeout: float | None, in_turn: bool) -> None:
    """Its timed ``get`` may wait for ever when several take from it, so it is only looked at."""
    source = make()
    asked = source.asked if isinstance(source, Recording) else source.inner.asked
    token = TurnToken("t1") if in_turn else None
    waiter = Background(get, token, source, timeout)
    if timeout is None or timeout == BOUND:
        assert not until(lambda: not waiter.is_running, within=0.12)
        source.put(1)
        found = waiter.result()
    else:
        found = None
        assert isinstance(waiter.error(), queue.Empty)

    assert (None if timeout in (0, 0.12) else 1) == found
    assert [] == [one for one in asked if one[1] is not None]


def test_stop_ends_a_look_at_a_foreign_simple_queue_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slice is a wait of ours: nobody waits for its end."""
    monkeypatch.setattr("turnctl.waiting.slices.SLICE_S", 60.0)
    source: Any = queue.SimpleQueue()
    with turnctl.turn() as turn:
        waiter = Background(turn.get, source)
        assert is_parked(turn.token._grow().waiters)
        turn.cancel()

        assert isinstance(waiter.error(), CancelledError)
    assert ["waited for _queue.SimpleQueue in slices"] == [note[:39] for note in turn.report.notes]


@pytest.mark.switchinterval
def test_getters_of_a_foreign_simple_queue_all_come_back() -> None:
    """Many of them, with short times, on one queue: a stop ends each."""
    source: Any = queue.SimpleQueue()
    token = TurnToken("t1")
    got: list[int] = []

    def take() -> None:
        while True:
            try:
                got.append(get(token, source, 0.001))
            except queue.Empty:
                pass

    takers = [Background(take) for _ in range(8)]
    for item in range(2000):
        source.put(item)
        if source.qsize() > 20:
            time.sleep(0.001)
    token.cancel()
    errors = [taker.error() for taker in takers]
    while not source.empty():
        got.append(source.get_nowait())

    assert [CancelledError] * 8 == [type(error) for error in errors]
    assert list(range(2000)) == sorted(got)


@pytest.mark.parametrize("thing", [queue.Queue, queue.SimpleQueue, SimpleQueue])
def test_class_of_a_queue_is_refused(token: TurnToken, thing: Any) -> None:
    """Nobody has put anything into it."""
    with pytest.raises(BadArgument, match=r"get\(\) needs a queue, not the class .*; make one"):
        get(token, thing)


@pytest.mark.parametrize("thing", [[], {}, 5, object(), asyncio.Queue(), multiprocessing.get_context("fork").Lock()])
def test_what_is_no_queue_is_refused(token: TurnToken, thing: Any) -> None:
    """The message names what it is and what can be given."""
    with pytest.raises(BadArgument, match=r"cannot wait for an item of .*; give a queue.Queue"):
        get(token, thing)


@pytest.mark.parametrize("timeout", [-1, "5", float("nan"), True])
def test_bad_timeout_is_refused(token: TurnToken, timeout: Any) -> None:
    """A timeout is a duration or None, for every queue."""
    for source in (queue.Queue(), SimpleQueue()):
        with pytest.raises(BadDuration, match="timeout"):
            get(token, source, timeout)


@pytest.mark.switchinterval
def test_no_item_is_lost_or_doubled_by_stops() -> None:
    """Getters that are stopped in the middle, with timed and foreign ones beside them, lose and double nothing."""
    for make in (queue.Queue, SimpleQueue):
        source: Any = make()
        got: list[int] = []
        stops: list[int] = []
        over = threading.Event()

        def take(
            timeout: float | None,
            source: Any = source,
            got: list[int] = got,
            stops: list[int] = stops,
            over: Any = over,
        ) -> None:
            while not over.is_set():
                one = TurnToken("t")
                timer = threading.Timer(0.001, one.cancel)
                timer.start()
                try:
                    got.append(get(one, source, timeout))
                except queue.Empty:
                    pass
                except CancelledError:
                    stops.append(1)
                timer.join()

        def take_plainly(source: Any = source, got: list[int] = got, over: Any = over) -> None:
            while not over.is_set():
                try:
                    got.append(source.get(timeout=0.01))
                except queue.Empty:
                    pass

        takers = [Background(take, None), Background(take, 0.001), Background(take, None), Background(take_plainly)]
        for item in range(1000):
            source.put(item)
            if item % 5 == 0:
                time.sleep(0.001)  # long enough for getters to wait and be stopped
        all_there = until(lambda got=got: len(got) >= 1000)  # type: ignore[misc]
        over.set()
        errors = [taker.error() for taker in takers]

        assert all_there, len(got)
        assert stops
        assert Counter(range(1000)) == Counter(got)
        assert [None] * 4 == errors


# -- between processes --------------------------------------------------------------------------------------------


def _put(source: Any, item: Any) -> None:
    source.put(item)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # beside a thread, which is what is tested
def test_item_of_another_process(token: TurnToken) -> None:
    """A queue of multiprocessing wakes the waiter by its descriptor, without slices."""
    context = multiprocessing.get_context("fork")
    source = context.Queue()
    with turnctl.turn() as turn:
        waiter = Background(turn.get, source)
        assert until(lambda: turn.token._grow().bells)
        child = context.Process(target=_put, args=(source, "x" * 100_000))
        child.start()
        found = waiter.result()
        child.join(10)
        child.close()
    source.close()
    source._writer.close()  # type: ignore[attr-defined]
    source._reader.close()  # type: ignore[attr-defined]

    assert "x" * 100_000 == found
    assert () == turn.report.notes


def test_queue_that_somebody_else_reads_is_no_spin(token: TurnToken) -> None:
    """While another get stands in the queue's lock the waiter goes by slices and says so; a stop still ends it."""
    source: Any = multiprocessing.get_context("fork").Queue()
    with turnctl.turn() as turn, source._rlock:
        source.put(1)
        waiter = Background(turn.get, source)
        assert until(lambda: turn.notes)
        begun = time.thread_time()
        turn.cancel()
        error = waiter.error()
    left = source.get(timeout=10)
    source.close()
    source.join_thread()
    source._writer.close()
    source._reader.close()

    assert isinstance(error, CancelledError)
    assert 1 == left
    assert time.thread_time() - begun < 1
    assert "which another process is reading" in turn.report.notes[0]


# -- our own ------------------------------------------------------------------------------------------------------


def test_our_queue_is_a_queue() -> None:
    """It has the methods of ``queue.SimpleQueue``, and they do the same."""
    names = [name for name in dir(queue.SimpleQueue) if not name.startswith("_")]
    source: SimpleQueue[int] = SimpleQueue()
    source.put(1)
    source.put_nowait(2)
    source.put(3, block=False, timeout=1)
    sizes = (source.qsize(), source.empty(), repr(source))
    found = [source.get(), source.get(timeout=1), source.get_nowait()]

    assert [] == [name for name in names if not hasattr(source, name)]
    assert (3, False, "<turnctl.SimpleQueue of 3>") == sizes
    assert [1, 2, 3] == found
    assert source.empty()
    for call in (source.get_nowait, lambda: source.get(timeout=0.01), lambda: source.get(False, 5)):
        with pytest.raises(queue.Empty):
            call()


def test_our_queue_wakes_a_plain_get() -> None:
    """Its own get blocks without a turn, and is no checkpoint within one."""
    source: SimpleQueue[int] = SimpleQueue()
    with turnctl.turn() as turn:
        waiter = Background(source.get)
        assert is_parked(source._waiters)
        turn.cancel()
        still = waiter.is_running
        source.put(1)
        found = waiter.result()

    assert still
    assert 1 == found


def test_our_queue_wakes_one_getter_per_item(token: TurnToken) -> None:
    """Ten getters, ten items: each gets one, nobody stays asleep."""
    source: SimpleQueue[int] = SimpleQueue()
    waiters = [Background(get, token, source) for _ in range(10)]
    assert is_parked(source._waiters, 10)
    for item in range(10):
        source.put(item)

    assert list(range(10)) == sorted(waiter.result() for waiter in waiters)


def test_our_queue_takes_items_from_handlers_and_finalizers() -> None:
    """``put`` holds nothing: a signal handler and a finalizer may call it while the same thread is in get or put."""
    source: SimpleQueue[int] = SimpleQueue()

    class Putting:
        def __del__(self) -> None:
            source.put(2)

    def poke() -> None:
        assert is_parked(source._waiters)
        signal.pthread_kill(main, signal.SIGUSR1)

    main = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, lambda *_: source.put(1))
    try:
        poker = Background(poke)
        begun = time.monotonic()
        by_signal = source.get(timeout=10)
        took = time.monotonic() - begun
        poker.result()
    finally:
        signal.signal(signal.SIGUSR1, before)
    ref = weakref.ref(thing := Putting())
    del thing
    gc.collect()

    assert 1 == by_signal
    assert took < 5
    assert ref() is None
    assert 2 == source.get_nowait()
