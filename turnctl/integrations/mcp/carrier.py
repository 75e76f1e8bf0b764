"""A transport of the SDK in a task of its own: entered there, left there, whatever becomes of who uses it.

Invariant C1: ``close`` returns when the transport has been left, or after ``_CLOSE_S``; a cancellation that comes in
between is put off until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turnctl import clock
from turnctl.integrations.mcp import sdk

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

__all__ = ["Carrier"]

_CLOSE_S = 10.0  # more than the SDK takes to end a server that does not want to


class Carrier:
    """Holds one transport open. For one loop."""

    def __init__(self, opened: AbstractAsyncContextManager[Any]) -> None:
        self._opened = opened
        self._task: asyncio.Task[None] | None = None
        self._closing: asyncio.Event | None = None

    async def open(self, on_end: Callable[[], object]) -> tuple[Any, Any]:
        """Enter it; its two streams. ``on_end`` is called when it has been left. Raises what entering raises."""
        loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        ready: asyncio.Future[tuple[Any, Any]] = loop.create_future()
        task = self._task = loop.create_task(self._carry(ready, self._closing))
        task.add_done_callback(lambda _: on_end())
        try:
            await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.close()
            raise
        if not ready.done():
            await task  # which raises
        return ready.result()

    async def _carry(self, ready: asyncio.Future[tuple[Any, Any]], closing: asyncio.Event) -> None:
        async with self._opened as streams:
            ready.set_result((streams[0], streams[1]))
            try:
                await closing.wait()
            finally:
                streams[1].close()
                streams[0].close()

    async def close(self) -> None:
        """Leave it (C1). Never raises what leaving raises: who uses it has been told by its streams."""
        task, closing = self._task, self._closing
        if task is None or closing is None:
            return
        closing.set()
        put_off: asyncio.CancelledError | None = None
        ends_at = clock.monotonic() + _CLOSE_S
        with sdk.shielded(_CLOSE_S):  # a scope of anyio that was cancelled strikes again and again
            while not task.done() and clock.monotonic() < ends_at:
                try:
                    await asyncio.wait((task,), timeout=ends_at - clock.monotonic())
                except asyncio.CancelledError as error:
                    put_off = error
        if not task.done():
            task.cancel()
        elif not task.cancelled():
            task.exception()  # seen
        if put_off is not None:
            raise put_off
