"""Making the report of a turn from what its parts observed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.records.report import TurnReport

if TYPE_CHECKING:
    from turnctl.records.report import Execution
    from turnctl.tokens.turn import TurnCore

__all__ = ["report_of"]


def report_of(turn: TurnCore) -> TurnReport:
    """What is known of the turn now. Never blocks; may be asked at any time, from any thread."""
    token = turn.token
    over = turn.is_over
    activities = turn.activities.all()
    processes = tuple(
        outcome for a in activities if a.owned is not None and (outcome := a.owned.outcome()) is not None
    )
    record = token.record
    stop_took: float | None = None
    if record is not None and turn.over_at is not None:
        stop_took = max(turn.over_at - record.wall_at, 0.0)
    return TurnReport(
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        outcome=token.outcome,
        execution=_execution(turn, over, any(p.survivors for p in processes)),
        started_at=turn.started_at,
        ended_at=turn.over_at,
        stop=record,
        level=token.level,
        stop_took_s=stop_took,
        activities=tuple(a.record() for a in activities),
        processes=processes,
        alive=turn._alive if over else _alive_now(turn),
        notes=(*turn.notes, *_failed_callbacks(turn)),
    )


def _execution(turn: TurnCore, over: bool, survivors: bool) -> Execution:
    if over:
        return "unproven" if turn._alive or survivors else "ended"
    if turn.token.cancelled or turn.token.outcome is not None:
        return "stopping"
    return "running"


def _alive_now(turn: TurnCore) -> tuple[str, ...]:
    if not turn.token.cancelled and turn.token.outcome is None:
        return ()
    return tuple(
        name for a in turn.activities.all() if a.is_open and a.owned is not None for name in a.owned.alive()
    )


def _failed_callbacks(turn: TurnCore) -> list[str]:
    parts = turn.token._parts_now()
    failures = [] if parts is None else parts.cells.get("failures", [])
    return [f"callback failed: {registration!r}: {type(e).__name__}: {e}" for registration, e in failures]
