"""A checkpoint comes back as it was, and what is no checkpoint is refused by the name of what is wrong in it."""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator
from schemas import SCHEMAS, fits

from turnctl.errors import BadArgument
from turnctl.records.checkpoints import PendingCall, RunCheckpoint
from turnctl.records.messages import RESULT_STATUSES, Call, Image, Mark, MarkKind, Message, Opaque, Result, Text
from turnctl.records.replies import Usage
from turnctl.records.runs import CallRecord, GateKind, GateRecord, StepRecord, StopReason

TEXTS = ["", "hello", " \n", "é\u2028\x00", '"quoted"']


def some_checkpoint(seed: int) -> RunCheckpoint:
    """Any state that a run may be in, by chance."""
    chance = random.Random(seed)
    few, pick, text = lambda most=3: range(chance.randrange(most + 1)), chance.choice, lambda: chance.choice(TEXTS)
    ids = (f"c{n}" for n in range(999))

    def maybe(value: Any) -> Any:
        return pick([None, value])

    def call() -> Call:
        return Call(next(ids), "do", {"x": [1, None, {"y": text()}]}, maybe("{"))

    def result(of: Call) -> Result:
        return Result(of.id, [text(), Image(url="http://x/1")][: chance.randrange(3)], pick(RESULT_STATUSES), of.name)

    def usage() -> Usage:
        return Usage(chance.randrange(9), chance.randrange(9), 1, maybe(0.5))

    def records() -> tuple[CallRecord, ...]:
        return tuple(CallRecord(next(ids), "do", pick(RESULT_STATUSES), maybe(1.5), maybe(2), text()) for _ in few())

    def messages() -> list[Message]:
        found: list[Message] = []
        for _ in few(5):
            asked = [call() for _ in few()]
            parts = [Text(text()), Opaque("anthropic", {"type": "thinking", "n": [1]})]
            marks = [Mark(pick(get_args(MarkKind)), *(maybe(text()) for _ in range(4))) for _ in few(1)]
            found += [Message("user", text()), Message("assistant", [*parts, *asked], marks)]
            found += [Message.tool(*map(result, asked))] if asked else []
        return found

    waiting = [call() for _ in few()]
    transcript = [*messages(), *([Message.assistant("", waiting)] if waiting else [])]
    return RunCheckpoint(
        run_id=f"t{seed}",
        session_id=maybe("chat"),
        taken_at=1.5,
        transcript=tuple(transcript),
        base=tuple(messages()),
        floor=chance.randrange(len(transcript) + 1),
        start=chance.randrange(len(transcript) + 1),
        base_before=tuple(messages()),
        floor_before=chance.randrange(len(transcript) + 1),
        input=tuple(messages()),
        stop_reason=maybe(pick(get_args(StopReason))),
        is_done=pick([True, False]),
        step=3,
        steps=tuple(StepRecord(n, 1.0, 2.5, "failed", 2, usage(), records(), maybe("pause")) for n in few()),
        gates=tuple(
            GateRecord("t1", n, "c", "do", "d", pick(get_args(GateKind)), 1.0, 2.0, maybe("no"), maybe("ann"))
            for n in few()
        ),
        usage=usage(),
        retries=chance.randrange(3),
        notes=tuple(text() for _ in few()),
        partial=maybe(text()),
        pending=tuple(PendingCall(one, maybe(3.5), maybe(result(one))) for one in waiting),
        elapsed_s=chance.random(),
        resumes=maybe("t0"),
        tools=("do", "look"),
        is_hooked=pick([True, False]),
        inc=maybe("i1"),
        extra={"later": [1, {"a": None}]} if pick([True, False]) else {},
    )


def test_any_state_comes_back_as_it_was() -> None:
    """Through JSON and back, it is equal; also what this version does not know of it."""
    for seed in range(50):
        made = some_checkpoint(seed)
        back = RunCheckpoint.from_dict(json.loads(json.dumps(made.as_dict())))

        assert made == back, seed
        assert made.as_dict() == back.as_dict()


def test_what_is_unknown_is_kept() -> None:
    """Fields of a later version stay, and are written again."""
    given = {**some_checkpoint(1).as_dict(), "colour": "red"}

    assert "red" == RunCheckpoint.from_dict(given).as_dict()["colour"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": "turnctl.checkpoint/2"}, "its schema is 'turnctl.checkpoint/2'"),
        ({"schema": None}, "its schema is None"),
        ({"run_id": 7}, "checkpoint.run_id is text, not 7"),
        ({"step": "3"}, "checkpoint.step is a whole number, not '3'"),
        ({"step": True}, "checkpoint.step is a whole number, not True"),
        ({"step": -1}, "checkpoint.step is 0 or more, not -1"),
        ({"elapsed_s": float("nan")}, "checkpoint.elapsed_s is 0 or more, not nan"),
        ({"is_done": 1}, "checkpoint.is_done is true or false, not 1"),
        ({"stop_reason": "tired"}, "checkpoint.stop_reason is one of completed, failed, cancelled, not 'tired'"),
        ({"stop_reason": []}, "checkpoint.stop_reason is one of"),
        ({"start": 999}, "checkpoint.start is 999, and it has"),
        ({"transcript": {}}, "checkpoint.transcript is a list, not {}"),
        ({"transcript": ["hello"]}, r"checkpoint.transcript\[0\] is a message as as_dict makes it"),
        ({"usage": {"input_tokens": -(10**400)}}, "checkpoint.usage.input_tokens is 0 or more, not -1000"),
        ({"usage": {"input_tokens": "many"}}, "checkpoint.usage.input_tokens is a whole number, not 'many'"),
        ({"steps": [{"number": 1}]}, r"checkpoint.steps\[0\] has no 'started_at'; is it whole"),
        ({"tools": [None]}, r"checkpoint.tools\[0\] is text, not None"),
        ({"pending": [{"call": Message.user("x").as_dict()}]}, r"checkpoint.pending\[0\].call is a message with one"),
        (
            {"pending": [{"call": Message.assistant("", [Call("other", "do")]).as_dict()}]},
            "checkpoint.pending does not have the calls of its last reply",
        ),
    ],
)
def test_what_is_no_checkpoint_is_refused(change: dict[str, Any], said: str) -> None:
    """The error names the field, and what it ought to be."""
    with pytest.raises(BadArgument, match=said):
        RunCheckpoint.from_dict({**some_checkpoint(2).as_dict(), **change})


@pytest.mark.parametrize("given", [None, [], "text", 7])
def test_what_is_no_object_is_refused(given: Any) -> None:
    """A checkpoint is an object."""
    with pytest.raises(BadArgument, match="a checkpoint is an object as as_dict makes it"):
        RunCheckpoint.from_dict(given)


@pytest.mark.parametrize("name", ["run_id", "transcript", "floor", "input"])
def test_half_a_checkpoint_is_refused(name: str) -> None:
    """What has to be there is missed by its name."""
    given = some_checkpoint(3).as_dict()
    del given[name]

    with pytest.raises(BadArgument, match=f"checkpoint has no '{name}'; is it whole"):
        RunCheckpoint.from_dict(given)


# -- its schema --------------------------------------------------------------------------------------------------------

SCHEMA = SCHEMAS["checkpoint-1.json"]
WRONG: list[Any] = [None, 7, "odd", [], {}]
#: refused by what several fields say together, which a schema cannot tell
TOGETHER = ("does not have the calls of its last reply", "and it has")


def small_checkpoint() -> RunCheckpoint:
    """One of each thing that a checkpoint may have."""
    asked, image = Call("c1", "do", {"to": "ann"}), Image(url="http://x/1")
    told = Result("c1", ["done", image], "completed", "do")
    last = Message("assistant", [Text("so"), Opaque("anthropic", {"type": "thinking"}), asked])
    calls = (CallRecord("c1", "do", "completed", 1.0, 2.0, "late"),)
    return RunCheckpoint(
        "t1",
        "chat",
        1.5,
        (Message("user", "go", [Mark("closing", "user", "ann", "why", "t0")]), Message.tool(told), last),
        (),
        2,
        1,
        (),
        1,
        (),
        steps=(StepRecord(1, 1.0, 2.0, "completed", 1, Usage(), calls, "length"),),
        gates=(GateRecord("t1", 1, "c1", "do", "d", "approved", 1.0, 2.0, "fine", "ann"),),
        notes=("note",),
        pending=(PendingCall(asked, 1.0, Result("c1")),),
        tools=("do",),
    )


def places(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """The way to each value within; what a model or a wire has written is looked at as a whole."""
    if path:
        yield path
    if path[-1:] not in (("arguments",), ("value",)):
        pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, one in pairs:
            yield from places(one, *path, key)


def changed(given: dict[str, Any], path: tuple[Any, ...], new: Any) -> dict[str, Any]:
    """The same with another value there."""
    found = copy.deepcopy(given)
    at: Any = found
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    return found


def test_any_state_fits_the_schema() -> None:
    """Whatever state a run is in, its checkpoint fits."""
    for made in [small_checkpoint(), *map(some_checkpoint, range(3))]:
        fits(json.loads(json.dumps(made.as_dict())))


def test_schema_and_reader_refuse_the_same() -> None:
    """Each value by itself is made another one: what the schema refuses the reader does, and the other way round."""
    sample = json.loads(json.dumps(small_checkpoint().as_dict()))
    schema = Draft202012Validator({**SCHEMA, "required": []})  # so that a field can be looked at without the others
    numbers = [(("step",), True), (("step",), 1.5), (("elapsed_s",), True), (("retries",), -1)]
    for path, new in [*numbers, *itertools.product(places(sample), WRONG)]:
        if path[-1] == "usage" and new == {}:
            continue  # all of it may be missing where it is read, and nothing of it where it is written
        given = changed(sample, path, new)
        try:
            RunCheckpoint.from_dict(given)
            said = ""
        except BadArgument as error:
            said = str(error)

        if not any(one in said for one in TOGETHER):
            assert schema.is_valid({path[0]: given[path[0]]}) is (not said), (path, new, said)


def test_the_schema_has_every_field() -> None:
    """What the code writes and what the schema names are the same, at the top and within."""
    assert set(small_checkpoint().as_dict()) == set(SCHEMA["properties"]) == set(SCHEMA["required"])
    for name, one in SCHEMA["$defs"].items():
        assert set(one.get("required", ())) == set(one.get("properties", ())), name
