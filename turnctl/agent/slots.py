"""Whose stop is it? The one rule by which a loop's stops fall to its runs: the order of a log.

A *slot* is the address "this run, or if none is running, the next one". It takes stops from the end of the run before
until the end of its own run. In its log stand stops, once ``Bound`` (its run has begun) and once ``CLOSED`` (its run is
over, and the next slot is there). ``list.append`` is atomic, so the position of a stop decides:

| the stop stands | it is |
|---|---|
| before ``Bound``, which is not there yet | ``armed``: the run that begins next is born stopped by it |
| before ``Bound``, which came since | of this run, and was there before its work |
| between ``Bound`` and ``CLOSED`` | of this run; its token says the rest: ``already_ended`` once it is decided |
| after ``CLOSED`` | not of this slot: it is entered in the next one |

Invariants
  W1  ``next`` is stored before ``CLOSED`` is appended; the signal points to the next slot after that.
  W2  ``Bound`` is appended and *then* the stops before it are read and entered in the token, before any work. So a stop
      is entered either by the run that begins, or by its canceller, who finds ``Bound``.
  W3  A stop that fell to a slot stays with it: nothing is taken out of a log.

Nothing here blocks, takes a lock or calls user code: safe in signal handlers and finalizers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from turnctl.tokens.asked import Stop
    from turnctl.tokens.turn import TurnCore

__all__ = ["CLOSED", "Bound", "Closed", "Entry", "Place", "Slot", "place", "read"]

Place = Literal["armed", "before", "during", "next"]


class Bound:
    """The entry that says which turn the slot's run is."""

    __slots__ = ("turn",)

    def __init__(self, turn: TurnCore) -> None:
        self.turn = turn


class Closed:
    """The entry that ends a slot."""

    __slots__ = ()


CLOSED = Closed()
Entry = "Stop | Bound | Closed"


def place(log: list[Stop | Bound | Closed], stop: Stop) -> Place:
    """Where ``stop``, which is in the log, stands in it."""
    bound_before = False
    at = -1
    for n, entry in enumerate(log):
        if entry is stop:
            at = n
            break
        if type(entry) is Closed:
            return "next"
        bound_before = bound_before or type(entry) is Bound
    if bound_before:
        return "during"
    return "before" if any(type(entry) is Bound for entry in log[at + 1 :]) else "armed"


def read(log: list[Stop | Bound | Closed]) -> tuple[list[Stop], Bound | None, bool]:
    """The stops that fell to it before its run began, its run, and whether it is closed."""
    early: list[Stop] = []
    bound: Bound | None = None
    for entry in log:
        if type(entry) is Closed:
            return early, bound, True
        if type(entry) is Bound:
            bound = bound or entry
        elif bound is None:
            early.append(entry)  # type: ignore[arg-type]
    return early, bound, False


class Slot:
    """One such address. ``was_stopped`` is stored before it is closed, and means nothing before that."""

    __slots__ = ("log", "next", "was_stopped")

    def __init__(self) -> None:
        self.log: list[Stop | Bound | Closed] = []
        self.next: Slot | None = None
        self.was_stopped = False

    @property
    def turn(self) -> TurnCore | None:
        """The turn of its run, from its beginning until it is closed."""
        _, bound, closed = read(self.log)
        return None if bound is None or closed else bound.turn

    def close(self, *, was_stopped: bool) -> Slot:
        """End it, and give the next one; the same again if it was ended before."""
        if self.next is None:
            self.was_stopped = was_stopped
            self.next = Slot()
        if not read(self.log)[2]:
            self.log.append(CLOSED)  # W1
        return self.next

    def is_stopping(self) -> bool:
        """Whether a stop fell to it that has no answer yet."""
        early, bound, closed = read(self.log)
        if closed:
            return False
        return bool(early) if bound is None else bound.turn.token.stopping
