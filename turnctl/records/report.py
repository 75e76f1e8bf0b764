"""The report of a turn: what is known, and what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import attrs

from turnctl.records.process import ProcessOutcome
from turnctl.records.states import state_word
from turnctl.records.stops import Outcome, StopRecord
from turnctl.records.texts import text_of
from turnctl.records.words import sentence

if TYPE_CHECKING:
    from turnctl.records.effects import EffectRecord

__all__ = ["ActivityRecord", "ActivityState", "Execution", "TurnReport"]

Execution = Literal["running", "stopping", "ended", "unproven", "lost"]
ActivityState = Literal["open", "completed", "failed", "cancelled", "abandoned", "detached", "unknown"]


@attrs.frozen
class ActivityRecord:
    """One thing that the turn owned: what it was, when it ran, how it ended.

    ``abandoned`` means that it was still running when turnctl stopped waiting for it; ``detached`` that it goes on
    elsewhere, as ``detail`` says, and is no longer this turn's; ``unknown`` that its end was not observed. Times are
    seconds since the epoch. ``late`` is evidence that came after the end was recorded and does not change it, such as
    the result of a call that had been abandoned. For a stream, ``received`` is all that its source had produced, and
    ``given`` how many of these, from the first on, the loop was given.
    """

    kind: str
    name: str
    state: ActivityState
    started_at: float
    ended_at: float | None = None
    detail: str | None = None
    received: tuple[Any, ...] | None = None
    late: str | None = None
    given: int | None = None

    @property
    def not_given(self) -> tuple[Any, ...]:
        """What a stream had received when it was stopped or left, and its loop has never seen."""
        return () if self.received is None else self.received[self.given :]

    @property
    def text(self) -> str | None:
        """What a stream has received, as text: pieces of text, or events of a model's client; None if it is neither."""
        return None if self.received is None else text_of(self.received)

    def as_dict(self) -> dict[str, Any]:
        """The record as plain values for JSON; of ``received`` the numbers, and its ``text``."""
        plain = attrs.asdict(self, recurse=False)
        given = plain.pop("given")
        if self.received is not None:
            plain["received"] = {"items": len(self.received), "given": given, "text": self.text}
        return plain


@attrs.frozen
class TurnReport:
    """What is known about a turn: intent, execution, activities and processes apart.

    ``outcome`` is None until it has been decided. ``execution`` is ``ended`` only when nothing of the turn
    was found running any more; ``unproven`` when something was still there after turnctl stopped waiting, which
    ``alive`` names, or may have been: somebody who was not found held a command's output open.
    ``grace_s`` is how long after the stop asking turned into killing, or would have; None without one.
    ``effects`` are those that were admitted in it, ``effects_unresolved`` counts those with unknown outcome, and
    ``durable`` says whether a ledger keeps them, else they are known to this process alone.
    """

    turn_id: str
    session_id: str | None
    outcome: Outcome | None
    execution: Execution
    started_at: float
    ended_at: float | None = None
    stop: StopRecord | None = None
    level: str | None = None
    stop_took_s: float | None = None
    grace_s: float | None = None
    activities: tuple[ActivityRecord, ...] = ()
    processes: tuple[ProcessOutcome, ...] = ()
    alive: tuple[str, ...] = ()
    effects_unresolved: int = 0
    effects: tuple[EffectRecord, ...] = ()
    durable: bool = False
    notes: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """The word for people, derived from intent, execution and effects (``records.states``)."""
        return state_word(
            stop=self.stop is not None,
            outcome=self.outcome,
            execution=self.execution,
            unresolved=self.effects_unresolved > 0,
        )

    @property
    def open_activities(self) -> tuple[ActivityRecord, ...]:
        """Activities without an end; a report of a turn that is over has none."""
        return tuple(a for a in self.activities if a.state == "open")

    def validate(self) -> None:
        """Raise ``ValueError`` if the report claims an end while one of its own parts is still open."""
        if self.execution == "ended":
            if self.open_activities:
                names = ", ".join(f"{a.kind} {a.name}" for a in self.open_activities)
                raise ValueError(f"report of turn {self.turn_id} says ended with open activities: {names}")
            if self.alive or any(p.survivors or p.is_held_by_unknown for p in self.processes):
                raise ValueError(f"report of turn {self.turn_id} says ended and names things that may be alive")

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values for JSON, schema ``turnctl.turn/1``; ``duration`` fields are seconds."""
        return {
            "schema": "turnctl.turn/1",
            "turn_id": self.turn_id,
            "session_id": self.session_id,
            "state": self.state,
            "outcome": self.outcome,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "intent": {
                "cancel_requested": self.stop is not None,
                "level": self.level,
                "record": None if self.stop is None else self.stop.as_dict(),
            },
            "execution": {
                "state": self.execution,
                "alive": list(self.alive),
                "stop_took_s": self.stop_took_s,
                "grace_s": self.grace_s,
            },
            "activities": [a.as_dict() for a in self.activities],
            "processes": [p.as_dict() for p in self.processes],
            "effects": {
                "unresolved": self.effects_unresolved,
                "durable": self.durable,
                "list": [one.as_dict() for one in self.effects],
            },
            "notes": list(self.notes),
            "summary": str(self),
        }

    def __str__(self) -> str:
        return sentence(self)
