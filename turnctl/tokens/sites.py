"""Where in the user's code something was done: the first frames on the stack that are not ours.

A site is (file, line, function). Reading one costs some hundred nanoseconds and takes no lock, so it may be done in a
signal handler. Our own frames, and those of the standard library's threads, are passed over.
"""

from __future__ import annotations

import os
import sys
import threading
from types import CodeType, FrameType

__all__ = ["RawSite", "Site", "calling_site", "in_words", "is_ours", "raw_stack", "resolved", "site_of"]

Site = tuple[str, int, str]
#: the same before its line has been looked up, which is the larger part of the cost
RawSite = tuple[CodeType, int]

_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_THREADING = threading.__file__
_DEEPEST = 64


def is_ours(filename: str) -> bool:
    """Whether a file belongs to turnctl."""
    return filename.startswith(_HOME)


def calling_site() -> Site | None:
    """The innermost line of the calling thread that is not ours; None where there is none, as on our own threads."""
    return site_of(sys._getframe(1))


def site_of(frame: FrameType | None) -> Site | None:
    """The same, beginning with ``frame``."""
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_HOME):
            return None if name == _THREADING else (name, frame.f_lineno or 0, frame.f_code.co_name)
        frame = frame.f_back
    return None


def raw_stack(frame: FrameType | None) -> tuple[RawSite, ...]:
    """A stack, ours included, the innermost first, at most 64 deep."""
    found: list[RawSite] = []
    while frame is not None and len(found) < _DEEPEST:
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
