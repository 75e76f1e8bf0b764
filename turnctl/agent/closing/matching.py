"""Which result belongs to which call, where a history has them in any order, twice, or not at all.

A result belongs to the latest call before it that has its id and no result yet; of two calls by one id in one message
the first takes the first. A result before its call answers nothing: ids come again, and it may be of a call that was
cut away. Of two results the first counts, unless turnctl made it up: then what came later is evidence.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from turnctl.records.messages import STATUS_WORDS

__all__ = ["Calls", "Place", "ResultAt", "is_made_up", "match"]

_MADE_UP = frozenset(STATUS_WORDS[status] for status in ("not_started", "cancelled_unknown", "unknown"))


class Place(NamedTuple):
    """Where something stands: the item, and the place within it."""

    item: int
    n: int


class Calls(NamedTuple):
    """The calls of one message, by their keys in order."""

    item: int
    keys: tuple[Hashable, ...]


class ResultAt(NamedTuple):
    """One result, the key that it names, and whether it was made up."""

    at: Place
    key: Hashable
    is_made_up: bool = False


def is_made_up(text: object) -> bool:
    """Whether a result with this text says only that nothing is known, in turnctl's own words."""
    return isinstance(text, str) and text in _MADE_UP


def match(events: Iterable[Calls | ResultAt]) -> dict[Place, Place]:
    """The place of its result for each call that has one."""
    waiting: dict[Hashable, list[list[Place]]] = {}
    made_up: dict[Hashable, Place] = {}
    found: dict[Place, Place] = {}
    for event in events:
        if isinstance(event, Calls):
            batches: dict[Hashable, list[Place]] = {}
            for n, key in enumerate(event.keys):
                batches.setdefault(key, []).append(Place(event.item, n))
            for key, batch in batches.items():
                waiting.setdefault(key, []).append(batch)
                made_up.pop(key, None)
        elif event.key in made_up and not event.is_made_up:
            found[made_up.pop(event.key)] = event.at
        elif stack := waiting.get(event.key):
            call = stack[-1].pop(0)
            if not stack[-1]:
                stack.pop()
            found[call] = event.at
            if event.is_made_up:
                made_up[event.key] = call
    return found
