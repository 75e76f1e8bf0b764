"""A run of an agent loop as it stands between two pieces of its work: a value that JSON can hold, and that comes back.

Pure. What is read here was written elsewhere, perhaps by hand: each field is looked at, and what is wrong is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, get_args

import attrs

from turnctl.errors import BadArgument
from turnctl.records.messages import RESULT_STATUSES, Call, Message, Result
from turnctl.records.replies import STOPS, Usage
from turnctl.records.runs import CallRecord, GateKind, GateRecord, StepRecord, StopReason

__all__ = ["CHECKPOINT_SCHEMA", "PendingCall", "RunCheckpoint"]

CHECKPOINT_SCHEMA = "turnctl.checkpoint/1"


@attrs.frozen
class PendingCall:
    """A call of a step that is not over. ``result`` is there if it has come back, ``started_at`` if it was started.

    One without ``started_at`` had not been started when the checkpoint was taken, and may have been since.
    """

    call: Call
    started_at: float | None = None
    result: Result | None = None

    def as_dict(self) -> dict[str, Any]:
        result = None if self.result is None else Message.tool(self.result).as_dict()
        return {
            "call": Message.assistant("", [self.call]).as_dict(),
            "started_at": self.started_at,
            "result": result,
        }


@attrs.frozen
class RunCheckpoint:
    """How far a run has come, for ``AgentLoop.resume`` in this process or another.

    ``pending`` are the calls of a half-done step: to be seen, and never carried out again. ``stop_reason`` is None as
    long as the run is not over; ``is_done`` says that the model has no more to do. ``elapsed_s`` is how long it has run
    so far, with the runs that it goes on from. ``inc`` is the incarnation of its task, if it has a ledger.
    ``extra`` are fields that this version does not know; they are kept. Times are seconds since the epoch.
    """

    run_id: str
    session_id: str | None
    taken_at: float
    transcript: tuple[Message, ...]
    #: what stands in the feed for the transcript before ``floor``; ``start`` is where the run begins
    base: tuple[Message, ...]
    floor: int
    start: int
    base_before: tuple[Message, ...]
    floor_before: int
    input: tuple[Message, ...]
    stop_reason: StopReason | None = None
    is_done: bool = False
    step: int = 0
    step_at: float = 0.0
    attempts: int = 0
    steps: tuple[StepRecord, ...] = ()
    gates: tuple[GateRecord, ...] = ()
    usage: Usage = attrs.field(factory=Usage)
    retries: int = 0
    notes: tuple[str, ...] = ()
    partial: str | None = None
    pending: tuple[PendingCall, ...] = ()
    elapsed_s: float = 0.0
    resumes: str | None = None
    #: the names of the loop's tools
    tools: tuple[str, ...] = ()
    #: whether a hook of the loop may change what is called
    is_hooked: bool = False
    tenant: str | None = None
    task_id: str | None = None
    inc: str | None = None
    extra: dict[str, Any] = attrs.field(factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """What JSON can hold, as far as the arguments of calls are; ``from_dict`` takes it back."""
        plain = {name: _plain(getattr(self, name)) for name in _NAMES}
        return {**self.extra, "schema": CHECKPOINT_SCHEMA, **plain}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> RunCheckpoint:
        """The checkpoint that ``as_dict`` made this of. Raises ``BadArgument`` for anything else, and says why."""
        if not isinstance(given, Mapping):
            raise BadArgument(f"a checkpoint is an object as as_dict makes it, not {given!r}")
        schema = given.get("schema")
        if schema != CHECKPOINT_SCHEMA:
            raise BadArgument(
                f"this is no checkpoint that this version reads: its schema is {schema!r}, not {CHECKPOINT_SCHEMA!r}; "
                "resume it with the version that made it"
            )
        values = _values(cls, given, "checkpoint", _NAMES)
        extra = {name: value for name, value in given.items() if name not in values and name != "schema"}
        found = cls(**values, extra=extra)
        found._check()
        return found

    def _check(self) -> None:
        """Raise ``BadArgument`` where its parts do not fit together."""
        count = len(self.transcript)
        for name in ("floor", "start", "floor_before"):
            if not 0 <= getattr(self, name) <= count:
                raise BadArgument(f"checkpoint.{name} is {getattr(self, name)}, and it has {count} messages")
        for name in ("step", "attempts", "retries", "elapsed_s"):
            if not getattr(self, name) >= 0:
                raise BadArgument(f"checkpoint.{name} is 0 or more, not {getattr(self, name)!r}")
        _check_usage(self.usage, "checkpoint.usage")
        for n, step in enumerate(self.steps):
            _check_usage(step.usage, f"checkpoint.steps[{n}].usage")
        replies = [one for one in self.transcript if one.role == "assistant" and one.is_fed]
        if self.pending and (not replies or [one.call for one in self.pending] != list(replies[-1].calls)):
            raise BadArgument("checkpoint.pending does not have the calls of its last reply; was it changed by hand?")


def _check_usage(usage: Usage, where: str) -> None:
    """Raise ``BadArgument`` for what would take away from what a run has used."""
    for name, value in usage.as_dict().items():
        if value is not None and not 0 <= value < math.inf:
            raise BadArgument(f"{where}.{name} is 0 or more, not {value!r}")


_NAMES = tuple(field.name for field in attrs.fields(RunCheckpoint) if field.name != "extra")


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value.as_dict() if hasattr(value, "as_dict") else value


# -- reading ----------------------------------------------------------------------------------------------------------


def _values(kind: type[Any], given: Any, where: str, names: tuple[str, ...] = ()) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise BadArgument(f"{where} is an object, not {given!r}")
    needed = {field.name for field in attrs.fields(kind) if field.default is attrs.NOTHING}
    found = {}
    for name in names or tuple(field.name for field in attrs.fields(kind)):
        if name in given:
            found[name] = _read(kind.__annotations__[name], given[name], f"{where}.{name}")
        elif name in needed:
            raise BadArgument(f"{where} has no {name!r}; is it whole?")
    return found


def _read(hint: str, given: Any, where: str) -> Any:
    """``given`` as what the hint of its field says; the hints here are few."""
    if hint.endswith(" | None"):
        return None if given is None else _read(hint.removesuffix(" | None"), given, where)
    if hint.startswith("tuple["):
        if not isinstance(given, (list, tuple)):
            raise BadArgument(f"{where} is a list, not {given!r}")
        inner = hint.removeprefix("tuple[").removesuffix(", ...]")
        return tuple(_read(inner, one, f"{where}[{n}]") for n, one in enumerate(given))
    return _READERS[hint](given, where)


def _of(what: str, *kinds: type[Any]) -> Callable[[Any, str], Any]:
    def read(given: Any, where: str) -> Any:
        if type(given) not in kinds:
            raise BadArgument(f"{where} is {what}, not {given!r}")
        return given

    return read


def _word(*words: str) -> Callable[[Any, str], Any]:
    def read(given: Any, where: str) -> Any:
        if given not in words:
            raise BadArgument(f"{where} is one of {', '.join(words)}, not {given!r}")
        return given

    return read


def _record(kind: type[Any]) -> Callable[[Any, str], Any]:
    return lambda given, where: kind(**_values(kind, given, where))


def _message(given: Any, where: str) -> Message:
    try:
        return Message.from_dict(given)
    except (BadArgument, AttributeError) as error:
        raise BadArgument(f"{where} is a message as as_dict makes it ({error})") from error


def _part(name: str) -> Callable[[Any, str], Any]:
    def read(given: Any, where: str) -> Any:
        found = getattr(_message(given, where), name)
        if len(found) != 1:
            raise BadArgument(f"{where} is a message with one part, not {given!r}")
        return found[0]

    return read


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "str": _of("text", str),
    "int": _of("a whole number", int),
    "float": _of("a number", int, float),
    "bool": _of("true or false", bool),
    "StopReason": _word(*get_args(StopReason)),
    "GateKind": _word(*get_args(GateKind)),
    "ResultStatus": _word(*RESULT_STATUSES),
    "ReplyStop": _word(*STOPS),
    "Message": _message,
    "Call": _part("calls"),
    "Result": _part("results"),
    "Usage": _record(Usage),
    "CallRecord": _record(CallRecord),
    "StepRecord": _record(StepRecord),
    "GateRecord": _record(GateRecord),
    "PendingCall": _record(PendingCall),
}
