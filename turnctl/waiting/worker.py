"""One thread of ours that runs one function of the user's, in the caller's context, owned by a turn.

Invariants
  W1  It is registered as an activity before its thread can run; the activity is closed once, with what was observed.
  W2  The thread is a daemon: what cannot be ended must not keep the process from exiting.
  W3  The end is stored (``_ended``) *before* waiters are released; who waits lists its lock *then* reads it.
  W4  What comes after the activity was closed is noted as late evidence and never returned.
  W5  Whether the function runs is decided by the first entry of ``_begun``: a starter that is struck by an exception
      (a Ctrl-C while it waits for the new thread) and a thread that comes up all the same never disagree.

May block: ``end``, up to the grace, and a quarter of a second more where nobody stopped the turn. A function that is
blocked in C code can only be waited for: it is then named.
"""

from __future__ import annotations

import threading
from _thread import LockType
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from turnctl import clock, points
from turnctl.errors import CancelledError
from turnctl.spelling import described
from turnctl.tokens import registry
from turnctl.tokens.current import current_token
from turnctl.tokens.event import park, release_all
from turnctl.tokens.frames import calls_the_body
from turnctl.tokens.leaving import send_off, settle
from turnctl.tokens.sites import frame_of
from turnctl.tokens.threads import needing_threads
from turnctl.waiting import abandoned

if TYPE_CHECKING:
    from turnctl.tokens.activities import Activity
    from turnctl.tokens.turn import TurnCore

__all__ = ["Worker", "name_of"]


def name_of(fn: object) -> str:
    """The function's name for people, whatever kind of callable it is."""
    inner = getattr(fn, "func", fn)  # functools.partial
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    text = str(name)
    return text.replace(".<locals>", "").replace("<lambda>", "lambda") if "<" in text else text


class Worker:
    """A thread of a turn (``tokens.activities.Owned``), or with ``turn`` None a thread like any other."""

    # as they are at first; a loop makes many of these, and most keep most of it
    result: Any = None
    error: BaseException | None = None
    activity: Activity | None = None
    thread: threading.Thread | None = None
    #: called on the worker's own thread when the function has come back, before anybody is woken
    on_end: Callable[[], None] | None = None
    _ended = False
    _is_ours = False  # a thread of somebody else's that it runs on is not one that we left behind

    def __init__(
        self,
        turn: TurnCore | None,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        kind: str = "thread",
        name: str | None = None,
        context: Context | None = None,
    ) -> None:
        self.kind = kind
        self.name = name or name_of(fn)
        self.turn = turn
        self.waiters: list[LockType] = []
        self._call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None = (fn, args, kwargs)
        self._context = copy_context() if context is None else context
        self._begun: list[str] = []

    # -- running ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Register, then start. Raises ``TurnOver`` once the turn has been decided, with nothing started."""
        if self.turn is not None:
            self.activity = self.turn.activities.admit(self.kind, self.name, self)
        points.reach("worker.admitted")
        self._is_ours = True
        thread = threading.Thread(target=self._run, name=f"turnctl-{self.kind}-{self.name}", daemon=True)
        try:
            with needing_threads(f"{self.kind} {self.name}"):
                thread.start()
        except BaseException as error:
            self._begun.append("never")
            if self._begun[0] == "never":  # W5
                self._ended = True
                if self.activity is not None:
                    text = f"its thread could not be started: {described(error)}"
                    self.activity.close("failed", text)
            raise
        self.thread = thread

    @property
    def is_begun(self) -> bool:
        """Whether its function runs, has run or is about to: False if a start was struck before its thread came up."""
        return self._begun[0] == "run" if self._begun else self.thread is not None

    def run_here(self) -> None:
        """Run the function on the calling thread, which is somebody else's; registering it is left to the caller."""
        self.thread = threading.current_thread()
        self._come_through()

    def _run(self) -> None:
        self.thread = threading.current_thread()
        self._begun.append("run")
        if self._begun[0] == "run":
            self._come_through()

    def _come_through(self) -> None:
        call, self._call = self._call, None
        assert call is not None
        try:
            self.result = self._context.run(_body, *call)
        except BaseException as error:  # noqa: BLE001 - whoever waits for the result raises it
            self.error = error
        finally:
            try:
                if self.on_end is not None:
                    self.on_end()
            finally:
                try:
                    self._account()
                finally:
                    self._ended = True
                    settle(self)
                    abandoned.settle(self)
                    points.reach("worker.ended")
                    release_all(self.waiters)  # W3

    def _account(self) -> None:
        activity = self.activity
        if activity is None:
            return
        error = self.error
        if error is None:
            closed = activity.close("completed")
            text = "returned"
        elif isinstance(error, CancelledError):
            closed = activity.close("cancelled", str(error))
            text = "was cancelled"
        else:
            text = f"raised {described(error)}"
            closed = activity.close("failed", text)
        if not closed:
            activity.note_late(text)  # W4

    @property
    def has_ended(self) -> bool:
        """Whether the function has come back."""
        return self._ended

    @property
    def ident(self) -> int | None:
        """The number of its thread; None before it has one."""
        thread = self.thread
        return None if thread is None else thread.ident

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the function has come back; whether it has. Not a checkpoint."""
        return park(lambda: self._ended, timeout, self.waiters)

    # -- being owned (tokens.activities.Owned) ----------------------------------------------------------------

    def ask(self) -> None:
        """The token has been tripped already; a plain function can be asked in no other way."""

    def end(self, kill_at: Callable[[], float]) -> None:
        """Wait for it within the grace. It cannot be killed: then it is left behind and named."""
        hurry: list[list[LockType]] = [] if self.turn is None else [self.turn._hurry_waiters]
        if self.thread is threading.current_thread():
            return  # a thread that ends its own turn does not wait for itself
        while not self._ended:
            at = kill_at()
            left = at - clock.monotonic()
            if left <= 0 and self._comes_up():
                continue
            if left <= 0:
                if self._is_ours:
                    abandoned.add(self)
                return
            park(lambda: self._ended or kill_at() < at, left, self.waiters, *hurry)  # noqa: B023

    def _comes_up(self) -> bool:
        """Have it leave where the turn was not stopped; whether it has come back."""
        until = None if self._ended or self.turn is None else send_off(self.turn, self)
        if until is not None:
            park(lambda: self._ended, max(until - clock.monotonic(), 0.0), self.waiters)
        return self._ended

    def threads_at_work(self) -> list[tuple[object, threading.Thread]]:
        """Its own, while the function has not come back (``tokens.leaving``)."""
        thread = self.thread
        return [] if self._ended or thread in (None, threading.current_thread()) else [(self, thread)]

    def alive(self) -> tuple[str, ...]:
        """Its name and the line it stands at, while it has not come back."""
        if self._ended:
            return ()
        return (f"thread {self.name}{self.where()}",)

    def outcome(self) -> None:
        return None

    def where(self) -> str:
        """The innermost line of Python that the thread stands at, as `` (file:line in function)``; may be empty."""
        thread = self.thread
        frame = None if thread is None else frame_of(thread.ident)
        if frame is None or self._ended:
            return ""
        code = frame.f_code
        return f" ({code.co_filename}:{frame.f_lineno} in {code.co_name})"


@calls_the_body
def _body(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    token = current_token()
    if token is not None and token._due and registry.enclosing(token) is not None:
        token.check()  # biased: what was stopped before it began does not begin
    return fn(*args, **kwargs)
