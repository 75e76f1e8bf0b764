"""A job of an executor, and its future: what is submitted, run once or dropped once, and accounted for by the turn.

Invariant J1: ``run`` and ``drop`` are called by whoever took the job from the executor, so one of them, once. The
activity is closed before the future is done: who has the result finds it in the report.
"""

from __future__ import annotations

import sys
import threading
from _thread import LockType
from collections.abc import Callable
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar

from turnctl.errors import CancelledError
from turnctl.spelling import described
from turnctl.tokens import eras
from turnctl.tokens.current import current_token
from turnctl.tokens.event import release_all
from turnctl.tokens.frames import calls_the_body
from turnctl.tokens.shielding import is_shielded
from turnctl.tokens.sites import frame_of
from turnctl.waiting.parking import end_of, wait_until
from turnctl.waiting.threads import context_of, is_own_stop, token_of
from turnctl.waiting.worker import name_of

if TYPE_CHECKING:
    from turnctl.records.report import ActivityState
    from turnctl.tokens.activities import Activity
    from turnctl.tokens.token import CancelToken
    from turnctl.tokens.turn import TurnCore

__all__ = ["Job", "TurnFuture", "guarded"]

T = TypeVar("T")


class TurnFuture(Future[T]):
    """The future of a job of a turn; ``result`` and ``exception`` are checkpoints of the caller's turn.

    A job that the stop found waiting is ``cancelled()``, and ``result()`` raises ``turnctl.CancelledError``. One that
    was running ends with what it raised. ``cancel()`` does nothing for a running job, as with any future. In a forked
    child, which has no thread that would end it, waiting for it raises ``RuntimeError``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waiters: list[LockType] = []
        self._stop: CancelledError | None = None
        self._era = eras.era
        self.add_done_callback(lambda _: release_all(self.waiters))

    def result(self, timeout: float | str | None = None) -> T:
        """The job's value; raises what it raised. ``TimeoutError`` when ``timeout`` (seconds or "5s") has passed."""
        self._wait(timeout)
        try:
            return super().result(0)
        except FutureCancelled:
            self._raise_stop()
            raise

    def exception(self, timeout: float | str | None = None) -> BaseException | None:
        """What the job raised, or None."""
        self._wait(timeout)
        try:
            return super().exception(0)
        except FutureCancelled:
            self._raise_stop()
            raise

    def refuse_in_fork(self) -> None:
        """Raise ``RuntimeError`` if nobody would wake who waits for it here."""
        if self._era is not eras.era and not self.done():
            eras.refuse("the job of a future")

    def _wait(self, timeout: float | str | None) -> None:
        self.refuse_in_fork()
        if isinstance(timeout, (int, float)):
            timeout = max(timeout, 0.0)  # ``map`` asks with what is left of its time
        if not wait_until(current_token(), self.done, end_of(timeout), self.waiters):
            raise TimeoutError(f"{self!r} was not done in {timeout}; ask again, or stop its turn")

    def _raise_stop(self) -> None:
        if self._stop is not None:
            raise self._stop


class Job:
    """A submitted call in a copy of its submitter's context (``tokens.activities.Owned``)."""

    kind = "job"

    def __init__(self, turn: TurnCore, pool: str, call: tuple[Callable[..., Any], Any, Any]) -> None:
        self.name = name_of(call[0])
        self.future: TurnFuture[Any] | None = TurnFuture()  # until it has ended: the account outlives the result
        self.activity: Activity | None = None
        self._turn = turn
        self._pool = pool
        self._call: tuple[Callable[..., Any], Any, Any] | None = call
        self._context: Context | None = context_of(turn)
        self._runs_on: int | None = None

    def run(self) -> None:
        """On a thread of the pool."""
        turn = self._turn
        if turn.token.cancelled and not self.is_shielded():
            self.drop(stopped=True)  # X2
            return
        future, call, context = self._take()
        if not future.set_running_or_notify_cancel():
            self._close("cancelled", "its future was cancelled before it began")
            return
        self._runs_on = threading.get_ident()
        value, error = None, None
        try:
            value = context.run(_run_job, token_of(context), *call)
        except BaseException as caught:  # noqa: BLE001 - whoever asks the future raises it
            error = caught
        self._runs_on = None
        del call, context
        if error is None:
            self._close("completed", None, "returned")
            future.set_result(value)
        else:
            text = described(error)
            self._close("cancelled" if is_own_stop(turn, error) else "failed", text, f"raised {text}")
            future.set_exception(error)
            del error  # it holds this frame

    def drop(self, *, stopped: bool) -> None:
        """End it without having begun. Runs the future's callbacks."""
        future, _, _ = self._take()
        if stopped:
            future._stop = self._turn.token._error()
        self._close("cancelled", "it had not begun")
        future.cancel()
        future.set_running_or_notify_cancel()  # whoever waits for several futures is told

    def _take(self) -> tuple[TurnFuture[Any], tuple[Callable[..., Any], Any, Any], Context]:
        future, call, context = self.future, self._call, self._context
        self.future = self._call = self._context = None
        assert future is not None
        assert call is not None
        assert context is not None
        return future, call, context

    def is_shielded(self) -> bool:
        """Whether its submitter's shield still holds the stop back for it."""
        context = self._context
        # a copy: whoever runs the job meanwhile is inside of the context itself
        return context is not None and context.copy().run(is_shielded, self._turn.token)

    def _close(self, state: ActivityState, detail: str | None, late: str | None = None) -> None:
        assert self.activity is not None
        if not self.activity.close(state, detail) and late is not None:
            self.activity.note_late(late)

    # -- being owned ------------------------------------------------------------------------------------------

    def ask(self) -> None:
        """The pool is asked; it stands before its jobs in the inventory."""

    def end(self, kill_at: Callable[[], float]) -> None:
        """The pool has waited already."""

    def alive(self) -> tuple[str, ...]:
        ident = self._runs_on
        if ident is None:
            return ()
        frame = frame_of(ident)
        if frame is None:
            return ()
        code = frame.f_code
        return (f"job {self.name} of {self._pool} ({code.co_filename}:{frame.f_lineno} in {code.co_name})",)

    def outcome(self) -> None:
        return None


@calls_the_body
def _run_job(token: CancelToken, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    token.check()
    return fn(*args, **kwargs)


def guarded(fn: Callable[..., None], **kwargs: Any) -> None:
    """Run what calls the callbacks of a future: one that raises a stop must not end the thread that serves others."""
    try:
        fn(**kwargs)
    except BaseException:  # noqa: BLE001 - told as Python tells what ends a thread
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
