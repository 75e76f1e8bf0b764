"""What a turn can wait for: the methods of ``Turn`` that belong to this room, each loaded on first use.

Each method has the promise; the module that it calls has the mechanism. All of them may be called from any thread of
the turn, and obey the turn's own token wherever they are called.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from turnctl.tokens import pausing
from turnctl.tokens.turn import TurnCore

if TYPE_CHECKING:
    import asyncio
    import socket
    from concurrent.futures import Future
    from contextlib import AbstractContextManager

    from turnctl.records.diagnosis import Diagnosis
    from turnctl.tokens.callbacks import Registration
    from turnctl.waiting.asks import Source
    from turnctl.waiting.bridge import Bridging
    from turnctl.waiting.call import Prefer
    from turnctl.waiting.coroutines import StopEvent
    from turnctl.waiting.executor import TurnExecutor
    from turnctl.waiting.stream import Stream
    from turnctl.waiting.threads import TurnThread

__all__ = ["Gettable", "WaitingTurn"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Timeout = float | str | None


class Gettable(Protocol[T_co]):
    """What items can be taken from: a queue of threads, of processes, or of ours."""

    def get(self, block: bool = ..., timeout: float | None = ...) -> T_co: ...


class WaitingTurn(TurnCore):
    """The waiting side of ``turnctl.Turn``."""

    # -- checkpoints ------------------------------------------------------------------------------------------

    def sleep(self, duration: float | str) -> None:
        """Block for ``duration`` (seconds or "1m30s"); a checkpoint that wakes at once when the turn is stopped."""
        from turnctl.waiting.wait import sleep

        sleep(self.token, duration)

    def wait_cancelled(self, timeout: Timeout = None) -> bool:
        """Block until the turn is stopped or ended, or ``timeout`` has passed; whether it was stopped.

        Not a checkpoint: it returns the stop instead of raising it.
        """
        from turnctl.waiting.wait import wait_cancelled

        return wait_cancelled(self.token, timeout)

    def wait(self, thing: object, timeout: Timeout = None, *, on: threading.Condition | None = None) -> bool:
        """Block until ``thing`` is done or ``timeout`` has passed; whether it is done. A checkpoint at both ends.

        Takes an event, a future, a thread or a process; or a predicate with its condition, ``on=``. See
        ``turnctl.wait``.
        """
        from turnctl.waiting.wait import wait

        return wait(self.token, thing, timeout, on=on)

    def get(self, source: Gettable[T], timeout: Timeout = None) -> T:
        """Take the next item of a queue. A checkpoint; see ``turnctl.get``."""
        from turnctl.waiting.queues import get

        item: T = get(self.token, source, timeout)
        return item

    def acquire(self, lock: Any, timeout: Timeout = None) -> bool:
        """Acquire a lock or a semaphore; whether it was acquired. A checkpoint; see ``turnctl.acquire``."""
        from turnctl.waiting.locks import acquire

        return acquire(self.token, lock, timeout)

    def as_completed(self, futures: Iterable[Future[T]], timeout: Timeout = None) -> Iterator[Future[T]]:
        """Give futures as they complete. A checkpoint before each; see ``turnctl.as_completed``."""
        from turnctl.waiting.futures import as_completed

        return as_completed(self.token, futures, timeout)

    def select(self, fds: Iterable[Any], *, write: Iterable[Any] = (), timeout: Timeout = None) -> list[Any]:
        """Block until one of ``fds`` can be read, or of ``write`` written; see ``turnctl.select``."""
        from turnctl.waiting.descriptors import select

        return select(self.token, fds, write, timeout)

    # -- blocking calls ---------------------------------------------------------------------------------------

    def call(
        self,
        fn: Callable[..., T],
        /,
        *args: Any,
        abort: Callable[[], object] | None = None,
        interrupt: bool = False,
        prefer: Prefer = "cancel",
        **kwargs: Any,
    ) -> T:
        """Run a blocking call, raced with the stop. A checkpoint; see ``turnctl.call``."""
        from turnctl.waiting.call import call

        return call(self, fn, args, kwargs, abort=abort, interrupt=interrupt, prefer=prefer)

    def stream(
        self,
        source: Iterable[T] | AbstractContextManager[Iterable[T]],
        close: Callable[[], object] | None = None,
        *,
        name: str | None = None,
        ahead: int = 256,
    ) -> Stream[T]:
        """Iterate over a source that may block, raced with the stop. See ``turnctl.stream``."""
        from turnctl.waiting.stream import stream

        return stream(self, source, close, name=name, ahead=ahead)

    # -- bridges ----------------------------------------------------------------------------------------------

    def bridge_asyncio(self, loop: asyncio.AbstractEventLoop | None = None) -> StopEvent:
        """An ``asyncio.Event`` of ``loop`` (default: the running one) that is set when the turn is stopped.

        A turn that ends without a stop leaves it unset; a loop that is closed by then is harmless. ``release()`` of
        the event takes it back. Never blocks, not a checkpoint. Raises ``TurnOver`` once the turn has ended.
        """
        from turnctl.waiting.coroutines import bridge_asyncio

        return bridge_asyncio(self, loop)

    def bridge_fd(self) -> int:
        """A descriptor that becomes and stays readable when the turn is stopped, for a select loop.

        The same one at each call; closed when the turn is over. Raises ``TurnOver`` once the turn has ended.
        """
        from turnctl.waiting.bridge import bridge_fd

        return bridge_fd(self)

    def bridge_socket(self, sock: socket.socket) -> Bridging:
        """Have ``sock`` shut down (not closed) when the turn is stopped, which wakes who is blocked on it.

        A read then sees a clean end: ask the turn after each. Release the bridge before the connection goes back to a
        pool. Never blocks, not a checkpoint. Raises ``TurnOver`` once the turn has ended.
        """
        from turnctl.waiting.bridge import bridge_socket

        return bridge_socket(self, sock)

    def bridge_event(self, event: threading.Event) -> Bridging:
        """Have ``event`` set when the turn is stopped; it stays the host's, and a turn without a stop leaves it be.

        Never blocks, not a checkpoint. Raises ``TurnOver`` once the turn has ended.
        """
        from turnctl.waiting.bridge import bridge_event

        return bridge_event(self, event)

    def run_coroutine(self, coro: Coroutine[Any, Any, T], *, name: str | None = None) -> T:
        """Run a coroutine to its end in an event loop on a thread of this turn, from plain code; its value.

        A checkpoint. A stop cancels it in its loop, and ``CancelledError`` is raised here. Blocks as the coroutine
        does, after a stop at most for the grace; see ``turnctl.waiting.coroutines``.
        """
        from turnctl.waiting.coroutines import run_coroutine

        return run_coroutine(self, coro, name=name)

    def on_cancel(self, fn: Callable[[], object], *, inline: bool = False) -> Registration:
        """Have ``fn()`` called once when the turn is stopped; see ``CancelToken.on_cancel``."""
        return self.token.on_cancel(fn, inline=inline)

    # -- threads ----------------------------------------------------------------------------------------------

    def thread(self, fn: Callable[..., T], /, *args: Any, name: str | None = None, **kwargs: Any) -> TurnThread[T]:
        """Run ``fn`` on a thread of this turn, in a copy of the caller's context, started at once.

        A checkpoint that does not wait for ``fn``. The end of the turn waits for the thread within the grace, and
        names it if it is left. ``result()`` gives what it returned or raised; see ``turnctl.waiting.threads``.
        """
        from turnctl.waiting.threads import thread

        return thread(self, fn, args, kwargs, name=name)

    def executor(self, max_workers: int | None = None, *, name: str | None = None) -> TurnExecutor:
        """A ``concurrent.futures.Executor`` whose workers belong to this turn.

        Its exit never waits for work that was abandoned, a stop cancels what waits in its queue, and each job runs in
        its submitter's context; see ``turnctl.waiting.executor``. A checkpoint.
        """
        from turnctl.waiting.executor import TurnExecutor

        return TurnExecutor(self, max_workers, name=name)

    def bind(self, fn: Callable[..., T]) -> Callable[..., T]:
        """``fn`` bound to this turn and the context of now: wherever it is called, checkpoints inside obey this turn.

        Each call is a checkpoint before it begins, and is accounted for; see ``turnctl.waiting.threads``.
        """
        from turnctl.waiting.threads import bind

        return bind(self, fn)

    def iterate(self, source: Iterable[T]) -> Iterator[T]:
        """Iterate over ``source`` with this turn bound for each item, whatever context or thread asks for it.

        A checkpoint before each item. A source that is a generator is closed with it.
        """
        from turnctl.waiting.threads import iterate

        return iterate(self, source)

    # -- pause ------------------------------------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        """Whether checkpoints of the turn block now: it, or a turn around it, is paused and not stopped."""
        return pausing.is_paused(self.token)

    def pause(self) -> bool:
        """Have the turn's checkpoints block until ``resume``; True if this call paused it.

        A stop wakes a paused turn directly, a soft one too. Blocks nobody by itself: a thread goes on to its next
        checkpoint. False if the turn was paused or stopped already. The deadline goes on running, and processes are
        not paused. Raises ``TurnOver`` once the outcome has been decided. Thread-safe, not a checkpoint.
        """
        return pausing.pause(self)

    def resume(self) -> bool:
        """Let the paused turn go on; True if this call did. Never blocks, not a checkpoint."""
        return pausing.resume(self)

    # -- questions --------------------------------------------------------------------------------------------

    def ask(
        self, prompt: object, source: Source | Callable[[Any], object] | None = None, *, timeout: Timeout = None
    ) -> Any:
        """Ask somebody and block until the answer is there. A checkpoint; see ``turnctl.ask``."""
        from turnctl.waiting.asks import ask

        return ask(self.token, prompt, source, timeout)

    def input(self, prompt: str = "") -> str:
        """Read a line as ``input()`` does. A checkpoint that wakes at once from the read when stopped."""
        from turnctl.waiting.lines import read_line

        return read_line(self.token, prompt)

    # -- why did it not stop ----------------------------------------------------------------------------------

    def diagnose(self) -> Diagnosis:
        """Why the turn has not stopped yet: who asked, who swallowed the stop, where its threads stand.

        Never blocks for long, not a checkpoint; may be called from any thread, also once the turn is over.
        """
        from turnctl.waiting.diagnosis import diagnose

        return diagnose(self)

    def trace_checkpoints(self, fn: Callable[[], object] | None = None) -> Callable[[], None]:
        """Measure the gaps between checkpoints from now on, for ``diagnose``; returns the function that ends it.

        With ``fn`` that is called instead, at each checkpoint of the turn and of what follows it, on the thread that
        is there, before the checkpoint raises; what ``fn`` raises comes out of the checkpoint. Costs some microseconds
        at each. Never blocks, not a checkpoint.
        """
        from turnctl.waiting.diagnosis import trace_checkpoints

        return trace_checkpoints(self, fn)
