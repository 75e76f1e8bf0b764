"""The source of a stream: how it is entered, asked, closed and left, whatever kind of thing it is.

Invariants, with F2 and F3 of ``waiting.stream``:
  N1  A source that is a context manager and no iterable, such as the streams of some SDKs, is entered by who asks it,
      *then* what it gave is asked. It is left once, by the same thread, also if what it gave is of no use.
  N2  With ``close`` given that is all that unblocks and closes the source; without, a stop shuts down the connection
      below (``waiting.below``), and the source's own ``close``, or leaving it, and then the response below, follow on
      the thread that has asked it.

May block: ``enter`` and ``leave``, as the source does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any

from turnctl.errors import BadArgument
from turnctl.waiting.below import Below

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken
    from turnctl.tokens.turn import TurnCore

__all__ = ["Source", "check_source"]


def check_source(source: object) -> None:
    """Refuse what can be neither iterated over nor entered: ``BadArgument``."""
    if not _is_iterable(source) and not (hasattr(type(source), "__enter__") and hasattr(type(source), "__exit__")):
        raise BadArgument(f"stream() needs something to iterate over, not {source!r}{_hint_for(source)}")


def _is_iterable(thing: object) -> bool:
    return hasattr(type(thing), "__iter__") or hasattr(type(thing), "__getitem__")


def _hint_for(thing: object) -> str:
    if hasattr(type(thing), "iter_lines"):
        return "; give it the iter_lines() or iter_bytes() of that, in a with block of your own"
    if hasattr(type(thing), "__aiter__") or hasattr(type(thing), "__aenter__"):
        return "; it is asynchronous: read it in a coroutine, with turn.run_coroutine()"
    return ""


class Source:
    """What a stream iterates over; knows nothing of threads and loops."""

    def __init__(self, source: object, close: Callable[[], object] | None, name: str) -> None:
        self._source: Any = source
        self._asked: Any = source  # the source, or what entering it has given
        self._close = close
        self._name = name
        self._is_manager = not _is_iterable(source)
        self._is_entered = False
        self._below: Below | None = None
        self._looks_again = False

    @property
    def has_close(self) -> bool:
        """Whether the caller has said how it is unblocked and closed."""
        return self._close is not None

    @property
    def why_not(self) -> str | None:
        """Why its connection is not shut down, where that is known."""
        return None if self._below is None else self._below.why_not

    # -- asking it --------------------------------------------------------------------------------------------

    def look(self, turn: TurnCore | None, token: CancelToken | None) -> bool:
        """Have the connection below be shut down by a stop from now on; whether to ``look_again`` after the first item.

        Raises ``TurnOver`` once the turn has ended.
        """
        if self._close is not None:
            return False
        self._below = Below(turn, token)
        self._below.look(self._source)
        self._looks_again = not self._below.is_known
        return self._looks_again

    def look_again(self) -> None:
        """Look once more, if nothing was found: some clients send their request with the first item only."""
        if self._looks_again and self._below is not None:
            self._looks_again = False
            self._below.look(self._asked)

    def enter(self) -> Iterable[Any]:
        """What is to be asked for items, entered if need be (N1)."""
        if not self._is_manager:
            return self._asked  # type: ignore[no-any-return]
        manager = self._source
        self._asked = type(manager).__enter__(manager)
        self._is_entered = True
        if not _is_iterable(self._asked):
            got = f"{self._asked!r}{_hint_for(self._asked)}"
            raise BadArgument(f"stream() entered {self._name}, which gave nothing to iterate over: {got}")
        if self._below is not None:
            self._below.look(self._asked)
            self._looks_again = not self._below.is_known
        return self._asked  # type: ignore[no-any-return]

    # -- ending it --------------------------------------------------------------------------------------------

    def cut(self) -> bool:
        """Shut the connection below down, if one was found; whether that unblocks who is asking. Never blocks."""
        return self._below is not None and self._below.cut()

    def let_go(self) -> bool:
        """Nothing shuts the connection down from here on: it may be somebody else's. Whether it was shut down."""
        return self._below is not None and self._below.let_go()

    def is_closed_by(self, iterator: object) -> bool:
        """Whether closing the source closes this generator of it too."""
        return iterator is self._source and self._close is None

    def end(self, iterator: object) -> None:
        """Close a generator that was made of it; not the source itself, if ``close`` will."""
        if isinstance(iterator, Generator) and not self.is_closed_by(iterator):
            iterator.close()

    def close(self) -> None:
        """Close it, by what was given or by its own ``close``. The caller sees to it that this happens once."""
        close: Any = self._close
        if close is None and not self._is_manager:
            close = getattr(self._source, "close", None)
        if callable(close):
            close()

    def leave(self, error: BaseException | None) -> None:
        """Leave a manager that was entered, and close the response below; for the thread that has asked it."""
        manager, asked = self._source, self._asked
        self._source = self._asked = ()
        try:
            if self._is_entered:
                self._is_entered = False
                trace = None if error is None else error.__traceback__
                type(manager).__exit__(manager, None if error is None else type(error), error, trace)
        finally:
            if self._below is not None:
                self._below.close(asked)
