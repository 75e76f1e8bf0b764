"""What makes a class a record: frozen, with slots, and to attrs one of its own; made without loading attrs.

attrs takes longer to load than all of this package together, and most programs never ask a record what attrs can tell
of it. So the class is built here, as ``attrs.frozen`` builds it, and what attrs wants to know is made when it asks:
``attrs.fields``, ``attrs.asdict``, ``attrs.evolve`` and ``attrs.has`` work as on any class of it.

Supported is what the records need: annotated fields, plain defaults, ``eq=False`` and ``repr=False``. No factories,
validators, converters, base classes or ``super()`` without arguments.
"""

from __future__ import annotations

from operator import attrgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from attrs import frozen

    Record = TypeVar("Record")
else:

    def frozen(cls=None, *, eq=True, repr=True):
        """The class as a record. Its fields are what it annotates, in that order."""
        if cls is None:
            return lambda cls: _record(cls, eq, repr)
        return _record(cls, eq, repr)


__all__ = ["as_dict", "as_plain", "evolve", "frozen"]


def evolve(record: Record, **changes: Any) -> Record:
    """The same record with some fields changed; for records without private fields."""
    return type(record)(**{**as_dict(record), **changes})


def as_dict(record: Any) -> dict[str, Any]:
    """The fields by name; what they hold is left as it is."""
    return {name: getattr(record, name) for name in record.__match_args__}


def as_plain(record: Any) -> dict[str, Any]:
    """The fields by name as values for JSON: records become dicts, tuples lists."""
    return {name: _plain(value) for name, value in as_dict(record).items()}


def _plain(value: Any) -> Any:
    if "__attrs_attrs__" in vars(type(value)):
        return as_plain(value)
    return [_plain(one) for one in value] if isinstance(value, (tuple, list)) else value


class _Described:
    """``__attrs_attrs__``, by which attrs knows a class for its own: made when somebody asks for it."""

    __slots__ = ("_fields",)

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def __get__(self, _: object, owner: type) -> Any:
        import attrs

        body = {"__annotations__": owner.__annotations__, "__module__": owner.__module__, **self._fields}
        made: Any = attrs.frozen(type(owner.__name__, (), body))
        owner.__attrs_attrs__ = made.__attrs_attrs__  # type: ignore[attr-defined]
        return made.__attrs_attrs__


def _record(cls: type, eq: bool, has_repr: bool) -> type:
    names = tuple(cls.__annotations__)
    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    defaults = {name: body.pop(name) for name in names if name in body}
    body |= {
        "__slots__": (*names, "__weakref__"),
        "__qualname__": cls.__qualname__,
        "__match_args__": names,
        "__attrs_attrs__": _Described(defaults),
        "__setattr__": _refuse,
        "__delattr__": _refuse,
        "__getstate__": as_dict,
        "__setstate__": _set_state,
    }
    if has_repr:
        body["__repr__"] = _repr
    if eq:
        values = attrgetter(*names)
        body["__eq__"], body["__hash__"] = _comparing(values)
    made = type(cls)(cls.__name__, cls.__bases__, body)
    made.__init__ = _init_of(made, names, defaults)  # type: ignore[misc]
    return made


def _init_of(cls: type, names: tuple[str, ...], defaults: dict[str, Any]) -> Callable[..., None]:
    """``__init__``, which takes the fields in order or by name, without the underscore of a private one."""
    known: dict[str, Any] = {"defaults": defaults}
    known |= {f"set_{name}": vars(cls)[name].__set__ for name in names}
    given = {name: name.lstrip("_") for name in names}
    takes = ", ".join(f"{given[n]}=defaults[{n!r}]" if n in defaults else given[n] for n in names)
    sets = "".join(f"\n    set_{n}(self, {given[n]})" for n in names)
    exec(f"def __init__(self, {takes}):{sets}", known)  # noqa: S102 - of our own names alone
    made: Any = known["__init__"]
    made.__module__, made.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    made.__annotations__ = {given[n]: kind for n, kind in cls.__annotations__.items()} | {"return": None}
    return made  # type: ignore[no-any-return]


def _comparing(values: Callable[[Any], Any]) -> tuple[Callable[..., Any], Callable[..., int]]:
    def equal(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: Any) -> int:
        return hash(values(self))

    return equal, hashed


def _repr(self: Any) -> str:
    fields = ", ".join(f"{name}={value!r}" for name, value in as_dict(self).items())
    return f"{type(self).__qualname__.rsplit('>.', 1)[-1]}({fields})"


def _refuse(_: object, *__: object) -> None:
    from attrs.exceptions import FrozenInstanceError

    raise FrozenInstanceError


def _set_state(self: Any, state: dict[str, Any]) -> None:
    for name, value in state.items():
        getattr(type(self), name).__set__(self, value)
