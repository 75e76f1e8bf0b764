"""A request to stop as the log of a token holds it; the ``StopRecord`` that people see is made when it is read.

Whoever waits is kept waiting by all that is done before it is woken. So a request is entered as it comes, and turned
into a record, with the line looked up that asked, by whoever reads it first.

Invariant A1: the record is the first of ``_made``; ``list.append`` is atomic, so all who read get the same. Nothing
here blocks or takes a lock, and it may be called from any thread, a signal handler or a finalizer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.records.stops import StopRecord
from turnctl.tokens.sites import RawSite, resolved

if TYPE_CHECKING:
    from turnctl.records.stops import Cause, Level

__all__ = ["Stop"]


class Stop:
    """One request to stop, in the log of a token. ``origin`` is the parent's, for one that was derived from it."""

    __slots__ = ("_made", "at", "by", "cause", "grace_s", "level", "origin", "reason", "site", "source", "wall_at")

    def __init__(
        self,
        cause: Cause,
        level: Level,
        at: float,
        wall_at: float,
        reason: str | None = None,
        by: str | None = None,
        grace_s: float | None = None,
        origin: Stop | None = None,
        source: str | None = None,
        site: RawSite | None = None,
    ) -> None:
        self.cause = cause
        self.level = level
        self.at = at
        self.wall_at = wall_at
        self.reason = reason
        self.by = by
        self.grace_s = grace_s
        self.origin = origin
        self.source = source
        self.site = site
        self._made: list[StopRecord] = []

    @property
    def record(self) -> StopRecord:
        """The request as people see it; always the same."""
        made = self._made
        if not made:
            origin = None if self.origin is None else self.origin.record
            site = None if self.site is None else resolved(self.site)
            made.append(
                StopRecord(
                    self.cause,
                    self.level,
                    self.at,
                    self.wall_at,
                    self.reason,
                    self.by,
                    self.grace_s,
                    origin,
                    self.source,
                    site,
                )
            )
        return made[0]  # A1
