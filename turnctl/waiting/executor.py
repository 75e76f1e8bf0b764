"""A ``concurrent.futures.Executor`` of a turn: its exit never waits for work that was abandoned.

Invariants
  X1  A job is registered as an activity before it is queued, and belongs to whoever takes it off ``_waiting`` (atomic):
      a thread that runs it, or one that drops it. Nothing is ever put back, and what is taken is ended at once. The
      queue only says in which order they come; one that was dropped is passed over there.
  X2  Biased: ``submit`` raises once the turn was stopped. A job that waits in the queue then never begins: its future
      is cancelled. The submitter queues and *then* reads the flag; a callback of the stop drops what it finds.
  X3  Each job runs in a copy of its own submitter's context. The pool's threads themselves carry none.
  X4  Threads are daemons, end with the executor or with the turn, and count as gone (``_left``) when they have run
      their last job. One that is blocked in foreign code is left behind with its job, which the report names.
  X5  ``_spare`` has an entry for each thread that no queued job is meant for, ``_owed`` one for each queued job that no
      thread is meant for. Lists, since a handler that submits in the midst of a submit would upset a number.
  X6  When the turn is over nothing waits any more: its end drops what is left, shielded or not.

Lock: ``_gate``, held to change the two and the queue together; re-entrant, for finalizers and handlers that submit.
May block: ``shutdown(wait=True)`` and leaving the ``with``: as long as work runs, but when the turn is stopped or ends
at most until its grace is over. Not promised: that queued futures are cancelled while a callback of the user blocks the
bridge thread.
"""

from __future__ import annotations

import os
import threading
from _queue import SimpleQueue
from _thread import LockType
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar

from turnctl import clock, points
from turnctl.errors import BadArgument, ExecutorClosed, TurnOver
from turnctl.tokens import eras
from turnctl.tokens.callables import check_plain
from turnctl.tokens.event import park, release_all
from turnctl.tokens.leaving import send_off, settle
from turnctl.tokens.threads import needing_threads
from turnctl.waiting.jobs import Job, TurnFuture, guarded
from turnctl.waiting.parking import token_in

if TYPE_CHECKING:
    from turnctl.tokens.turn import TurnCore

__all__ = ["TurnExecutor"]

T = TypeVar("T")

_JOIN_S = 1.0  # more than a thread takes to end that has run its last job
_MOST_WORKERS = 32
_TAKEN = object()


def _pop(entries: list[None]) -> bool:
    """Take one entry off, if there is one; atomic."""
    try:
        entries.pop()
    except IndexError:
        return False
    return True


class TurnExecutor(Executor):
    """Workers of a turn; made by ``turn.executor()``, used with ``with`` or until the turn is over. Thread-safe."""

    kind = "executor"

    def __init__(self, turn: TurnCore, max_workers: int | None = None, *, name: str | None = None) -> None:
        if max_workers is None:
            max_workers = min(_MOST_WORKERS, (os.cpu_count() or 1) + 4)
        if type(max_workers) is not int or max_workers < 1:
            raise BadArgument(f"max_workers is a whole number of 1 or more, or None, not {max_workers!r}")
        if name is not None and not isinstance(name, str):
            raise BadArgument(f"the name of an executor is a str or None, not {name!r}")
        self.turn = turn
        self.name = name or "executor"
        self.max_workers = max_workers
        self._era = eras.era
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._gate = threading.RLock()
        self._waiting: dict[Job, None] = {}
        self._spare: list[None] = []
        self._owed: list[None] = []
        self._threads: list[threading.Thread] = []
        self._left: list[threading.Thread] = []  # not idents: a later thread may get the ident of one that is gone
        self._made: list[None] = []
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
        if turn.activities.is_closed:  # also in a fork, where a thread that is not there may hold the gate
            turn.activities.admit(job.kind, job.name)
        with self._gate:
            if self._is_shut and not turn.activities.is_closed:
                raise ExecutorClosed(f"{self!r} was shut down and takes no more work; make a new one in the turn")
            job.activity = turn.activities.admit(job.kind, job.name, job)  # X1
            grow = self._reckon()
            listen = not grow and bool(self._owed) and not self._listens
            self._listens = self._listens or listen
            self._waiting[job] = None
            self._queue.put(job)
        points.reach("executor.queued")
        if grow:
            self._grow()
        if listen:
            self._listen()
        if turn.token.cancelled:  # X2
            self._drop_queued()
        return future

    def _reckon(self) -> bool:
        """Find a thread for one more job (X5); whether a new one is to be started. Under the gate."""
        if _pop(self._spare):
            return False
        if len(self._made) < self.max_workers:
            self._made.append(None)
            points.reach("executor.counting")
            if len(self._made) <= self.max_workers:
                return True
            self._made.pop()  # a handler that nests here made the last one
        self._owed.append(None)  # it has to wait
        return False

    @property
    def _started(self) -> int:
        return len(self._made)

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
            with needing_threads(f"executor {self.name}"):
                Context().run(thread.start)  # X3: where threads inherit, this one inherits nothing
        except BaseException:
            self._threads.remove(thread)
            with self._gate:
                self._made.pop()
                self._owed.append(None)
                alone = not self._made
            if alone:
                self._drop_all()  # nobody would ever take it
                raise
            # the other threads will come to it

    def _serve(self) -> None:
        try:
            while (job := self._queue.get()) is not None:
                points.reach("executor.taking")
                if self._waiting.pop(job, _TAKEN) is None:  # X1
                    guarded(job.run)
                del job  # it holds the submitter's values
                with self._gate:
                    if not _pop(self._owed):
                        self._spare.append(None)
            self._queue.put(None)  # for the next one
        finally:
            me = threading.current_thread()
            self._left.append(me)
            settle(me)
            if len(self._left) >= self._started:
                self._drop_all()  # only after a thread that died of a hook of the host's is there anything
                self._activity.close("completed")
            release_all(self._waiters)

    def _drop_queued(self) -> None:
        """Cancel what waits, for the stop of the turn, but for what a shield of its submitter still holds."""
        for job in list(self._waiting):
            if not job.is_shielded():
                self._drop(job, stopped=True)

    def _drop_all(self) -> None:
        stopped = self.turn.token.cancelled
        for job in list(self._waiting):
            self._drop(job, stopped=stopped)

    def _drop(self, job: Job, *, stopped: bool) -> None:
        points.reach("executor.dropping")
        if self._waiting.pop(job, _TAKEN) is None:  # X1
            guarded(job.drop, stopped=stopped)

    # -- ending -----------------------------------------------------------------------------------------------

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work, and with ``wait`` block until all of it is done.

        Once the turn is stopped or ends it waits for running work until the grace is over, and for no longer: what is
        left is named in the report. ``cancel_futures`` cancels what has not begun. Not a checkpoint.
        """
        self._close_gate()
        if cancel_futures:
            for job in list(self._waiting):
                self._drop(job, stopped=False)
        if wait:
            self._wait_left(self._give_up_at)

    def _close_gate(self) -> None:
        if self._era is not eras.era:
            return  # a fork, where a thread that is not there may hold the gate
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
        inside = any(thread.ident == me for thread in list(self._threads) if thread not in self._left)
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
        for thread in list(self._left):
            if thread.ident != threading.get_ident():
                thread.join(_JOIN_S)

    # -- being owned (tokens.activities.Owned) ----------------------------------------------------------------

    def ask(self) -> None:
        self._close_gate()

    def end(self, kill_at: Callable[[], float]) -> None:
        """Cancel what waits, and wait for what runs within the grace."""
        if self.turn.token.cancelled:
            self._drop_queued()
        else:
            self._drop_all()
        self._wait_left(kill_at)
        until = None if self._has_left() else send_off(self.turn, self)
        if until is not None:
            self._wait_left(lambda: until)
        self._drop_all()  # X6
        if self._has_left():
            self._activity.close("completed")
        else:
            self._activity.close("abandoned", "a job of it had not come back")

    def threads_at_work(self) -> list[tuple[object, threading.Thread]]:
        """Those that have not left (``tokens.leaving``)."""
        gone = [*self._left, threading.current_thread()]
        return [(thread, thread) for thread in list(self._threads) if thread not in gone]

    def alive(self) -> tuple[str, ...]:
        """Nothing of its own: its jobs are named each."""
        return ()

    def outcome(self) -> None:
        return None

    def __repr__(self) -> str:
        return f"<TurnExecutor {self.name} of turn {self.turn.turn_id}: {self._started - len(self._left)} threads>"
