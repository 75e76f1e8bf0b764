"""Iterating over a source that may block, raced with the stop.

A thread of the turn asks the source for items and puts them on one list, which is the record as well (``received``).
The loop takes them from there. So a stop wakes it in the middle of a blocked ``next``, and an item that is ready
costs no change of threads: the reader runs ahead by up to ``ahead`` items, and is woken when half of them are used.

Invariants
  F1  The stop is looked at before each item. An item that was received and not given stays in ``received``, behind
      the first ``given``.
  F2  The source is asked, and a generator closed, by one thread only: the reader; the loop's own where there is none.
  F3  The source is closed once: who enters the first claim does it. With ``close`` that may be anybody, at once;
      without, the thread of F2, when it is out of ``next``. What is entered, closed and left, and what a stop shuts
      down meanwhile, is in ``waiting.sources`` and ``waiting.below``.
  F4  The reader appends, *then* looks for the waiting loop; the loop lists itself, *then* looks at the list
      (``tokens.event``, E1). The same holds for room and for ``closing``, with the sides changed.
  F5  The reader never refers to the ``Stream``, so that one which is dropped is collected, and then closed.
  F7  A loop whose own thread asks the source says so (``in_next``), *then* looks at ``closing``; who closes does it the
      other way round. So a ``next`` that blocks is either not begun or is unblocked by ``close``.
  F8  ``next`` is marked as taken (``_busy``) from its beginning to its end. The interpreter switches no threads between
      looking at the mark and setting it, so of two threads that ask at once the second gets an error, never an item
      of the first.

May block: ``next``, until there is an item; ``close`` for 250 ms. Not promised: that a source which is blocked in C
code comes back; its thread is then left behind and named, as for a call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Generic, NoReturn, Self, TypeVar

from turnctl import points
from turnctl.errors import BadArgument, CancelledError, TurnOver
from turnctl.tokens import eras
from turnctl.tokens.event import release_all
from turnctl.tokens.frames import calls_the_body
from turnctl.waiting.feed import Feed
from turnctl.waiting.parking import pend, token_in
from turnctl.waiting.sources import check_source
from turnctl.waiting.worker import name_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from turnctl.tokens.callbacks import Registration
    from turnctl.tokens.turn import TurnCore

__all__ = ["AHEAD", "Stream", "stream"]

T = TypeVar("T")

#: How many items the source is asked for before the loop wants them.
AHEAD = 256
_CLOSE_S = 0.25  # how long a loop that is left waits for its source
_READY = frozenset({list, tuple, range, str, bytes, bytearray, set, frozenset, dict})  # these never block


def stream(
    turn: TurnCore | None,
    source: Iterable[T] | AbstractContextManager[Iterable[T]],
    close: Callable[[], object] | None = None,
    *,
    name: str | None = None,
    ahead: int = AHEAD,
) -> Stream[T]:
    """Iterate over ``source``, raced with the stop; see ``turnctl.stream``. Asks the source for nothing yet.

    ``ahead`` is how many items the source may be asked for before the loop wants them: it runs on another thread, so
    what it does besides giving items happens early, and up to so many items are received and never given when the
    loop is left. 1 keeps the two in step, for the price of two changes of threads for each item. 0 has the loop's own
    thread ask the source, as a database cursor may demand; a blocked ``next`` then wakes by ``close`` only.

    With ``turn`` None nothing stops it, and the loop's own thread asks the source. Raises ``TurnOver`` once the
    turn has been decided.
    """
    check_source(source)
    if close is not None and not callable(close):
        raise BadArgument(f"close must be a function without arguments or None, not {close!r}")
    if type(ahead) is not int or ahead < 0:
        raise BadArgument(f"ahead is a number of items, 0 for none, not {ahead!r}")
    is_here = turn is None or ahead == 0 or type(source) in _READY
    return Stream(turn, source, close, name or name_of(source), ahead=0 if is_here else ahead)


class Stream(Generic[T]):
    """The items of a source, each behind a checkpoint; for one loop, on one thread at a time.

    Use it in ``for``, or in ``with`` to have it closed at a place that you know; a loop that is left by ``break`` or
    an exception closes it as soon as nobody refers to it. ``received`` is everything that the source has produced,
    also what the loop was not given before a stop.
    """

    def __init__(
        self,
        turn: TurnCore | None,
        source: object,
        close: Callable[[], object] | None,
        name: str,
        *,
        ahead: int,
    ) -> None:
        self._turn = turn
        self._token = None if turn is None else token_in(turn)
        self._is_ready = type(source) in _READY
        feed = self._feed = Feed(turn, self._token, source, close, name, ahead, is_ready=self._is_ready)
        self._activity = feed.activity
        self._source: object = source if ahead == 0 else None
        self._iterator: Iterator[T] | None = None
        self._abort: Registration | None = None
        self._has_close = close is not None
        self._is_over = False
        self._is_closed = False  # by ``close``: an end that is no fault
        self.is_given_up = False
        self._busy = False
        self._era = feed.era
        # what the short way of ``next`` reads
        self._items: list[T] | tuple[T, ...] = feed.received
        self._space = feed.space
        self._nearly = feed.low + 1

    @property
    def received(self) -> list[T]:
        """What the source has produced so far, a copy; the first ``given`` of it went to the loop."""
        return list(self._feed.received)

    @property
    def given(self) -> int:
        """How many items the loop was given."""
        return self._activity.given

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        """The next item. A checkpoint; blocks until there is one.

        Raises ``RuntimeError`` where another thread is in here already, and in a forked child.
        """
        if self._busy or self._era is not eras.era:
            self._refuse()
        self._busy = True  # F8
        try:
            token = self._token
            if token is not None and token._due:
                self._checkpoint()
            activity, items = self._activity, self._items
            at = activity.given
            if at < len(items):
                activity.given = at + 1
                if self._space and len(items) - at <= self._nearly:  # F4: what is used is stored before
                    release_all(self._space)
                return items[at]
            if self._is_over:
                raise StopIteration
            return self._next_here() if self._source is not None else self._next_there()
        finally:
            self._busy = False

    def _refuse(self) -> NoReturn:
        if self._feed.is_elsewhere:
            eras.refuse(f"stream {self._feed.name}")
        raise RuntimeError(
            f"stream {self._feed.name} is being asked for an item already; it serves one loop, on one thread at a time"
        )

    # -- the stop ---------------------------------------------------------------------------------------------

    def _checkpoint(self) -> None:
        feed, token = self._feed, self._token
        assert token is not None
        if self._is_over or (feed.finished and feed.is_whole and self._activity.given == len(feed.received)):
            return  # it was exhausted before the stop: the loop ends, and the next checkpoint raises
        try:
            token.check()
        except CancelledError as error:
            if not feed.was_stopped:
                feed.was_stopped = True
                self._close(if_blocked=False)
            cause = feed.error
            if cause is not None and not isinstance(cause, CancelledError):
                raise error from cause
            raise

    def _close(self, *, if_blocked: bool) -> None:
        feed = self._feed
        feed.close_soon(_CLOSE_S, if_blocked=if_blocked)
        if self._source is not None:
            self._leave(None)

    # -- with a reader ----------------------------------------------------------------------------------------

    def _next_there(self) -> T:
        feed, activity, token = self._feed, self._activity, self._token
        feed.start()
        received = feed.received
        while True:
            at = activity.given
            pend(token, lambda: len(received) > at or self._is_answered(), None, feed.items)  # noqa: B023
            points.reach("stream.looking")
            if token is not None and token._due:
                self._checkpoint()
            finished = self._is_answered()  # *then* the items: the last one came before it
            if at < len(received) and not self._is_closed:
                activity.given = at + 1
                if self._space and len(received) - at <= self._nearly:
                    release_all(self._space)
                return received[at]  # type: ignore[no-any-return]
            if finished:
                self._end(feed.error)

    def _is_answered(self) -> bool:
        """Whether there will be no more items for the loop."""
        feed = self._feed
        return feed.finished or feed.was_given_up or self._is_closed

    def _end(self, error: BaseException | None) -> NoReturn:
        """The source has no more: end the loop, by what it ended with."""
        self._is_over = True
        feed = self._feed
        if feed.finished:
            feed.account()
        try:
            if self._is_closed:
                raise StopIteration
            is_ours = feed.closing and not isinstance(error, CancelledError)  # its error came of our close
            if error is not None and not is_ours:
                raise error
            if not feed.is_exhausted and self._turn is not None:
                raise TurnOver(
                    f"turn {self._turn.turn_id} ended while its stream {feed.name} was read; "
                    "end a turn when its loops are through",
                    turn_id=self._turn.turn_id,
                ) from error
            raise StopIteration
        finally:
            del error

    # -- without one ------------------------------------------------------------------------------------------

    @calls_the_body
    def _next_here(self) -> T:
        feed, token = self._feed, self._token
        if self._iterator is None and not self._begin_here():
            self._end(None)
        assert self._iterator is not None
        points.reach("stream.asking")
        feed.thread = threading.get_ident()  # not always the one that began
        feed.in_next = True
        if feed.closing:  # F7
            feed.in_next = False
            self._leave(None)
            self._end(None)
        try:
            item = next(self._iterator)
        except BaseException as error:
            feed.in_next = False
            self._came_to_end(error)
            raise
        feed.in_next = False
        feed.take(item)
        if self._feed.closing and (token is None or not token._due):
            self._leave(None)
            self._end(None)
        if self._is_ready:
            feed.received.extend(islice(self._iterator, AHEAD))  # nothing blocks here: the next ones as well
        if token is not None and token._due:
            self._checkpoint()
        self._activity.given += 1
        return item

    def _begin_here(self) -> bool:
        feed = self._feed
        if not feed.begin("here"):
            return False
        feed.thread = threading.get_ident()
        if self._has_close and self._token is not None:
            self._abort = self._token.on_cancel(feed.close_here)  # nobody else could unblock it
        feed.in_next = True  # to enter it may block as well
        try:
            self._iterator = iter(feed.source.enter())
        except BaseException as error:
            feed.in_next = False
            self._came_to_end(error)
            raise
        feed.in_next = False
        return True

    def _came_to_end(self, error: BaseException) -> None:
        feed, token = self._feed, self._token
        is_end = isinstance(error, StopIteration)
        if token is not None and token._due and not self._is_over:
            feed.error = None if is_end else error
            self._checkpoint()
        feed.is_exhausted = is_end and not feed.closing  # after a close an end may be a cut
        self._leave(None if is_end else error)
        self._is_over = True
        if feed.closing:
            self._end(feed.error)

    def _leave(self, error: BaseException | None) -> None:
        abort, self._abort = self._abort, None
        if abort is not None:
            abort.unregister()
        feed, iterator = self._feed, self._iterator
        if not feed.finished and not feed.in_next:
            feed.end_generator(iterator)
            feed.finish(error or feed.error)

    # -- leaving ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Have the source closed, if it is not; the loop gets no more items. Not a checkpoint; may be called twice.

        Waits up to 250 ms for a source that is being asked; it is closed as soon as it comes back.
        """
        self._is_over = self._is_closed = True
        self._items = ()
        if self._feed.is_elsewhere:
            return
        release_all(self._feed.items)
        self._close(if_blocked=True)

    def give_up(self, at: Callable[[], float], within: str = "the grace") -> None:
        """Close it, and leave a source behind that has not come back at ``at()``, monotonic seconds."""
        self._is_over = self._is_closed = self.is_given_up = True
        self._items = ()
        if not self._feed.is_elsewhere:
            self._feed.end(at, within)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        feed = self.__dict__.get("_feed")
        if feed is None:
            return
        try:
            if self._source is None or feed.begin("never"):
                feed.drop()
            elif not feed.is_elsewhere:
                self._leave(None)
        except BaseException as error:  # noqa: BLE001 - from a finalizer nothing can be raised
            feed._note("end", error)

    def __repr__(self) -> str:
        state = "over" if self._is_over else "ended" if self._feed.finished else "open"
        return f"<Stream of {self._feed.name}: {state}, {self._feed._counts()}>"
