"""What a turn owns: the recorder that a report is made from, and the two sides of owning a thing.

Invariants
  A1  An activity is registered before the thing can run; after admission has closed, registering is refused.
  A2  Each activity is closed once; the first close stays.
  A3  ``close_admission`` leaves no activity behind that was admitted and is not in ``all()``.

No lock is held: ``admit`` appends to a list and *then* re-reads the gate; ``close_admission`` closes the gate and
*then* reads the list, so one of the two sees the other (A3; the same argument as in ``tokens.event``).
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Protocol

from turnctl.clock import wall
from turnctl.errors import TurnOver

if TYPE_CHECKING:
    from turnctl.records.process import ProcessOutcome
    from turnctl.records.report import ActivityRecord, ActivityState

__all__ = ["Activities", "Activity", "Owned", "Owner"]


class Owned(Protocol):
    """A thing that a turn can end: a command, a thread, a child turn."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    def ask(self) -> None:
        """Begin to end it. Never blocks, never raises; may be called more than once."""

    def end(self, kill_at: Callable[[], float]) -> None:
        """Block until it has ended or has been given up; ``kill_at()`` is when asking turns into killing.

        ``kill_at`` is monotonic seconds. A later stop may shorten it: read it again after each ring of ``watch``.
        """

    def alive(self) -> tuple[str, ...]:
        """What of it still runs, in words for a report; empty when nothing was found."""

    def outcome(self) -> ProcessOutcome | None:
        """What is known of the command, where it is one."""


class Owner(Protocol):
    """What a room needs to know of the turn that it works for."""

    @property
    def turn_id(self) -> str: ...

    @property
    def grace_s(self) -> float: ...

    def stop_wanted(self) -> bool:
        """Whether a stop that interrupts work has been accepted."""

    def kill_at(self) -> float | None:
        """Monotonic seconds at which the grace of the accepted stop ends; None while no stop is wanted."""

    def held_until(self) -> float | None:
        """Monotonic seconds until which a shield of this context holds the stop back; None if none does."""

    def due_at(self) -> float | None:
        """Monotonic seconds at which the nearest deadline makes a stop wanted; None for none."""

    def watch(self, fn: Callable[[], None]) -> Callable[[], None]:
        """Call ``fn`` on the turn's bridge thread after each change of those above; returns its undo.

        Calls ``fn`` soon if a stop is wanted already. ``fn`` must not block.
        """

    def admit(self, owned: Owned) -> Activity:
        """Register ``owned`` before it can run; ``TurnOver`` once the turn is decided."""

    def check(self) -> None:
        """Raise ``CancelledError`` if a stop that interrupts work has been accepted."""


class Activity:
    """One registered thing; ``close`` says how it ended."""

    __slots__ = (
        "_end",
        "_late",
        "detail",
        "given",
        "kind",
        "name",
        "owned",
        "received",
        "started_at",
        "successor",
        "thread",
    )

    def __init__(self, kind: str, name: str, owned: Owned | None = None) -> None:
        self.kind = kind
        self.name = name
        self.owned = owned
        self.started_at = wall()
        #: the ident of the thread that it was registered by
        self.thread = get_ident()
        self.detail: str | None = None
        #: what a stream has given so far; the same list that it goes on filling
        self.received: list[object] | None = None
        #: how many of these the loop was given
        self.given = 0
        self._late: list[str] = []
        self._end: list[tuple[ActivityState, float, str | None]] = []
        #: the activity of another turn that this one has gone over to
        self.successor: Activity | None = None

    @property
    def is_open(self) -> bool:
        return not self._end

    def close(self, state: ActivityState, detail: str | None = None) -> bool:
        """Record the end; False, and no change, if it has one already (A2).

        The end of one that was detached is recorded where it has gone.
        """
        return (self.successor is None and self.close_here(state, detail)) or self._close_there(state, detail)

    def _close_there(self, state: ActivityState, detail: str | None) -> bool:
        return self.successor is not None and self.successor.close(state, detail)

    def close_here(self, state: ActivityState, detail: str | None = None) -> bool:
        """Record the end of what this turn knows of it; False, and no change, if it has one already (A2)."""
        if self._end:
            return False
        entry: tuple[ActivityState, float, str | None] = (state, wall(), detail)
        # append is atomic and position 0 decides between two threads that close at once
        self._end.append(entry)
        return self._end[0] is entry

    @property
    def end(self) -> tuple[ActivityState, float, str | None] | None:
        """How and when it ended; None while it is open."""
        return self._end[0] if self._end else None

    def note_late(self, text: str) -> None:
        """Keep what came after the close as evidence; it changes nothing that was recorded."""
        self._late.append(text)

    # -- what a ledger keeps of it; nothing where the turn works on no task ------------------------------------

    @property
    def has_record(self) -> bool:
        """Whether a ledger keeps it."""
        return False

    def own(self) -> None:
        """Have it on record before it can run: for what may outlive this process. Blocks for the store.

        Raises the stop where the task was cancelled, and ``LedgerRefused`` or ``StoreError`` where it may not begin.
        """

    def identify(self, pid: int | None) -> None:
        """It is that process. Never blocks."""

    def signalled(self, signal: str) -> None:
        """It was sent ``signal`` to end it, which says nothing of what became of it. Never blocks."""

    def detaching(self, owner: str, contract: str) -> Callable[[str], object]:  # noqa: ARG002 - a ledger needs them
        """It is about to go to ``owner``: have that allowed and put on record; what is returned says that it did not.

        Raises as ``own`` does. Blocks for the store.
        """
        return _nothing

    def record(self) -> ActivityRecord:
        from turnctl.records.report import ActivityRecord

        if self._end:
            state, ended_at, detail = self._end[0]
        else:
            state, ended_at, detail = "open", None, self.detail
        given = None if self.received is None else self.given  # before the list, which is never shorter
        received = None if self.received is None else tuple(self.received)
        late = "; ".join(self._late) or None
        return ActivityRecord(self.kind, self.name, state, self.started_at, ended_at, detail, received, late, given)


def _nothing(_: str) -> None:
    pass


class Activities:
    """The inventory of one turn. Thread-safe; nothing in it blocks, but for a ledger's ``make``."""

    __slots__ = ("_admitted", "_closed", "make", "turn_id")

    def __init__(self, turn_id: str) -> None:
        self.turn_id = turn_id
        #: what makes an activity: a ledger has its own, which may refuse by raising the stop
        self.make: Callable[[str, str, Owned | None], Activity] = Activity
        self._admitted: list[Activity] = []
        self._closed = False

    def admit(self, kind: str, name: str, owned: Owned | None = None) -> Activity:
        """Register an activity; ``TurnOver`` once admission has closed (A1)."""
        activity = self.make(kind, name, owned)
        self._admitted.append(activity)
        if self._closed:
            self._withdraw(activity)
            raise TurnOver(
                f"turn {self.turn_id} is over and admits no new {kind} ({name}); begin a new turn for it",
                turn_id=self.turn_id,
            )
        return activity

    def _withdraw(self, activity: Activity) -> None:
        # the closer may have read the list in between; a closed record is then true as well: it never ran
        activity.close("cancelled", "refused: the turn was over before it started")
        try:
            self._admitted.remove(activity)
        except ValueError:  # pragma: no cover - only this thread removes it
            pass

    def close_admission(self) -> None:
        """Refuse every later ``admit``."""
        self._closed = True

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_used(self) -> bool:
        """Whether anything was admitted."""
        return bool(self._admitted)

    @property
    def owns_something(self) -> bool:
        """Whether there is an open activity that only the turn's end would end."""
        return any(a.is_open and a.owned is not None for a in self.all())

    @property
    def count(self) -> int:
        """How many were admitted so far."""
        return len(self._admitted)

    def since(self, count: int) -> list[Activity]:
        """Those that were admitted after the first ``count``."""
        return self._admitted[count:]

    def all(self) -> list[Activity]:
        """A snapshot, oldest first."""
        return list(self._admitted)
