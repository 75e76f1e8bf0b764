"""Effects of a SQLite ledger at a glance: what is known of each, what that rests on, and who has to decide.

As ``ledger.glance``, over the same connection.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from turnctl.records.account_words import ESCALATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnctl.ledger.glance import Glances
    from turnctl.records.account_words import Escalation
    from turnctl.records.effects import Consequence, Disposition, Phase

__all__ = ["EffectGlance", "effects", "events_of", "receipts_of"]


class EffectGlance(NamedTuple):
    """One effect, as ``records.effects.Effect``, with the turn that it was admitted in."""

    effect_id: str
    turn_id: str | None
    inc: str
    kind: str
    intent_key: str
    phase: Phase
    disposition: Disposition
    consequence: Consequence
    adapter: str | None
    request_ref: str | None
    reconcilable: int
    after_cutoff: int
    closed_by: str | None
    compensates: str | None
    admitted_rev: int
    payload_sha: str
    payload_size: int | None
    at: float
    #: what its receiver said, behind a definitive disposition
    receipt: str | None
    receipt_source: str | None
    #: whether the turn that it was admitted in is over, so that nobody tells any more
    is_left: bool

    @property
    def key(self) -> str:
        """The host's own key, without the kind that a turn puts before it."""
        return self.intent_key.removeprefix(f"{self.kind} ")

    @property
    def is_unresolved(self) -> bool:
        """Whether it may have happened, and nobody has told, nor will by himself."""
        if self.closed_by is not None:
            return False
        return self.disposition == "unknown" or (self.phase == "claimed" and self.is_left)

    @property
    def is_open(self) -> bool:
        """Whether its outcome is still to come, or is unresolved."""
        return self.is_unresolved or self.disposition == "pending"

    @property
    def escalation(self) -> Escalation | None:
        """How soon somebody has to decide; None where nobody has to."""
        return ESCALATIONS[self.consequence] if self.is_unresolved else None


_QUERY = """
SELECT effect.effect_id, turn_id, effect.inc, kind, intent_key, phase, disposition, consequence, adapter, request_ref,
    reconcilable, after_cutoff, closed_by, compensates, admitted_rev, payload_sha,
    (SELECT length(body) FROM payload WHERE payload.effect_id = effect.effect_id), effect.at,
    receipt.body, receipt.source, turn.ended_at IS NOT NULL OR turn.lost IS NOT NULL
FROM effect LEFT JOIN turn ON turn.inc = effect.inc AND turn.gen = effect.gen
    LEFT JOIN receipt ON receipt.effect_id = effect.effect_id AND receipt.body_sha = effect.receipt_sha
WHERE
"""


def effects(
    glances: Glances, *, inc: str | None = None, turn_id: str | None = None, start: str | None = None
) -> Iterator[EffectGlance]:
    """Those of an incarnation, or of one turn, or whose id begins so; all without. In the order in which they came."""
    wanted, values = ["1"], list[Any]()
    for column, value in (("effect.inc = ?", inc), ("turn_id = ?", turn_id)):
        if value is not None:
            wanted.append(column)
            values.append(value)
    if start is not None:
        wanted.append("effect.effect_id >= ? AND effect.effect_id < ? || char(1114111)")
        values += [start, start]
    lost = glances.lost
    for row in glances.ask(f"{_QUERY} {' AND '.join(wanted)} ORDER BY effect.pos", values):
        *more, is_over = row
        yield EffectGlance._make([*more, bool(is_over) or row[1] in lost])


def receipts_of(glances: Glances, effect_id: str) -> list[dict[str, Any]]:
    """All that was said of it, also what contradicts what stands."""
    query = "SELECT source, body, establishes, at FROM receipt WHERE effect_id = ? ORDER BY pos"
    names = ("source", "body", "establishes", "at")
    return [dict(zip(names, row, strict=True)) for row in glances.ask(query, [effect_id])]


def events_of(glances: Glances, inc: str, *, subject: str | None = None) -> Iterator[dict[str, Any]]:
    """The log of an incarnation, or what it has of one thing, oldest first: when, what, who, on what word."""
    query = "SELECT n, at, kind, actor, authority, read_only, subject, body, hash FROM log WHERE inc = ?"
    values = [inc]
    if subject is not None:
        query, values = f"{query} AND subject = ?", [inc, subject]
    for n, at, kind, actor, authority, read_only, about, body, digest in glances.ask(f"{query} ORDER BY n", values):
        yield {
            "n": n,
            "at": at,
            "kind": kind,
            "actor": actor,
            "authority": authority,
            "read_only": bool(read_only),
            "subject": about,
            "body": json.loads(body),
            "hash": digest,
        }
