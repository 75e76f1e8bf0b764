"""Checkpoints of a run, and the run that goes on from one: in this process or another, after a stop or a death.

Invariants
  C1  A checkpoint is taken by the thread that does the work, and the last one by whoever closes the run, where no call
      of it is under way: before each wave of calls, after each step, and at the end, when the history is coherent.
  C2  A call that is pending in a checkpoint is never carried out by the run that goes on from it. It is closed: by its
      result if it had one, by what the ledger knows of its effect, and else as unknown, since what was done after the
      checkpoint was taken is not in it.
  C3  Whether the run may go on is decided before anything is changed, with a ledger by the lease of its task; the
      history of the loop is replaced when the turn of the resumed run has begun.
  C4  A run that completed its task, and whose process ended before its last checkpoint was kept, is told by its last
      reply: nobody is asked, and nothing is done. That it was this run is known by the lease that its task ended with.

May block: ``save``, as the host's function does; ``restore``, for the ledger to be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from turnctl import clock
from turnctl.clock import format_duration, parse_duration
from turnctl.errors import BadArgument, BadCall, LedgerRefused
from turnctl.records.checkpoints import PendingCall, RunCheckpoint
from turnctl.records.messages import Result, ResultStatus
from turnctl.records.replies import Usage
from turnctl.records.runs import CallRecord, StepRecord, StopReason
from turnctl.spelling import described
from turnctl.tokens.ids import new_turn_id

if TYPE_CHECKING:
    from turnctl.agent.history import History
    from turnctl.agent.loop import AgentLoop
    from turnctl.agent.running import Run
    from turnctl.ledger.task import LedgerTask
    from turnctl.records.effects import Effect

__all__ = ["checkpoint_of", "is_told", "prepared", "refuse_another_history", "restore", "save"]


# -- taking one -------------------------------------------------------------------------------------------------------


def checkpoint_of(run: Run, stop_reason: StopReason | None = None) -> RunCheckpoint:
    """The run as it stands now, between its pieces of work (C1)."""
    loop, state, task, before = run.loop, run.state, run.task, run.resumed
    began = dict(state.started)
    calls = () if stop_reason is not None else state.calls
    return RunCheckpoint(
        run_id=run.run_id,
        session_id=loop.session_id,
        taken_at=clock.wall(),
        **loop.history._kept(),
        input=run.prompt,
        stop_reason=stop_reason,
        is_done=run.is_done,
        step=state.step,
        step_at=run._step_at,
        attempts=run.attempts,
        steps=state.steps,
        gates=state.gates,
        usage=state.usage,
        retries=state.retries,
        notes=state.notes,
        partial=state.partial,
        pending=tuple(PendingCall(one, began.get(n), state.result_of(n)) for n, one in enumerate(calls)),
        elapsed_s=(0.0 if before is None else before.elapsed_s) + clock.monotonic() - run._since,
        resumes=None if before is None else before.run_id,
        tools=tuple(sorted(loop.tools)),
        is_hooked=_is_hooked(loop),
        tenant=None if task is None else task.tenant,
        task_id=None if task is None else task.task_id,
        inc=None if task is None else task.inc,
        extra={} if before is None else before.extra,
    )


def save(run: Run) -> None:
    """Give the host's function a checkpoint, if it wants them. Raced with the stop; an error is noted."""
    if run.loop.checkpoint is None:
        return
    run.is_saving = True
    try:
        run.raced(run.loop.checkpoint, checkpoint_of(run))
    except Exception as error:  # noqa: BLE001 - the run goes on; an older checkpoint is one still
        run.turn.check()
        run.note(f"a checkpoint could not be kept: {described(error)}")
    finally:
        run.is_saving = False


def _is_hooked(loop: AgentLoop) -> bool:
    return any(hasattr(one, "before_tool") for one in loop.hooks)


# -- going on from one ------------------------------------------------------------------------------------------------


def prepared(
    loop: AgentLoop, given: RunCheckpoint | Mapping[str, Any], timeout: float | str | None, task: LedgerTask | None
) -> tuple[RunCheckpoint, str, dict[str, Any], str | None]:
    """What the resumed run is made of: the checkpoint, its id, its options, and whether its time is used up (C3)."""
    found = given if isinstance(given, RunCheckpoint) else RunCheckpoint.from_dict(given)
    if found.stop_reason == "completed":
        raise BadArgument(f"run {found.run_id} is completed, so there is nothing to resume; begin another with run()")
    if not any(one.is_fed for one in found.transcript[found.start :]):
        raise BadArgument(f"the window could not hold run {found.run_id}, so nothing of it is fed; begin another run")
    if missing := sorted(set(found.tools) - set(loop.tools)):
        raise BadArgument(f"run {found.run_id} had tools that this loop has not: {', '.join(missing)}; give it those")
    refuse_another_history(loop.history, found)
    wanted = _task_of(loop, found, task)
    limit, overdue = parse_duration(timeout, what="timeout", none=True), None
    if timeout is None and loop.timeout_s is not None:
        limit = loop.timeout_s - found.elapsed_s
        if limit <= 0:
            limit, overdue = None, f"it had run for longer than {format_duration(loop.timeout_s)} when it was resumed"
    return found, new_turn_id(), {"timeout": limit, "task": wanted}, overdue


def refuse_another_history(history: History, found: RunCheckpoint) -> None:
    """Raise ``BadArgument`` if ``history`` has what would be lost by going on from ``found``."""
    has = history.transcript
    if has != found.transcript[: len(has)]:
        raise BadArgument(
            f"this loop has {len(has)} messages that are not the beginning of run {found.run_id}; resume it with a "
            "loop that has no history of its own"
        )


def _task_of(loop: AgentLoop, found: RunCheckpoint, task: LedgerTask | None) -> LedgerTask | None:
    if found.inc is None:
        return task
    named = f"task {found.tenant}/{found.task_id} ({found.inc})"
    if task is not None:
        if task.inc != found.inc:
            raise BadArgument(f"run {found.run_id} worked on {named}, not on {task!r}; give it that one, or none")
        return task
    if loop.ledger is None:
        raise BadArgument(f"run {found.run_id} worked on {named}; give the loop its ledger, or resume() that task")
    wanted = loop.ledger.incarnation(found.inc)
    if wanted is None:
        text = f"run {found.run_id} worked on {named}, which this ledger does not have; open the ledger that it had"
        raise LedgerRefused(text, code="no_such_task")
    return wanted


def is_told(task: LedgerTask, found: RunCheckpoint) -> bool:
    """Whether the ledger says that the run of ``found`` has completed ``task``, with the last reply in there (C4)."""
    if not found.is_done or found.inc != task.inc:
        return False

    def was_completed_by_it(books: Any) -> bool:
        row, turn = books.task(task.inc), books.turn(found.run_id)
        if row is None or turn is None or row.state != "completed":
            return False
        return bool((turn.inc, turn.gen) == (row.inc, row.lease_gen))

    return bool(task.ledger.store.read(was_completed_by_it))


def restore(run: Run, found: RunCheckpoint, overdue: str | None) -> None:
    """Put the run where ``found`` was taken, with each pending call closed (C2). The run's turn has begun."""
    refuse_another_history(run.loop.history, found)  # of a run of another thread, between that look and this turn
    # first without asking anybody, so that a stop while a function of the host is asked finds a history that is whole
    _put(run, found, [_unasked(one) for one in found.pending])
    kept = {name: getattr(found, name) for name in ("step", "gates", "usage", "retries", "partial")}
    run.change(lambda state: {**kept, "notes": (*found.notes, *_notes(found), *state.notes)})
    if found.pending:
        _put(run, found, [_closed(run, found, one) for one in found.pending])
    run.is_done = found.is_done
    if run.is_told:
        run.note(
            f"it was completed by run {found.run_id}, as its task says, whose last checkpoint was not kept; nothing is "
            "done again, and whether the hooks of that one's end were called is not known"
        )
    elif overdue is not None:
        run.turn.cancel(overdue, cause="deadline")


def _put(run: Run, found: RunCheckpoint, told: list[Result]) -> None:
    """Have the history, and the steps, as they were, with these results of the calls that were pending."""
    history = run.loop.history
    history._restore(found)
    # one that was not started has no result: so a first reply of which nothing was begun is not fed
    history.salvage(
        mark=run.mark("closing"),
        statuses={one.call_id: "not_started" for one in told if one.status == "not_started" and not one.content},
        results=[one for one in told if one.status != "not_started" or one.content],
        open_as="unknown",
    )
    steps = found.steps
    if found.pending:  # the step in hand was cut, by whatever ended its process
        pairs = zip(found.pending, told, strict=True)
        calls = tuple(CallRecord(one.call_id, was.call.name, one.status, was.started_at) for was, one in pairs)
        number, began, ended = found.step, found.step_at, found.taken_at
        steps = (*steps, StepRecord(number, began, ended, "failed", found.attempts, Usage(), calls))
    run.change(lambda _: {"steps": steps})


def _notes(found: RunCheckpoint) -> list[str]:
    if found.inc is not None:
        return []
    what = "whether that run still runs elsewhere, or was resumed before, is not known"
    return [f"it goes on from run {found.run_id}, which had no ledger: {what}"]


def _unasked(one: PendingCall) -> Result:
    return one.result or Result(one.call.id, (), "unknown", one.call.name)


def _closed(run: Run, found: RunCheckpoint, one: PendingCall) -> Result:
    """What the model is told of a call that was pending."""
    wanted = one.call
    if one.result is not None:
        return one.result
    tool = run.loop.tools.get(wanted.name)
    if tool is None:
        return Result(wanted.id, (), "not_started", wanted.name)
    if tool.effect is None or found.inc is None or run.task is None:
        return Result(wanted.id, (), "unknown", wanted.name)
    try:
        intent = run.raced(tool.intent_of, wanted)
    except BadCall:
        return Result(wanted.id, (), "not_started", wanted.name)
    except Exception as error:  # noqa: BLE001 - what the host's key function raised: it cannot be looked up
        run.note(f"the effect of call {wanted.id} could not be looked up: {described(error)}")
        return Result(wanted.id, (), "unknown", wanted.name)
    status, text = _known(run.task, intent, is_hooked=found.is_hooked or _is_hooked(run.loop))
    return Result(wanted.id, text or (), status, wanted.name)


def _known(task: LedgerTask, intent: str, *, is_hooked: bool) -> tuple[ResultStatus, str | None]:
    """What the ledger has of an effect. The lease is ours, so whoever had it before sends nothing more."""
    rows, receipt = task.ledger.store.read(lambda books: _looked_up(books, task.inc, intent))
    if not rows:  # all effects pass the gate: what is not there was not begun, unless a hook had changed its arguments
        return ("unknown" if is_hooked else "not_started"), None
    last = rows[-1]
    said = f"; its receipt: {receipt}" if receipt else ""
    if last.disposition == "completed":
        return "completed", f"it was done before the run was resumed, and is not done again{said}"
    if last.disposition in ("rejected", "provider_cancelled"):
        word = "rejected" if last.disposition == "rejected" else "cancelled"
        return "failed", f"it was {word} by its receiver{said}"
    if last.disposition == "suppressed" or last.is_unsent:
        return "not_started", None
    return "unknown", None


def _looked_up(books: Any, inc: str, intent: str) -> tuple[list[Effect], str | None]:
    order = ("suppressed", "rejected", "provider_cancelled", "pending", "unknown", "completed")
    rows = sorted(books.effects_of(inc, intent), key=lambda row: order.index(row.disposition))
    kept = books.receipts(rows[-1].effect_id) if rows else []
    return rows, next((one.body for one in kept if one.body_sha == rows[-1].receipt_sha), None)
