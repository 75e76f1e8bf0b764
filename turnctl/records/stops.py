"""The stop and its answer, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

import attrs

if TYPE_CHECKING:
    from turnctl.records.report import TurnReport

__all__ = ["CAUSES", "LEVELS", "Cause", "Level", "Outcome", "StopAnswer", "StopRecord", "StopResult"]

Cause = Literal[
    "user",
    "deadline",
    "signal",
    "parent",
    "shutdown",
    "displaced",
    "budget",
    "event",
    "closed",
    "operator",
]
Level = Literal["soft", "cancel", "kill"]
Outcome = Literal["completed", "failed", "cancelled", "superseded"]
AnswerKind = Literal["accepted", "armed", "already_cancelled", "already_ended", "refused"]
Refusal = Literal["no_turn", "retired", "stale_incarnation", "not_authorised"]

CAUSES: frozenset[str] = frozenset(
    ("user", "deadline", "signal", "parent", "shutdown", "displaced", "budget", "event", "closed", "operator")
)
LEVELS: dict[str, int] = {"soft": 1, "cancel": 2, "kill": 3}


@attrs.frozen(eq=False)
class StopRecord:
    """One accepted request to stop: who, why, when and by which path.

    ``at`` is monotonic seconds of this process, ``wall_at`` seconds since the epoch. ``origin`` is the record
    of the parent's stop where the cause is ``parent``; ``source`` names the token that was asked; ``site`` is the file,
    line and function of the user's code that asked, None where it was not a frame of the user's. Two records are equal
    only if they are the same request, hence identity.
    """

    cause: Cause
    level: Level
    at: float
    wall_at: float
    reason: str | None = None
    by: str | None = None
    grace_s: float | None = None
    origin: StopRecord | None = None
    source: str | None = None
    site: tuple[str, int, str] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The record as plain values for JSON; the origin is nested."""
        return {
            "cause": self.cause,
            "level": self.level,
            "reason": self.reason,
            "by": self.by,
            "at": self.wall_at,
            "grace_s": self.grace_s,
            "source": self.source,
            "site": None if self.site is None else "{}:{} in {}".format(*self.site),
            "origin": None if self.origin is None else self.origin.as_dict(),
        }


class Recorded(Protocol):
    """What holds a record that is made when it is read."""

    @property
    def record(self) -> StopRecord: ...


@attrs.frozen(eq=False, repr=False)
class StopAnswer:
    """What became of one request to stop.

    ``kind`` is ``accepted`` (this request is the one on record), ``armed`` (it waits for the next turn),
    ``already_cancelled`` (an earlier request is on record; this one may have raised the level or shortened
    the grace), ``already_ended`` (the outcome was decided before; see ``outcome``) or ``refused`` (see
    ``why``). True in a boolean context for the first three only. ``record`` is the first accepted request,
    if there is one. It says what was recorded, never that anything has ended.
    """

    kind: AnswerKind
    #: made when ``record`` is read
    _record: StopRecord | Recorded | None = None
    outcome: Outcome | None = None
    why: Refusal | None = None
    turn_id: str | None = None
    session_id: str | None = None

    @property
    def record(self) -> StopRecord | None:
        """The request that was accepted first, if there is one."""
        found = self._record
        return found if found is None or isinstance(found, StopRecord) else found.record

    def _values(self) -> tuple[object, ...]:
        return self.kind, self.record, self.outcome, self.why, self.turn_id, self.session_id

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._values()

    def __repr__(self) -> str:
        names = ("kind", "record", "outcome", "why", "turn_id", "session_id")
        return (
            f"StopAnswer({', '.join(f'{name}={value!r}' for name, value in zip(names, self._values(), strict=True))})"
        )

    def __bool__(self) -> bool:
        return self.kind in ("accepted", "armed", "already_cancelled")

    def __str__(self) -> str:
        target = f"turn {self.turn_id}" if self.turn_id else "no turn"
        if self.kind == "accepted":
            return f"stop accepted for {target}"
        if self.kind == "armed":
            return "stop kept for the next turn"
        if self.kind == "already_cancelled":
            return f"{target} was already asked to stop"
        if self.kind == "already_ended":
            return f"{target} had already ended ({self.outcome})"
        if self.why == "no_turn":
            where = f" in session {self.session_id}" if self.session_id else ""
            return f"refused: no running turn{where}"
        return f"refused: {self.why} ({target})"


_kind, _record, _outcome, _why, _turn_id, _session_id = (
    getattr(StopAnswer, field.name).__set__ for field in attrs.fields(StopAnswer)
)
_new = object.__new__


def accepted(record: Recorded, turn_id: str | None, session_id: str | None) -> StopAnswer:
    """``StopAnswer("accepted", record, ...)``, in half the time: whoever was woken by that stop waits for it."""
    made = _new(StopAnswer)
    _kind(made, "accepted")
    _record(made, record)
    _outcome(made, None)
    _why(made, None)
    _turn_id(made, turn_id)
    _session_id(made, session_id)
    return made


@attrs.frozen(eq=False)
class StopResult:
    """The answer to a stop, and the report as it stood when the wait for it ended.

    ``report`` is None when the stop reached no turn. ``over`` says whether the turn had ended within the
    wait; when it is False the report names what was still going on.
    """

    answer: StopAnswer
    report: TurnReport | None
    over: bool

    def __bool__(self) -> bool:
        return bool(self.answer)
