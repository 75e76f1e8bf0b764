"""Times as people read them: how long ago on a terminal, RFC 3339 elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

__all__ = ["TIME_FORMATS", "TimeFormat", "ago", "shown"]

TimeFormat = Literal["relative", "iso", "epoch"]
TIME_FORMATS: tuple[TimeFormat, ...] = ("relative", "iso", "epoch")

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def ago(seconds: float) -> str:
    """A span in its largest unit, "12s", "3m", "2h", "5d": for a column, not for sums. A negative one is "0s"."""
    whole = max(0, int(seconds))
    size, unit = next(((size, unit) for size, unit in _UNITS if whole >= size), (1, "s"))
    return f"{whole // size}{unit}"


def shown(at: float, how: TimeFormat, now: float) -> str:
    """The moment ``at``, in seconds since the epoch. ``iso`` is RFC 3339 in UTC, to the second."""
    if how == "relative":
        return f"{ago(now - at)} ago"
    if how == "epoch":
        return f"{at:.3f}"
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
