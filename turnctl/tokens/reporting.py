"""Making the report of a turn from what its parts observed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.clock import monotonic, wall
from turnctl.records.report import TurnReport
from turnctl.spelling import described
from turnctl.tokens.pausing import pauses_in_words
from turnctl.tokens.swallowing import swallowed_in_words

if TYPE_CHECKING:
    from turnctl.records.report import Execution
    from turnctl.tokens.turn import TurnCore

__all__ = ["report_of"]


def report_of(turn: TurnCore, *, is_last: bool = False) -> TurnReport:
    """What is known of the turn now. Never blocks; may be asked at any time, from any thread.

    ``is_last`` is for its last step: all that it owned was ended or named, and nothing is left but to say so.
    """
    token = turn.token
    over = turn.is_over or is_last
    activities = turn.activities.all()
    processes = tuple(outcome for a in activities if a.owned is not None and (outcome := a.owned.outcome()) is not None)
    record = token.record
    stop_took: float | None = None
    ended_at, ended_mono = turn.over_at, turn.over_mono
    if is_last and ended_at is None:
        ended_at, ended_mono = wall(), monotonic()
    if record is not None and ended_at is not None:
        stop_took = max(ended_mono - record.at, 0.0)
    kill_at = None if record is None else turn.kill_at()
    alive = _alive(turn, over)
    ruling = turn._ruling
    effects = () if ruling is None else ruling.records()
    return TurnReport(
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        outcome=token.outcome,
        execution=_execution(turn, over, bool(alive) or any(p.survivors or p.is_held_by_unknown for p in processes)),
        started_at=turn.started_at,
        ended_at=ended_at,
        stop=record,
        level=token.level,
        stop_took_s=stop_took,
        grace_s=None if record is None or kill_at is None else max(kill_at - record.at, 0.0),
        activities=tuple(a.record() for a in activities),
        processes=processes,
        alive=alive,
        # while the turn goes on what was claimed is on its way; afterwards nobody tells any more
        effects_unresolved=sum(e.is_unresolved and (over or e.disposition == "unknown") for e in effects),
        effects=effects,
        durable=ruling is not None and ruling.durable,
        notes=(*turn.notes, *_pauses(turn), *swallowed_in_words(token), *_failed_callbacks(turn)),
    )


def _execution(turn: TurnCore, over: bool, something_left: bool) -> Execution:
    if over:
        return "unproven" if something_left else "ended"
    if turn.token.cancelled or turn.token.outcome is not None:
        return "stopping"
    return "running"


def _alive(turn: TurnCore, over: bool) -> tuple[str, ...]:
    """What still runs although it should not, asked now: what was given up may have ended since."""
    if not over and not turn.token.cancelled and turn.token.outcome is None:
        return ()
    activities = turn.activities.all()
    found = [name for a in activities if a.owned is not None and (over or a.is_open) for name in a.owned.alive()]
    bridge = turn._bridge
    if bridge is not None and bridge.is_over and bridge.is_running:
        found.append(f"thread {bridge.thread_name} (in a callback)")
    return tuple(found)


def _pauses(turn: TurnCore) -> tuple[str, ...]:
    text = pauses_in_words(turn.token, turn.over_mono or monotonic())
    return () if text is None else (text,)


def _failed_callbacks(turn: TurnCore) -> list[str]:
    parts = turn.token._parts_now()
    failures = [] if parts is None else parts.cells.get("failures", [])
    return [f"callback failed: {registration!r}: {described(e)}" for registration, e in failures]
