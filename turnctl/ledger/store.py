"""What a ledger needs of a place that keeps it: transactions over rows, of which one at a time writes.

A store is the authority: two transactions never both see the state before and write the state after. How it does that
is its own affair (one writer, row locks), and so is how it keeps the rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from turnctl.ledger.graves import Graves
from turnctl.records.changes import By, Change, Incarnation
from turnctl.records.effects import Effect, LedgerEvent, Receipt
from turnctl.records.tasks import Detached, Interest, OwnedActivity, SharedWork, Task
from turnctl.records.turns import TurnRecord

__all__ = ["Books", "Store"]

T = TypeVar("T")


class Books(Graves, Protocol):
    """What one transaction reads and writes. Reads see its own writes."""

    def latest(self, tenant: str, task_id: str) -> Task | None:
        """The newest incarnation of a task id."""

    def last_seq(self, tenant: str, task_id: str) -> int:
        """The highest ``seq`` that was ever given out for it, by a tombstone where its incarnations were purged."""

    def task(self, inc: str) -> Task | None: ...

    def incarnation(self, inc: str) -> Incarnation | None:
        """All that a transition has to know of it."""

    def at_gate(self, inc: str) -> Incarnation | None:
        """Its task, cancellation and lease alone: what a gate has to know."""

    def effect(self, effect_id: str) -> Effect | None: ...

    def effects_of(self, inc: str, intent_key: str | None = None) -> list[Effect]:
        """Its effects, of one intent where that is given, oldest first."""

    def payload(self, effect_id: str) -> bytes | None:
        """The very bytes that were admitted."""

    def receipts(self, effect_id: str) -> list[Receipt]: ...

    def activity(self, inc: str, ref: str) -> OwnedActivity | None: ...

    def activities_of(self, inc: str) -> list[OwnedActivity]:
        """All that it has owned, oldest first."""

    def acting(self) -> set[str]:
        """The incarnations that own something of which it is not known that it acts no more."""

    def detached_of(self, inc: str) -> list[Detached]:
        """What it has let go of, oldest first."""

    def shared(self, shared_id: str) -> SharedWork | None: ...

    def interests_in(self, shared_id: str) -> list[Interest]:
        """The live ones."""

    def turn(self, turn_id: str) -> TurnRecord | None: ...

    def turns_of(self, inc: str) -> list[TurnRecord]:
        """The turns that worked on it, oldest first."""

    def events(self, inc: str) -> list[LedgerEvent]:
        """The whole log of one incarnation, in order."""

    def incarnations(self, *, tenant: str | None = None, is_open: bool | None = None) -> Iterable[Task]:
        """Tasks, oldest first."""

    def write(self, change: Change, by: By, *, payload: bytes | None = None) -> None:
        """Write the rows of ``change``, and a line of the log for each of its notes."""


class Store(ABC):
    """A place that keeps a ledger."""

    #: whether what was acknowledged outlives the process and the power
    durable: bool
    #: which authority this is; rows of one are never taken for another's
    authority: str

    @abstractmethod
    def transact(self, fn: Callable[[Books], T], *, urgent: bool = False, point: str = "store") -> T:
        """Run ``fn`` in one writing transaction; all that it writes is kept, or nothing if it raises.

        ``urgent`` goes before what waits: a cancellation must not stand in a queue of commitments. ``fn`` may be run
        again if the first time came to nothing, so it does nothing but read and write these books, and it may run on
        another thread. ``point`` names the dealing for failpoints: POINT.before_begin, .before_commit, .after_commit.
        Blocks until it is durable. Not a checkpoint. Thread-safe.
        """

    @abstractmethod
    def read(self, fn: Callable[[Books], T]) -> T:
        """Run ``fn`` over one consistent state, without writing."""

    @abstractmethod
    def watch(self, inc: str, fn: Callable[[], object]) -> Callable[[], None]:
        """Call ``fn`` soon after each acceptance that may concern ``inc``, on a thread of the store; gives the undo.

        ``fn`` must read for itself what there is, and not block. It may be called for nothing.
        """

    @abstractmethod
    def close(self) -> None:
        """Give everything back. May be called twice."""
