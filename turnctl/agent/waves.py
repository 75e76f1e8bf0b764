"""The calls of one reply: one after the other, neighbours that may run side by side as one wave.

Invariants
  V1  A call is marked as started on the thread that runs the tool, behind the last look for a stop. So one that is not
      marked has not run, not even once.
  V2  What a tool came to is kept as soon as it is known, whatever becomes of its siblings. A value that came back after
      the stop, within the grace, is a result: it says what happened.
  V3  A wave that is stopped ends when each of its calls has come back or was left behind, all at the same time.
  V4  A tool that has an effect, or has started a command or a turn, is given the grace; a plain one the patience,
      counted from the end of a shield that it is in (``waiting.patience``).

May block: ``carry_out``, as the tools do. Tools run on threads of the turn, in the caller's context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any

from turnctl import clock, points
from turnctl.agent.encodable import copied
from turnctl.agent.gates import Approval, digest_of, put
from turnctl.agent.resuming import save
from turnctl.errors import BadCall, CancelledError, TurnOver
from turnctl.records.messages import Call, Result, ResultStatus
from turnctl.records.runs import CallRecord
from turnctl.spelling import described
from turnctl.tokens.event import park
from turnctl.waiting.call import call
from turnctl.waiting.threads import thread

if TYPE_CHECKING:
    from turnctl.agent.running import Run
    from turnctl.agent.tools import Invoked, Tool
    from turnctl.ledger.effecting import EffectingTurn

__all__ = ["carry_out"]

_CHANGES = 5  # how often a hook may change the arguments of one call
_SLACK_S = 2.0  # more than a call takes to give up after the grace


def carry_out(run: Run, calls: Sequence[Call]) -> None:
    """Carry out the calls of a reply; their results are in the state of the run. A checkpoint before each wave."""
    place = 0
    run.tool_threads.clear()
    while place < len(calls):
        run.turn.check()
        save(run)
        width = _width(run, calls, place)
        if width == 1:
            _One(run, place, calls[place]).go()
        else:
            _side_by_side(run, calls, range(place, place + width))
        place += width


def _width(run: Run, calls: Sequence[Call], place: int) -> int:
    """How many calls from ``place`` on may run at the same time."""
    if run.loop.parallel == 1:
        return 1
    width = 0
    for one in calls[place : place + run.loop.parallel]:
        tool = run.loop.tools.get(one.name)
        if tool is None or not tool.parallel:
            break
        width += 1
    return max(width, 1)


def _side_by_side(run: Run, calls: Sequence[Call], places: range) -> None:
    turn = run.turn
    siblings = [thread(turn, _One(run, place, calls[place]).go, (), {}, name=calls[place].name) for place in places]
    try:
        for one in siblings:
            one.result()
    except BaseException:
        for one in siblings:  # V3: each of them is bounded; the last bound is here
            at = turn.kill_at()
            left = max((clock.monotonic() if at is None else at) - clock.monotonic(), 0.0) + _SLACK_S
            if turn.stop_wanted():
                park(lambda: one.has_ended, left, one.waiters)  # noqa: B023
        raise


class _One:
    """One call, from the question whether it may be carried out to its result."""

    def __init__(self, run: Run, place: int, wanted: Call) -> None:
        self._run = run
        self._place = place
        self._call = wanted
        self._started_at: float | None = None
        self._read: dict[str, Any] = {}

    def go(self) -> None:
        run, wanted = self._run, self._call
        tool = run.loop.tools.get(wanted.name)
        if tool is None:
            names = ", ".join(sorted(run.loop.tools)) or "none"
            self._answer("failed", f"there is no tool {wanted.name!r}; there are: {names}")
            return
        try:
            self._read = tool.arguments(wanted)
        except BadCall as error:
            self._answer("failed", str(error))
            return
        arguments = self._allowed(tool)
        if arguments is None:
            return
        run.turn.check()
        run.tell("tool_started", call=wanted)
        self._carry_out(tool, arguments)

    # -- whether it may be carried out --------------------------------------------------------------------------------

    def _allowed(self, tool: Tool) -> dict[str, Any] | None:
        """The arguments to run it with; None if it is not to run, and has its answer."""
        arguments = copied(self._call.arguments)
        for _ in range(_CHANGES):
            if not self._approved(tool, arguments):
                return None
            if not self._run.loop.hooks:
                return arguments
            said = self._run.hook("before_tool", Call(self._call.id, self._call.name, copied(arguments)))
            if isinstance(said, Exception):
                self._answer("denied", f"denied: a check of it failed ({described(said)})")
                return None
            if said is False:
                self._answer("denied", "denied: a check of it did not allow it")
                return None
            if isinstance(said, Result):
                self._refuse(Result(self._call.id, said.content, said.status, self._call.name), None)
                return None
            changed = dict(said) if isinstance(said, Mapping) else arguments
            if digest_of(changed) == digest_of(arguments):
                return arguments
            arguments = copied(changed)  # what was approved was something else
        self._answer("denied", "denied: its arguments were changed again and again")
        return None

    def _approved(self, tool: Tool, arguments: dict[str, Any]) -> bool:
        run, loop = self._run, self._run.loop
        try:
            if callable(tool.approval):
                needs = run.raced(loop.needs_approval, tool, arguments)
            else:
                needs = loop.needs_approval(tool, arguments)
            if not needs:
                return True
        except Exception as error:  # noqa: BLE001 - whether it may be carried out is not known, so it may not
            run.turn.check()
            self._answer("denied", f"denied: whether to ask could not be told ({described(error)})")
            return False
        approval = Approval(run.run_id, run.state.step, self._call, copied(arguments))
        run.tell("asked", call=self._call, detail=str(approval))
        gate, raises = put(run.turn, approval, loop.ask, loop.ask_timeout, loop.patience_s)
        run.change(lambda state: {"gates": (*state.gates, gate)})
        run.tell("answered", gate.kind == "approved", call=self._call, gate=gate)
        if raises is not None:
            raise raises
        if gate.kind == "approved":
            return True
        why = f": {gate.reason}" if gate.reason else ""
        self._answer("denied", f"denied ({gate.kind}){why}; it was not carried out")
        return False

    # -- carrying it out ----------------------------------------------------------------------------------------------

    def _carry_out(self, tool: Tool, arguments: dict[str, Any]) -> None:
        try:
            made = self._bounded(tool, arguments)
        except CancelledError as error:
            late = error.late
            if late is not None and late.is_done and late.error is None:
                self._keep(late.value.result, "it came back after the stop")  # V2
            raise
        except TurnOver:
            raise
        except _Overdue as error:
            self._answer("unknown", str(error))
            return
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the model is told, and the run goes on
            self._answer("failed", described(error))
            return
        self._after(made)

    def _bounded(self, tool: Tool, arguments: dict[str, Any]) -> Invoked:
        """What came of it, within its own time."""
        if tool.timeout_s is None:
            return self._raced(tool, arguments)
        made: list[Invoked] = []
        with self._run.turn.child(timeout=tool.timeout_s) as token:
            made.append(self._raced(tool, arguments))
        if made:
            return made[0]
        if token.cause == "deadline":
            raise _Overdue(f"{tool.name} took longer than {tool.timeout_s:g} s and was stopped; its outcome is unknown")
        raise token._error()

    def _raced(self, tool: Tool, arguments: dict[str, Any]) -> Invoked:
        wanted = Call(self._call.id, self._call.name, arguments)
        run, patience = self._run, self._patience(tool)
        read = self._read if arguments == self._call.arguments else None
        given = (tool, wanted, run.turn, self._began, read)
        if tool.timeout_s is None:  # under its name: that is how a report tells of it
            made: Invoked = run.raced(_invoke, *given, patience=patience, name=tool.name)
        else:  # it may have to be left behind while the run goes on: on a thread of its own
            made = call(run.turn, _invoke, given, {}, patience=patience, name=tool.name)
        run.tool_threads.pop(self._place, None)  # what comes next may be carried out by that thread
        return made

    def _began(self) -> None:
        points.reach("tool.beginning")
        at = clock.wall()
        self._run.tool_threads[self._place] = get_ident()
        self._run.began(self._place, at)  # V1
        self._started_at = at

    def _patience(self, tool: Tool) -> Callable[[], float | None]:
        activities, seconds = self._run.turn.activities, self._run.loop.patience_s
        before, threads = activities.count, self._run.tool_threads

        def left() -> float | None:
            # what a sibling's thread has begun is the sibling's; what a thread of nobody began may be of this one
            siblings = {*threads.values()} - {threads.get(self._place)}
            begun = (one for one in activities.since(before) if one.kind not in _PLAIN)
            acts = tool.effect is not None or any(one.thread not in siblings for one in begun)
            return None if acts else seconds  # V4

        return left

    # -- its result ---------------------------------------------------------------------------------------------------

    def _after(self, made: Invoked) -> None:
        """It has been carried out: who wants to see the result first does; then it is kept."""
        run, kept = self._run, self._keep(made.result, None)
        if made.error is not None:
            said = run.remember("reflect", self._call, kept)
            if isinstance(said, str) and said:
                kept = self._say(kept, (*kept.content, f"\n\n{said}"))
        said = run.hook("after_tool", self._call, kept)
        if isinstance(said, Result):
            kept = self._say(kept, said.content)
        run.remember("store", self._call, kept)
        run.tell("tool_ended", kept.status == "completed", call=self._call, result=kept)

    def _say(self, result: Result, content: tuple[Any, ...]) -> Result:
        """The same with another content: what became of the call is not the hook's to say."""
        said = Result(result.call_id, content, result.status, result.name)
        self._run.replace(self._place, said)
        return said

    def _answer(self, status: ResultStatus, text: str, detail: str | None = None) -> None:
        """It was not carried out here, or came to no value: say so."""
        self._refuse(Result(self._call.id, text, status, self._call.name), detail)

    def _refuse(self, result: Result, detail: str | None) -> None:
        self._keep(result, detail)
        self._run.tell("tool_ended", False, call=self._call, result=result)

    def _keep(self, result: Result, detail: str | None) -> Result:
        record = CallRecord(self._call.id, self._call.name, result.status, self._started_at, clock.wall(), detail)
        place = self._place
        self._run.change(
            lambda state: {"answered": (*state.answered, (place, result)), "records": (*state.records, record)}
        )
        return result


#: activities that are plain functions; all others, such as commands and turns, are ended within the grace
_PLAIN = frozenset({"call", "stream", "thread", "bound", "ask"})


def _invoke(
    tool: Tool, wanted: Call, turn: EffectingTurn, began: Callable[[], object], read: dict[str, Any] | None
) -> Invoked:
    return tool.invoke(wanted, turn, arguments=read, began=began)


class _Overdue(Exception):
    """A tool took longer than it may."""
