"""Where a program is stopped: at a checkpoint of its own, at a line of its output, after a while. Values only."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from turnctl.clock import format_duration

__all__ = ["Checkpoint", "Delay", "Line", "Place", "chosen_checkpoints", "chosen_moments"]

#: of a program without turns so many moments are tried besides its lines
_DELAYS = 3


def short(file: str) -> str:
    """From where a person stands."""
    return file.removeprefix(os.getcwd().rstrip("/") + "/")


class Checkpoint(NamedTuple):
    """The ``nth`` arrival at a line of the program."""

    file: str
    line: int
    function: str
    nth: int

    def __str__(self) -> str:
        text = f"{short(self.file)}:{self.line} in {self.function}"
        return text if self.nth == 1 else f"{text} (arrival {self.nth})"

    @property
    def said(self) -> str:
        return f"at {self}"

    def as_dict(self) -> dict[str, Any]:
        return {"kind": "checkpoint", **self._asdict()}


class Line(NamedTuple):
    """When the program has written so many lines."""

    number: int

    def __str__(self) -> str:
        return f"after line {self.number}"

    @property
    def said(self) -> str:
        return str(self)

    def as_dict(self) -> dict[str, Any]:
        return {"kind": "line", "number": self.number}


class Delay(NamedTuple):
    """So long after its start."""

    seconds: float

    def __str__(self) -> str:
        return f"after {format_duration(round(self.seconds, 3))}" if self.seconds else "at its start"

    @property
    def said(self) -> str:
        return str(self)

    def as_dict(self) -> dict[str, Any]:
        return {"kind": "delay", "seconds": round(self.seconds, 3)}


Place = Checkpoint | Line | Delay


def chosen_checkpoints(seen: Sequence[Checkpoint], most: int, seed: int) -> Sequence[Checkpoint]:
    """At most so many of them, in their order: each line of the program before any is tried again."""
    if len(seen) <= most:
        return seen
    first, again = ([n for n, one in enumerate(seen) if (one.nth > 1) is later] for later in (False, True))
    chance = random.Random(seed)  # noqa: S311 - the same in every trial
    taken = sorted(chance.sample(first, most)) if len(first) > most else first
    taken += chance.sample(again, min(len(again), most - len(taken)))
    return [seen[n] for n in sorted(taken)]


def chosen_moments(lines: int, lasted_s: float, most: int, seed: int) -> Sequence[Place]:
    """At most so many moments of a program that lasted so long and wrote so many lines: its start, lines, delays."""
    chance = random.Random(seed)  # noqa: S311 - the same in every trial
    delays = [Delay(round(chance.uniform(0, lasted_s), 3)) for _ in range(_DELAYS)]
    if most <= _DELAYS:
        return [Delay(0.0), *sorted(delays)][:most]
    room = most - 1 - _DELAYS
    numbers = list(range(1, lines + 1))
    if len(numbers) > room:
        numbers = sorted(chance.sample(numbers, room))
    return [Delay(0.0), *map(Line, numbers), *sorted(delays)]
