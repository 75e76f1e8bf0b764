"""A blocking call on a thread of its own, raced with the stop.

Invariants
  L1  The stop is looked at before the call: what was stopped is never started. The thread carries the caller's
      context, and is registered with the turn before it runs.
  L2  Result and stop are looked at in one place, the result first; what is not given is in ``late``.
  L3  On a stop, or when the turn ends, the steps are: ``abort`` once, the grace, with ``interrupt`` the throw (at
      most ``_THROWS`` times, within their sum), then the thread is left behind: counted, and named in the report.
      They are the same whoever goes through them, the caller or the end of the turn; who is struck by an exception
      in them may go through them again.
  L4  What comes back later is evidence. It is never returned.

May block: ``call``, until the function is back; after a stop at most the grace, a second with ``interrupt``, the
same for a call inside, and a second for a command inside, which is killed when the grace is over. ``abort`` runs on a
thread of its own; a function that is back waits for it for 50 ms. One that takes longer becomes an activity of the
turn, whose end gives it the grace, and then names it.
Not promised: that a function which was left behind has had no effect.
"""

from __future__ import annotations

import threading
from _thread import LockType
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from turnctl import clock, points
from turnctl.clock import format_duration
from turnctl.errors import BadArgument, CancelledError, TurnOver
from turnctl.spelling import described
from turnctl.tokens.callables import check_plain
from turnctl.tokens.event import park, release_all
from turnctl.tokens.frames import calls_the_body
from turnctl.waiting import abandoned
from turnctl.waiting.aborting import NO_ABORT, Abort
from turnctl.waiting.inject import Injection, Interrupted
from turnctl.waiting.late import LateResult
from turnctl.waiting.parking import grace_end, must_raise, pend, token_in
from turnctl.waiting.patience import Forbearance, Patience
from turnctl.waiting.threads import context_of
from turnctl.waiting.worker import Worker, name_of

if TYPE_CHECKING:
    from turnctl.records.report import ActivityState
    from turnctl.tokens.token import CancelToken
    from turnctl.tokens.turn import TurnCore

__all__ = ["LateResult", "Patience", "Prefer", "RacedCall", "call"]

T = TypeVar("T")
Prefer = Literal["cancel", "result"]

_PREFERS = ("cancel", "result")
_THROWS = (0.1, 0.3, 0.6)  # seconds that the function has to come back after each throw
_FIRST_STEP_S, _LONGEST_STEP_S = 0.001, 0.002  # between two looks for a moment to throw
_UNWIND_S = 0.1  # what a call around has, beyond the grace, to come back when a call inside has given up
_COMMANDS = ("process", "scope")
_KILLED_S = 1.0  # what a call has, beyond the grace, to come back from a command whose grace has ended with its own
_EMPTY = Context()
_inside: ContextVar[RacedCall | None] = ContextVar("turnctl_call", default=None)


def call(
    turn: TurnCore | None,
    fn: Callable[..., T],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    abort: Callable[[], object] | None = None,
    interrupt: bool = False,
    prefer: Prefer = "cancel",
    patience: Patience | None = None,
    name: str | None = None,
) -> T:
    """Run ``fn`` on a thread of the turn, raced with the stop; see ``turnctl.call``. A checkpoint at its start.

    With ``turn`` None it is a plain call on the caller's thread. ``patience`` gives the seconds after the stop in which
    the function has to come back, where that is less than the grace; None for the grace. A report calls it ``name``.
    """
    if not callable(fn):
        raise BadArgument(f"call() needs a function to call, not {fn!r}; give it fn, *args and not fn(*args)")
    check_plain("call()", fn, for_generators="turn.stream(fn(...)) to iterate over it")
    if abort is not None and not callable(abort):
        raise BadArgument(f"abort must be a function without arguments or None, not {abort!r}")
    if type(interrupt) is not bool:
        raise BadArgument(f"interrupt is True or False, not {interrupt!r}")
    if prefer not in _PREFERS:
        raise BadArgument(f"unknown prefer {prefer!r}; use cancel or result")
    if turn is None:
        return _plainly(fn, args, kwargs)
    token = token_in(turn)
    token.check()
    abandoned.admit(name or name_of(fn))
    worker = RacedCall(turn, token, fn, args, kwargs, abort=abort, interrupt=interrupt, patience=patience, name=name)
    result: T = worker.come_to(prefer)
    return result


@calls_the_body
def _plainly(fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    return fn(*args, **kwargs)


class RacedCall(Worker):
    """The thread of one call, and the steps that end it."""

    injection: Injection | None = None
    ending_inside = 0  # how many calls on this thread are being ended now
    _abort = NO_ABORT
    _asked = False
    _was_stopped = False

    def __init__(
        self,
        turn: TurnCore,
        token: CancelToken,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        abort: Callable[[], object] | None,
        interrupt: bool,
        patience: Patience | None = None,
        name: str | None = None,
    ) -> None:
        name = name or name_of(fn)
        if interrupt:
            self.injection = Injection(token)
            fn, args, kwargs = self.injection.run, (fn, args, kwargs), {}
        super().__init__(turn, fn, args, kwargs, kind="call", name=name, context=context_of(turn))
        self._of: TurnCore = turn
        self.token = token
        self.outer = _inside.get()
        if abort is not None:
            self._abort = Abort(turn, name, abort)
        self._forbearance = None if patience is None else Forbearance(patience, token)
        #: whether who runs it here came back from it, or was left in it (``waiting.driving``)
        self.fate: list[str] = []
        self._context.run(_inside.set, self)

    # -- the caller's side ------------------------------------------------------------------------------------

    def come_to(self, prefer: Prefer) -> Any:
        """Start, wait for the function or a stop, and return or raise what that comes to (L2)."""
        token = self.token
        try:
            self.start()
            while not (self._ended or self._asked or must_raise(token)):
                pend(token, lambda: self._ended or self._asked, None, self.waiters)
        except BaseException:
            self.ask()  # a Ctrl-C: the caller is gone, and nobody needs the call any more
            raise
        points.reach("call.looking")
        came = self._ended
        if not must_raise(token):
            if not came:
                self._go_through(lambda: grace_end(self._of, token))  # the turn has ended around it
            if self._ended and not isinstance(self.error, Interrupted):
                self._join()
                return self._give()
            raise TurnOver(
                f"turn {self._of.turn_id} ended while its call of {self.name} ran; end a turn when its calls are back",
                turn_id=self._of.turn_id,
            ) from self.error
        if came:
            if prefer == "result" and self.error is None:
                self._join()
                return self._give()
            self._note_loser()
        else:
            self._go_through(lambda: grace_end(self._of, token))
        if self._ended:
            self._join()
        raise self._stop()

    def come_to_here(self, enter: Callable[[RacedCall], object], leave: Callable[[RacedCall], object]) -> Any:
        """The same on the calling thread, while another one sees to the stop between ``enter`` and ``leave``."""
        self.activity = self._of.activities.admit(self.kind, self.name, self)
        enter(self)
        self.thread = threading.current_thread()
        self._come_through()  # from here: an error that is kept holds each frame between, and whatever those hold
        leave(self)
        points.reach("call.looking")
        if not must_raise(self.token):
            return self._give()
        if not self._was_stopped:
            self._note_loser()
        raise self._stop()

    def _give(self) -> Any:
        self._context = _EMPTY  # which refers to this call: nobody needs the collector to find that out
        if self.activity is not None and not (self._abort.is_given and self._abort.running()):
            self.activity.owned = None  # the inventory must not keep every result of a long turn
        error = self.error
        if error is None:
            return self.result
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    def _join(self) -> None:
        thread = self.thread
        if thread is not None:
            thread.join()  # it has nothing left to do

    def _note_loser(self) -> None:
        """The function was back when the stop was seen: what it brought is kept, and said."""
        error, activity = self.error, self.activity
        assert activity is not None
        if error is None:
            activity.note_late("its value came together with the stop and was not given")
        elif not isinstance(error, CancelledError):
            self._of.notes.append(f"raised while stopping: call {self.name}: {described(error)}")

    def _stop(self) -> CancelledError:
        """The stop as it is raised: from what the function raised, with what it came to as evidence."""
        error = self.error if self._ended else None
        if isinstance(error, CancelledError) and not isinstance(error, Interrupted) and error.token is self.token:
            made = error  # it came to a checkpoint by itself
        else:
            made = self.token._raised()
            made.__cause__ = error
        made.late = made.late or LateResult(self)
        return made

    # -- ending it (L3) ---------------------------------------------------------------------------------------

    def ask(self) -> None:
        """Tell the waiting caller that the turn ends, and have ``abort`` started. Never blocks for long."""
        self._asked = True
        release_all(self.waiters)
        self._see_to_abort()

    def end(self, kill_at: Callable[[], float]) -> None:
        """Go through the steps; afterwards it has come back, or is left behind. The same for its ``abort``."""
        if self.thread is threading.current_thread():
            return  # a thread that ends its own turn does not wait for itself
        self._go_through(kill_at)
        kill_at = self._bounded(kill_at)
        for aborter in self._abort.running():
            self._wait_for(aborter, kill_at)
            self._abort.leave(aborter)

    def _go_through(self, kill_at: Callable[[], float]) -> None:
        if self.token.cancelled:
            self._was_stopped = True
        kill_at = self._bounded(kill_at)
        outer = _inside.get()
        if outer is not None:
            outer.ending_inside += 1
        try:
            points.reach("call.ending")
            self._see_to_abort()
            self._wait_for(self, kill_at)
            for aborter in self._abort.running():
                if self._ended:
                    self._abort.hand_over(aborter)
                else:
                    self._abort.leave(aborter)
            self._wait_for_inner()
            self._interrupt()
            self._comes_up()
            self._leave_behind()
        finally:
            if outer is not None:
                outer.ending_inside -= 1
                release_all(outer.waiters)

    def _bounded(self, kill_at: Callable[[], float]) -> Callable[[], float]:
        """``kill_at``, but not later than the patience with this function is over."""
        forbearance = self._forbearance
        if forbearance is None:
            return kill_at

        def at() -> float:
            until = forbearance.until(self._context, self.ident)
            return kill_at() if until is None else min(kill_at(), until)

        return at

    def _see_to_abort(self) -> None:
        if not self._ended and self.activity is not None:
            self.activity.signalled("abort" if self._abort.is_given else "stop")
            self._abort.see_to()

    def alive(self) -> tuple[str, ...]:
        """The function's thread, and that of its ``abort``, while they run."""
        return (*super().alive(), *self._abort.alive())

    def _lists(self) -> list[list[LockType]]:
        # a later stop, which may shorten the grace, wakes one of these
        turn = self._of
        shielding = [] if self._forbearance is None else self._forbearance.waiters()
        return [turn._hurry_waiters, turn.token._grow().waiters, self.token._grow().waiters, *shielding]

    def _wait_for(self, one: Worker, kill_at: Callable[[], float]) -> None:
        while not one._ended:
            at = kill_at()
            left = at - clock.monotonic()
            if left <= 0:
                return
            park(lambda: one._ended or kill_at() < at, left, one.waiters, *self._lists())  # noqa: B023

    def _wait_for_inner(self) -> None:
        """Let a call on the thread of this one come through its own steps, which are bounded as these are."""
        if not self._ended and self.ending_inside:
            park(lambda: self._ended or not self.ending_inside, sum(_THROWS) + _UNWIND_S, self.waiters)
            park(lambda: self._ended, _UNWIND_S, self.waiters)
        if not self._ended and self._has_commands():
            park(lambda: self._ended, _KILLED_S, self.waiters)

    def _has_commands(self) -> bool:
        """Whether a command is open that was begun after this call, perhaps by it: only now is it being killed."""
        begun = self._of.activities.all()
        since = begun.index(self.activity) + 1 if self.activity in begun else 0
        return any(one.is_open and one.kind in _COMMANDS for one in begun[since:])

    def _interrupt(self) -> None:
        injection = self.injection
        if injection is None or self._ended:
            return
        if self.activity is not None:
            self.activity.signalled("interrupt")
        with injection.watching():
            self._throw(injection)

    def _throw(self, injection: Injection) -> None:
        """Throw at moments that will do, each time a few milliseconds after the last one that would not."""
        ends_at = clock.monotonic() + sum(_THROWS)
        pauses = list(_THROWS)
        step = _FIRST_STEP_S
        while pauses and not self._ended:
            left = ends_at - clock.monotonic()
            if left <= 0:
                return
            lost = injection.lost
            if injection.throw(self._context) or injection.is_pending:
                pause = pauses.pop(0)
                park(
                    lambda: self._ended or injection.lost > lost,  # noqa: B023
                    min(pause, left),
                    self.waiters,
                    injection.waiters,
                )
                if injection.lost > lost:
                    pauses.insert(0, pause)  # the function knows nothing of it
                step = _FIRST_STEP_S
            else:
                park(lambda: self._ended, min(step, left), self.waiters)
                step = min(2 * step, _LONGEST_STEP_S)

    def _leave_behind(self) -> None:
        activity = self.activity
        if self._ended or activity is None:
            return
        points.reach("call.leaving")
        if activity.close("abandoned", f"left behind{self.where()}: {self._why_not()}"):
            abandoned.add(self)

    def _why_not(self) -> str:
        injection = self.injection
        if injection is None:
            forbearance = self._forbearance
            until = None if forbearance is None else forbearance.until(self._context, self.ident)
            if forbearance is None or until is None or grace_end(self._of, self.token) < until:
                return "it did not come back within the grace"
            behind = " of the end of its shield" if forbearance.was_shielded else ""
            return f"it did not come back within {format_duration(forbearance.seconds() or 0.0)}{behind}"
        if injection.is_pending:
            return "it stands in C code, and is interrupted as soon as that returns"
        taken = injection.delivered - injection.lost
        if taken:
            times = "once" if taken == 1 else f"{taken} times"
            return f"it is uncooperative, and went on after being interrupted {times}"
        if injection.lost:
            return "it could not be interrupted: what was thrown fell into finalizers, which end by it and tell nobody"
        return f"it could not be interrupted: when last looked at, {injection.obstacle}"

    # -- the account ------------------------------------------------------------------------------------------

    def _account(self) -> None:
        activity = self.activity
        if not self._was_stopped or activity is None:
            super()._account()
            return
        error = self.error
        state: ActivityState = "cancelled"
        if error is None:
            text = f"returned a value ({type(self.result).__name__}) after the stop"
        elif isinstance(error, Interrupted):
            text = "was interrupted"
        elif isinstance(error, CancelledError):
            text = "was cancelled"
        else:
            text = f"raised {type(error).__name__} after the stop: {error}"
        closed = activity.close(state, text)
        if not closed or not isinstance(error, CancelledError):
            activity.note_late(text)
