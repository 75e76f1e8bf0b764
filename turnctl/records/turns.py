"""What a ledger keeps of one turn: that it began, on what, in which process, and how it ended. A value only."""

from __future__ import annotations

import json
from typing import Any, Literal

import attrs

from turnctl.records.stops import Outcome
from turnctl.records.tasks import Holder

__all__ = ["TurnRecord"]


@attrs.frozen
class TurnRecord:
    """One turn that worked on an incarnation, under the lease of that generation.

    The row is written before the turn may do anything, and again when it is over. One without an end either runs, or
    its process died: ``lost`` is then the proof of that, and None where there is none. ``report`` is what the turn
    itself knew at its end, and ``output`` where its output went or was kept, both as JSON. Times are seconds since the
    epoch, for people.
    """

    turn_id: str
    inc: str
    gen: int
    holder: Holder
    session: str | None = None
    name: str | None = None
    #: the command as a JSON list, where the turn is one
    command: str | None = None
    folder: str | None = None
    begun_at: float = 0.0
    ended_at: float | None = None
    outcome: Outcome | None = None
    report: str | None = None
    output: str | None = None
    lost: str | None = None
    #: seconds from asking what it owns to killing it, as it began
    grace_s: float | None = None

    @property
    def state(self) -> Literal["running", "lost", "ended"]:
        """``lost`` needs a proof that its process is gone; without one a turn that has not ended counts as running."""
        if self.ended_at is not None:
            return "ended"
        return "running" if self.lost is None else "lost"

    def as_dict(self) -> dict[str, Any]:
        """The record as plain values for JSON; what is kept as JSON is spelled out."""
        plain = attrs.asdict(self)
        for name in ("command", "report", "output"):
            plain[name] = None if plain[name] is None else json.loads(plain[name])
        return {"state": self.state, **plain}
