"""What code without a ``turn`` argument calls: each function finds the current turn by itself.

Outside any turn each does what the standard library would, and nothing can stop it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from turnctl.clock import parse_duration
from turnctl.tokens.current import current_token
from turnctl.turns import current_turn

if TYPE_CHECKING:
    import threading
    from concurrent.futures import Future

    from turnctl.processes.options import PopenOptions, RunOptions
    from turnctl.processes.process import Process
    from turnctl.records.process import Completed
    from turnctl.turns import Argv
    from turnctl.waiting.asks import Source
    from turnctl.waiting.call import Prefer
    from turnctl.waiting.face import Gettable
    from turnctl.waiting.stream import Stream

__all__ = [
    "acquire",
    "as_completed",
    "ask",
    "bind",
    "call",
    "get",
    "input",
    "popen",
    "run",
    "run_coroutine",
    "select",
    "shield",
    "sleep",
    "stream",
    "wait",
]

T = TypeVar("T")
Timeout = float | str | None


def sleep(duration: float | str) -> None:
    """Block for ``duration`` (seconds or "1m30s"), or raise ``CancelledError`` as soon as the current turn stops.

    A checkpoint at both ends. Outside any turn a plain sleep. Fits wherever a ``sleep(seconds)`` is asked for,
    such as a retry library's ``sleep=``.
    """
    from turnctl.waiting.wait import sleep

    sleep(current_token(), duration)


def wait(thing: object, timeout: Timeout = None, *, on: threading.Condition | None = None) -> bool:
    """Block until ``thing`` is done or ``timeout`` (seconds or "30s") has passed; whether it is done.

    ``thing`` is an ``Event``, a future, a thread, a process (``Popen``, ``multiprocessing``, turnctl's own), or a
    predicate together with the ``Condition`` that guards it, ``on=``. A checkpoint: it wakes in one hop when the
    current turn is stopped, and polls only for a plain ``threading.Thread`` (slices of 50 ms, named in the report).
    Takes nothing from ``thing``: a process that has ended stays to be reaped, a future keeps its result. May be
    called from any thread.
    """
    from turnctl.waiting.wait import wait

    return wait(current_token(), thing, timeout, on=on)


def get(source: Gettable[T], timeout: Timeout = None) -> T:
    """Take the next item of a queue; ``queue.Empty`` when ``timeout`` (seconds or "30s") has passed.

    A checkpoint that never loses an item: a stop is looked at first, and an item that was taken is returned. A foreign
    ``SimpleQueue``, and a queue class that is not known, is looked at every 50 ms, which the report says; a stop wakes
    that too. ``turnctl.SimpleQueue`` wakes at once.
    """
    from turnctl.waiting.queues import get

    item: T = get(current_token(), source, timeout)
    return item


def acquire(lock: Any, timeout: Timeout = None) -> bool:
    """Acquire a lock or a semaphore; False when ``timeout`` (seconds or "30s") has passed.

    A checkpoint: either the lock is the caller's and the answer True, or it was not taken. Polls only for a foreign
    ``Lock`` or ``RLock`` (slices of 50 ms, named in the report); ``turnctl.Lock`` does not.
    """
    from turnctl.waiting.locks import acquire

    return acquire(current_token(), lock, timeout)


def as_completed(futures: Iterable[Future[T]], timeout: Timeout = None) -> Iterator[Future[T]]:
    """Give the futures as they complete; ``TimeoutError`` when ``timeout`` has passed since the first was asked for.

    So the time begins with the loop and not with this call, as in the standard library. A checkpoint before each of
    them. A stop cancels no future: it only ends the waiting.
    """
    from turnctl.waiting.futures import as_completed

    return as_completed(current_token(), futures, timeout)


def select(fds: Iterable[Any], *, write: Iterable[Any] = (), timeout: Timeout = None) -> list[Any]:
    """Block until one of ``fds`` can be read or one of ``write`` written; those that can, in the order given.

    Takes descriptors and what has a ``fileno()``. An empty list when ``timeout`` (seconds or "30s") has passed. A
    checkpoint: a stop wins over a descriptor that is ready, and reads nothing from it.
    """
    from turnctl.waiting.descriptors import select

    return select(current_token(), fds, write, timeout)


def call(
    fn: Callable[..., T],
    /,
    *args: Any,
    abort: Callable[[], object] | None = None,
    interrupt: bool = False,
    prefer: Prefer = "cancel",
    **kwargs: Any,
) -> T:
    """Run a blocking call on a thread of the current turn, raced with the stop, and return its value.

    A checkpoint: with the turn stopped ``fn`` is not started. On a stop ``abort()`` is called first (to close what
    ``fn`` is blocked on), then ``fn`` has the grace to come back; with ``interrupt=True`` ``CancelledError`` is then
    raised inside it, which reaches Python code only. A function that still does not come back is left behind, named
    in the report and counted; what it comes to later is in ``error.late``, and is never returned. ``prefer`` decides
    where value and stop are both there: ``cancel`` raises, ``result`` returns.

    Outside any turn ``fn`` runs on the caller's thread. Raises what ``fn`` raises, ``TurnOver`` once the turn has been
    decided, ``TooManyAbandoned`` where too many calls were left behind.
    """
    from turnctl.waiting.call import call

    return call(current_turn(), fn, args, kwargs, abort=abort, interrupt=interrupt, prefer=prefer)


def stream(
    source: Iterable[T] | AbstractContextManager[Iterable[T]],
    close: Callable[[], object] | None = None,
    *,
    name: str | None = None,
    ahead: int = 256,
) -> Stream[T]:
    """Iterate over ``source``, which may block, raced with the stop of the current turn.

    A checkpoint before each item; a stop also wakes a ``next()`` that is blocked. The source is asked for up to
    ``ahead`` items early, on another thread; 1 keeps in step with the loop, 0 stays on the loop's thread. ``close``
    unblocks and closes the source, exactly once on every way out. Without it a stop shuts down the connection below,
    where one is found below a stream of openai, anthropic, litellm, httpx, requests or urllib3, and the source's own
    ``close`` is called. A context manager that gives something to iterate over, such as ``client.responses.stream()``,
    is entered with the first item and left once. What was received is in the report of the turn.
    """
    from turnctl.waiting.stream import stream

    return stream(current_turn(), source, close, name=name, ahead=ahead)


def bind(fn: Callable[..., T]) -> Callable[..., T]:
    """``fn`` bound to the current turn and context: on whatever thread it is called, checkpoints obey this turn."""
    from turnctl.waiting.threads import bind

    return bind(current_turn(), fn)


def run_coroutine(coro: Coroutine[Any, Any, T], *, name: str | None = None) -> T:
    """Run a coroutine to its end from plain code, under the current turn, and return its value.

    A checkpoint: a stop cancels the coroutine and raises ``CancelledError`` here; what it returns after that is kept
    as evidence in the report. Runs on a loop of its own, on a thread of the turn. Outside any turn ``asyncio.run``.
    """
    turn = current_turn()
    if turn is None:
        import asyncio

        return asyncio.run(coro)
    from turnctl.waiting.coroutines import run_coroutine

    return run_coroutine(turn, coro, name=name)


def ask(prompt: object, source: Source | None = None, *, timeout: Timeout = None) -> Any:
    """Put a question to ``source`` and block until it is answered; the answer.

    A checkpoint: a stop withdraws the question, which then counts as cancelled and not as declined. After the stop
    nobody is asked. Without ``source`` the terminal is asked. ``TimeoutError`` when ``timeout`` has passed.
    """
    from turnctl.waiting.asks import ask

    return ask(current_token(), prompt, source, timeout)


def input(prompt: str = "") -> str:  # noqa: A001 - the name that people know
    """Read a line from stdin as the built-in ``input()`` does. A checkpoint that wakes at once from the read."""
    from turnctl.waiting.asks import read_line

    return read_line(current_token(), prompt)


def shield(max: float | str = "5s") -> AbstractContextManager[object]:
    """Hold a stop of the current turn back for the length of a ``with``, at most ``max``; nothing outside a turn."""
    parse_duration(max, what="max")
    token = current_token()
    return nullcontext() if token is None else token.shield(max)


def run(args: Argv, **options: Unpack[RunOptions]) -> Completed:
    """Run a command to its end inside the current turn, with its whole process tree, and return what became of it.

    Outside any turn it is supervised all the same (timeout, leftovers), but nothing can stop it. Arguments that
    have the same name as in ``subprocess.run`` have the same meaning. A checkpoint. Blocks until the command has
    ended, its timeout or a stop has been carried out.
    """
    from turnctl.processes.command import Unowned
    from turnctl.processes.command import run as run_command

    turn = current_turn()
    return run_command(Unowned() if turn is None else turn, args, **options)


def popen(args: Argv, **options: Unpack[PopenOptions]) -> Process:
    """Start a command inside the current turn and return a handle; it ends with the turn at the latest."""
    from turnctl.processes.command import Unowned
    from turnctl.processes.command import popen as popen_command

    turn = current_turn()
    return popen_command(Unowned() if turn is None else turn, args, **options)
