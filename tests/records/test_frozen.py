"""Records are what ``attrs.frozen`` would have made of them, and attrs is loaded only when it is asked about one."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
import weakref
from typing import Any

import attrs
import pytest

from turnctl.records.frozen import as_plain, evolve, frozen


def described(make: Any) -> Any:
    @make
    class Point:
        """A place."""

        x: int
        _hidden: str = "h"
        rest: tuple[Any, ...] = ()

        @property
        def both(self) -> tuple[int, str]:
            return self.x, self._hidden

    return Point


OURS, THEIRS = described(frozen), described(attrs.frozen)


@frozen
class Pair:
    """Two of anything."""

    left: Any
    right: Any = None


@frozen(eq=False)
class Event:
    """Equal to itself alone."""

    name: str


@pytest.mark.parametrize(
    "ask",
    [
        lambda cls: str(inspect.signature(cls)),
        lambda cls: cls.__init__.__annotations__,
        lambda cls: cls.__match_args__,
        lambda cls: cls.__slots__,
        lambda cls: (cls.__name__, cls.__qualname__, cls.__module__, cls.__doc__),
        lambda cls: [(a.name, a.default, a.type) for a in attrs.fields(cls)],
        lambda cls: repr(cls(1, rest=(2,))),
        lambda cls: attrs.asdict(cls(1, hidden="x", rest=(cls(2),))),
        lambda cls: repr(attrs.evolve(cls(1), x=3)),
        lambda cls: (cls(1) == cls(1), cls(1) != cls(2), cls(1) == object(), hash(cls(1)) == hash(cls(1))),
        lambda cls: cls(5, "y").both,
    ],
)
def test_record_is_as_attrs_makes_it(ask: Any) -> None:
    """Signature, fields, text, comparison, and what attrs does with an instance are the same."""

    assert ask(THEIRS) == ask(OURS)


@pytest.mark.parametrize("args", [(), (1, "h", (), 4), (1, "h", (), ())])
def test_wrong_arguments_are_a_type_error(args: tuple[Any, ...]) -> None:
    """Too few or too many, as in any call."""
    with pytest.raises(TypeError, match=r"__init__\(\)"):
        OURS(*args)


@pytest.mark.parametrize("change", [lambda r: setattr(r, "left", 2), lambda r: delattr(r, "left"),
                                    lambda r: setattr(r, "other", 2)])  # fmt: skip
def test_record_cannot_be_changed(change: Any) -> None:
    """The error is the one of attrs, an ``AttributeError``."""
    record = Pair(1)
    with pytest.raises(attrs.exceptions.FrozenInstanceError, match="can't set attribute"):
        change(record)

    assert Pair(1) == record


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_record_is_pickled_and_copied(protocol: int) -> None:
    """What comes out is equal to what went in."""
    record = Pair((1, 2), Pair("x"))

    assert record == pickle.loads(pickle.dumps(record, protocol))
    assert (record, record) == (copy.copy(record), copy.deepcopy(record))


def test_record_has_slots_and_weak_references() -> None:
    """No dict, and it may be referred to weakly."""
    record = Pair(1)

    assert record is weakref.ref(record)()
    assert not hasattr(record, "__dict__")


def test_record_without_equality_is_itself() -> None:
    """With ``eq=False`` two records with the same values are two."""
    assert Event("a") != Event("a")
    assert 2 == len({Event("a"), Event("a")})


def test_plain_values_are_for_json() -> None:
    """Records become dicts, tuples lists, however deep."""
    assert {"left": [1, {"left": 2, "right": None}], "right": [[3]]} == as_plain(Pair((1, Pair(2)), ((3,),)))


def test_evolved_record_differs_in_what_was_changed() -> None:
    """The others are kept, and a field that there is not is refused."""
    assert Pair(1, 3) == evolve(Pair(1, 2), right=3)
    with pytest.raises(TypeError, match="middle"):
        evolve(Pair(1), middle=2)


def test_attrs_is_loaded_when_it_is_asked() -> None:
    """Records are made, shown, compared and changed without it."""
    code = (
        "import sys, turnctl.records.report, turnctl.records.diagnosis\n"
        "from turnctl.records.process import ProcessOutcome as P\n"
        "a = P(1, ('x',)); a.handed_over('t').as_dict(); repr(a); hash(a); assert a == P(1, ('x',))\n"
        "assert not {'attr', 'attrs'} & set(sys.modules), 'before'\n"
        "import attrs; assert attrs.has(P) and attrs.fields(P).pid.type == 'int | None'"
    )
    ended = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)

    assert (0, "") == (ended.returncode, ended.stderr)
