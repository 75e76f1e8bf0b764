"""Asyncio under a turn: a stop as an ``asyncio.Event``, and a coroutine run from plain code.

At the border a stop changes its class, both ways: inside the loop it is ``asyncio.CancelledError``, which tasks,
task groups and timeouts understand; what comes out to plain code is ``turnctl.CancelledError``, from the other. The two
are not related by class, since ``asyncio.timeout`` would claim ours, and ``import turnctl`` would load asyncio.

``waiting.bridge`` says who carries the stop; here it is posted with ``call_soon_threadsafe``. May block:
``run_coroutine``, as the coroutine does. Not promised: that a coroutine which blocks its loop, or swallows the
cancellation, comes back: it is left behind after the grace, and named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from turnctl import points
from turnctl.errors import BadArgument, CancelledError
from turnctl.tokens import registry
from turnctl.waiting.bridge import Bridging, refuse_if_ended
from turnctl.waiting.call import call
from turnctl.waiting.parking import token_in

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken
    from turnctl.tokens.turn import TurnCore

__all__ = ["StopEvent", "bridge_asyncio", "run_coroutine"]

T = TypeVar("T")


class StopEvent(asyncio.Event):
    """An ``asyncio.Event`` that a turn's stop sets; ``release()`` takes it off the turn before the turn is over."""

    bridging: Bridging | None = None

    def release(self) -> bool:
        """Take the bridge back; True if the event had not been set by a stop and now never will be."""
        return self.bridging is not None and self.bridging.release()


def bridge_asyncio(turn: TurnCore, loop: asyncio.AbstractEventLoop | None = None) -> StopEvent:
    """An event of ``loop`` (default: the running one) that is set when the turn is stopped.

    Set already if the turn has been stopped. A turn that ends without a stop leaves it unset. A loop that is closed
    by then is harmless: nothing is posted. Never blocks, not a checkpoint; may be called from any thread. Raises
    ``TurnOver`` once the turn has ended.
    """
    if loop is None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise BadArgument(
                "bridge_asyncio() found no running loop on this thread; give it the loop that will wait"
            ) from None
    if not isinstance(loop, asyncio.AbstractEventLoop):
        raise BadArgument(f"bridge_asyncio() needs an event loop, not {loop!r}")
    event = StopEvent()
    registry.tell(registry.on_begin)  # the loop may have taken signals over since the turn began
    refuse_if_ended(turn, "an asyncio event")
    if turn.token.cancelled:
        event.set()  # nobody waits on it yet, so this is no business of the loop's
    else:
        event.bridging = Bridging(turn, f"an event of {loop!r}", lambda: _post(loop, event.set))._attach()
    return event


def _post(loop: asyncio.AbstractEventLoop, fn: Callable[[], object]) -> None:
    """Have ``loop`` call ``fn``; a loop that is closed waits for nothing."""
    if loop.is_closed():
        return
    try:
        loop.call_soon_threadsafe(fn)
    except RuntimeError:
        if not loop.is_closed():
            raise


def run_coroutine(turn: TurnCore, coro: Coroutine[Any, Any, T], *, name: str | None = None) -> T:
    """Run a coroutine to its end in an event loop on a thread of the turn, from plain code; its value.

    A checkpoint. Blocks. A stop cancels the coroutine's task in its loop, gives it the grace to clean up, and raises
    ``CancelledError`` from what came of it; the value of one that finished all the same is not returned but is kept
    in ``late`` of the error and in the report. The coroutine sees the caller's context. One that was stopped before
    it began is closed without having run. Exceptions of the coroutine, its own ``asyncio.CancelledError`` among them,
    pass out as they are. Raises ``BadArgument`` on a thread whose loop it would block.
    """
    if not isinstance(coro, Coroutine):
        raise BadArgument(f"run_coroutine() needs a coroutine, not {coro!r}; call the async function first")
    running = _Running(token_in(turn), coro)
    try:
        if asyncio._get_running_loop() is not None:
            raise BadArgument(
                "run_coroutine() would block the event loop that runs on this thread; await the coroutine there, and "
                "watch turn.bridge_asyncio(loop)"
            )
        running.__qualname__ = name or str(getattr(coro, "__qualname__", "coroutine"))
        return call(turn, running, (), {}, abort=running.cancel)
    finally:
        if not running.began:
            coro.close()  # never awaited, on purpose


class _Running(Generic[T]):
    """One coroutine and its loop; called on the worker thread."""

    __qualname__: str  # the name it is accounted for by

    def __init__(self, token: CancelToken, coro: Coroutine[Any, Any, T]) -> None:
        self.token = token
        self.coro = coro
        self.began = False
        self._wanted = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[T] | None = None

    def cancel(self) -> None:
        """Cancel the task in its loop; from any thread. Never blocks."""
        self._wanted = True
        loop = self._loop
        if loop is not None:  # else the worker reads the wish after it has stored the loop
            _post(loop, self._cancel_task)

    def _cancel_task(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel(str(self.token._error()))

    def __call__(self) -> T:
        try:
            with asyncio.Runner() as runner:
                return runner.run(self._main(runner.get_loop()))
        except asyncio.CancelledError as error:
            if not self.token.cancelled:
                raise
            raise self.token._raised() from error
        except BaseExceptionGroup as error:
            # a task group wraps what a checkpoint inside one of its tasks raised
            if self.token.cancelled and error.split((CancelledError, asyncio.CancelledError))[1] is None:
                raise self.token._raised() from error
            raise

    async def _main(self, loop: asyncio.AbstractEventLoop) -> T:
        self.began = True
        points.reach("coroutine.starting")
        self._task = asyncio.ensure_future(self.coro)
        self._loop = loop
        if self._wanted:  # then read the wish
            self._cancel_task()
        return await self._task
