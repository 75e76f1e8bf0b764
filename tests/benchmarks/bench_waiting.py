"""The waiting room: how soon each blocked wait comes back after a stop, and what calls, streams and install cost."""

from __future__ import annotations

import contextlib
import os
import queue
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

TITLE = "Waiting"

#: how a round is made: what blocks until the stop, what stops it, and what is to be cleaned up
Made = tuple[Callable[[], object], Callable[[], object], Callable[[], object]]


def _nothing() -> None: ...


def _event() -> Made:
    event = threading.Event()
    return event.wait, event.set, _nothing


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


WAITS: dict[str, Callable[[], Made]] = {
    "Event.wait()": _event,
    "turn.sleep()": lambda: _in_turn(lambda turn: turn.sleep(60)),
    "turn.wait(Event)": lambda: _in_turn(lambda turn: turn.wait(threading.Event())),
    "turn.wait(Future)": lambda: _in_turn(lambda turn: turn.wait(Future[int]())),
    "turn.wait(Popen)": _process,
    "turn.wait(turn.thread)": _thread,
    "turn.get(Queue)": lambda: _in_turn(lambda turn: turn.get(queue.Queue[int]())),
    "turn.get(turnctl.SimpleQueue)": lambda: _in_turn(lambda turn: turn.get(turnctl.SimpleQueue())),
    "turn.acquire(Semaphore)": lambda: _in_turn(lambda turn: turn.acquire(threading.Semaphore(0))),
    "turn.acquire(turnctl.Lock)": lambda: _in_turn(lambda turn: turn.acquire(_held_lock())),
    "turn.select(pipe)": _select,
    "turn.call(abort=)": _call,
    "turn.stream(close=)": _stream,
    "bridge_asyncio": _asyncio,
}
RIVALS: dict[str, Callable[[], Made]] = {"cantok token.wait()": _cantok, "polling, 10 ms": _poll_10_ms}


def _once(made: Made) -> float:
    """Microseconds from the stop until the blocked thread runs on."""
    block, fire, clean = made
    woken: list[float] = []
    parked = threading.Event()

    def wait() -> None:
        parked.set()
        block()
        woken.append(time.perf_counter())

    thread = threading.Thread(target=wait)
    thread.start()
    parked.wait()
    time.sleep(0.003)  # until the thread is blocked; too early only makes the figure better, for all of them
    start = time.perf_counter()
    fire()
    thread.join()
    clean()
    return (woken[0] - start) * 1e6


def latencies(count: int = 100) -> list[Row]:
    kinds = dict(WAITS)
    for name, make in RIVALS.items():
        try:
            make()
        except ImportError as error:
            print(f"{error.name} is not installed: left out", file=sys.stderr)
        else:
            kinds[name] = make
    found: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(count):
        for name, make in kinds.items():
            found[name].append(_once(make()))
    rows = []
    for share, title in ((0.5, "p50"), (0.99, "p99")):
        at = {name: sorted(values)[int(len(values) * share)] for name, values in found.items()}
        base = at.pop("Event.wait()")
        rows += [Row(f"{name}, {title}", value, "us", "Event.wait()", base) for name, value in at.items()]
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
