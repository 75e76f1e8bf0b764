"""One run of a loop, from its prompt to its record: a turn in which the model is asked until it calls no more tools.

Invariants
  R1  The prompt is in the history before the first look for a stop, so that no stop loses it; and however a run came
      to its end, if there is a record of it then its prompt is there.
  R2  All that is done in the run is done in its turn, raced with its stop. What is told after the outcome has been
      decided (the end of the run) is bounded by the grace.
  R3  The state is a frozen value, replaced under a lock by a function that cannot block; calls of a wave share it.
  R4  The work is done on one thread (``waiting.driving``), which changes nothing once it was left behind. A call that
      has not begun when the run is being closed never begins.
  R5  However the run ends, in this order: its history is made coherent, its record is kept, observers and hooks hear
      of the end, the signal is free for the next run. An error in one of these is noted, and the next one is done.
  R6  The session is free when the turn is over, so another thread, or a hook of the end, may begin the next run before
      ``go`` is out. That one touches the history when the one before has settled: history and record are there.

May block: all of it. Checkpoints: ``go`` at its beginning and at its end, for the turn around it.
"""

from __future__ import annotations

import threading
from _thread import LockType
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from turnctl import clock, points
from turnctl.agent.compacting import compact
from turnctl.agent.contents import not_lazy
from turnctl.agent.elsewhere import refuse_elsewhere
from turnctl.agent.ends import close
from turnctl.agent.exchange import exchange
from turnctl.agent.result import RunResult
from turnctl.agent.resuming import is_told, restore, save
from turnctl.agent.telling import Telling
from turnctl.agent.waves import carry_out
from turnctl.clock import format_duration
from turnctl.records.messages import Mark, Message, Result, Text
from turnctl.records.replies import NO_USAGE, ReplyStop, Usage
from turnctl.records.runs import Event, EventKind, RunState, StepRecord, StopReason
from turnctl.spelling import described
from turnctl.tokens.current import current_token
from turnctl.tokens.eras import Latch
from turnctl.turns import Turn, turn
from turnctl.waiting.call import Patience, call
from turnctl.waiting.driving import Driver
from turnctl.waiting.parking import token_in

if TYPE_CHECKING:
    from turnctl.agent.loop import AgentLoop
    from turnctl.ledger.task import LedgerTask
    from turnctl.records.checkpoints import RunCheckpoint
    from turnctl.waiting.worker import Worker

__all__ = ["Run"]

_NOTHING_IN_HAND: dict[str, Any] = {"calls": (), "started": (), "answered": ()}

_SETTLED_S = 10.0  # more than it takes: nothing of the host's is called before a run has settled


class Run:
    """One run. ``go`` makes it, once."""

    def __init__(
        self,
        loop: AgentLoop,
        prompt: Iterable[Message],
        run_id: str,
        options: dict[str, Any],
        sink: Callable[[Event], object] | None = None,
        resumed: RunCheckpoint | None = None,
        overdue: str | None = None,
    ) -> None:
        self.loop = loop
        self.run_id = run_id
        self.turn: Turn
        self._options = options
        self.prompt = tuple(prompt)
        self.state = RunState(self.run_id, loop.session_id)
        self.telling = Telling(loop.observers, sink)
        self._lock = threading.Lock()
        self._step_at = self.started_at = 0.0
        #: requests of the step in hand
        self.attempts = 0
        self._step_is_open = False
        self._has_begun = False
        self._is_queued = False  # whether a task of its own waits for it
        self._is_closing = False
        #: up when it has no more to do with the history (R6), and the same of the run before
        self.settled = Latch()
        self._before: Latch | None = None
        #: a Ctrl-C while it closes: nobody waits for its last hooks any more
        self.is_hurried = False
        self.hurry_waiters: list[LockType] = []
        #: the threads that close it; the last of them does
        self.closers: list[Worker] = []
        #: whether the host's function is with a checkpoint
        self.is_saving = False
        #: which thread carries out each call of the reply in hand that is under way, by its place
        self.tool_threads: dict[int, int] = {}
        self.driver: Driver
        self.window_failed = False
        #: what it goes on from, and whether the model has no more to do
        self.resumed = resumed
        self.is_done = False
        #: whether its task says that this has been completed: it does nothing
        self.is_told = False
        self._overdue = overdue
        self._since = clock.monotonic()

    # -- from beginning to end ----------------------------------------------------------------------------------------

    def go(self) -> RunResult:
        """Make the run; see ``AgentLoop.run``."""
        outer = current_token()
        if outer is not None:
            outer.check()
        error: Exception | None = None
        passing: BaseException | None = None
        self.turn = self._made_turn()
        self.driver = Driver(self.turn, f"run-{self.run_id}")
        try:
            with self.turn:
                self._has_begun = True
                self._before, self.loop._settled = self.loop._settled, self.settled
                self.loop.cancel_signal._begin(self.turn)
                self._driven()
        except Exception as caught:
            if not self._has_begun:
                self._give_back()
                raise  # a busy session, a shutdown, a turn around it that is over: nothing was changed
            error = caught
        except BaseException as caught:
            if not self._has_begun:
                self._give_back()
                raise
            passing = caught
        try:
            if not self.turn.is_over:  # struck in the first lines of its end
                left_by = error or passing
                self.turn.__exit__(None if left_by is None else type(left_by), left_by, None)
            closed = close(self, error or passing)
        except BaseException as struck:  # noqa: BLE001 - raised when all is done
            passing = passing or struck  # in the few instructions around it
            closed = close(self, error or passing)
        finally:
            self.settled.set()  # also where it was struck before it came to that
        # an error of a run that completed is none of its work: it struck while the turn ended
        passing = passing or self.driver.struck or closed.by or (error if self.turn.outcome == "completed" else None)
        if passing is not None:
            raise passing
        if outer is not None:
            outer.check()
        return closed.value

    @property
    def task(self) -> LedgerTask | None:
        """The task of the ledger that it works on, if there is one."""
        return self._options.get("task")

    def _made_turn(self) -> Turn:
        options, loop = self._options, self.loop
        if self.task is not None and self.resumed is not None and is_told(self.task, self.resumed):
            self.is_told, options = True, {}  # without that task, which is over, and without a limit
        elif options.get("task") is None and loop.ledger is not None:
            from turnctl.agent.tasks import task_of

            options["task"], self._is_queued = task_of(self, loop.ledger)
        return turn(loop.session_id, turn_id=self.run_id, on_busy="refuse", grace=loop.grace_s, **options)

    def _give_back(self) -> None:
        """The run could not begin: its own task must not wait for a worker."""
        if self._is_queued and self.task is not None:
            self.task.cancel(by="turnctl.agent", reason="its run could not begin")

    def _driven(self) -> None:
        """Have the work done (R4)."""
        try:
            self.driver.drive(self._work)
        except SystemExit as error:  # whatever its code says: what was cut is not completed
            self.driver.struck = self.driver.struck or error
            self.turn.cancel(f"SystemExit({error.code!r}) was raised in it", cause="closed")
            self.turn.check()

    def shut(self) -> None:
        """The work is over: no call begins any more, and a step whose thread was left behind is ended for it."""
        with self._lock:
            self._is_closing = True
        if self.driver.is_left:
            self._end_step("cancelled", NO_USAGE)

    def began(self, place: int, at: float) -> None:
        """A call is about to be carried out, on this very thread. Raises the stop where the run is being closed."""
        with self._lock:
            is_late = self._is_closing
            if not is_late:
                self.state = self.state.changed({"started": (*self.state.started, (place, at))})
        if is_late:
            raise self.turn.token._raised()

    def _work(self) -> None:
        loop, turn = self.loop, self.turn
        self.keep_prompt()
        points.reach("run.begun")
        self.telling.start()
        self.tell("run_started")
        turn.check()
        probe = getattr(loop.model, "probe", None)
        if probe is not None and not self.is_told:
            self.raced(probe)
        self.hook("on_run_start", self.run_id)
        if self.is_done and not self.is_told:
            save(self)  # what completes the task is this run, so a checkpoint is to say so
        while not (turn.token.stopping or self.is_told):  # a soft stop lets the step in hand finish
            if not self.is_done and (spent := self._spent()) is not None:
                turn.cancel(spent[1], by=spent[0], cause="budget")
                turn.check()
            if self.is_done or self._step():
                self.remember("consolidate", loop.history.feed)
                return

    def keep_prompt(self) -> None:
        """Have it in the history (R1), or what the run goes on from, behind what the run before has left (R6)."""
        if self._before is not None:
            self._before.wait(_SETTLED_S)  # not as a checkpoint, because of R1
        self.started_at = clock.wall()
        self._since = clock.monotonic()
        if self.resumed is not None:
            restore(self, self.resumed, self._overdue)
        else:
            self.loop.history.begin()
            self.loop.history.add(*self.prompt)

    def _spent(self) -> tuple[str, str] | None:
        """Which budget is used up, if one is, and how; asked between steps, so that no step is cut for it."""
        loop, state = self.loop, self.state
        if state.step >= loop.max_steps:
            return "max_steps", f"it took {loop.max_steps} steps, which is the limit"
        if loop.max_tokens is not None and state.usage.total_tokens >= loop.max_tokens:
            return "max_tokens", f"it used {state.usage.total_tokens} tokens of {loop.max_tokens}"
        if loop.max_cost is not None and (state.usage.cost or 0.0) >= loop.max_cost:
            return "max_cost", f"it cost {state.usage.cost:g} of {loop.max_cost:g}"
        return None

    def _step(self) -> bool:
        """One step; whether it was the last one."""
        limit = self.loop.step_timeout_s
        if limit is None:
            return self._step_within()
        is_last = False
        with self.turn.child(timeout=limit) as token:
            token.on_cancel(lambda: self._step_is_late(token.cause), inline=True)
            is_last = self._step_within()
        self.turn.check()
        return is_last

    def _step_is_late(self, cause: str | None) -> None:
        if cause == "deadline":
            took = format_duration(self.loop.step_timeout_s or 0.0)
            self.turn.cancel(f"step {self.state.step} took longer than {took}", by="step_timeout", cause="deadline")

    def _step_within(self) -> bool:
        turn, history = self.turn, self.loop.history
        self._step_at = clock.wall()
        self.attempts = 0
        self.change(lambda state: {"step": state.step + 1, "records": (), **_NOTHING_IN_HAND})
        number = self.state.step
        turn.check()
        self._step_is_open = True
        self.tell("step_started")
        try:
            compact(self)
            self.hook("before_step", number)
            reply = exchange(self)
            usage, calls = reply.usage or NO_USAGE, reply.message.calls
            if any(type(part) is not Text or part.text for part in reply.message.parts):
                history.add(reply.message)  # one that says nothing is taken by no provider
            self.change(lambda state: {"calls": calls, "usage": state.usage + usage})
            self.tell("reply", message=reply.message, usage=reply.usage)
            if calls:
                carry_out(self, calls)
                self._answer()
            self._end_step("completed", usage, reply.stop)
        except BaseException:
            is_stopped = turn.token.stopping or token_in(turn).cancelled  # by the step's own time, before the turn is
            self._end_step("cancelled" if is_stopped else "failed", NO_USAGE)  # what one took that was cut is not known
            raise
        self.is_done = not calls and reply.stop != "pause"
        self.hook("after_step", number)
        save(self)
        return self.is_done

    def _answer(self) -> None:
        """All calls of the step have results: they go into the history, in the order of the calls."""
        results = dict(self.state.answered)
        self.loop.history.add(Message.tool(*[results[place] for place in sorted(results)]))

    def _end_step(self, outcome: StopReason, usage: Usage, stop: ReplyStop | None = None) -> None:
        if not self._step_is_open or (self.driver.is_left and self.driver.is_here):
            return  # R4
        self._step_is_open = False
        state = self.state
        ended_at, calls = clock.wall(), state.all_records()
        record = StepRecord(state.step, self._step_at, ended_at, outcome, self.attempts, usage, calls, stop)
        # the results of one that completed are in the history now; of others they are what is salvaged
        done = _NOTHING_IN_HAND if outcome == "completed" else {}
        self.change(lambda state: {"steps": (*state.steps, record), **done})
        self.tell("step_ended", outcome == "completed", usage=usage)

    def keep_partial(self, text: str) -> None:
        """A reply that was cut: the transcript has what came of it, and the model does not get it."""
        self.loop.history.add(Message.assistant(text).marked(self.mark("partial")))
        self.change(lambda _: {"partial": text})

    # -- what the host hangs in ---------------------------------------------------------------------------------------

    def raced(
        self,
        fn: Callable[..., Any],
        *args: Any,
        abort: Callable[[], object] | None = None,
        patience: Patience | None = None,
        name: str | None = None,
    ) -> Any:
        """Call a function of the host, raced with the stop; it has the patience to come back. A checkpoint."""
        given = patience or self._patience
        try:
            if self.driver.is_here:
                return self.driver.call(fn, args, abort=abort, patience=given, name=name)
            return call(self.turn, fn, args, {}, abort=abort, patience=given, name=name)
        except BaseException as error:
            refuse_elsewhere(error)
            raise

    def _patience(self) -> float | None:
        return self.loop.patience_s

    def read(self, given: Any) -> Any:
        """What a function of the host gave as messages; a generator does its work as it is read, so that is raced."""
        if isinstance(given, (str, Message, Mapping, list, tuple)) or not isinstance(given, Iterable):
            return given
        return self.raced(list, given)

    def hook(self, name: str, *args: Any) -> Any:
        """What the hooks of that name say; the last that says something counts. An error is noted, and given."""
        said: Any = None
        for one in self.loop.hooks:
            said = self._called(one, name, args, said)
            if name == "before_tool" and (said is False or isinstance(said, (Exception, Result))):
                return said  # refused: a later one cannot allow it
        return said

    def remember(self, name: str, *args: Any) -> Any:
        """What the memory says, if there is one that can be asked that."""
        if self.loop.memory is None:
            return None
        said = self._called(self.loop.memory, name, args, None)
        return None if isinstance(said, Exception) else said

    def _called(self, of: object, name: str, args: tuple[Any, ...], before: Any) -> Any:
        fn = getattr(of, name, None)
        if fn is None:
            return before
        try:
            said = self.raced(fn, *args)
            said = self.read(said) if name == "recall" else not_lazy(said)
        except Exception as error:  # noqa: BLE001 - the host's own addition does not end the run
            self.turn.check()
            self.note(f"{name} of {type(of).__name__} failed: {described(error)}")
            return error
        return before if said is None else said

    # -- the state ----------------------------------------------------------------------------------------------------

    def change(self, how: Callable[[RunState], dict[str, Any]]) -> None:
        """Replace the state; ``how`` is pure and gives what is new in it (R3)."""
        with self._lock:
            self.state = self.state.changed(how(self.state))

    def replace(self, place: int, result: Result) -> None:
        """Another result for that call."""
        self.change(
            lambda state: {"answered": tuple((at, result if at == place else old) for at, old in state.answered)}
        )

    def note(self, text: str) -> None:
        """Keep a line for the record."""
        self.change(lambda state: {"notes": (*state.notes, text)})

    def tell(self, kind: EventKind, ok: bool = True, **more: Any) -> None:
        """Tell who listens."""
        if self.telling.is_heard:
            self.telling.tell(Event(kind, self.run_id, self.state.step, ok, **more))

    def mark(self, kind: Any) -> Mark:
        """A mark that tells of the stop, if there is one."""
        record = self.turn.token.record
        if record is None:
            return Mark(kind, run_id=self.run_id)
        return Mark(kind, record.cause, record.by, record.reason, self.run_id)
