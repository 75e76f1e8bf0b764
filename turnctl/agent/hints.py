"""Type hints as JSON schema, and JSON values as what the hints say: what a tool's parameters are made of.

``shape_of`` reads a hint once, when the tool is defined, and refuses there what JSON cannot say. Reading a value
never raises: what does not fit is a line in ``problems``, with its place, worded for the model that wrote it.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from turnctl.errors import BadArgument

__all__ = ["Field", "Shape", "field_of", "object_shape", "shape_of", "shown"]

Read = Callable[[Any, str, list[str]], Any]
_LONG = 60
_JSON_NAMES: dict[type, str] = {dict: "object", list: "array"}


class Shape(NamedTuple):
    """What a hint comes to: its schema, what to call it in a sentence, and how a value is read."""

    schema: dict[str, Any]
    name: str
    read: Read


class Field(NamedTuple):
    """One member of an object."""

    shape: Shape
    required: bool


def shown(value: Any) -> str:
    """A value from the model, at a length that can be read."""
    text = repr(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}... ({type(value).__name__})"


def shape_of(hint: Any, where: str, within: tuple[Any, ...] = ()) -> Shape:
    """What ``hint`` comes to. Raises ``BadArgument`` that names ``where`` for what JSON cannot say."""
    if isinstance(hint, typing.NewType):
        return shape_of(hint.__supertype__, where, within)
    alias = getattr(hint, "__value__", None)
    if alias is not None and type(hint).__name__ == "TypeAliasType":
        return shape_of(alias, where, within)
    if any(hint is one for one in within):
        raise BadArgument(
            f"{where} refers to itself ({_spelled(hint)}), which no schema of a tool can; use dict or str"
        )
    if (isinstance(hint, (type, type(None))) and hint in _PLAIN) or hint is Any:
        return _PLAIN[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _annotated(arguments, where, within)
    if origin in (typing.Union, types.UnionType):
        return _union([shape_of(one, where, within) for one in arguments])
    if origin is typing.Literal:
        return _one_of([(value, value) for value in arguments], where)
    if isinstance(hint, type):
        if issubclass(hint, enum.Enum):
            return _one_of([(one.value, one) for one in hint], where)
        if dataclasses.is_dataclass(hint):
            return _dataclass(hint, where, (*within, hint))
        if hasattr(hint, "__required_keys__"):  # typing.is_typeddict does not know those of typing_extensions
            return _typed_dict(hint, where, (*within, hint))
    found = _container(origin or hint, arguments, where, within)
    if found is None:
        raise BadArgument(
            f"{where} has the hint {_spelled(hint)}, which cannot be told to a model; use str, int, float, bool, None, "
            "Any, Literal, an Enum, list, tuple, dict, Optional, Union, a dataclass or a TypedDict of such"
        )
    return found


def _spelled(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint).replace("typing.", "")


# -- plain ones ---------------------------------------------------------------------------------------------------


def _typed(name: str, article: str, fits: Callable[[Any], bool], make: Callable[[Any], Any] | None = None) -> Shape:
    def read(value: Any, place: str, problems: list[str]) -> Any:
        if fits(value):
            return value if make is None else make(value)
        problems.append(f"{place} has to be {article}, not {shown(value)}")
        return None

    return Shape({"type": name}, article, read)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _fits_a_float(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, float) or abs(value) <= sys.float_info.max)


def _is_integer(value: Any) -> bool:
    return type(value) is int or (_is_number(value) and (isinstance(value, int) or value.is_integer()))


_STRING = _typed("string", "a string", lambda value: isinstance(value, str))
_NULL = _typed("null", "null", lambda value: value is None)
_PLAIN: Mapping[Any, Shape] = {
    str: _STRING,
    int: _typed("integer", "an integer", _is_integer, int),
    float: _typed("number", "a number", _fits_a_float, float),
    bool: _typed("boolean", "true or false", lambda value: isinstance(value, bool)),
    None: _NULL,
    type(None): _NULL,
    Any: Shape({}, "anything", lambda value, _place, _problems: value),
}


def _annotated(arguments: tuple[Any, ...], where: str, within: tuple[Any, ...]) -> Shape:
    found = shape_of(arguments[0], where, within)
    said = next((one for one in arguments[1:] if isinstance(one, str)), None)
    return found if said is None else found._replace(schema={**found.schema, "description": said})


def _one_of(given: Sequence[tuple[Any, Any]], where: str) -> Shape:
    """One of some scalars, each with what it stands for; 1 and True are two."""
    for value, _ in given:
        if not isinstance(value, (str, int, float, bool, type(None))):
            raise BadArgument(f"{where} has the choice {value!r}, which JSON cannot say; use text, numbers or None")
    name = f"one of {', '.join(shown(value) for value, _ in given)}"

    def read(value: Any, place: str, problems: list[str]) -> Any:
        for one, stands_for in given:
            if type(one) is type(value) and one == value:
                return stands_for
        problems.append(f"{place} has to be {name}, not {shown(value)}")
        return None

    kinds = {type(value): _PLAIN[type(value)].schema["type"] for value, _ in given}
    schema: dict[str, Any] = {"enum": [value for value, _ in given]}
    return Shape({"type": next(iter(kinds.values())), **schema} if len(kinds) == 1 else schema, name, read)


def _union(members: Sequence[Shape]) -> Shape:
    name = " or ".join(dict.fromkeys(one.name for one in members))

    def read(value: Any, place: str, problems: list[str]) -> Any:
        closest: list[str] | None = None
        for one in members:
            found: list[str] = []
            result = one.read(value, place, found)
            if not found:
                return result
            if closest is None and one.schema.get("type") == _JSON_NAMES.get(type(value)):
                closest = found  # the right kind of thing, so what is wrong within it says more
        problems.extend(closest or [f"{place} has to be {name}, not {shown(value)}"])
        return None

    schemas = [one.schema for one in members]
    if all(set(one) == {"type"} for one in schemas):
        return Shape({"type": [one["type"] for one in schemas]}, name, read)
    return Shape({"anyOf": schemas}, name, read)


# -- containers ---------------------------------------------------------------------------------------------------


def _container(origin: Any, arguments: tuple[Any, ...], where: str, within: tuple[Any, ...]) -> Shape | None:
    if origin is tuple and arguments and not (len(arguments) == 2 and arguments[1] is Ellipsis):
        return _tuple([shape_of(one, where, within) for one in arguments if one != ()])
    if origin in (list, tuple, Sequence, Iterable):
        of = shape_of(arguments[0] if arguments else Any, where, within)
        return _list(of, tuple if origin is tuple else list)
    if origin in (dict, Mapping):
        keys, values = arguments or (str, Any)
        if keys is not str:
            raise BadArgument(f"{where} has keys of {_spelled(keys)}; those of JSON are str")
        return _dict(shape_of(values, where, within))
    return None


def _list(of: Shape, make: Callable[[list[Any]], Any]) -> Shape:
    def read(value: Any, place: str, problems: list[str]) -> Any:
        if not isinstance(value, list):
            problems.append(f"{place} has to be a list, not {shown(value)}")
            return None
        return make([of.read(one, f"{place}[{n}]", problems) for n, one in enumerate(value)])

    return Shape({"type": "array", "items": of.schema}, "a list", read)


def _tuple(members: Sequence[Shape]) -> Shape:
    count = len(members)

    def read(value: Any, place: str, problems: list[str]) -> Any:
        if not isinstance(value, list) or len(value) != count:
            problems.append(f"{place} has to be a list of {count}, not {shown(value)}")
            return None
        pairs = enumerate(zip(members, value, strict=True))
        return tuple(member.read(one, f"{place}[{n}]", problems) for n, (member, one) in pairs)

    schema = {"type": "array", "prefixItems": [one.schema for one in members], "minItems": count, "maxItems": count}
    return Shape(schema, f"a list of {count}", read)


def _dict(of: Shape) -> Shape:
    def read(value: Any, place: str, problems: list[str]) -> Any:
        if not isinstance(value, dict):
            problems.append(f"{place} has to be an object, not {shown(value)}")
            return None
        return {key: of.read(one, f"{place}.{key}", problems) for key, one in value.items()}

    return Shape({"type": "object", "additionalProperties": of.schema}, "an object", read)


def object_shape(fields: Mapping[str, Field], make: Callable[[dict[str, Any]], Any]) -> Shape:
    """An object of just these members, from which ``make`` makes the value; it is not called if any does not fit."""
    names = frozenset(fields)
    required = [name for name, field in fields.items() if field.required]

    def read(value: Any, place: str, problems: list[str]) -> Any:
        if not isinstance(value, dict):
            problems.append(f"{place or 'the whole'} has to be an object, not {shown(value)}")
            return None
        before = len(problems)
        prefix = f"{place}." if place else ""
        if value.keys() != names:
            problems.extend(f"{prefix}{name} is missing" for name in required if name not in value)
            if unknown := [name for name in value if name not in names]:
                known = f"it takes {', '.join(fields)}" if fields else "it takes nothing"
                problems.extend(f"{prefix}{name} is not known; {known}" for name in unknown)
        made = {
            name: field.shape.read(value[name], f"{prefix}{name}", problems)
            for name, field in fields.items()
            if name in value
        }
        if len(problems) > before:
            return None
        try:
            return make(made)
        except Exception as error:  # noqa: BLE001 - the host's own class does not take these values
            problems.append(f"{place or 'the whole'} is not taken: {error}")
            return None

    properties = {name: field.shape.schema for name, field in fields.items()}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return Shape(schema, "an object", read)


def field_of(hint: Any, where: str, default: Any, within: tuple[Any, ...] = ()) -> Field:
    """A member; one without a default (``dataclasses.MISSING``) is required, a plain default stands in the schema."""
    shape = shape_of(hint, where, within)
    if default is dataclasses.MISSING:
        return Field(shape, required=True)
    told = default.value if isinstance(default, enum.Enum) else default
    if isinstance(told, (str, int, float, bool, type(None))) or (isinstance(told, (list, dict)) and not told):
        shape = shape._replace(schema={**shape.schema, "default": told})
    return Field(shape, required=False)


def _dataclass(hint: Any, where: str, within: tuple[Any, ...]) -> Shape:
    hints = typing.get_type_hints(hint, include_extras=True)
    fields = {}
    for one in dataclasses.fields(hint):
        if one.init:
            # what a factory makes is not told to the model: it may be another each time
            is_made = one.default_factory is not dataclasses.MISSING
            field = field_of(hints[one.name], f"{where}.{one.name}", one.default, within)
            fields[one.name] = field._replace(required=False) if is_made else field
    return object_shape(fields, lambda made: hint(**made))


def _typed_dict(hint: Any, where: str, within: tuple[Any, ...]) -> Shape:
    fields = {}
    for name, one in typing.get_type_hints(hint, include_extras=True).items():
        bare, required = one, name in hint.__required_keys__
        while (origin := typing.get_origin(bare)) in (typing.Required, typing.NotRequired):
            bare, required = typing.get_args(bare)[0], origin is typing.Required
        fields[name] = Field(shape_of(bare, f"{where}.{name}", within), required)
    return object_shape(fields, dict)
