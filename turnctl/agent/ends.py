"""How a run is closed, when its outcome has been decided: history, record, observers, hooks; in this order.

Invariants
  N1  Each step is done, whatever came of the one before; what goes wrong is noted in the record.
  N2  Nothing here waits longer than the grace for each hook, and a quarter of a second for each observer.
  N3  A Ctrl-C that strikes now cuts none of it; it ends the wait for hooks, and is raised when all is done.

Not a checkpoint: the outcome stands, and a stop that comes now is told so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turnctl import clock, points
from turnctl.agent.bounded import tell_bounded
from turnctl.agent.result import RunResult
from turnctl.agent.resuming import checkpoint_of
from turnctl.agent.traces import lighten
from turnctl.records.messages import Message
from turnctl.records.runs import RunRecord, StopReason
from turnctl.spelling import described
from turnctl.tokens.event import release_all
from turnctl.waiting.unstruck import Unstruck, unstruck

if TYPE_CHECKING:
    from turnctl.agent.running import Run

__all__ = ["close"]


def close(run: Run, error: BaseException | None) -> Unstruck[RunResult]:
    """Close ``run``, which ended with ``error`` if with any; what it gives back, and what struck meanwhile.

    Called again, after a strike around it, it goes on with what was begun.
    """

    def closed() -> RunResult:
        try:
            return _close(run, error)
        finally:
            run.loop.cancel_signal._end(run.turn)

    def hurry() -> None:
        run.is_hurried = True
        release_all(run.hurry_waiters)

    return unstruck(closed, name=f"closing {run.run_id}", hurry=hurry, begun=run.closers)


def _close(run: Run, error: BaseException | None) -> RunResult:
    run.shut()
    points.reach("run.closing")
    try:
        _salvage(run)
    except Exception as caught:  # noqa: BLE001 - N1
        run.note(f"the history could not be made coherent: {described(caught)}")
    outcome = run.turn.outcome
    reason: StopReason = "completed" if outcome == "completed" else "failed" if outcome == "failed" else "cancelled"
    # before a hook of the end is told, which may begin the next run of the loop
    last, checkpoint = _last(run), checkpoint_of(run, reason) if run.started_at else None
    record = _record(run, reason, error, last)
    run.loop._keep(record)
    run.settled.set()
    run.tell("run_ended", reason == "completed", record=record)
    notes = [*run.telling.finish(), *(note for hooks in run.loop.hooks for note in _tell_end(run, hooks, record))]
    if checkpoint is not None and run.is_saving:  # two at once could put the older in the place of the newer
        notes.append("the last checkpoint was not handed over: the function was left behind with the one before")
    elif checkpoint is not None and run.loop.checkpoint is not None:
        notes.extend(_bounded(run, "checkpoint", run.loop.checkpoint, checkpoint))
    if notes:
        record = record.noted((*record.notes, *notes))
        run.loop._keep(record)
    kept = error if reason == "failed" else None
    if kept is not None:
        lighten(kept)  # now that all who may hear of it have
    return RunResult(run.turn, record, kept, last, checkpoint)


def _salvage(run: Run) -> None:
    if not run.started_at:  # struck, or without a thread, before its work began
        if run.resumed is not None:
            return  # it has put nothing in the place of what is there, and its checkpoint stands
        run.keep_prompt()
    history, state = run.loop.history, run.state
    if run.window_failed and run.turn.outcome == "failed":
        history.discard(run.mark("discarded"))
        return
    places = range(len(state.calls))
    results = [result for place in places if (result := state.result_of(place)) is not None]
    statuses = {state.calls[place].id: state.status_of(place) for place in places}
    history.salvage(mark=run.mark("closing"), statuses=statuses, results=results)


def _record(run: Run, reason: StopReason, error: BaseException | None, last: Message | None) -> RunRecord:
    state, stop = run.state, run.turn.token.record
    is_stopped = reason == "cancelled"
    return RunRecord(
        run_id=run.run_id,
        session_id=state.session_id,
        stop_reason=reason,
        started_at=run.started_at or run.turn.started_at,
        ended_at=clock.wall(),
        input=run.prompt,
        output="" if last is None else last.text,
        steps=state.steps,
        gates=state.gates,
        usage=state.usage,
        retries=state.retries,
        cause=(stop.cause if stop is not None else "displaced") if is_stopped else None,
        reason=stop.reason if stop is not None and is_stopped else None,
        by=stop.by if stop is not None and is_stopped else None,
        error=described(error) if error is not None and reason == "failed" else None,
        partial=state.partial,
        configuration=run.loop.configuration(),
        notes=state.notes,
        resumes=None if run.resumed is None else run.resumed.run_id,
    )


def _last(run: Run) -> Message | None:
    """The last whole reply of the run; of one that never came to its history there is none."""
    if not run.started_at:
        return None
    replies = [one for one in run.loop.history.of_run if one.role == "assistant" and not one.is_partial]
    return replies[-1] if replies else None


def _tell_end(run: Run, hooks: object, record: RunRecord) -> list[str]:
    """Have a hook hear of the end; it has the grace (N2). What is to be noted."""
    fn = getattr(hooks, "on_run_end", None)
    return [] if fn is None else _bounded(run, f"on_run_end of {type(hooks).__name__}", fn, record)


def _bounded(run: Run, name: str, fn: Callable[[Any], object], told: object) -> list[str]:
    """Call a function of the host, within the grace. What is to be noted."""
    return tell_bounded(
        name,
        fn,
        told,
        run.turn.grace_s,
        turn_id=run.run_id,
        is_hurried=lambda: run.is_hurried,
        hurry_waiters=run.hurry_waiters,
    )
