"""``AgentLoop``: a model, its tools and a history, asked again and again until the model calls no more tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from turnctl.agent.history import History
from turnctl.agent.messages import messages_of
from turnctl.agent.parts import check_model, check_parts, history_of, hooks_of, observers_of, retry_of, tools_of
from turnctl.agent.resuming import prepared, refuse_another_history
from turnctl.agent.retrying import Breaker, Retry
from turnctl.agent.running import Run
from turnctl.agent.signal import CancelSignal
from turnctl.agent.streaming import RunStream
from turnctl.agent.tools import Tool
from turnctl.clock import parse_duration
from turnctl.errors import BadArgument
from turnctl.records.checkpoints import RunCheckpoint
from turnctl.records.messages import Message, Text
from turnctl.records.runs import Event, RunRecord
from turnctl.tokens.eras import Latch
from turnctl.tokens.ids import check_name, new_turn_id

if TYPE_CHECKING:
    from turnctl.agent.result import RunResult
    from turnctl.ledger.face import Ledger
    from turnctl.ledger.task import LedgerTask
    from turnctl.records.stops import StopAnswer
    from turnctl.waiting.asks import Source

__all__ = ["AgentLoop"]

Prompt = str | Message | Iterable[Any]


class AgentLoop:
    """A small synchronous agent loop that can be stopped anywhere; each ``run`` is a turn of its own.

    ``model`` is a function of ``(messages, tools)`` that gives a reply, or an object with ``complete`` or ``stream``,
    and perhaps ``abort`` and ``probe``. ``tools`` are functions with type hints, or ``Tool``s. What is called here is a
    plain blocking function: nothing of it has to know of turnctl to be stopped.

    ``compactor`` makes a long history shorter; ``ask`` is asked before a call that needs approval, within
    ``ask_timeout``, and without it such a call is denied; ``memory`` is asked before a request (``recall``), told of
    results (``store``), of failures (``reflect``) and of the end (``consolidate``); ``hooks`` are called in the run
    and may hold it up, ``observers`` hear of it on threads of their own. ``retry`` and ``breaker`` say what is done
    when the model fails. ``checkpoint`` is given a ``RunCheckpoint`` before each wave of calls, after each step and at
    the end of each run, for ``resume``. A run is stopped when it takes more than ``max_steps``, ``max_tokens``,
    ``max_cost`` or ``timeout``, or a step more than ``step_timeout``.

    A stop gives a plain function ``patience`` to come back, a tool that acts and its commands ``grace``. With
    ``ledger`` each run is a task of ``tenant`` ("agent" if none is given), and effects of tools pass its gate; inside a
    turn that works on a task of that ledger it is a child of that task, of the same tenant.

    One run at a time; the rest is thread-safe.
    """

    def __init__(
        self,
        model: Any,
        tools: Iterable[Tool | Callable[..., Any]] | Mapping[str, Any] = (),
        *,
        history: History | Iterable[Any] | None = None,
        compactor: Any = None,
        ask: Source | Callable[[Any], object] | Literal["terminal"] | None = None,
        ask_timeout: float | str | None = None,
        retry: Retry | None = None,
        breaker: Breaker | Any | None = None,
        memory: Any = None,
        hooks: Any = (),
        observers: Iterable[Callable[[Event], object]] | Callable[[Event], object] = (),
        checkpoint: Callable[[RunCheckpoint], object] | None = None,
        ledger: Ledger | None = None,
        tenant: str | None = None,
        session_id: str | None = None,
        streaming: bool = True,
        parallel: int = 1,
        max_steps: int = 50,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        step_timeout: float | str | None = None,
        timeout: float | str | None = None,
        grace: float | str = "5s",
        patience: float | str = "50ms",
    ) -> None:
        check_model(model, streaming=streaming)
        check_parts(memory=memory, compactor=compactor, breaker=breaker, ledger=ledger, ask=ask, checkpoint=checkpoint)
        for what, number in (("max_steps", max_steps), ("parallel", parallel)):
            if type(number) is not int or number < 1:
                raise BadArgument(f"{what} is a whole number of 1 or more, not {number!r}")
        if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 1):
            raise BadArgument(f"max_tokens is a whole number of 1 or more, or None, not {max_tokens!r}")
        if max_cost is not None and not (type(max_cost) in (int, float) and max_cost > 0):
            raise BadArgument(f"max_cost is a number above 0, or None, not {max_cost!r}")
        for what, name in (("session_id", session_id), ("tenant", tenant)):
            if name is not None and not check_name(name):
                raise BadArgument(f"{what} must be a non-empty str or None, not {name!r}")
        self.model = model
        self.tools = tools_of(tools)
        self.compactor = compactor
        self.ask = ask
        self.ask_timeout = parse_duration(ask_timeout, what="ask_timeout", none=True)
        self.retry: Retry = retry_of(retry)
        self.breaker = breaker
        self.memory = memory
        self.hooks = hooks_of(hooks)
        self.observers = observers_of(observers)
        self.checkpoint = checkpoint
        self.ledger = ledger
        self.tenant = tenant
        self.session_id = session_id or f"loop-{new_turn_id()}"
        self.is_streaming = streaming and hasattr(model, "stream")
        self.parallel = parallel
        self.max_steps = max_steps
        self.max_tokens = max_tokens
        self.max_cost = max_cost
        self.step_timeout_s = parse_duration(step_timeout, what="step_timeout", none=True)
        self.timeout_s = parse_duration(timeout, what="timeout", none=True)
        self.grace_s = parse_duration(grace, what="grace", zero=True) or 0.0
        self.patience_s = parse_duration(patience, what="patience", zero=True) or 0.0
        self._history = history_of(history)
        self._signal = CancelSignal(self.session_id)
        self._runs: list[RunRecord] = []
        self._settled: Latch | None = None  # of the last run (``agent.running``, R6)

    # -- what it has --------------------------------------------------------------------------------------------------

    @property
    def cancel_signal(self) -> CancelSignal:
        """The address of its stops: the run that is running, or the next one. The same for the life of the loop."""
        return self._signal

    @property
    def history(self) -> History:
        """What the model is fed, and the transcript of everything."""
        return self._history

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """The audit records of its runs, oldest first."""
        return tuple(self._runs)

    def configuration(self) -> dict[str, Any]:
        """The settings that a record of a run keeps, as plain values."""
        return {
            "model": getattr(self.model, "__name__", None) or type(self.model).__name__,
            "tools": sorted(self.tools),
            "streaming": self.is_streaming,
            "parallel": self.parallel,
            "max_steps": self.max_steps,
            "max_tokens": self.max_tokens,
            "max_cost": self.max_cost,
            "step_timeout_s": self.step_timeout_s,
            "timeout_s": self.timeout_s,
            "grace_s": self.grace_s,
            "patience_s": self.patience_s,
            "durable": self.ledger is not None,
        }

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self, message: Prompt, *, timeout: float | str | None = None, task: LedgerTask | None = None) -> RunResult:
        """Run until the model calls no more tools, and say how it ended. Blocks for the run.

        Never raises for a stop of this run, nor for what the model or a tool raised: those are in the result. A stop of
        the turn around it ends the run, cause ``parent``, and is then raised here, when all is recorded: with a turn
        around it this is a checkpoint of that turn, at its beginning and at its end. Raises ``SessionBusy``
        while another run of this loop is running, and what the ledger raises if it does not take the task.
        """
        return self._made(message, timeout, task, None).go()

    def stream(
        self, message: Prompt, *, timeout: float | str | None = None, task: LedgerTask | None = None
    ) -> RunStream:
        """The same run, event by event, in step with whoever iterates: it goes on when the next one is asked for.

        Leaving the loop early, closing it or forgetting it ends the run (cause ``closed``) and raises nothing. Use it
        in ``with`` to have the run over at a place that you know; ``result`` then has the ``RunResult``.
        """
        return RunStream(lambda sink: self._made(message, timeout, task, sink))

    def resume(
        self,
        checkpoint: RunCheckpoint | Mapping[str, Any],
        *,
        timeout: float | str | None = None,
        task: LedgerTask | None = None,
    ) -> RunResult:
        """Go on from a checkpoint, or from what its ``as_dict`` gave; otherwise as ``run``.

        It is a new run, whose record ``resumes`` the old one: with its history, steps, usage, retries and time. Calls
        that were pending are not carried out: the model is told what is known of each. ``timeout`` is of the new run
        alone; without it what is left of the loop's applies. With a ledger it works on the same task: raises
        ``LedgerRefused`` while another worker has it or when it is over, and a cancelled one is born cancelled.
        Raises ``BadArgument`` for a run that is completed, tools that are missing, and a loop with another history.
        """
        found, run_id, options, overdue = prepared(self, checkpoint, timeout, task)
        return Run(self, found.input, run_id, options, None, found, overdue).go()

    def resume_stream(
        self,
        checkpoint: RunCheckpoint | Mapping[str, Any],
        *,
        timeout: float | str | None = None,
        task: LedgerTask | None = None,
    ) -> RunStream:
        """Go on from a checkpoint as ``resume`` does, event by event as ``stream`` does. Does not block by itself.

        What is wrong with the checkpoint is raised here. What the ledger refuses is raised by the first event that is
        asked for, since the run begins there, and so is ``BadArgument`` if the loop has had another run in between.
        """
        found, run_id, options, overdue = prepared(self, checkpoint, timeout, task)
        return RunStream(
            lambda sink: Run(self, found.input, run_id, options, sink, found, overdue),
            lambda: refuse_another_history(self.history, found),
        )

    def cancel(self, reason: str | None = None, *, by: str | None = None) -> StopAnswer:
        """Stop the run that is running, or the next one; short for ``cancel_signal.cancel``."""
        return self._signal.cancel(reason, by=by)

    def needs_approval(self, tool: Tool, arguments: dict[str, Any]) -> bool:
        """Whether somebody is to be asked before ``tool`` is called with these."""
        return tool.needs_approval(arguments)

    def _made(
        self,
        message: Prompt,
        timeout: float | str | None,
        task: LedgerTask | None,
        sink: Callable[[Event], object] | None,
    ) -> Run:
        if isinstance(message, RunCheckpoint) or (isinstance(message, Mapping) and "schema" in message):
            raise BadArgument("this is a checkpoint and no message; go on from it by resume() or resume_stream()")
        prompt = messages_of(message)
        if not any(one.role in ("system", "user") and _says_something(one) for one in prompt):
            raise BadArgument("a run begins with a message that says something; give it text, a Message, or several")
        if prompt[-1].role not in ("system", "user"):
            raise BadArgument(f"a run begins with a message of the user, and not with one of the {prompt[-1].role}")
        limit = timeout if timeout is not None else self.timeout_s
        return Run(self, prompt, new_turn_id(), {"timeout": limit, "task": task}, sink)

    def _keep(self, record: RunRecord) -> None:
        """Keep the record of a run; a later one of the same run takes its place."""
        for n in range(len(self._runs) - 1, -1, -1):
            if self._runs[n].run_id == record.run_id:  # not always the last: a hook of its end may have made a run
                self._runs[n] = record
                return
        self._runs.append(record)

    def __repr__(self) -> str:
        return f"<AgentLoop {self.session_id}: {len(self._runs)} runs, {len(self.tools)} tools>"


def _says_something(message: Message) -> bool:
    return bool(message.text.strip()) or not all(isinstance(part, Text) for part in message.parts)
