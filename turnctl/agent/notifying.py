"""Waiting for a stop in a coroutine of asyncio: a thread waits, and hands the news to the loop.

Invariants
  N1  Whoever gives up stores that, *then* wakes the thread; the thread is on the list, *then* looks (``tokens.event``).
      So no thread outlives the coroutine that it waits for.
  N2  A loop that was closed meanwhile is told nothing.

May block: nothing on the loop's thread. The canceller's stack does no more than for ``wait``.
"""

from __future__ import annotations

import asyncio
import threading
from _thread import LockType
from collections.abc import Callable
from contextvars import Context

from turnctl.tokens.event import park, release_all
from turnctl.tokens.threads import needing_threads

__all__ = ["notified"]


async def notified(is_there: Callable[[], bool], waiters: list[LockType]) -> None:
    """Return when ``is_there()``; whoever makes it so releases ``waiters``."""
    if is_there():
        return
    loop = asyncio.get_running_loop()
    news: asyncio.Future[None] = loop.create_future()
    given_up: list[None] = []

    def tell() -> None:
        if not news.done():
            news.set_result(None)

    def watch() -> None:
        park(lambda: bool(given_up) or is_there(), None, waiters)
        if not given_up:
            try:
                loop.call_soon_threadsafe(tell)
            except RuntimeError:
                if not loop.is_closed():  # N2
                    raise

    thread = threading.Thread(target=watch, name="turnctl-notified", daemon=True)
    with needing_threads("the wait for a stop"):
        Context().run(thread.start)  # where threads inherit, this one inherits nothing
    try:
        await news
    finally:
        given_up.append(None)
        release_all(waiters)  # N1
