"""What a turn needs to know of an authority that outlives it: the ledger's record of the task that it works on.

The token decides between the stops of this process and the end of the turn; the store of a ledger decides between all
processes. Where both have something to say the store is the authority, and the token its copy (P14):

  begin    the store is asked before the body runs; a task that was cancelled trips the token
  while    the store trips the token when it has accepted a cancellation
  end      the store is read, then the token decides and is retired, then the store is told; where it has decided
           otherwise in between, the token is overruled

The table is in ``docs/guarantees.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from turnctl.errors import BadArgument

if TYPE_CHECKING:
    from turnctl.records.effects import EffectRecord
    from turnctl.tokens.turn import TurnCore

__all__ = ["Keeper", "Ruling", "TaskLike", "begin_under", "keeper_for", "ruling_of"]


class TaskLike(Protocol):
    """One incarnation of a task, as the rooms below the ledger see it."""

    @property
    def inc(self) -> str: ...

    @property
    def tenant(self) -> str: ...


class Keeper(Protocol):
    """Keeps what one stream of a turn says. One thread at a time; never raises."""

    def write(self, data: bytes) -> None:
        """Keep these bytes."""

    def item(self, item: object) -> None:
        """Keep what an item says."""

    def finish(self) -> None:
        """Nothing more will come."""


class Ruling(Protocol):
    """The side of a ledger that a turn talks to. Each method may be called again after an exception struck in it."""

    #: whether what it keeps outlives the process
    durable: bool

    def begin(self) -> None:
        """Take the task for the turn, or raise with nothing taken; trips the token of a task that was cancelled."""

    def undo(self) -> None:
        """Give back what ``begin`` took: the turn could not begin."""

    def deciding(self) -> None:
        """The token is about to decide: have it know what the store has accepted."""

    def decided(self) -> BaseException | None:
        """The token has decided: tell the store, or have the token overruled; what went wrong, if anything did."""

    def leaving(self) -> BaseException | None:
        """All that the turn owned was ended or named: give the task back; what went wrong, if anything did."""

    def records(self) -> tuple[EffectRecord, ...]:
        """The effects of the turn as they were last known. Never blocks."""

    def lets_go(self, what: object, owner: str, contract: str) -> bool:
        """Let ``what`` go to another owner, if it is a task below this one; whether it is. Raises why it may not."""

    def keep(self, name: str, of: str) -> Keeper | None:
        """Who keeps that stream ``of`` something, in what outlives the process; None where nobody does."""

    def under(self, turn: TurnCore) -> Ruling | None:
        """The one for a turn that begins inside this one; None where it needs none."""


def ruling_of(task: Any, turn: TurnCore) -> Ruling | None:
    """What ``task=`` comes to."""
    if task is None:
        return None
    attach = getattr(task, "_attach", None)
    if attach is None:
        raise BadArgument(f"task= takes what ledger.submit() or ledger.task() gave, not {task!r}")
    ruling: Ruling = attach(turn)
    return ruling


def begin_under(turn: TurnCore, outer: TurnCore | None) -> None:
    """Begin the turn in the store as well, as a child of ``outer``'s task where it has no task of its own."""
    if turn._ruling is None and outer is not None and outer._ruling is not None:
        turn._ruling = outer._ruling.under(turn)
    if turn._ruling is not None:
        turn._ruling.begin()


def keeper_for(turn: object, name: str, of: str) -> Keeper | None:
    """Who keeps what a stream of ``turn`` says; nobody, where it works on no task that outlives it."""
    ruling: Ruling | None = getattr(turn, "_ruling", None)
    return None if ruling is None or not ruling.durable else ruling.keep(name, of)
