"""A ``concurrent.futures.Executor`` of a turn: its exit never waits for work that was abandoned.

Invariants
  X1  A job is registered as an activity before it is queued, and its future ends exactly once: by the thread that took
      it off the queue, or by whoever dropped it from there. ``SimpleQueue`` gives each item to one.
  X2  Biased: ``submit`` raises once the turn was stopped. A job that waits in the queue then never begins: its future
      is cancelled. The submitter queues and *then* reads the flag; a callback of the stop drops what it finds.
  X3  Each job runs in a copy of its own submitter's context. The pool's threads themselves carry none.
  X4  Threads are daemons, end with the executor or with the turn, and count as gone (``_left``) when they have run
      their last job. One that is blocked in foreign code is left behind with its job, which the report names.

Lock: ``_gate``, held to compare and change a number; re-entrant, for finalizers and handlers that submit.
May block: ``shutdown(wait=True)`` and leaving the ``with``: as long as work runs, but when the turn is stopped or ends
at most until its grace is over. Not promised: that queued futures are cancelled while a callback of the user blocks the
bridge thread.
"""

from __future__ import annotations

import os
import threading
from _queue import Empty, SimpleQueue
from _thread import LockType
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar

from turnctl import clock, points
from turnctl.errors import BadArgument, ExecutorClosed, TurnOver
from turnctl.tokens.callables import check_plain
from turnctl.tokens.event import park, release_all
from turnctl.waiting.call import token_in
from turnctl.waiting.jobs import Job, TurnFuture, guarded

if TYPE_CHECKING:
    from turnctl.tokens.turn import TurnCore

__all__ = ["TurnExecutor"]

T = TypeVar("T")

_JOIN_S = 1.0  # more than a thread takes to end that has run its last job
_MOST_WORKERS = 32


class TurnExecutor(Executor):
    """Workers of a turn; made by ``turn.executor()``, used with ``with`` or until the turn is over. Thread-safe."""

    kind = "executor"

    def __init__(self, turn: TurnCore, max_workers: int | None = None, *, name: str | None = None) -> None:
        if max_workers is None:
            max_workers = min(_MOST_WORKERS, (os.cpu_count() or 1) + 4)
        if isinstance(max_workers, bool) or max_workers != int(max_workers) or max_workers < 1:
            raise BadArgument(f"max_workers is a whole number of 1 or more, or None, not {max_workers!r}")
        self.turn = turn
        self.name = name or "executor"
        self.max_workers = max_workers
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._gate = threading.RLock()
        self._idle = 0
        self._threads: list[threading.Thread] = []
        self._left: list[int] = []
        self._started = 0
        self._is_shut = False
        self._listens = False
        self._unlisten: Callable[[], object] | None = None
        self._waiters: list[LockType] = []
        token_in(turn).check()
        self._activity = turn.activities.admit(self.kind, self.name, self)

    # -- working ----------------------------------------------------------------------------------------------

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> TurnFuture[T]:
        """Have ``fn(*args, **kwargs)`` run on a thread of the pool, in a copy of the caller's context.

        A checkpoint of the turn; never blocks. Raises ``ExecutorClosed`` after ``shutdown`` and ``TurnOver`` once the
        turn has ended.
        """
        check_plain("submit()", fn)
        turn = self.turn
        token_in(turn).check()
        job = Job(turn, self.name, (fn, args, kwargs))
        future = job.future
        assert future is not None
        points.reach("executor.queueing")
        with self._gate:
            if self._is_shut and not turn.activities.is_closed:
                raise ExecutorClosed(f"{self!r} was shut down and takes no more work; make a new one in the turn")
            job.activity = turn.activities.admit(job.kind, job.name, job)  # X1
            grow = listen = False
            if self._idle:
                self._idle -= 1
            elif self._started < self.max_workers:
                grow = True
                self._started += 1
            else:  # it has to wait
                listen = not self._listens
                self._listens = True
            self._queue.put(job)
        points.reach("executor.queued")
        if grow:
            self._grow()
        if listen:
            self._listen()
        if turn.token.cancelled:  # X2
            self._drop_queued()
        return future

    def _listen(self) -> None:
        try:
            self._unlisten = self.turn.token.on_cancel(self._drop_queued).unregister
        except TurnOver:
            pass  # the end of the turn has dropped the job

    def _grow(self) -> None:
        name = f"turnctl-{self.name}-{self._started}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._threads.append(thread)
        try:
            Context().run(thread.start)  # X3: where threads inherit, this one inherits nothing
        except BaseException:
            self._threads.remove(thread)
            with self._gate:
                self._started -= 1
                alone = self._started == 0
            if alone:
                self._drop_queued(stopped=False)  # nobody would ever take it
                raise
            # the other threads will come to it

    def _serve(self) -> None:
        try:
            while (job := self._next()) is not None:
                guarded(job.run)
                del job  # it holds the submitter's values
            self._queue.put(None)  # for the next one
        finally:
            self._left.append(threading.get_ident())
            if len(self._left) >= self._started:
                self._drop_queued(stopped=False)  # what was put back behind the sign to leave
                self._activity.close("completed")
            release_all(self._waiters)

    def _next(self) -> Job | None:
        try:
            return self._queue.get_nowait()
        except Empty:
            with self._gate:
                self._idle += 1
            return self._queue.get()

    def _drop_queued(self, *, stopped: bool = True) -> None:
        """Cancel what waits in the queue, but for what a shield of its submitter still holds."""
        found: list[Job | None] = []
        try:
            while True:
                found.append(self._queue.get_nowait())
        except Empty:
            pass
        due = [job for job in found if job is not None and not (stopped and job.is_shielded())]
        for job in found:
            if job not in due:
                self._queue.put(job)
        for job in due:
            guarded(job.drop, stopped=stopped)

    # -- ending -----------------------------------------------------------------------------------------------

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work, and with ``wait`` block until all of it is done.

        Once the turn is stopped or ends it waits for running work until the grace is over, and for no longer: what is
        left is named in the report. ``cancel_futures`` cancels what has not begun. Not a checkpoint.
        """
        self._close_gate()
        if cancel_futures:
            self._drop_queued(stopped=False)
        if wait:
            self._wait_left(self._give_up_at)

    def _close_gate(self) -> None:
        with self._gate:
            self._is_shut = True
            started = self._started
        self._queue.put(None)
        if len(self._left) >= started:
            self._activity.close("completed")

    def _give_up_at(self) -> float | None:
        turn = self.turn
        return clock.monotonic() if turn.is_over else turn.kill_at()

    def _has_left(self) -> bool:
        me = threading.get_ident()
        inside = any(thread.ident == me for thread in self._threads)
        return len(self._left) >= self._started - inside

    def _wait_left(self, give_up_at: Callable[[], float | None]) -> None:
        """Wait until every thread has run its last job, or until ``give_up_at()``, which may come nearer."""
        turn = self.turn
        lists = (self._waiters, turn.token._grow().waiters, turn._hurry_waiters, turn._over._waiters)
        while not self._has_left():
            at = give_up_at()
            left = None if at is None else at - clock.monotonic()
            if left is not None and left <= 0:
                break
            park(lambda: self._has_left() or turn.is_over or give_up_at() != at, left, *lists)  # noqa: B023
        if self._unlisten is not None and self._has_left():
            self._unlisten()
        for thread in list(self._threads):
            if thread.ident in self._left and thread.ident != threading.get_ident():
                thread.join(_JOIN_S)

    # -- being owned (tokens.activities.Owned) ----------------------------------------------------------------

    def ask(self) -> None:
        self._close_gate()

    def end(self, kill_at: Callable[[], float]) -> None:
        """Cancel what waits, and wait for what runs within the grace."""
        self._drop_queued(stopped=self.turn.token.cancelled)
        self._wait_left(kill_at)
        if self._has_left():
            self._activity.close("completed")
        else:
            self._activity.close("abandoned", "a job of it had not come back")

    def alive(self) -> tuple[str, ...]:
        """Nothing of its own: its jobs are named each."""
        return ()

    def outcome(self) -> None:
        return None

    def __repr__(self) -> str:
        return f"<TurnExecutor {self.name} of turn {self.turn.turn_id}: {self._started - len(self._left)} threads>"
