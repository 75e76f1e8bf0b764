"""The waiting room: how soon each blocked wait comes back after a stop, and what calls, streams and install cost."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import subprocess
import sys
import threading
import time
import timeit
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

from table import Row, median_of, per_call_ns

import turnctl
from turnctl import clock

TITLE = "Waiting"

#: how a round is made: what blocks until the stop, what stops it, and what is to be cleaned up
Made = tuple[Callable[[], object], Callable[[], object], Callable[[], object]]


def _nothing() -> None: ...


def _event() -> Made:
    event = threading.Event()
    return event.wait, event.set, _nothing


def _bare_select() -> Made:
    read, write = os.pipe()

    def clean() -> None:
        os.close(read)
        os.close(write)

    return lambda: select.select([read], [], []), lambda: os.write(write, b"x"), clean


def _bare_asyncio() -> Made:
    import asyncio

    loop = asyncio.new_event_loop()
    event = asyncio.Event()
    return lambda: loop.run_until_complete(event.wait()), lambda: loop.call_soon_threadsafe(event.set), loop.close


def _by_hand() -> Made:
    """What a call with an abort comes to: the caller wakes, has a thread unblock its worker, and is told when it is
    back."""
    stop, free, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        free.wait()
        done.set()

    def block() -> None:
        worker, aborter = threading.Thread(target=work), threading.Thread(target=free.set)
        worker.start()
        stop.wait()
        aborter.start()
        done.wait()
        worker.join()

    return block, stop.set, _nothing


def _poll_10_ms() -> Made:
    event = threading.Event()

    def poll() -> None:
        while not event.is_set():
            time.sleep(0.01)

    return poll, event.set, _nothing


def _cantok() -> Made:
    from cantok import SimpleToken

    token = SimpleToken()
    return token.wait, token.cancel, _nothing


def _in_turn(wait: Callable[[turnctl.Turn], object], clean: Callable[[], object] = _nothing) -> Made:
    turn = turnctl.begin_turn(inherit=False)._turn
    assert isinstance(turn, turnctl.Turn)

    def block() -> None:
        with contextlib.suppress(turnctl.CancelledError):
            wait(turn)

    def done() -> None:
        turn.end()
        clean()

    return block, turn.cancel, done


def _select() -> Made:
    read, write = os.pipe()

    def clean() -> None:
        os.close(read)
        os.close(write)

    return _in_turn(lambda turn: turn.select([read]), clean)


def _process() -> Made:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def clean() -> None:
        child.kill()
        child.communicate()

    return _in_turn(lambda turn: turn.wait(child), clean)


def _call() -> Made:
    free = threading.Event()
    return _in_turn(lambda turn: turn.call(free.wait, abort=free.set))


def _stream() -> Made:
    free = threading.Event()

    def blocked() -> Iterator[int]:
        free.wait()
        yield 1

    return _in_turn(lambda turn: list(turn.stream(blocked(), close=free.set)))


def _thread() -> Made:
    free = threading.Event()

    def wait(turn: turnctl.Turn) -> None:
        try:
            turn.wait(turn.thread(free.wait))
        finally:
            free.set()  # or the end of the turn would wait for it

    return _in_turn(wait)


def _held_lock() -> Any:
    lock = turnctl.Lock()
    lock.acquire()
    return lock


def _asyncio() -> Made:
    import asyncio

    loop = asyncio.new_event_loop()
    turn = turnctl.begin_turn(inherit=False)._turn
    assert isinstance(turn, turnctl.Turn)
    event = turn.bridge_asyncio(loop)

    def done() -> None:
        turn.end()
        loop.close()

    return lambda: loop.run_until_complete(event.wait()), turn.cancel, done


EVENT, SELECT, ASYNCIO, HAND = "Event.wait()", "select(pipe)", "asyncio.Event of a loop", "threads and Events by hand"
FLOORS: dict[str, Callable[[], Made]] = {
    EVENT: _event,
    SELECT: _bare_select,
    ASYNCIO: _bare_asyncio,
    HAND: _by_hand,
}
#: the waits whose wake-up is a latch: at most 1.1 times that of an Event
WAITS: dict[str, Callable[[], Made]] = {
    "turn.sleep()": lambda: _in_turn(lambda turn: turn.sleep(60)),
    "turn.wait(Event)": lambda: _in_turn(lambda turn: turn.wait(threading.Event())),
    "turn.wait(Future)": lambda: _in_turn(lambda turn: turn.wait(Future[int]())),
    "turn.wait(turn.thread)": _thread,
    "turn.get(Queue)": lambda: _in_turn(lambda turn: turn.get(queue.Queue[int]())),
    "turn.get(turnctl.SimpleQueue)": lambda: _in_turn(lambda turn: turn.get(turnctl.SimpleQueue())),
    "turn.acquire(Semaphore)": lambda: _in_turn(lambda turn: turn.acquire(threading.Semaphore(0))),
    "turn.acquire(turnctl.Lock)": lambda: _in_turn(lambda turn: turn.acquire(_held_lock())),
}
#: the others, with what each is measured against: at most twice that, until the exception has been caught
OTHERS: dict[str, tuple[Callable[[], Made], str]] = {
    "turn.select(pipe)": (_select, SELECT),
    "turn.wait(Popen)": (_process, SELECT),
    "bridge_asyncio": (_asyncio, ASYNCIO),
    "turn.call(abort=)": (_call, HAND),
    "turn.stream(close=)": (_stream, HAND),
}
RIVALS: dict[str, Callable[[], Made]] = {"cantok token.wait()": _cantok, "polling, 10 ms": _poll_10_ms}


class _Noting:
    """The clock of the process, which takes down when a thread that a latch woke runs again."""

    def __init__(self) -> None:
        self.thread: int | None = None
        self.ran: list[float] = []
        self.monotonic = time.monotonic
        self.wall = time.time

    def block(self, lock: Any, seconds: float) -> object:
        got = lock.acquire(True, seconds)
        if threading.get_ident() == self.thread:
            self.ran.append(time.perf_counter())
        return got


def _once(made: Made, noting: _Noting) -> tuple[float, float]:
    """Microseconds from the stop until the blocked thread runs again, and until it has left the wait."""
    block, fire, clean = made
    left: list[float] = []
    parked = threading.Event()

    def wait() -> None:
        noting.thread = threading.get_ident()
        parked.set()
        block()
        left.append(time.perf_counter())

    thread = threading.Thread(target=wait)
    thread.start()
    parked.wait()
    time.sleep(0.003)  # until the thread is blocked; too early only makes the figure better, for all of them
    noting.ran.clear()
    start = time.perf_counter()
    fire()
    thread.join()
    ran = (noting.ran or left)[0]
    noting.thread = None
    clean()
    return (ran - start) * 1e6, (left[0] - start) * 1e6


def latencies(count: int = 100) -> list[Row]:
    others = {name: make for name, (make, _) in OTHERS.items()}
    kinds = {**FLOORS, **WAITS, **others}
    for name, make in RIVALS.items():
        try:
            make()
        except ImportError as error:
            print(f"{error.name} is not installed: left out", file=sys.stderr)
        else:
            kinds[name] = make
    ran: dict[str, list[float]] = {name: [] for name in kinds}
    caught: dict[str, list[float]] = {name: [] for name in kinds}
    noting = _Noting()
    with clock.use(noting):
        for _ in range(count):
            for name, make in kinds.items():
                one, other = _once(make(), noting)
                ran[name].append(one)
                caught[name].append(other)

    def at(values: list[float], share: float) -> float:
        return sorted(values)[int(len(values) * share)]

    base = at(caught[EVENT], 0.5)
    rows = [
        Row(f"{name}: runs again, p50", at(ran[name], 0.5), "us", EVENT, base, 1.1) for name in kinds if name in WAITS
    ]
    rows += [
        Row(f"{name}: is out, p50", at(caught[name], 0.5), "us", floor, at(caught[floor], 0.5), 2)
        for name, (_, floor) in OTHERS.items()
    ]
    for share, title in ((0.5, "p50"), (0.99, "p99")):
        base = at(caught[EVENT], share)
        rows += [
            Row(f"{name}: is out, {title}", at(values, share), "us", EVENT, base)
            for name, values in caught.items()
            if name != EVENT
        ]
    return rows


def _plain_thread() -> None:
    thread = threading.Thread(target=_nothing)
    thread.start()
    thread.join()


def costs() -> list[Row]:
    with turnctl.turn() as turn:
        found = per_call_ns(
            {
                "thread": ("f()", {"f": _plain_thread}),
                "call": ("turn.call(f)", {"turn": turn, "f": _nothing}),
                "f()": ("f()", {"f": _nothing}),
            }
        )
        items = list(range(100_000))

        def plain() -> float:
            return timeit.timeit(lambda: sum(1 for _ in iter(items)), number=1) * 1e9 / len(items)

        def listed() -> float:
            return timeit.timeit(lambda: sum(1 for _ in turn.stream(items)), number=1) * 1e9 / len(items)

        def generated() -> float:
            source = (item for item in items)
            return timeit.timeit(lambda: sum(1 for _ in turn.stream(source)), number=1) * 1e9 / len(items)

        streams = median_of({"plain": plain, "listed": listed, "generated": generated}, 7)
    return [
        Row("turn.call(f)", found["call"] / 1000, "us", "Thread start + join", found["thread"] / 1000, 2),
        Row("stream of a list, an item", streams["listed"], "ns", "plain loop", streams["plain"]),
        Row("stream of a list, an item", streams["listed"] / 1000, "us", target=1),
        Row("stream of a generator, an item", streams["generated"] / 1000, "us", target=1),
    ]


def pauses() -> list[Row]:
    plain, once = turnctl.CancelToken(), turnctl.begin_turn(inherit=False)
    turn = once._turn
    assert isinstance(turn, turnctl.Turn)
    turn.pause()
    turn.resume()
    found = per_call_ns({"never": ("t.check()", {"t": plain}), "once": ("t.check()", {"t": once})})
    turn.end()
    return [Row("check() of a turn that was paused once", found["once"], "ns", "one that never was", found["never"])]


def installed() -> list[Row]:
    from concurrent.futures import ThreadPoolExecutor

    def submits() -> float:
        with ThreadPoolExecutor(1) as pool:
            return timeit.timeit(lambda: pool.submit(_nothing).result(), number=300) / 300 * 1e6

    def threads() -> float:
        return timeit.timeit(_plain_thread, number=200) / 200 * 1e6

    before = median_of({"threads": threads, "submits": submits}, 5)
    with turnctl.install(threads=True):
        after = median_of({"threads": threads, "submits": submits}, 5)
    return [
        Row("Thread start + join under install()", after["threads"], "us", "without", before["threads"]),
        Row("ThreadPoolExecutor.submit under install()", after["submits"], "us", "without", before["submits"]),
    ]


def from_threads() -> list[Row]:
    """The check of a worker thread, against what asyncio-based libraries offer there."""
    with turnctl.turn():
        found = {"ours": per_call_ns({"c": ("c()", {"c": turnctl.check})})["c"]}
    try:
        import anyio
        import anyio.from_thread
        import anyio.to_thread

        def measure() -> float:
            return per_call_ns({"c": ("c()", {"c": anyio.from_thread.check_cancelled})})["c"]

        async def main() -> float:
            return await anyio.to_thread.run_sync(measure)

        found["anyio"] = anyio.run(main)
    except ImportError:
        print("anyio is not installed: left out", file=sys.stderr)
    try:
        import trio

        def measure_trio() -> float:
            return per_call_ns({"c": ("c()", {"c": trio.from_thread.check_cancelled})})["c"]

        async def main_trio() -> float:
            return await trio.to_thread.run_sync(measure_trio)

        found["trio"] = trio.run(main_trio)
    except ImportError:
        print("trio is not installed: left out", file=sys.stderr)
    base = found.pop("ours")
    return [Row(f"{name} from_thread check", value, "ns", "turnctl.check()", base) for name, value in found.items()]


def rows() -> list[Row]:
    return [*latencies(), *costs(), *pauses(), *installed(), *from_threads()]
