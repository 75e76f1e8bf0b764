"""What is on record of one turn, as plain values: what a report is made of."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Facts"]


class Facts(NamedTuple):
    """One turn, read from one state of its ledger. Times are seconds since the epoch.

    ``turn`` is as in schema ``turnctl.turn-line/1``, each of ``effects`` as in ``turnctl.effect/1`` with ``at`` as
    well, each of ``activities`` a row of the ledger with its number in ``process``, and ``report`` what the turn itself
    knew at its end. ``attempts`` are all turns at the same task, this one too, in all of its incarnations.
    """

    turn: dict[str, Any]
    task: dict[str, Any]
    begun_at: float
    ended_at: float | None
    #: when this was read
    seen_at: float
    activities: tuple[dict[str, Any], ...] = ()
    effects: tuple[dict[str, Any], ...] = ()
    events: tuple[dict[str, Any], ...] = ()
    attempts: tuple[dict[str, Any], ...] = ()
    output: dict[str, Any] | None = None
    report: dict[str, Any] | None = None
    is_redacted: bool = False
