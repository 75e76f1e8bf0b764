"""Threads of a turn, and functions and generators bound to one: whatever thread runs them, they obey that turn.

Python starts a thread with an empty context (before 3.14), so code there finds no turn. Here the context is captured
where the work is handed over, with the turn bound in it, and each piece of work runs in a copy of its own.

Invariants
  H1  Work is registered as an activity of the turn before it can run, and refused once the turn has been decided.
  H2  Biased: once the token has tripped nothing is started.
  H3  An exception of a thread is never lost: it is in the report, and comes out of ``result()``. If nobody can ask for
      it any more, the thread has ended and its handle is gone unasked, it goes to ``threading.excepthook`` as well,
      once, as a plain thread's does. The turn's own ``CancelledError`` is no failure and stays quiet.

May block: ``TurnThread.result`` and ``wait``. A thread that does not come back within the grace, and comes to no
checkpoint then (``tokens.leaving``), is left behind and named (``waiting.worker``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextvars import Context, copy_context
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from turnctl.errors import BadArgument, CancelledError
from turnctl.tokens import eras, registry
from turnctl.tokens.callables import check_plain
from turnctl.tokens.current import bound, current_token
from turnctl.tokens.frames import calls_the_body
from turnctl.tokens.scope import bind as bind_token
from turnctl.tokens.tree import is_under
from turnctl.waiting.parking import end_of, wait_until
from turnctl.waiting.worker import Worker

if TYPE_CHECKING:
    from _thread import LockType

    from turnctl.tokens.token import CancelToken
    from turnctl.tokens.turn import TurnCore

__all__ = ["TurnThread", "bind", "context_of", "is_own_stop", "iterate", "thread", "token_of"]

T = TypeVar("T")

# code flags of functions whose call only makes an object that runs later, elsewhere


def context_of(turn: TurnCore) -> Context:
    """A copy of the caller's context in which ``turn`` is bound, or the child token of it that the caller obeys."""
    context = copy_context()
    token = bound.get()
    if token is None or token.retired or not (token is turn.token or registry.enclosing(token) is turn):
        context.run(bind_token, turn.token, is_loose=True)
    return context


def token_of(context: Context) -> CancelToken:
    """The token that is bound in such a context."""
    token = context[bound]
    assert token is not None
    return token


def is_own_stop(turn: TurnCore, error: BaseException) -> bool:
    """Whether ``error`` is how a stop of ``turn``, or its end, ends a piece of its work."""
    token: CancelToken | None = getattr(error, "token", None)
    if not isinstance(error, CancelledError) or token is None or not is_under(token, turn.token):
        return False
    return token.cancelled or error.record is None  # without one it was sent off (``tokens.leaving``)


class TurnThread(Generic[T]):
    """A thread of a turn that runs one function; made by ``turn.thread``. Thread-safe."""

    __slots__ = ("__weakref__", "_era", "_untold", "_worker")

    def __init__(self, worker: Worker, untold: _Untold) -> None:
        self._era = eras.era
        self._worker = worker
        self._untold = untold

    @property
    def name(self) -> str:
        """The name it is accounted for by."""
        return self._worker.name

    @property
    def has_ended(self) -> bool:
        """Whether the function has come back."""
        return self._worker.has_ended

    @property
    def waiters(self) -> list[LockType]:
        """Who waits for the end (``tokens.event.park``). ``RuntimeError`` in a fork, where nobody would be woken."""
        if self._era is not eras.era and not self.has_ended:
            eras.refuse(f"thread {self.name}")
        return self._worker.waiters

    def wait(self, timeout: float | str | None = None) -> bool:
        """Block until the function has come back or ``timeout`` has passed; whether it has.

        A checkpoint of the *caller's* turn, at both ends: it wakes at once when that is stopped. Raises
        ``RuntimeError`` in a forked child, which does not have that thread.
        """
        worker = self._worker
        return wait_until(current_token(), lambda: worker.has_ended, end_of(timeout), self.waiters)

    def result(self, timeout: float | str | None = None) -> T:
        """What the function returned; raises what it raised, or ``TimeoutError`` when ``timeout`` has passed.

        A checkpoint of the caller's turn, at both ends; the stop is looked at first, and the result stays.
        """
        if not self.wait(timeout):
            raise TimeoutError(f"thread {self.name} has not come back in {timeout}; ask again, or stop its turn")
        error = self._worker.error
        if error is not None:
            self._untold.drop()
            try:
                raise error
            finally:
                del error  # the exception holds this frame
        return cast("T", self._worker.result)

    def __del__(self) -> None:
        self._untold.now("gone")

    def __repr__(self) -> str:
        state = "has come back" if self.has_ended else "runs"
        return f"<TurnThread {self.name}: {state}>"


def thread(
    turn: TurnCore, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any], *, name: str | None = None
) -> TurnThread[T]:
    """Run ``fn(*args, **kwargs)`` on a thread of ``turn``, in a copy of the caller's context, started at once.

    A checkpoint of ``turn`` that never waits for ``fn``. A stop is seen at checkpoints in ``fn``. A turn that completes
    stops nothing: its end waits for the thread within the grace. Then checkpoints in ``fn`` raise ``CancelledError`` as
    for a stop, and what comes to none is left behind, named. So that the end need not wait, start a helper that has no
    end of its own under ``with turn.child() as helping`` and cancel that. The thread is a daemon: no process waits
    for it. Exceptions: H3 above. Raises ``TurnOver`` once the turn has ended.
    """
    check_plain("turn.thread()", fn)
    context = context_of(turn)
    token_of(context).check()  # H2
    worker = Worker(turn, fn, args, kwargs, name=name, context=context)
    untold = _Untold(turn, worker)
    worker.on_end = lambda: untold.now("ended")
    worker.start()
    return TurnThread(worker, untold)


class _Untold:
    """Tells the thread hook of a thread's exception when it has ended *and* its handle is gone (H3).

    Each side notes itself and *then* looks for the other, so the later one tells; ``list.pop`` makes it once.
    """

    __slots__ = ("_chance", "_seen", "_turn", "_worker")

    def __init__(self, turn: TurnCore, worker: Worker) -> None:
        self._turn = turn
        self._worker = worker
        self._seen: set[str] = set()
        self._chance: list[None] = [None]

    def drop(self) -> bool:
        """Somebody has been told; False if it was so before."""
        try:
            self._chance.pop()
        except IndexError:
            return False
        return True

    def now(self, what: str) -> None:
        self._seen.add(what)
        error = self._worker.error
        if len(self._seen) < 2 or error is None or is_own_stop(self._turn, error) or not self.drop():
            return
        args = threading.ExceptHookArgs((type(error), error, error.__traceback__, self._worker.thread))
        threading.excepthook(args)


def bind(turn: TurnCore | None, fn: Callable[..., T]) -> Callable[..., T]:
    """``fn`` with the context of now, ``turn`` bound in it: for a pool, a callback, a thread that somebody else starts.

    Each call runs in a copy of that context, is a checkpoint of the turn before it begins, and is accounted for like a
    thread: the end of the turn waits for it within the grace and names it if it is left. Raises ``TurnOver`` when it is
    called after the turn has ended. With ``turn`` None the call runs in the context, and that is all. Blocks as ``fn``
    does.
    """
    check_plain("bind()", fn)
    if turn is None:
        plain = copy_context()
        return update_wrapper(lambda *args, **kwargs: plain.copy().run(fn, *args, **kwargs), fn)
    context = context_of(turn)

    def call(*args: Any, **kwargs: Any) -> T:
        token_of(context).check()  # H2
        worker = Worker(turn, fn, args, kwargs, kind="bound", context=context.copy())
        worker.activity = turn.activities.admit(worker.kind, worker.name, worker)  # H1
        worker.run_here()
        error, worker.error = worker.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error
        result, worker.result = worker.result, None  # the activity outlives the call, and is no place for it
        return cast("T", result)

    return update_wrapper(call, fn)


def iterate(turn: TurnCore, source: Iterable[T]) -> Iterator[T]:
    """The items of ``source``, each made with ``turn`` bound, whatever context or thread asks for it.

    For frameworks that run each step of a generator in a fresh context or on another thread: the source sees one
    context of its own from the first step to the last. A checkpoint before each item. Closes a source that is a
    generator, once, on every way out. Blocks as the source does. One thread at a time, as with any generator.
    """
    context = context_of(turn)
    try:
        iterator = context.run(iter, source)
    except TypeError as error:
        raise BadArgument(f"iterate() needs something to iterate over: {error}") from None
    items = _items(context, iterator)
    next(items)  # it stands inside its ``try`` now, so that closing it closes the source, asked for an item or not
    return items


@calls_the_body
def _items(context: Context, iterator: Iterator[T]) -> Iterator[T]:
    token = token_of(context)
    try:
        yield cast("T", None)
        while True:
            token.check()
            try:
                item = context.run(next, iterator)
            except StopIteration:
                return
            yield item
    finally:
        if isinstance(iterator, Generator):
            context.run(iterator.close)
