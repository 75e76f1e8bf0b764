"""The swallow detector: a stop that was raised, and a checkpoint that the same thread reached in spite of it.

Invariants
  S1  It works where a checkpoint raises, which is the long way; a turn that is not stopped pays nothing.
  S2  What is counted was observed: the same thread was raised into for a stop, and came to another checkpoint for the
      same stop while that exception was not being handled and had not been absorbed by the ``with`` of a turn or token.
      Clean-up in a ``finally`` or an ``except`` is therefore not counted, nor is what runs under a shield.
  S3  How far out it got is observed: where the thread stood when the exception was let go of, or how far its traceback
      had grown if it still is there. Who swallowed it is then read from the source, later, and no further out than
      that: the innermost ``except``, ``finally`` or ``with`` around the line that can have done it. It may be missing.

Nothing here blocks, or keeps a frame or an exception alive. Not seen: a stop that is swallowed and followed by no
checkpoint; one that is raised in a thread and dropped by the pool or the ``Thread`` that ran the function.
"""

from __future__ import annotations

import sys
import threading
import weakref
from _thread import get_ident
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from turnctl import clock
from turnctl.errors import CancelledError
from turnctl.tokens.entries import Stop, read
from turnctl.tokens.sites import DEEPEST, RawSite, Site, is_ours, raw_stack, resolved
from turnctl.tokens.tree import all_above

if TYPE_CHECKING:
    from turnctl.records.stops import StopRecord
    from turnctl.tokens.core import TokenCore

__all__ = ["BY_ITS_EXIT", "Found", "first_seen", "note_raise", "note_seen", "swallowed", "swallowed_in_words"]

_MOST = 50  # places that are told apart; more are only counted with the last
BY_ITS_EXIT = -1  # in place of a line: the innermost ``with`` has caught it


class _Local(threading.local):
    last: _Raise | None = None


_local = _Local()


class _Raise(weakref.ref[BaseException]):
    """The last stop that was raised in a thread: a weak reference to the exception, and what was to be seen then."""

    __slots__ = ("ended", "height", "root", "stack", "thread", "token")

    #: where it was let go of: the function, how many frames were below it, and how far it was
    ended: tuple[CodeType, int, int] | None
    height: int
    root: Stop
    stack: tuple[RawSite, ...]
    thread: int
    token: weakref.ref[TokenCore]

    def reached(self) -> Reached | None:
        """How far out the exception got; None if that was not seen."""
        error = self()
        if error is None:
            if self.ended is None:
                return None
            code, below, at = self.ended
            return Reached(code, below, resolved((code, at))[1], is_exact=False)
        trace = error.__traceback__  # it grows outwards, and begins with the frame that has caught it
        is_first = True
        while trace is not None:
            found = _reached(trace.tb_frame, is_exact=True)
            if _place_in(self.stack, self.height, found) is not None:
                # or, behind frames that were not there when it was raised, the one whose ``with`` threw it in there
                return found if is_first else found._replace(line=BY_ITS_EXIT)
            trace, is_first = trace.tb_next, False
        return None


class Reached(NamedTuple):
    """A frame on the stack, told by its function and by how many frames are below it, and the line it stood at."""

    code: CodeType
    below: int
    line: int
    #: whether that frame has caught it, or at most that one
    is_exact: bool


def _below(frame: FrameType) -> int:
    count, outer = 0, frame.f_back
    while outer is not None:
        count, outer = count + 1, outer.f_back
    return count


def _reached(frame: FrameType, *, is_exact: bool) -> Reached:
    return Reached(frame.f_code, _below(frame), frame.f_lineno or 0, is_exact)


def _place_in(stack: tuple[RawSite, ...], height: int, reached: Reached) -> int | None:
    """Which frame of ``stack``, innermost first and ``height`` deep, it is; None if it is none of them."""
    at = height - 1 - reached.below
    return at if 0 <= at < len(stack) and stack[at][0] is reached.code else None


def _let_go(last: _Raise) -> None:
    frame = sys._getframe().f_back  # None while the interpreter ends
    if frame is None or get_ident() != last.thread:
        return
    code = frame.f_code
    below = last.height - 1
    for passed, _ in last.stack:
        if passed is code:
            break
        below -= 1
    try:
        # the usual case, told by one frame instead of by all
        is_there = below >= 0 and sys._getframe(1 + below).f_back is None
    except ValueError:
        is_there = False
    last.ended = (code, below if is_there else _below(frame), frame.f_lasti)


class Found:
    """One pair of places: where a stop was raised, and where the thread was met again; and how often."""

    __slots__ = ("_height", "_next_at", "_reached", "_stack", "count", "thread")

    def __init__(self, last: _Raise, next_at: RawSite | None, thread: str) -> None:
        self._stack = last.stack
        self._height = last.height
        self._reached = last.reached()
        self._next_at = next_at
        self.thread = thread
        self.count = 0

    @property
    def stack(self) -> tuple[Site, ...]:
        """The stack that the stop was raised on, the innermost first."""
        return tuple(map(resolved, self._stack))

    def passed(self) -> tuple[tuple[Site, ...], Site | None, Reached | None]:
        """The frames that it can have been caught in, the innermost first; the next one out; and what was observed."""
        reached = self._reached
        if reached is None:
            return (), None, None
        at = _place_in(self._stack, self._height, reached)
        if at is None:
            return (), None, None
        found = self.stack
        return found[: at + 1], found[at + 1] if at + 1 < len(found) else None, reached

    @property
    def raised_at(self) -> Site | None:
        """The user's line that the stop was raised into."""
        found = _of_the_user(self._stack)
        return None if found is None else resolved(found)

    @property
    def next_at(self) -> Site | None:
        """The user's line that came to a checkpoint in spite of it."""
        return None if self._next_at is None else resolved(self._next_at)


def _of_the_user(stack: tuple[RawSite, ...]) -> RawSite | None:
    return next((raw for raw in stack if not is_ours(raw[0].co_filename)), None)


def note_seen(token: TokenCore) -> None:
    """Keep when and where the stop was first met by a checkpoint. Called at each one that finds its token cancelled."""
    _see(token, None)


def _see(token: TokenCore, stack: tuple[RawSite, ...] | None) -> None:
    for one in (token,) if token._parent is None else all_above(token):
        if one.cancelled:
            cells = (one._parts or one._grow()).cells
            if "first_seen" not in cells:
                if stack is None:
                    stack = raw_stack(sys._getframe(2))
                cells.setdefault("first_seen", (clock.monotonic(), stack))


def first_seen(token: TokenCore) -> tuple[float, Site | None] | None:
    """Monotonic seconds and place of the first checkpoint that found ``token`` cancelled."""
    parts = token._parts_now()
    found: tuple[float, tuple[RawSite, ...]] | None = None if parts is None else parts.cells.get("first_seen")
    if found is None:
        return None
    at, stack = found
    raw = _of_the_user(stack)
    return at, None if raw is None or raw[0].co_filename == threading.__file__ else resolved(raw)


def note_raise(token: TokenCore, error: CancelledError, *, after_work: bool = True) -> CancelledError:
    """Called by a checkpoint that is about to raise ``error`` for the stop of ``token``; returns it.

    Not ``after_work``: coming here does not say that the thread went on working, as at the end of a shield.
    """
    for root in token._log:
        if type(root) is Stop:
            break
    else:
        return error
    while root.origin is not None:
        root = root.origin
    found: list[RawSite] = []
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and len(found) < DEEPEST:
        found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    mine = _Raise(error, _let_go)
    mine.stack = stack = tuple(found)
    mine.height = len(found) + (0 if frame is None else _below(frame) + 1)
    mine.root = root
    mine.ended = None
    mine.thread = get_ident()
    mine.token = weakref.ref(token)
    last = _local.last
    _local.last = mine
    _see(token, stack)
    if after_work and last is not None and last.root is root and not _is_handled(root) and not _is_absorbed(last):
        _enter(token, last, _of_the_user(stack))
    return error


def _root(record: StopRecord) -> StopRecord:
    while record.origin is not None:
        record = record.origin
    return record


def _is_handled(root: Stop) -> bool:
    """Whether this thread is in an ``except`` or ``finally`` that deals with that stop."""
    error = sys.exception()
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, CancelledError) and error.record is not None and _root(error.record) is root.record:
            return True
        seen.add(id(error))
        error = error.__context__
    return False


def _is_absorbed(last: _Raise) -> bool:
    """Whether a ``with`` of ours has taken that exception, as it should."""
    token = last.token()
    if token is None:
        return True
    record, _, _, end = read(token._log)
    return end is not None and (hasattr(token, "_turn") or record is None or record.cause != "parent")


def _enter(token: TokenCore, last: _Raise, next_at: RawSite | None) -> None:
    key = (_of_the_user(last.stack), next_at)
    for one in all_above(token):
        found: dict[Any, Found] = one._grow().cells.setdefault("swallowed", {})
        if key not in found and len(found) >= _MOST:
            key = next(iter(found))
        if key not in found:
            found.setdefault(key, Found(last, next_at, threading.current_thread().name))
        found[key].count += 1


def swallowed(token: TokenCore) -> list[tuple[Found, Site | None]]:
    """What was found, each with who swallowed it, as far as the source tells (S3). Reads source files."""
    parts = token._parts_now()
    found: list[Found] = [] if parts is None else list(parts.cells.get("swallowed", {}).values())
    if not found:
        return []
    from turnctl.tokens.catchers import catcher

    told = [(one, catcher(*one.passed())) for one in found]
    return [(one, None if by == "unknown" else by) for one, by in told if by != "handed over"]


def swallowed_in_words(token: TokenCore) -> tuple[str, ...]:
    """A line for the report for each place that swallowed a stop."""
    counts: dict[str, int] = {}
    for found, by in swallowed(token):
        if by is not None:
            text = f"a stop was swallowed at {by[0]}:{by[1]} in {by[2]}"
        elif found.raised_at is not None:
            text = f"a stop that was raised at {found.raised_at[0]}:{found.raised_at[1]} was swallowed"
        else:
            text = "a stop was swallowed"
        counts[text] = counts.get(text, 0) + found.count
    return tuple(f"{text} ({count} time{'' if count == 1 else 's'})" for text, count in counts.items())
