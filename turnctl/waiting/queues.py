"""Taking items from queues under a stop, and ``SimpleQueue``, the queue whose waiters a stop can wake.

The rule is that of ``waiting.parking``: the stop is looked at first, and an item is taken in one step, so a ``get``
that raises has taken nothing. A queue of ``multiprocessing`` is waited for by its descriptor.

Invariants of ``SimpleQueue``
  Q1  ``put`` stores the item and *then* wakes the first waiter; a getter lists its lock and *then* looks for an item.
  Q2  A getter that was listed and leaves without an item wakes the next, if there are items: a wake-up that it was
      given is not lost. No lock is held, so ``put`` may be called from a signal handler or a finalizer.
"""

from __future__ import annotations

from _thread import LockType
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from turnctl import points
from turnctl.clock import parse_duration
from turnctl.errors import BadArgument
from turnctl.waiting.conditions import can_join, take_under
from turnctl.waiting.parking import end_of, left_until, pend
from turnctl.waiting.slices import SLICE_S, by_looking, in_slices, kind_of, note_slices, sooner

if TYPE_CHECKING:
    import queue

    from turnctl.tokens.token import CancelToken

__all__ = ["SimpleQueue", "get", "wake_first"]

T = TypeVar("T")


def get(token: CancelToken | None, source: Any, timeout: float | str | None = None) -> Any:
    """Take the next item of a queue, or raise ``CancelledError`` as soon as ``token`` trips, with nothing taken.

    ``source`` is a ``queue.Queue`` or one of its family, a ``turnctl.SimpleQueue``, or a queue of
    ``multiprocessing``. When ``timeout`` (seconds or "5s") has passed, ``queue.Empty`` is raised; a queue that was
    shut down raises ``queue.ShutDown``. Where an item and a stop are both there the item stays in the queue.

    A checkpoint; blocks without polling. A ``queue.SimpleQueue``, a class with a ``get`` of its own and a queue of a
    ``multiprocessing`` manager cannot be woken: these are waited for in slices of 50 ms, and the turn's report says
    so. A ``queue.SimpleQueue`` and a class that is unknown are only looked at between the slices, so an item is seen
    up to 50 ms late, while a stop ends a slice at once. A message of a process that is only half there is read to its
    end.
    """
    import queue

    ends_at = end_of(timeout)
    if isinstance(source, type):
        raise BadArgument(f"get() needs a queue, not the class {source.__qualname__}; make one and give that")
    if isinstance(source, SimpleQueue):
        found = source._take(token, ends_at)
    elif isinstance(source, queue.Queue) and type(source).get is queue.Queue.get and can_join(source.not_empty):
        found = get_joined(token, source, ends_at)
    elif _is_of_processes(source):
        found = _get_from_processes(token, source, ends_at)
    elif _can_be_sliced(source):
        found = _get_in_slices(token, source, ends_at)
    else:
        raise BadArgument(
            f"cannot wait for an item of {kind_of(source)}; give a queue.Queue, a turnctl.SimpleQueue or a "
            "multiprocessing.Queue, and run the get of any other with turn.call()"
        )
    points.reach("waiting.taken")
    if not found:
        raise queue.Empty
    return found[0]


def get_joined(token: CancelToken | None, source: queue.Queue[Any], ends_at: float | None) -> list[Any]:
    found: list[Any] = []

    def is_there() -> bool:
        return source._qsize() > 0 or getattr(source, "is_shutdown", False)

    def take() -> None:
        if source._qsize() == 0:
            import queue

            raise queue.ShutDown  # type: ignore[attr-defined, unused-ignore]
        found.append(source._get())
        source.not_full.notify()

    if token is not None:
        token.check()
    points.reach("waiting.asked")
    with source.not_empty:
        take_under(token, source.not_empty, is_there, take, ends_at)
    return found


# -- queues between processes -------------------------------------------------------------------------------------


def _is_of_processes(source: object) -> bool:
    reader = getattr(source, "_reader", None)
    return hasattr(reader, "fileno") and hasattr(source, "get_nowait")


def _get_from_processes(token: CancelToken | None, source: Any, ends_at: float | None) -> list[Any]:
    from queue import Empty

    from turnctl.waiting.descriptors import READ, wait_ready

    while True:
        ready = wait_ready(token, {source._reader.fileno(): READ}, ends_at)
        if not ready:
            return []
        try:
            return [source.get_nowait()]
        except Empty:
            pass
        # somebody else was faster, or stands in a get of their own, which locks the queue for as long as it waits
        note_slices(token, f"{kind_of(source)}, which another process is reading,")
        pend(token, lambda: False, sooner(ends_at, end_of(SLICE_S)))
        if left_until(ends_at) == 0:
            if token is not None:
                token.check()
            return []


# -- queues that nothing can wake ---------------------------------------------------------------------------------


def _can_be_sliced(source: object) -> bool:
    import inspect

    take = getattr(source, "get", None)
    return callable(take) and hasattr(source, "get_nowait") and not inspect.iscoroutinefunction(take)


def _get_in_slices(token: CancelToken | None, source: Any, ends_at: float | None) -> list[Any]:
    from queue import Empty

    found: list[Any] = []

    def attempt(seconds: float | None) -> bool:
        try:
            if seconds == 0:
                found.append(source.get_nowait())
            elif seconds is None:
                found.append(source.get())
            else:
                found.append(source.get(True, seconds))
        except Empty:
            return False
        return True

    if _keeps_time(source) or (token is None and ends_at is None):
        in_slices(token, attempt, ends_at, kind_of(source))
    else:
        by_looking(token, lambda: attempt(0), ends_at, kind_of(source))
    return found


def _keeps_time(source: object) -> bool:
    """Whether a timed ``get`` of it ends in time, however many threads take from it.

    That of ``queue.SimpleQueue`` does not (CPython 3.11, 3.12): a getter that was woken after its time, by an item
    that another one took, waits for ever. Nor need that of a class that we do not know: there may be one inside.
    """
    import queue

    return isinstance(source, queue.Queue) or type(source).__module__.startswith("multiprocessing.")


# -- our own ------------------------------------------------------------------------------------------------------


def wake_first(waiters: list[LockType]) -> None:
    """Wake the first of the list and take it off. Never blocks."""
    for lock in list(waiters):
        try:
            lock.release()
        except RuntimeError:
            continue  # the stop has woken it already, and it is about to leave the list
        try:
            waiters.remove(lock)
        except ValueError:
            pass  # it has just left; it looks once more before it goes (Q2)
        return


class SimpleQueue(Generic[T]):
    """An unbounded queue, first in first out, whose waiting getters can be woken by a stop without polling.

    Has the methods of ``queue.SimpleQueue``. Its own ``get`` is plain and no checkpoint; ``turn.get(queue)`` and
    ``turnctl.get(queue)`` are. Thread-safe; ``put`` never blocks and is safe in signal handlers and finalizers. Not
    promised: which of several waiting getters is served first.
    """

    __slots__ = ("__weakref__", "_items", "_waiters")

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._waiters: list[LockType] = []

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:  # noqa: ARG002
        """Add an item. Never blocks; ``block`` and ``timeout`` are there for code written for other queues."""
        self._items.append(item)
        points.reach("waiting.queue.stored")
        wake_first(self._waiters)  # Q1

    def put_nowait(self, item: T) -> None:
        """Add an item. Never blocks."""
        self.put(item)

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Take the next item; ``queue.Empty`` if none comes in time. Blocks, unless told not to; no checkpoint."""
        limit = parse_duration(timeout, what="timeout", zero=True, none=True) if block else 0.0
        found = self._take(None, end_of(limit))
        if not found:
            from _queue import Empty

            raise Empty
        return found[0]

    def get_nowait(self) -> T:
        """Take the next item, or raise ``queue.Empty``. Never blocks."""
        return self.get(False)

    def qsize(self) -> int:
        """How many items are there; another thread may take one at any moment."""
        return len(self._items)

    def empty(self) -> bool:
        """Whether no item is there; another thread may put one at any moment."""
        return not self._items

    def _take(self, token: CancelToken | None, ends_at: float | None) -> list[T]:
        """The next item in a list, empty when the time was over. A checkpoint of ``token``, if there is one."""
        was_listed = False
        try:
            while True:
                if token is not None:
                    if token._due and was_listed:
                        self._pass_on()  # Q2: it may block in a pause, or raise
                    token.check()
                points.reach("waiting.asked")
                try:
                    return [self._items.popleft()]
                except IndexError:
                    pass
                if left_until(ends_at) == 0:
                    return []
                was_listed = True
                pend(token, self._has_items, ends_at, self._waiters)
        finally:
            if was_listed:
                self._pass_on()

    def _has_items(self) -> bool:
        return bool(self._items)

    def _pass_on(self) -> None:
        if self._items:
            wake_first(self._waiters)

    def __repr__(self) -> str:
        return f"<turnctl.SimpleQueue of {len(self._items)}>"
