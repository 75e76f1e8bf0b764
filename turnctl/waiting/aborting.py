"""The ``abort`` of a call, on a thread of its own, once.

Invariants
  O1  It is called once. Whoever ends the call sees to it that a thread for it has begun, and starts another one if a
      strike (a Ctrl-C) kept the last from coming up; the first of these threads takes the function.
  O2  One that still runs is named: by the call, or as an activity of the turn, which then waits for it in its end.

May block: ``hand_over``, for 50 ms. Not promised: that an ``abort`` comes back, or that it unblocks anything.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, cast

from turnctl import points
from turnctl.errors import TurnOver
from turnctl.spelling import described
from turnctl.tokens.current import bound, session_name
from turnctl.tokens.event import park
from turnctl.tokens.frames import calls_the_body
from turnctl.tokens.threads import has_no_thread
from turnctl.waiting import abandoned
from turnctl.waiting.worker import Worker

if TYPE_CHECKING:
    from turnctl.tokens.turn import TurnCore

__all__ = ["NO_ABORT", "Abort", "unbound_context"]

_BACK_S = 0.05  # what an abort has to come back when its function is, before it is accounted for by itself


def unbound_context() -> Context:
    """A copy of this context in which no turn is bound: for clean-up, whose checkpoints must not raise."""
    context = copy_context()
    context.run(bound.set, None)
    context.run(session_name.set, None)
    return context


class Abort:
    """What is to be called when a call is stopped, if anything is."""

    def __init__(self, turn: TurnCore, name: str, fn: Callable[[], object] | None) -> None:
        self._turn = turn
        self._name = name
        self.is_given = fn is not None
        # gives the function to the first who asks; nothing can strike between taking and calling it
        self._once = iter(() if fn is None else (fn,))
        self._workers: list[Worker] = []

    def see_to(self) -> None:
        """Have it called, unless it was (O1). Waits for its thread to come up, and for nothing else."""
        if not self.is_given or any(one.is_begun for one in self._workers):
            return
        worker = Worker(None, self._run, (), {}, kind="abort", name=f"abort of {self._name}", context=unbound_context())
        worker.on_end = lambda: self._note_failure(worker)
        self._workers.append(worker)
        points.reach("call.aborting")
        try:
            worker.start()
        except (RuntimeError, BlockingIOError) as error:
            if not has_no_thread(error):
                raise
            self._note(f"abort of call {self._name} was not called: {described(error)}")  # the stop goes on without

    @calls_the_body
    def _run(self) -> None:
        for fn in self._once:
            fn()

    def _note_failure(self, worker: Worker) -> None:
        error = worker.error
        if error is not None:
            self._turn.notes.append(f"abort of call {self._name} failed: {described(error)}")

    def _note(self, text: str) -> None:
        if text not in self._turn.notes:
            self._turn.notes.append(text)

    def running(self) -> list[Worker]:
        """The threads on which it has not come back."""
        return [one for one in self._workers if one.is_begun and not one.has_ended]

    def hand_over(self, worker: Worker) -> None:
        """The function is back, and waits no longer than a moment: the turn owns the abort from now on (O2)."""
        if park(lambda: worker.has_ended, _BACK_S, worker.waiters) or worker.activity is not None:
            return
        try:
            worker.activity = self._turn.activities.admit("abort", self._name, worker)
        except TurnOver:
            return  # who ends the turn waits for it, or it is named as the call's
        worker.turn = self._turn
        if worker.has_ended and worker.activity.is_open:
            worker._account()  # it came back in between

    def leave(self, worker: Worker) -> None:
        """The grace is over: say so and count its thread, if it has not come back."""
        if worker.has_ended or worker.activity is not None:
            return
        text = f"abort of call {self._name} has not come back{worker.where()}"
        if not any(note.startswith(f"abort of call {self._name} has not come back") for note in self._turn.notes):
            self._turn.notes.append(text)
        abandoned.add(worker, self._turn.turn_id)

    def alive(self) -> tuple[str, ...]:
        """The threads on which it still runs, but for one that the turn owns by itself."""
        return tuple(name for one in self.running() if one.activity is None for name in one.alive())


#: for the many calls that have none
NO_ABORT = Abort(cast("TurnCore", None), "", None)
