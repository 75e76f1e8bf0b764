"""A tool is a plain function: its hints are the schema, what does not fit is told, and effects are gated."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

import pytest

import turnctl
from turnctl.agent.contents import parts_of
from turnctl.agent.docstrings import told_of
from turnctl.agent.messages import STATUS_WORDS, Call, Image, Result, Text
from turnctl.agent.tools import Acts, Tool, digest_of, tool
from turnctl.errors import BadArgument, BadCall, BadDuration, CancelledError


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


class Unbound:
    def __call__(self, a: int) -> None:
        """Look."""


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.5
    tags: list[str] = dataclasses.field(default_factory=list)


class Options(TypedDict):
    deep: bool
    limit: NotRequired[int]


def paint(
    name: Annotated[str, "what to paint"],
    colour: Colour,
    at: Point,
    options: Options,
    mode: Literal["fast", "slow"] = "fast",
    sizes: tuple[int, ...] = (),
    box: tuple[int, str] | None = None,
    extra: dict[str, float] | None = None,
    anything: Any = None,
    owner: Optional[int] = None,  # noqa: UP045 - the older spelling is a hint as well
) -> str:
    """Paint something.

    It takes a while.

    Args:
        colour: the colour of it
        at (Point): where it is,
            from the corner
        mode: how
    """
    return f"{name} {colour.name} {at.x},{at.y} {sorted(options)} {mode} {sizes} {box} {extra} {anything} {owner}"


def given(**arguments: Any) -> Call:
    return Call("c1", "t", arguments)


GOOD = {"name": "door", "colour": "red", "at": {"x": 1}, "options": {"deep": True}}


def test_schema_is_derived() -> None:
    """Each kind of hint has its place in the schema, with defaults, and what is said of it."""
    made = Tool(paint)
    properties = made.schema["properties"]

    assert ("paint", "Paint something.\n\nIt takes a while.") == (made.name, made.description)
    assert ["name", "colour", "at", "options"] == made.schema["required"]
    assert made.schema["additionalProperties"] is False
    assert {"type": "string", "description": "what to paint"} == properties["name"]
    assert {"enum": ["red", 2], "description": "the colour of it"} == properties["colour"]
    assert "where it is, from the corner" == properties["at"]["description"]
    assert {"x": {"type": "integer"}, "y": {"type": "number", "default": 0.5}} == {
        name: schema for name, schema in properties["at"]["properties"].items() if name != "tags"
    }
    assert ["x"] == properties["at"]["required"]
    assert ["deep"] == properties["options"]["required"]
    assert {"type": "string", "enum": ["fast", "slow"], "default": "fast", "description": "how"} == properties["mode"]
    assert {"type": "array", "items": {"type": "integer"}} == properties["sizes"]
    assert {"type": ["integer", "null"], "default": None} == properties["owner"]
    assert "anyOf" in properties["box"]
    assert {"default": None} == properties["anything"]
    json.dumps(made.schema)


def test_arguments_become_what_the_hints_say() -> None:
    """The function gets an Enum, a dataclass, a tuple; what the model left out is the function's own default."""
    call = given(**GOOD, sizes=[1, 2.0], box=[1, "a"], extra={"k": 1}, owner=None)

    assert "door RED 1,0.5 ['deep'] fast (1, 2) (1, 'a') {'k': 1.0} None None" == Tool(paint).invoke(call).value


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "name is missing; colour is missing; at is missing; options is missing"),
        ({**GOOD, "name": 3}, "name has to be a string, not 3"),
        ({**GOOD, "colour": "green"}, "colour has to be one of 'red', 2, not 'green'"),
        ({**GOOD, "at": {"x": True}}, "at.x has to be an integer, not True"),
        ({**GOOD, "at": {"x": 1.5}}, "at.x has to be an integer, not 1.5"),
        ({**GOOD, "at": {"x": 1, "z": 2}}, "at.z is not known; it takes x, y, tags"),
        ({**GOOD, "at": {"x": 1, "tags": ["a", 3]}}, "at.tags[1] has to be a string, not 3"),
        ({**GOOD, "at": [1]}, "at has to be an object, not [1]"),
        ({**GOOD, "options": {"limit": 1}}, "options.deep is missing"),
        ({**GOOD, "colour": 2.0}, "colour has to be one of 'red', 2, not 2.0"),
        ({**GOOD, "mode": "fasst"}, "mode has to be one of 'fast', 'slow', not 'fasst'"),
        ({**GOOD, "sizes": "12"}, "sizes has to be a list, not '12'"),
        ({**GOOD, "box": [1]}, "box has to be a list of 2, not [1]"),
        ({**GOOD, "extra": {"k": "v"}}, "extra.k has to be a number, not 'v'"),
        ({**GOOD, "extra": {"k": 10**400}}, "extra.k has to be a number, not 1000"),
        ({**GOOD, "extra": 3}, "extra has to be an object or null, not 3"),
        ({**GOOD, "surname": "x"}, "surname is not known; it takes name, colour,"),
    ],
)
def test_wrong_arguments_are_told_to_the_model(arguments: dict[str, Any], problem: str) -> None:
    """Each place that does not fit is named, nothing is called, and the text says what would fit."""
    made = Tool(paint)
    with pytest.raises(BadCall) as raised:
        made.arguments(given(**arguments))
    invoked = made.invoke(given(**arguments), began=lambda: pytest.fail("it was called"))

    assert problem in "; ".join(raised.value.problems)
    assert ("failed", "c1") == (invoked.result.status, invoked.result.call_id)
    assert invoked.result.text.startswith("paint was not called: ")


def test_arguments_that_are_no_json_are_told() -> None:
    """What the model cut off in the middle is not guessed at."""
    invoked = Tool(paint).invoke(Call("c1", "paint", {}, '{"name": "do'))

    assert 'paint was not called: its arguments are not a JSON object: {"name": "do' == invoked.result.text
    assert isinstance(invoked.error, BadCall)


class Itself(TypedDict):
    inner: list[Itself]


def untyped(x) -> None: ...  # type: ignore[no-untyped-def]
def starred(*x: int) -> None: ...
def keyed(**x: int) -> None: ...
def odd(x: complex) -> None: ...
def number_keys(x: dict[int, str]) -> None: ...
def deep(x: list[tuple[set[int], int]]) -> None: ...
def endless(x: Itself) -> None: ...
def unknown(x: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821 - that is the case
def literal(x: Literal[b"a"]) -> None: ...
async def later(x: int) -> None: ...
def many(x: int) -> Any:
    yield x


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (untyped, "parameter x of tool untyped has no type hint"),
        (
            Unbound.__call__,
            "parameter self of tool __call__ has no type hint; of a method, make the tool of the bound one",
        ),
        (starred, "takes any number"),
        (keyed, "takes any number"),
        (odd, "parameter x of tool odd has the hint complex, which cannot be told to a model; use str"),
        (number_keys, "has keys of int; those of JSON are str"),
        (deep, "has the hint set"),
        (endless, "x of tool endless.inner refers to itself (Itself)"),
        (unknown, "the hints of tool unknown cannot be read (name 'Missing' is not defined)"),
        (literal, "has the choice b'a'"),
        (later, "coroutine function"),
        (many, "is a generator"),
        (lambda x: x, "a tool's name is"),
        (Point, "made of a function"),
        ("paint", "made of a function"),
    ],
)
def test_unsupported_function_is_refused_at_once(fn: Any, said: str) -> None:
    """What a model cannot be told is an error where the tool is defined, which names the place."""
    with pytest.raises(BadArgument) as raised:
        Tool(fn)

    assert said in str(raised.value)


def test_options_are_looked_at() -> None:
    """Wrong options of a tool and of its effect are refused where they are given."""
    for wrong in ({"effect": 3}, {"name": "two words"}, {"effect": "two words"}, {"schema": {"type": "array"}}):
        with pytest.raises(BadArgument):
            Tool(print, **{"schema": {"type": "object"}, **wrong})
    with pytest.raises(BadDuration):
        Tool(paint, timeout=-1)
    with pytest.raises(BadArgument, match="unknown consequence"):
        Acts("mail.send", consequence="dire")  # type: ignore[arg-type]
    with pytest.raises(BadArgument, match="key of effect mail.send needs a function to call"):
        Acts("mail.send", key="k")  # type: ignore[arg-type]


def test_decorator_partial_method_and_object() -> None:
    """A tool is made of whatever can be called by name: each with its own hints."""

    @tool(name="half", parallel=False, timeout="5s", approval=lambda arguments: arguments["n"] > 9)
    def halve(n: int) -> float:
        """Half of it."""
        return n / 2

    @tool
    def plain(n: int, /) -> int:
        return n

    class Counter:
        """Counts."""

        def __call__(self, by: int) -> int:
            """Count on."""
            return by + 1

        def less(self, by: int) -> int:
            return by - 1

    times = functools.partial(lambda a, b: a * b, b=3)
    times.func.__annotations__.update(a=int, b=int)

    assert ("half", False, 5.0, "Half of it.") == (halve.name, halve.parallel, halve.timeout_s, halve.description)
    assert [True, False] == [halve.needs_approval({"n": n}) for n in (10, 2)]
    assert 2.5 == halve.invoke(given(n=5)).value
    assert 5 == plain.invoke(given(n=5)).value
    assert ("Counter", "Count on.", 6) == (
        (counter := Tool(Counter())).name,
        counter.description,
        counter.invoke(given(by=5)).value,
    )
    assert 4 == Tool(Counter().less).invoke(given(by=5)).value
    assert 15 == Tool(times, name="times").invoke(given(a=5)).value


def test_schema_of_the_hosts_own() -> None:
    """With a schema the hints are not read: names are looked at, values are passed as they are."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    made = Tool(lambda **given: given, name="any", schema=schema)
    shut = Tool(lambda **given: given, name="any", schema={**schema, "additionalProperties": False})

    assert {"a": "x", "b": 1} == made.invoke(given(a="x", b=1)).value
    assert "any was not called: a is missing" == made.invoke(given(b=1)).result.text
    assert "b is not known; it takes a" in shut.invoke(given(a=1, b=1)).result.text


@pytest.mark.parametrize(
    ("docstring", "description", "said"),
    [
        ("Do it.\n\nArgs:\n    x: this\n        and that\n    y (int): other\n\nReturns:\n    it: all\n", "Do it.", 2),
        ("Do it.\n\n:param x: this\n    and that\n:param int y: other\n:returns: it\n", "Do it.", 2),
        ("Do it.\n\nParameters\n----------\nx : int\n    this\n    and that\ny\n    other\n", "Do it.", 2),
        ("Notes: it is slow.\nReally.", "Notes: it is slow.\nReally.", 0),
        ("", "", 0),
    ],
    ids=["google", "sphinx", "numpy", "prose", "none"],
)
def test_docstrings_tell(docstring: str, description: str, said: int) -> None:
    """The text before the sections is the description; parameters are told in any of the three usual forms."""

    def fn() -> None: ...

    fn.__doc__ = docstring
    text, parameters = told_of(fn)

    assert description == text
    assert ({"x": "this and that", "y": "other"} if said else {}) == parameters


class Dicted:
    def as_dict(self) -> dict[str, Any]:
        return {"ok": True}


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("text", "text"),
        (None, STATUS_WORDS["completed"]),
        ("", STATUS_WORDS["completed"]),
        ({"a": [1, None, "é"]}, '{"a": [1, null, "é"]}'),
        (True, "true"),
        (Point(1), '{"x": 1, "y": 0.5, "tags": []}'),
        ([Point(1)], '[{"x": 1, "y": 0.5, "tags": []}]'),
        (Colour.BLUE, "2"),
        (Dicted(), '{"ok": true}'),
        ({3, 1}, "[1, 3]"),
        (b"text", "text"),
        (b"\xff\x00", "(2 bytes that are no text)"),
        (Path("/x"), "/x"),
        (Broken(), "(a Broken)"),
        (object, "<class 'object'>"),
    ],
    ids=lambda given: type(given).__name__,
)
def test_value_is_shown_by_the_rule(value: Any, shown: str) -> None:
    """Text as it is, nothing as "done", JSON as JSON, and all else in some way that cannot fail."""

    assert shown == Result("c1", parts_of(value)).text


def test_image_is_shown_as_one() -> None:
    """An image is a part of its own, also beside text."""
    image = Image(data="aGk=")

    assert (image,) == parts_of(image)
    assert (Text("seen:"), image) == parts_of(["seen:", image])


def test_result_is_taken_as_it_is() -> None:
    """A tool may say itself that it failed; the id of the call is put right."""
    invoked = Tool(lambda: Result("?", "disk full", "failed"), name="t", schema={"type": "object"}).invoke(given())

    assert Result("c1", "disk full", "failed", "t") == invoked.result


def test_error_of_a_tool_is_told_and_kept() -> None:
    """An exception is a failed result for the model, and there for the host; a stop passes through."""

    def broken(how: str) -> None:
        raise CancelledError("enough") if how == "stop" else ZeroDivisionError(how)

    invoked = Tool(broken).invoke(given(how="by zero"))
    with pytest.raises(CancelledError, match="enough"):
        Tool(broken).invoke(given(how="stop"))

    assert ("ZeroDivisionError: by zero", "failed") == (invoked.result.text, invoked.result.status)
    assert isinstance(invoked.error, ZeroDivisionError)


@dataclasses.dataclass
class Even:
    n: int

    def __post_init__(self) -> None:
        if self.n % 2:
            raise ValueError(f"{self.n} is odd")


def test_class_that_refuses_its_values_is_told() -> None:
    """What a dataclass of the host's own raises is a problem for the model to read."""

    def take(one: Even) -> int:
        return one.n

    assert "take was not called: one is not taken: 3 is odd" == Tool(take).invoke(given(one={"n": 3})).result.text


def test_tool_that_changes_its_arguments_changes_no_history() -> None:
    """What the model wrote stays as it was, whatever the function does to what it gets."""

    def drain(items: Any) -> int:
        items.clear()
        return 0

    call = given(items=[1, 2])
    Tool(drain).invoke(call)

    assert {"items": [1, 2]} == call.arguments


def _same(text: str) -> str:
    return text


def test_tool_is_still_a_function() -> None:
    """The host may call what it has decorated; but one that acts on the world only through the gate."""

    assert "x" == tool(_same)("x")
    with pytest.raises(BadArgument, match="acts on the world"):
        tool(effect="x.y")(_same)("x")


def test_digest_is_of_name_and_arguments() -> None:
    """The same arguments in another order have one digest; another name, value or raw text has another."""
    calls = [Call("1", "t", {"a": 1, "b": 2}), Call("2", "t", {"b": 2, "a": 1}), Call("3", "t", {"a": 1, "b": "2"})]
    others = [Call("4", "u", {"a": 1, "b": 2}), Call("5", "t", {}, "{")]
    digests = [digest_of(call) for call in (*calls, *others)]

    assert digests[0] == digests[1]
    assert 4 == len(set(digests))


# -- effects ------------------------------------------------------------------------------------------------------

SENT: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_sent() -> None:
    SENT.clear()


def send(to: str, text: str = "hi") -> str:
    SENT.append(to)
    return f"250 ok {to}"


def test_effect_passes_the_gate() -> None:
    """A tool that declares an effect is admitted and claimed first, and completed with what it gave."""
    made = Tool(send, effect=Acts("mail.send", key=lambda arguments: arguments["to"]))
    with turnctl.turn() as turn:
        invoked = made.invoke(given(to="ann"), turn)
    (record,) = turn.report.effects

    assert ("250 ok ann", "completed", ["ann"]) == (invoked.result.text, invoked.result.status, SENT)
    assert ("mail.send", "ann", "completed", "250 ok ann") == (
        record.kind,
        record.key,
        record.disposition,
        record.receipt,
    )


def test_effect_is_done_once() -> None:
    """The same call again is not done again: the model is told the receipt of the first."""
    made = Tool(send, effect="mail.send")
    with turnctl.turn() as turn:
        first = made.invoke(given(to="ann"), turn).result
        second = made.invoke(Call("c2", "t", {"to": "ann"}), turn, began=lambda: pytest.fail("called")).result
        made.invoke(Call("c3", "t", {"to": "bob"}), turn)

    assert ["ann", "bob"] == SENT
    assert ("completed", "completed") == (first.status, second.status)
    assert "it was done before, and is not done again; its receipt: 250 ok ann" == second.text
    assert "c2" == second.call_id


def test_stopped_turn_does_nothing() -> None:
    """With the turn stopped the gate is shut: nothing is called, and the stop passes through."""
    made = Tool(send, effect="mail.send")
    with turnctl.turn() as turn:
        turn.cancel("enough")
        made.invoke(given(to="ann"), turn, began=lambda: pytest.fail("called"))

    assert turn.cancelled
    assert [] == SENT


def test_effect_that_raises_is_unknown() -> None:
    """A tool that raises on the way leaves an unknown effect, and the model is told; it is not tried again."""

    def lost(to: str) -> None:
        raise ConnectionResetError("reset by peer")

    made = Tool(lost, effect="mail.send")
    with turnctl.turn() as turn:
        first = made.invoke(given(to="ann"), turn)
        second = made.invoke(given(to="ann"), turn, began=lambda: pytest.fail("called"))
    (record,) = turn.report.effects

    assert "ConnectionResetError: reset by peer; whether it was carried out is not known" == first.result.text
    assert ("unknown", "unknown", "unknown") == (first.result.status, second.result.status, record.disposition)
    assert second.result.text.startswith("not done: ")
    assert isinstance(first.error, ConnectionResetError)


def test_tool_may_tell_itself() -> None:
    """A tool that takes its effect has the id for the receiver, and may say what became of it."""

    def told(to: str, effect: turnctl.TurnEffect, turn: turnctl.Turn) -> str:
        turn.check()
        if to == "ann":
            effect.reject("550 no such user")
            raise LookupError("no such user")
        effect.complete("250 queued")
        if to == "bob":
            raise OSError("after all")
        return f"sent as {effect.effect_id}"

    made = Tool(told, effect="mail.send")
    with turnctl.turn() as turn:
        found = [made.invoke(Call("c", "t", {"to": to}), turn).result for to in ("ann", "bob", "cid")]
    records = turn.report.effects

    assert ["to"] == list(made.schema["properties"])
    assert ["failed", "completed", "completed"] == [one.status for one in found]
    assert ["rejected", "completed", "completed"] == [one.disposition for one in records]
    assert "it was done; afterwards it raised OSError: after all" == found[1].text
    assert f"sent as {records[2].effect_id}" == found[2].text


def test_tool_that_says_it_failed_completes_nothing() -> None:
    """A result that is no success is no receipt: the effect stays unknown."""
    made = Tool(lambda: Result("?", "half done", "failed"), name="t", schema={"type": "object"}, effect="x.y")
    with turnctl.turn() as turn:
        made.invoke(given(), turn)

    assert "unknown" == turn.report.effects[0].disposition


def test_receipt_that_cannot_be_kept_is_told() -> None:
    """The function came back and its receipt was not taken: the model learns both, and nothing is called completed."""
    made = Tool(send, effect=Acts("mail.send", receipt=lambda value: None))
    with turnctl.turn() as turn:
        found = made.invoke(given(to="ann"), turn).result

    assert ("unknown", ["ann"]) == (found.status, SENT)
    assert found.text.startswith("it came back (250 ok ann), and that could not be recorded: BadArgument: ")
    assert "unknown" == turn.report.effects[0].disposition


def test_effect_needs_a_turn() -> None:
    """A tool that acts on the world, or takes its turn, is not called without one."""

    def turning(turn: turnctl.Turn) -> None: ...
    def acting(effect: turnctl.TurnEffect) -> None: ...

    for made in (Tool(send, effect="mail.send"), Tool(turning)):
        with pytest.raises(BadArgument, match="needs a turn"):
            made.invoke(given(to="ann") if made.name == "send" else given())
    with pytest.raises(BadArgument, match="declares no effect"):
        Tool(acting)

    assert [] == SENT


def test_key_that_cannot_be_told_calls_nothing() -> None:
    """An error in the key or the payload is a failed call, before anything was done."""
    made = Tool(send, effect=Acts("mail.send", key=lambda arguments: arguments["cc"]))
    with turnctl.turn() as turn:
        found = made.invoke(given(to="ann"), turn).result

    assert ("failed", "KeyError: 'cc'") == (found.status, found.text)
    assert [] == SENT
