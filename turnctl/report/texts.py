"""Texts of others, made fit to be shown: nothing in them can move, hide or turn round what stands beside them."""

from __future__ import annotations

from datetime import UTC, datetime
from unicodedata import combining, east_asian_width

from turnctl.clock import format_duration
from turnctl.spelling import JOINERS, visible

__all__ = ["LONGEST", "cut", "moment", "offset", "span", "units", "visible", "whole"]

#: of a text that is shown in full, for a pointer or a reader, so many letters at most
LONGEST = 2000
_DAY = 86400


def units(text: str) -> int:
    """How wide it is, in letters of the usual width."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) or c in JOINERS else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, room: int) -> str:
    """The beginning of it that is ``room`` wide, with a sign where something is missing."""
    if units(text) <= room:
        return text
    kept, used = [], 0
    for letter in text:
        used += units(letter)
        if used > room - 1:
            break
        kept.append(letter)
    return "".join(kept).rstrip() + "…"


def whole(text: str) -> str:
    """All of it, or as much as anybody reads, and how much is missing."""
    left = len(text) - LONGEST
    return text if left <= 0 else f"{text[:LONGEST]}… ({left} more letters)"


def span(seconds: float) -> str:
    """A length of time for people: "5ms", "1m15s", from two days on "2d7h"."""
    if seconds < 2 * _DAY:
        return format_duration(seconds)
    days, rest = divmod(round(seconds / 3600), 24)
    return f"{days}d{rest}h" if rest else f"{days}d"


def offset(seconds: float) -> str:
    """A moment as so long after the begin: "+1.5s"; before it: "-2s"."""
    return f"-{span(-seconds)}" if seconds < 0 else f"+{span(seconds)}"


def moment(at: float, *, digits: int = 3) -> str:
    """RFC 3339 in UTC."""
    spec = "milliseconds" if digits == 3 else "microseconds"
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec=spec).replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{at!r} seconds since 1970"  # a clock that was far off
