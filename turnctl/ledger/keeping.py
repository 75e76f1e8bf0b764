"""One activity that a ledger keeps: what was observed of it, in order, and the rows that this comes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turnctl.clock import wall
from turnctl.ledger.names import keepable, new_id
from turnctl.ledger.owned import REMOTE, Step
from turnctl.records.changes import evolve
from turnctl.records.tasks import PROCESSES, OwnedActivity
from turnctl.tokens.activities import Activity

if TYPE_CHECKING:
    from turnctl.ledger.owning import Owning
    from turnctl.records.report import ActivityState
    from turnctl.tokens.activities import Owned

__all__ = ["KeptActivity"]


#: how much of a text is kept
_MOST = 300


def _kept(text: str) -> str:
    """The text as it can be kept: bytes of an argument that are no text are spelled, and a long one is cut."""
    plain = keepable(text)
    return plain if len(plain) <= _MOST else f"{plain[: _MOST - 1]}…"


class KeptActivity(Activity):
    """An activity with a row. Observations are appended, from any thread, and never taken back."""

    __slots__ = ("_facts", "_first", "_home", "is_void", "ref")

    def __init__(self, home: Owning, kind: str, name: str, owned: Owned | None = None) -> None:
        super().__init__(kind, name, owned)
        self.ref = new_id("a")
        self._home = home
        self._facts: list[tuple[str, dict[str, Any]]] = []
        more: Any = home.row(self)
        self._first = OwnedActivity(ref=self.ref, kind=kind, name=_kept(name), **more)
        #: whether the gate has refused it, so that it never was
        self.is_void = False

    @property
    def has_record(self) -> bool:
        return True

    # -- what is observed -------------------------------------------------------------------------------------

    def observed(self, word: str, *, at_once: bool = True, **fields: Any) -> None:
        """Append it, and have it written. Never blocks."""
        self._facts.append((word, fields))
        self._home.changed(self, at_once=at_once)

    def own(self) -> None:
        self._home.own(self)

    def identify(self, pid: int | None) -> None:
        if pid is not None:
            self._home.identify(self, pid)

    def signalled(self, signal: str) -> None:
        if not any(word == "signalled" and fields["signal"] == signal for word, fields in list(self._facts)):
            self.observed("signalled", signal=signal, at=wall())

    def close_here(self, state: ActivityState, detail: str | None = None) -> bool:
        closed = super().close_here(state, detail)
        if closed:
            at = self._end[0][1]
            self.observed("ended", at_once=False, state=state, detail=detail, at=at, moved=self.successor is not None)
        return closed

    def note_late(self, text: str) -> None:
        super().note_late(text)
        if self._end and self._end[0][0] in ("abandoned", "unknown"):
            self.observed("returned", at=wall(), detail=f"came back late: {text}")
            self._home.returned()

    def detaching(self, owner: str, contract: str) -> Callable[[str], object]:
        self._home.let_go(self, owner, contract)
        return lambda why: self._home.came_back(self, why)

    # -- the rows ---------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many states there are."""
        return len(self._facts) + 1

    def first(self) -> OwnedActivity:
        """The row that it begins with."""
        return self._first

    def steps(self) -> tuple[Step, ...]:
        """Each state that was observed so far."""
        row = self.first()
        found = [Step("registered", row)]
        for word, fields in list(self._facts):
            step = getattr(self, f"_{word}")(row, **fields)
            row = step.row
            found.append(step)
        return tuple(found)

    def _identified(self, row: OwnedActivity, process: Any) -> Step:
        return Step("identified", evolve(row, process=process))

    def _signalled(self, row: OwnedActivity, signal: str, at: float) -> Step:
        sent = signal if row.signal is None else f"{row.signal} {signal}"
        first = at if row.signalled_at is None else row.signalled_at
        return Step("signalled", evolve(row, signal=sent, signalled_at=first, evidence="signal_queued"))

    def _returned(self, row: OwnedActivity, at: float, detail: str) -> Step:
        return Step("stopped", evolve(row, stopped=True, ended_at=at, detail=_kept(detail), evidence="handler_stopped"))

    def _ended(self, row: OwnedActivity, state: ActivityState, detail: str | None, at: float, *, moved: bool) -> Step:
        """What its end comes to: who was heard to its end has stopped, a closed connection has not (R of ``owned``)."""
        words = state if detail is None else _kept(f"{state}: {detail}")
        row = evolve(row, ended_at=at, detail=words)
        if state == "detached" and (moved or self.kind not in REMOTE):
            return Step("detached", evolve(row, stopped=True))
        if state in ("abandoned", "unknown") and self.kind not in REMOTE and not self._is_gone(state):
            return Step("left", row)
        if self._is_severed(row, state, detail):
            sent = row.signal or ("close" if state != "failed" else None)
            evidence = "signal_queued" if sent is not None else row.evidence
            at_signal = row.signalled_at or (at if sent is not None else None)
            return Step("severed", evolve(row, severed=True, signal=sent, signalled_at=at_signal, evidence=evidence))
        return Step("stopped", evolve(row, stopped=True, evidence="handler_stopped"))

    def _is_gone(self, state: ActivityState) -> bool:
        """A command whose status alone is not known has ended all the same."""
        return state == "unknown" and self.kind in PROCESSES

    def _is_severed(self, row: OwnedActivity, state: ActivityState, detail: str | None) -> bool:
        if self.kind in REMOTE:
            return state != "completed" or (self.kind in ("http", "stream") and detail is not None)
        # what an abort closes may go on at its other end, although our call has come back
        return "abort" in (row.signal or "").split()
