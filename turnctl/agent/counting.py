"""What a reply used, as far as it can be counted: what a model tells of that is looked at before it is believed.

A count that is none (negative, NaN, infinite, a bool, a text of something else) counts for nothing, and a note says so:
it takes nothing away from what was counted before, and the reply is not lost for it. What is told again and again while
a reply comes is told in sum, so the highest counts: a last zero takes nothing back either.

Pure, but for ``Tally``, which is for one thread.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from turnctl.agent.members import get
from turnctl.records.replies import Reply, Usage
from turnctl.spelling import described, visible

__all__ = ["Tally", "counted", "priced"]

_TOKENS = ("input_tokens", "output_tokens", "cached_tokens")
_MOST = 10**12  # tokens that one reply can have; more is no count
_PLAIN = (str, bytes, int, float, list, tuple)  # has no members that could be counted
_LONGEST = 40  # of a number as text, and of what a note shows


def _amount(value: Any) -> float | int | None:
    """``value`` as a number of 0 or more; None if it is none."""
    if isinstance(value, bool):
        return None
    try:
        if isinstance(value, str):
            value = float(value) if len(value) <= _LONGEST else None
        found = float(value) if isinstance(value, (float, Decimal, Fraction)) else operator.index(value)
        return found if math.isfinite(found) and found >= 0 else None
    except (TypeError, ValueError, ArithmeticError):
        return None


def _tokens(value: Any) -> int | None:
    """``value`` as a number of tokens, part of one being one; None if it is none."""
    found = _amount(value)
    return None if found is None or found > _MOST else math.ceil(found)


class Tally:
    """The counts of one reply by their names on the wire, and what was told there that is none."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._notes: dict[str, None] = {}

    def add(self, told: Any, *names: str, of: str = "usage") -> None:
        """Count what ``told`` has by these names; what is missing or None is not told."""
        if isinstance(told, _PLAIN):
            self._notes[_nonsense(told, of, "none and counts for nothing")] = None
            return
        for name in names:
            value = get(told, name)
            if value is None:
                continue
            found = _tokens(value)
            if found is None:
                self._notes[_nonsense(value, name, "no number of tokens and counts for nothing")] = None
            else:
                self._counts[name] = max(found, self._counts.get(name, 0))

    def __getitem__(self, name: str) -> int:
        return self._counts.get(name, 0)

    def __contains__(self, name: str) -> bool:
        return name in self._counts

    @property
    def is_told(self) -> bool:
        """Whether anything could be counted."""
        return bool(self._counts)

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not."""
        return tuple(self._notes)


def counted(reply: Reply) -> Reply:
    """``reply`` with a usage that can be added up; its notes say what of that could not be counted."""
    given: Any = reply.usage
    if given is None or (type(given) is Usage and _is_sound(given)):
        return reply
    tally = Tally()
    tally.add(given, *_TOKENS)
    notes = list(tally.notes)
    told = get(given, "cost")
    cost = _cost(told)
    if told is not None and cost is None:
        notes.append(_nonsense(told, "cost", "none: what it cost is not known"))
    is_known = tally.is_told or cost is not None
    usage = Usage(tally["input_tokens"], tally["output_tokens"], tally["cached_tokens"], cost) if is_known else None
    return reply.counted(usage, notes)


def priced(reply: Reply, price: Callable[[Usage], float] | None) -> Reply:
    """The same with what its tokens cost, as ``price`` says; a price that fails or is none is noted."""
    if price is None or reply.usage is None:
        return reply
    try:
        return counted(reply.priced(price))
    except Exception as error:  # noqa: BLE001 - the reply has been paid for: it is not lost for what it cost
        return reply.counted(reply.usage, [f"what a reply cost is not known: price() failed ({described(error)})"])


def _is_sound(usage: Usage) -> bool:
    counts = (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
    if not all(type(one) is int and 0 <= one <= _MOST for one in counts):
        return False
    return usage.cost is None or (type(usage.cost) in (int, float) and _amount(usage.cost) is not None)


def _cost(value: Any) -> float | None:
    found = _amount(value)
    try:
        return None if found is None else float(found)
    except OverflowError:
        return None


def _nonsense(value: Any, name: str, what: str) -> str:
    try:
        shown = visible(repr(value))
    except Exception:  # noqa: BLE001 - its own ``__repr__`` is somebody else's code; its class is left
        shown = type(value).__name__
    shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
    return f"a reply told {shown} as its {name}, which is {what}"
