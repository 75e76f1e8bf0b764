"""A run of an agent loop, as values: what it did, step by step and call by call, and how it came to its end."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from turnctl.records.messages import Call, Message, Result, ResultStatus
from turnctl.records.replies import Delta, ReplyStop, Usage

__all__ = [
    "CallRecord",
    "Event",
    "EventKind",
    "GateKind",
    "GateRecord",
    "RunRecord",
    "RunState",
    "StepRecord",
    "StopReason",
]

StopReason = Literal["completed", "failed", "cancelled"]

#: What became of the question whether a call may be carried out. ``unanswered``: there was nobody to ask, or nobody who
#: could answer; ``cancelled``: the run was stopped, and nobody has declined.
GateKind = Literal["approved", "denied", "expired", "unanswered", "cancelled"]

EventKind = Literal[
    "run_started",
    "step_started",
    "delta",
    "reply",
    "retry",
    "tool_started",
    "tool_ended",
    "asked",
    "answered",
    "compacted",
    "step_ended",
    "run_ended",
]


@attrs.frozen
class GateRecord:
    """One question whether a call may be carried out, and its one answer.

    ``digest`` is that of the arguments it was asked for: an approval is good for these and no others. Times are seconds
    since the epoch.
    """

    run_id: str
    step: int
    call_id: str
    tool: str
    digest: str
    kind: GateKind
    asked_at: float
    answered_at: float
    reason: str | None = None
    by: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return attrs.asdict(self)


@attrs.frozen
class CallRecord:
    """One call of a tool. ``started_at`` is None for one that never was; ``detail`` says what the status cannot."""

    call_id: str
    tool: str
    status: ResultStatus
    started_at: float | None = None
    ended_at: float | None = None
    detail: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return attrs.asdict(self)


@attrs.frozen
class StepRecord:
    """One exchange with the model and the calls that came of it. ``attempts`` counts requests.

    ``reply_stop`` says why the model stopped writing: after ``length`` the reply is not all that it had to say. None
    where there was no whole reply, or the step was cut.
    """

    number: int
    started_at: float
    ended_at: float
    outcome: StopReason
    attempts: int = 0
    usage: Usage = attrs.field(factory=Usage)
    calls: tuple[CallRecord, ...] = ()
    reply_stop: ReplyStop | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            **attrs.asdict(self, recurse=False),
            "usage": self.usage.as_dict(),
            "calls": [one.as_dict() for one in self.calls],
        }


@attrs.frozen(slots=False)  # with a dictionary a change costs a third
class RunState:
    """How far a run has come; a new one for each thing that happens to it.

    ``answered`` are the results of the step in hand, by the place of their call in the reply; ``started`` the times of
    those that were started.
    """

    run_id: str
    session_id: str | None
    step: int = 0
    steps: tuple[StepRecord, ...] = ()
    gates: tuple[GateRecord, ...] = ()
    usage: Usage = attrs.field(factory=Usage)
    retries: int = 0
    notes: tuple[str, ...] = ()
    partial: str | None = None
    calls: tuple[Call, ...] = ()
    started: tuple[tuple[int, float], ...] = ()
    answered: tuple[tuple[int, Result], ...] = ()
    records: tuple[CallRecord, ...] = ()

    def result_of(self, place: int) -> Result | None:
        """The result of the call at that place of the step in hand, if it has one."""
        return next((result for at, result in self.answered if at == place), None)

    def all_records(self) -> tuple[CallRecord, ...]:
        """The records of the calls of the step in hand, also of those without a result."""
        told = {place for place, _ in self.answered}
        if len(told) == len(self.calls):
            return self.records
        began = dict(self.started)
        left = [(place, one) for place, one in enumerate(self.calls) if place not in told]
        return (
            *self.records,
            *(CallRecord(one.id, one.name, self.status_of(place), began.get(place)) for place, one in left),
        )

    def changed(self, new: dict[str, Any]) -> RunState:
        """The same with these values; quicker than ``attrs.evolve``, since each step needs several."""
        made: RunState = object.__new__(RunState)
        object.__setattr__(made, "__dict__", self.__dict__ | new)
        return made

    def status_of(self, place: int) -> ResultStatus:
        """What is known of a call that has no result."""
        return "cancelled_unknown" if place in dict(self.started) else "not_started"


@attrs.frozen
class RunRecord:
    """The audit record of one run: every run leaves one, however it ended.

    ``cause``, ``reason`` and ``by`` are those of the stop of a cancelled run, ``error`` is what a failed one failed of.
    ``output`` is the text of its last whole reply, ``partial`` that of one that was cut. Times are seconds since the
    epoch. ``notes`` has what went wrong besides: a hook that raised, an observer that did not come back.
    ``resumes`` is the run that this one goes on from, whose input, steps, gates, usage and retries it begins with.
    """

    run_id: str
    session_id: str | None
    stop_reason: StopReason
    started_at: float
    ended_at: float
    input: tuple[Message, ...]
    output: str
    steps: tuple[StepRecord, ...] = ()
    gates: tuple[GateRecord, ...] = ()
    usage: Usage = attrs.field(factory=Usage)
    retries: int = 0
    cause: str | None = None
    reason: str | None = None
    by: str | None = None
    error: str | None = None
    partial: str | None = None
    configuration: dict[str, Any] = attrs.field(factory=dict)
    notes: tuple[str, ...] = ()
    resumes: str | None = None

    def noted(self, notes: tuple[str, ...]) -> RunRecord:
        """The same with these notes."""
        return attrs.evolve(self, notes=notes)

    def as_dict(self) -> dict[str, Any]:
        """The record as plain values for JSON."""
        plain = attrs.asdict(self, recurse=False)
        plain.update(
            input=[one.as_dict() for one in self.input],
            steps=[one.as_dict() for one in self.steps],
            gates=[one.as_dict() for one in self.gates],
            usage=self.usage.as_dict(),
            notes=list(self.notes),
        )
        return plain


@attrs.frozen
class Event:
    """Something that happened in a run, as observers and ``stream()`` are told of it.

    ``ok`` is False at the end of a step or a run that did not complete. A ``tool_started`` that no ``tool_ended``
    follows was cancelled. ``usage`` of a step that was cancelled is none.
    """

    kind: EventKind
    run_id: str
    step: int = 0
    ok: bool = True
    delta: Delta | None = None
    message: Message | None = None
    call: Call | None = None
    result: Result | None = None
    gate: GateRecord | None = None
    usage: Usage | None = None
    detail: str | None = None
    record: RunRecord | None = None
