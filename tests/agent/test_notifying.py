"""Waiting for a stop of a loop in a coroutine: it comes at once, and who gives up leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal as signals
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from standins import BOUND, until

import turnctl
from turnctl.agent import AgentLoop, CancelSignal


def waiting() -> int:
    return sum(one.name == "turnctl-notified" for one in threading.enumerate())


async def seen(condition: Callable[[], object]) -> bool:
    return await asyncio.to_thread(until, condition)


def bounded(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, BOUND))


@pytest.fixture
def signal() -> CancelSignal:
    return CancelSignal()


def test_every_waiter_is_woken_and_the_loop_goes_on(signal: CancelSignal) -> None:
    """A stop from another thread wakes all that wait; until then the loop does other things."""

    async def main() -> int:
        waiters = [asyncio.ensure_future(signal.notified()) for _ in range(3)]
        turns = 0
        while waiting() < 3 or turns < 5:
            await asyncio.sleep(0)
            turns += 1
        none_yet = not any(one.done() for one in waiters)
        threading.Thread(target=signal.cancel).start()
        await asyncio.gather(*waiters)
        return turns if none_yet else 0

    assert 5 <= bounded(main())
    assert until(lambda: 0 == waiting())


def test_stop_that_is_there_needs_no_thread(signal: CancelSignal) -> None:
    """One that waits for the next run is there at once, for whoever asks."""
    signal.cancel()
    before = threading.active_count()

    async def main() -> int:
        await signal.notified()
        return threading.active_count()

    assert before == bounded(main())


def test_who_gives_up_leaves_no_thread(signal: CancelSignal) -> None:
    """The other branch of a race may be dropped, and the loop closed at once: nothing goes on waiting."""

    async def main() -> None:
        dropped = asyncio.ensure_future(signal.notified())
        await seen(waiting)
        dropped.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dropped
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(signal.notified(), 0.01)

    began = time.monotonic()
    asyncio.run(main())

    assert time.monotonic() - began < BOUND / 2
    assert until(lambda: 0 == waiting())
    assert not signal.is_cancelled()


def test_stop_of_a_run_is_seen_through_one_that_was_not() -> None:
    """Begun before any run, it goes on through one that completes, and sees the stop of the next."""
    loop = AgentLoop(lambda *_: "done")

    async def main() -> tuple[bool, str]:
        watcher = asyncio.ensure_future(loop.cancel_signal.notified())
        await asyncio.sleep(0)
        await asyncio.to_thread(loop.run, "one")
        still = not watcher.done()
        loop.cancel("enough")
        stopped = await asyncio.to_thread(loop.run, "two")
        await watcher
        return still, stopped.stop_reason

    assert (True, "cancelled") == bounded(main())


def test_ctrl_c_of_an_asyncio_host_stops_the_run() -> None:
    """The handler of the host's own loop fires the signal; the run on its thread ends, and whoever waits is told."""
    inside, go = threading.Event(), threading.Event()

    def model(*_: object) -> str:
        inside.set()
        go.wait(BOUND)
        return "late"

    loop = AgentLoop(model)

    async def main() -> tuple[str, str | None]:
        asyncio.get_running_loop().add_signal_handler(signals.SIGINT, loop.cancel, "Ctrl-C")
        watcher = asyncio.ensure_future(loop.cancel_signal.notified())
        running = asyncio.ensure_future(asyncio.to_thread(loop.run, "go"))
        await seen(inside.is_set)
        os.kill(os.getpid(), signals.SIGINT)
        await watcher
        result = await running
        return result.stop_reason, result.record.reason

    try:
        got = bounded(main())
    finally:
        go.set()

    assert ("cancelled", "Ctrl-C") == got
    assert until(lambda: not turnctl.waiting.abandoned.count())


def test_loop_that_was_closed_is_told_nothing(signal: CancelSignal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that goes away with its loop has no thread die of it."""
    died: list[object] = []
    monkeypatch.setattr(threading, "excepthook", died.append)
    closing = asyncio.new_event_loop()
    task = closing.create_task(signal.notified())
    closing.run_until_complete(asyncio.sleep(0))
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    closing.close()
    signal.cancel()

    assert until(lambda: 0 == waiting())
    assert [] == died
