"""What a conversation with a model is made of, whatever shape it has on a wire: messages, their parts, their marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast, get_args

import attrs

from turnctl.errors import BadArgument

__all__ = [
    "RESULT_STATUSES",
    "ROLES",
    "STATUS_WORDS",
    "Call",
    "Image",
    "Mark",
    "MarkKind",
    "Message",
    "Opaque",
    "Part",
    "Result",
    "ResultStatus",
    "Role",
    "Text",
]

Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = get_args(Role)

#: What became of a call, as far as it was seen. ``unknown`` is one that nobody stopped and whose outcome nobody saw: it
#: outlived its time and was left behind, or the process was lost.
ResultStatus = Literal["completed", "failed", "denied", "not_started", "cancelled_unknown", "unknown"]
RESULT_STATUSES: tuple[ResultStatus, ...] = get_args(ResultStatus)

#: What a result that has no content of its own tells the model.
STATUS_WORDS: dict[ResultStatus, str] = {
    "completed": "done, with no output",
    "failed": "failed",
    "denied": "denied: it was not carried out",
    "not_started": "stopped before it started: it was not carried out",
    "cancelled_unknown": "cancelled, outcome unknown: it may have been carried out, in part or wholly",
    "unknown": "outcome unknown: it may have been carried out, in part or wholly",
}

#: ``partial``: a reply that was cut; ``unanswered``: a reply none of whose calls was started; ``discarded``: taken out
#: of the feed, as a run is that the window cannot hold; ``closing``: made by turnctl, not by the model or a tool;
#: ``compacted``: it stands for others that were taken out of the feed. The first three are in no feed.
MarkKind = Literal["partial", "unanswered", "discarded", "closing", "compacted"]
_NOT_FED = frozenset({"partial", "unanswered", "discarded"})


@attrs.frozen
class Text:
    """Plain text."""

    text: str = attrs.field(validator=attrs.validators.instance_of(str))


@attrs.frozen
class Image:
    """A picture: ``data`` in base64 with its ``media_type``, or the ``url`` where it is."""

    data: str | None = None
    media_type: str = "image/png"
    url: str | None = None

    def __attrs_post_init__(self) -> None:
        if (self.data is None) == (self.url is None):
            raise BadArgument("an image has data in base64 or a url, and not both")


@attrs.frozen
class Opaque:
    """A part that is passed on as it came, and to that wire alone: a thinking block with its signature, say."""

    wire: str
    value: dict[str, Any]


def _arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise TypeError(
            f"the arguments of a call are a dict, not {given!r}; text is read by json.loads, or given as raw="
        )
    return dict(given)


@attrs.frozen
class Call:
    """What the model asks for. ``raw`` is its text where that was no JSON object; ``arguments`` are empty then."""

    id: str
    name: str
    arguments: dict[str, Any] = attrs.field(factory=dict, converter=_arguments)
    raw: str | None = None


def _parts(given: str | Part | Iterable[str | Part]) -> tuple[Part, ...]:
    if type(given) is str:  # each step has several
        return (Text(given),)
    if type(given) is tuple and _EXACT.issuperset(map(type, given)):
        return given
    found: Any = (given,) if isinstance(given, (str, *_PARTS)) else given
    if not isinstance(found, Iterable) or isinstance(found, (Mapping, bytes, bytearray)):  # not its keys, nor numbers
        raise TypeError(f"what a message or a result says is text or parts in a list, not {given!r}; see json.dumps")
    parts = tuple([Text(one) if isinstance(one, str) else one for one in found])
    for one in parts:
        if not isinstance(one, _PARTS):
            names = ", ".join(kind.__name__ for kind in _PARTS)
            raise TypeError(f"a part of a message is text or one of {names}, not {one!r}")
    return cast("tuple[Part, ...]", parts)


def _content(given: str | Part | Iterable[str | Part]) -> tuple[Part, ...]:
    return _parts(given or ())


def _marks(given: Iterable[Mark]) -> tuple[Mark, ...]:
    return tuple(given)


def _text_of(parts: Iterable[object]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Text))


@attrs.frozen
class Result:
    """What became of one call. ``content`` is text, or parts; with none, ``text`` is what the status says."""

    call_id: str
    content: tuple[Part, ...] = attrs.field(default=(), converter=_content)
    status: ResultStatus = attrs.field(default="completed", validator=attrs.validators.in_(RESULT_STATUSES))
    name: str | None = None

    @property
    def text(self) -> str:
        """Its text; never empty unless it has something else to show."""
        return _text_of(self.content) or ("" if self.content else STATUS_WORDS[self.status])

    @property
    def is_error(self) -> bool:
        return self.status != "completed"


_PARTS = (Text, Image, Opaque, Call, Result)
_EXACT = frozenset(_PARTS)
Part = Text | Image | Opaque | Call | Result
_SAID: frozenset[type[Part]] = frozenset((Text, Image, Opaque))
#: what stands in a message of that role
_HOLDS: dict[Role, frozenset[type[Part]]] = {
    "system": _SAID,
    "user": _SAID,
    "assistant": _SAID | {Call},
    "tool": frozenset((Result,)),
}


@attrs.frozen
class Mark:
    """Something true of a message that its text does not say; ``by``, ``cause`` and ``reason`` are those of a stop."""

    kind: MarkKind
    cause: str | None = None
    by: str | None = None
    reason: str | None = None
    run_id: str | None = None


@attrs.frozen
class Message:
    """One message. The parts keep the order that they came in: a reply may speak between its calls.

    Calls are in messages of the assistant, results in those of the tool, and nowhere else.
    """

    role: Role = attrs.field(validator=attrs.validators.in_(ROLES))
    parts: tuple[Part, ...] = attrs.field(default=(), converter=_parts)
    marks: tuple[Mark, ...] = attrs.field(default=(), converter=_marks)

    def __attrs_post_init__(self) -> None:
        if _HOLDS[self.role].issuperset(map(type, self.parts)):
            return
        for part in self.parts:
            if isinstance(part, Call) and self.role != "assistant":
                raise BadArgument(
                    f"a call ({part.name} {part.id!r}) stands in a message of the assistant, not {self.role}"
                )
            if isinstance(part, Result) != (self.role == "tool"):
                raise BadArgument(f"messages of the tool have results and nothing else, which no other has: {part!r}")

    @property
    def text(self) -> str:
        """Its text parts, together."""
        return _text_of(self.parts)

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple([part for part in self.parts if isinstance(part, Call)])

    @property
    def results(self) -> tuple[Result, ...]:
        return tuple([part for part in self.parts if isinstance(part, Result)])

    @property
    def is_text_only(self) -> bool:
        """Whether it has text and nothing else; an empty one is not."""
        return bool(self.parts) and all(isinstance(part, Text) for part in self.parts)

    @property
    def is_partial(self) -> bool:
        return bool(self.marks) and self.has("partial")

    @property
    def is_fed(self) -> bool:
        """Whether the model gets to see it."""
        return not self.marks or not any(mark.kind in _NOT_FED for mark in self.marks)

    def has(self, kind: MarkKind) -> bool:
        return any(mark.kind == kind for mark in self.marks)

    def marked(self, mark: Mark) -> Message:
        """The same with ``mark`` on it; once is enough."""
        return self if mark in self.marks else attrs.evolve(self, marks=(*self.marks, mark))

    # -- making them ------------------------------------------------------------------------------------------------

    @classmethod
    def system(cls, text: str) -> Message:
        return cls("system", text)

    @classmethod
    def user(cls, content: str | Part | Iterable[str | Part]) -> Message:
        return cls("user", content)

    @classmethod
    def assistant(cls, content: str | Part | Iterable[str | Part] = (), calls: Iterable[Call] = ()) -> Message:
        """What it says, then what it calls; an empty text is no part."""
        return cls("assistant", (*_parts(content or ()), *calls))

    @classmethod
    def tool(cls, *results: Result) -> Message:
        return cls("tool", results)

    # -- as plain values --------------------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """What JSON can hold; ``from_dict`` takes it back."""
        return {
            "role": self.role,
            "parts": [_plain(part) for part in self.parts],
            "marks": [attrs.asdict(mark) for mark in self.marks],
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Message:
        """The message that ``as_dict`` made this of; raises ``BadArgument`` for anything else."""
        try:
            parts = [_part_of(one) for one in _listed(given["parts"])]
            return cls(given["role"], parts, [Mark(**_looked_at(Mark, one)) for one in _listed(given["marks"])])
        except (KeyError, TypeError, ValueError) as error:
            raise BadArgument(f"this is no message as as_dict makes it ({error!r}): {given!r}") from error


_NAMES: dict[type[Any], str] = {Text: "text", Image: "image", Opaque: "opaque", Call: "call", Result: "result"}
_KINDS = {name: kind for kind, name in _NAMES.items()}


def _plain(part: Part) -> dict[str, Any]:
    if isinstance(part, Result):
        content = [_plain(one) for one in part.content]
        return {"kind": "result", **attrs.asdict(part, recurse=False), "content": content}
    return {"kind": _NAMES[type(part)], **attrs.asdict(part)}


#: of each hint of a field above: what JSON has for it
_HELD: dict[str, tuple[type[Any], ...]] = {
    "str": (str,),
    "str | None": (str, type(None)),
    "dict[str, Any]": (dict,),
    "tuple[Part, ...]": (list, tuple),
    "ResultStatus": (str,),
    "MarkKind": (str,),
}


def _looked_at(kind: type[Any], given: Any) -> dict[str, Any]:
    """The values for a ``kind``; raises ``TypeError`` where one is not what its field holds."""
    if not isinstance(given, Mapping):
        raise TypeError(f"a {kind.__name__.lower()} is an object, not {given!r}")
    hints = kind.__annotations__
    for name, value in given.items():
        if not isinstance(value, _HELD[hints[name]]):
            raise TypeError(f"the {name} of a {kind.__name__.lower()} is {hints[name]}, not {value!r}")
    if kind is Mark and given["kind"] not in get_args(MarkKind):
        raise ValueError(f"the kind of a mark is one of {', '.join(get_args(MarkKind))}, not {given['kind']!r}")
    return dict(given)


def _listed(given: Any) -> Iterable[Any]:
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"a list, not {given!r}")
    return given


def _part_of(given: Any) -> Part:
    if not isinstance(given, Mapping) or given.get("kind") not in _KINDS:
        raise TypeError(f"the kind of a part is one of {', '.join(_KINDS)}, not {given!r}")
    kind = _KINDS[given["kind"]]
    values = _looked_at(kind, {name: value for name, value in given.items() if name != "kind"})
    if kind is Result:
        values["content"] = [_part_of(one) for one in values["content"]]
    return cast("Part", kind(**values))
