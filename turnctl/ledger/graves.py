"""Which incarnations may be purged, and what the books of a store have to offer for that.

Pure, as ``ledger.model`` is.

Invariants
  P1  Only what is over (completed, failed, cancelled and settled) is purged, and only with all that is below it: a tree
      of tasks goes as a whole, from the leaves up, or stays.
  P2  What is still to be told of stays, and keeps what is above it: an effect that is pending or unknown and not closed
      by an operator, a compensation among them; a lease that is live; a live interest; an activity that is not known to
      have stopped; work that was detached, whose end nobody tells.
  P3  The tombstone is there from the transaction on in which the task is not: who comes late finds one of the two.
  P4  Nothing is ever written to the log of an incarnation that has a tombstone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

from turnctl.records.changes import Incarnation
from turnctl.records.retention import Tombstone
from turnctl.records.tasks import Detached, Task

__all__ = ["Graves", "Pin", "Removed", "known", "pinned"]

Pin = Literal[
    "an open task",
    "a recent end",
    "an unresolved effect",
    "an open compensation",
    "a live lease",
    "a live interest",
    "a running activity",
    "detached work",
]


class Removed(NamedTuple):
    """How many rows were taken away, and whether those were all."""

    rows: int
    is_all: bool


class Graves(Protocol):
    """What a transaction of a purge reads and writes besides."""

    def task(self, inc: str) -> Task | None: ...

    def tombstone(self, inc: str) -> Tombstone | None:
        """What is left of an incarnation that was purged."""

    def detached_of(self, inc: str) -> list[Detached]:
        """The work that it let go of."""

    def roots_over(self, before: float, after: int, most: int) -> list[tuple[int, str]]:
        """Incarnations without a parent that were over by ``before``, behind the position ``after``, oldest first."""

    def bury(self, inc: str, at: float, most: int) -> Removed:
        """Put a tombstone in the place of the task, and take away its rows, about ``most``; see ``clear`` (P3)."""

    def remains(self) -> list[str]:
        """What was buried, and has rows left."""

    def clear(self, inc: str, most: int) -> Removed:
        """Take away more of the rows of what was buried."""

    def forget(self, before: float, most: int) -> int:
        """Drop tombstones of before that time, oldest first, and keep a record; how many."""

    def give_back(self, pages: int) -> tuple[int, int]:
        """Give free pages of the file back, so many at most; how many were given, and how many are left."""

    def rows_of(self, inc: str) -> list[tuple[str, list[Any]]]:
        """Every row that belongs to it, shared work aside: its kind, and its values as they are stored."""

    def positions(self, inc: str) -> list[int]:
        """The position in the store of each line of its log."""

    def named(self, beginning: str, most: int) -> list[tuple[str, str]]:
        """Ids of incarnations and turns that begin so, each with the incarnation."""

    @property
    def page_size(self) -> int:
        """The bytes of a page; 0 where there are none."""


def known(books: Graves, inc: str) -> Task | None:
    """The task, or what is still known of one that was purged."""
    grave = None if (found := books.task(inc)) is not None else books.tombstone(inc)
    return found if grave is None else grave.as_task()


def pinned(
    view: Incarnation, detached: Sequence[Detached], before: float, *, include_detached: bool = False
) -> Pin | None:
    """Why this incarnation may not be purged, if it may not; its children are asked about by themselves (P1, P2).

    ``detached`` is the work that it let go of and that is no task of this ledger: those tell of their end.
    """
    task = view.task
    if not task.is_over:
        return "an open task"
    if task.ended_at is None or task.ended_at > before:
        return "a recent end"
    if view.effects:
        return "an open compensation" if all(one.compensates for one in view.effects) else "an unresolved effect"
    if view.acting:
        return "a running activity"
    if view.lease is not None and view.lease.live:
        return "a live lease"
    if view.interests:
        return "a live interest"
    if detached and not include_detached:
        return "detached work"
    return None
