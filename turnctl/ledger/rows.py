"""Rows as flat values and as text, and the chain that holds the log together.

A line of the log keeps the row that it changed as it was from then on, so that the log alone tells the state of
everything, and a row that somebody altered is found by comparing the two.

Invariant H1: the hash of a line goes over the hash before it and over each of its fields as they are stored, the body
as its very bytes. Nothing is written anew to be checked.
"""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Any

from turnctl.digest import hex_of
from turnctl.records.changes import Note, Row
from turnctl.records.effects import Effect, LedgerEvent, Receipt
from turnctl.records.tasks import (
    Cancellation,
    Child,
    Detached,
    Holder,
    Interest,
    Lease,
    OwnedActivity,
    SharedWork,
    Task,
)
from turnctl.records.turns import TurnRecord

__all__ = [
    "FIRST_HASH",
    "KEYS",
    "KINDS",
    "OF_INCARNATION",
    "chained",
    "fields_of",
    "key_of",
    "make",
    "name_of",
    "text_of",
    "values_of",
    "verify_chain",
]

FIRST_HASH = "0" * 64

KINDS: dict[str, type[Any]] = {
    "task": Task,
    "cancellation": Cancellation,
    "lease": Lease,
    "activity": OwnedActivity,
    "child": Child,
    "shared": SharedWork,
    "interest": Interest,
    "detached": Detached,
    "effect": Effect,
    "receipt": Receipt,
    "turn": TurnRecord,
}
_NAMES = {kind: name for name, kind in KINDS.items()}
#: which fields tell one row of a kind from another
KEYS: dict[str, tuple[str, ...]] = {
    "task": ("inc",),
    "cancellation": ("inc",),
    "lease": ("inc",),
    "activity": ("inc", "ref"),
    "child": ("parent_inc", "child_inc"),
    "shared": ("shared_id",),
    "interest": ("shared_id", "inc"),
    "detached": ("from_inc", "ref"),
    "effect": ("effect_id",),
    "receipt": ("effect_id", "body_sha"),
    "turn": ("turn_id",),
}
#: how the rows of a kind that belong to an incarnation are asked for; shared work belongs to all who share it
OF_INCARNATION = {kind: "inc = ?" for kind in KINDS if kind != "shared"} | {
    "child": "parent_inc = ?",
    "detached": "from_inc = ?",
    "receipt": "effect_id IN (SELECT effect_id FROM effect WHERE inc = ?)",
}
_ALL: tuple[Any, ...] = (*KINDS.values(), Holder)
_FIELDS: dict[type[Any], tuple[str, ...]] = {kind: tuple(field.name for field in kind.__attrs_attrs__) for kind in _ALL}
_HOLDER = _FIELDS[Holder]


def _plan(of: type[Any]) -> list[list[int]]:
    """Where in its values the truths stand, and where the holders."""
    types = [getattr(field.type, "__name__", field.type) for field in of.__attrs_attrs__]
    holders = ("Holder", "Holder | None")
    return [[at for at, one in enumerate(types) if one in wanted] for wanted in (("bool",), holders)]


_PLANS = {kind: _plan(of) for kind, of in KINDS.items()}
_READ = {kind: attrgetter(*_FIELDS[of]) for kind, of in KINDS.items()}


def fields_of(kind: str) -> tuple[str, ...]:
    """The names of the flat values of a row of that kind; a holder stands as one text."""
    return _FIELDS[KINDS[kind]]


def name_of(row: Row) -> str:
    """The word for its kind."""
    return _NAMES[type(row)]


def key_of(row: Row) -> tuple[str, ...]:
    """What tells it from other rows of its kind."""
    return tuple(getattr(row, name) for name in KEYS[_NAMES[type(row)]])


def values_of(row: Row) -> list[Any]:
    """Its values in the order of ``fields_of``: text, whole numbers, floats for times, None."""
    kind = _NAMES[type(row)]
    found: list[Any] = list(_READ[kind](row))
    truths, holders = _PLANS[kind]
    for at in truths:
        found[at] = int(found[at])
    for at in holders:
        if found[at] is not None:
            found[at] = json.dumps([getattr(found[at], one) for one in _HOLDER])
    return found


def make(kind: str, values: Any) -> Any:
    """The row of these values."""
    given = list(values)
    truths, holders = _PLANS[kind]
    for at in truths:
        given[at] = bool(given[at])
    for at in holders:
        if given[at] is not None:
            given[at] = Holder(*json.loads(given[at]))
    return KINDS[kind](*given)


def text_of(note: Note) -> str:
    """The body of its line: the row as it is from now on, and what more is to be told."""
    body: dict[str, Any] = dict(note.more)
    if note.row is not None:
        body["row"] = [_NAMES[type(note.row)], values_of(note.row)]
    return json.dumps(body, sort_keys=True, separators=(",", ":"))


def chained(
    prev_hash: str,
    inc: str,
    n: int,
    kind: str,
    actor: str,
    authority: str,
    read_only: bool,
    subject: str,
    body: str,
    at: float,
) -> str:
    """The hash of a line, over the one before (H1)."""
    text = json.dumps([prev_hash, inc, n, kind, actor, authority, read_only, subject, body, repr(at)])
    return hex_of(text.encode())


def verify_chain(events: list[LedgerEvent], head: str | None = None, first: LedgerEvent | None = None) -> str | None:
    """What is wrong with the log of one incarnation, if anything is; ``head`` is the hash that it has to end with.

    ``first`` is the line that it begins with, where the ones before were taken away.
    """
    before, start = (FIRST_HASH, 1) if first is None else (first.prev_hash, first.n)
    for n, event in enumerate(events, start):
        where = f"line {event.n} of {event.inc}"
        if event.n != n:
            return f"line {n} of {event.inc} is missing"
        if event.prev_hash != before:
            return f"{where} does not follow the one before it"
        found = chained(
            before,
            event.inc,
            event.n,
            event.kind,
            event.actor,
            event.authority,
            event.read_only,
            event.subject,
            event.body,
            event.at,
        )
        if found != event.hash:
            return f"{where} was changed after it was written"
        before = event.hash
    if head is not None and head != before:
        inc = events[-1].inc if events else "it"
        return f"the log of {inc} does not end where its head says: lines at its end are missing"
    return None
