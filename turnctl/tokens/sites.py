"""Where in the user's code something was done: the first frames on the stack that are not ours.

A site is (file, line, function). Reading one costs some hundred nanoseconds and takes no lock, so it may be done in a
signal handler. Our own frames, and those of the standard library's threads, are passed over.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType

__all__ = [
    "DEEPEST",
    "RawSite",
    "Site",
    "back",
    "continues",
    "ends",
    "frame_of",
    "frames_now",
    "in_words",
    "is_ours",
    "raw_site",
    "raw_stack",
    "resolved",
    "site_of",
    "undisturbed_frames",
]

Site = tuple[str, int, str]
#: the same before its line has been looked up, which is the larger part of the cost
RawSite = tuple[CodeType, int]

_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_THREADING = threading.__file__
DEEPEST = 64  # frames that are told of a stack


#: before 3.12 the collector runs inside of allocations, hence inside of the call below
_COLLECTS_INSIDE = sys.version_info < (3, 12)
_quiet = threading.RLock()  # held for one call in C; re-entrant for handlers and finalizers


def frames_now() -> dict[int, FrameType]:
    """The innermost frame of each thread, by ident: ``sys._current_frames()``, with the collector off meanwhile.

    That call holds a lock of the interpreter while it allocates. A collection in there runs finalizers, and one that
    lets another thread run, which then needs that lock to make or drop a thread-local, never comes back. What the
    collector was set to before is put back. Blocks only for the same call of other threads. Thread-safe.
    """
    with undisturbed_frames():
        return sys._current_frames()


@contextmanager
def undisturbed_frames() -> Iterator[None]:
    """The collector is off, where it matters, for a call of ``sys._current_frames`` in the block."""
    if not _COLLECTS_INSIDE:
        yield
        return
    with _quiet:
        was_on = gc.isenabled()
        try:
            gc.disable()
            yield
        finally:
            if was_on:
                gc.enable()


def frame_of(ident: int | None) -> FrameType | None:
    """The innermost frame of one thread; None if it does not run, or runs no Python."""
    return None if ident is None else frames_now().get(ident)


# a fork in the middle would leave the child with the collector off and a lock that nobody gives back
os.register_at_fork(before=_quiet.acquire, after_in_parent=_quiet.release, after_in_child=_quiet.release)


#: the first frame of a thread of ours that goes on with the work of another frame, and that frame, which waits
_continued: dict[FrameType, FrameType] = {}


def continues(frame: FrameType, of: FrameType) -> None:
    """What is done above ``frame`` counts as done where ``of`` stands, on another thread, until ``ends(frame)``."""
    _continued[frame] = of


def ends(frame: FrameType) -> None:
    """It does not any more. May be called twice, from any thread."""
    _continued.pop(frame, None)


def back(frame: FrameType) -> FrameType | None:
    """The frame that ``frame`` was called from, or whose work it goes on with."""
    return (_continued.get(frame) or frame.f_back) if _continued else frame.f_back


def is_ours(filename: str) -> bool:
    """Whether a file belongs to turnctl."""
    return filename.startswith(_HOME)


def site_of(frame: FrameType | None) -> Site | None:
    """The innermost line from ``frame`` on that is not ours; None where there is none, as on our own threads."""
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_HOME):
            return None if name == _THREADING else (name, frame.f_lineno or 0, frame.f_code.co_name)
        frame = back(frame)
    return None


def raw_site(frame: FrameType | None) -> RawSite | None:
    """The same, its line not yet looked up, which makes it cheap enough for a stop."""
    while frame is not None:
        code = frame.f_code
        if _HOME not in code.co_filename:  # half the price of ``startswith``
            return None if code.co_filename == _THREADING else (code, frame.f_lasti)
        frame = back(frame)
    return None


def raw_stack(frame: FrameType | None) -> tuple[RawSite, ...]:
    """A stack, ours included, the innermost first, at most 64 deep."""
    found: list[RawSite] = []
    while frame is not None and len(found) < DEEPEST:
        found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(found)


def resolved(raw: RawSite) -> Site:
    """The place with its line."""
    code, at = raw
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= at < end and number is not None:
            line = number
    return code.co_filename, line, code.co_name


def in_words(site: Site | None) -> str:
    """``file:line in function``."""
    return "a place that is not known" if site is None else f"{site[0]}:{site[1]} in {site[2]}"
