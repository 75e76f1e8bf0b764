"""One writer at a time within a process: on the caller's thread where nobody else writes, else a thread for all.

What comes while something is being written waits in two lines, cancellations before the rest, and what waits is
written together: one commit, one wait for the disk.

Invariants
  T1  One leads: a caller that found nobody, or the thread. Whoever leads and stops hands over what has come meanwhile.
  T2  A request is taken out of its line when the place to write is ours, not before. Until then it can be withdrawn,
      and who waits for it does so with a bound; from then on it is answered when its transaction has ended.
  T3  A cancellation is in the next transaction that begins, and shares it with cancellations alone.
  T4  The mutex is held for a few list operations; never for user code, I/O or a wait.

May block: ``submit``, for the length of other transactions, at most ``bound_s`` before its own begins. Not promised:
who interrupts a caller (KeyboardInterrupt) withdraws what has not begun; what has may be kept.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from turnctl.errors import StoreClosed, StoreError, TurnctlError

__all__ = ["Request", "Work", "Writer"]

#: the most that is written together: what bounds the wait of the cancellation that comes next
TOGETHER = 64
#: how long a thread has that has nothing to write any more
_IDLE_S = 0.1


class Request:
    """One transaction to be made: what to run, and what came of it."""

    __slots__ = ("begun", "error", "fn", "latch", "point", "result", "urgent")

    def __init__(self, fn: Callable[[Any], Any], *, urgent: bool, point: str) -> None:
        self.fn = fn
        self.urgent = urgent
        self.point = point
        self.result: Any = None
        self.error: BaseException | None = None
        self.begun = False
        self.latch = threading.Lock()


class Work(Protocol):
    """What the writer leads to."""

    def try_enter(self, *, urgent: bool) -> bool:
        """Have the place to write, if that needs no waiting."""

    def enter(self, *, urgent: bool) -> None:
        """Have the place to write, when it is our turn."""

    def leave(self) -> None:
        """Let the next one write."""

    def run(self, batch: list[Request]) -> None:
        """Write ``batch`` in one transaction, and give each its result or its error."""

    def too_long(self) -> StoreError:
        """The error for one that has waited for its whole time."""

    def no_place(self, error: OSError) -> StoreError:
        """The error for those that could not be given the place to write."""

    def ended(self) -> None:
        """The thread has ended, after the writer was closed."""


class Writer:
    """Brings requests to ``work``, one transaction at a time."""

    def __init__(self, work: Work, bound_s: float) -> None:
        self._work = work
        self._bound_s = bound_s
        self._mutex = threading.Lock()
        self._urgent: deque[Request] = deque()
        self._ordinary: deque[Request] = deque()
        self._leader: object = None
        self._leading_ident = 0
        self._thread: threading.Thread | None = None
        self._wake = threading.Semaphore(0)
        self._closed = False
        self._quiet = threading.Event()

    def submit(self, request: Request) -> Any:
        """Have ``request`` written; its result, or what it raised."""
        if self._leading_ident == threading.get_ident():
            raise TurnctlError(
                "a transaction was begun within another one on the same thread; make it one, or begin it afterwards"
            )
        try:
            if not self._begin(request):
                self._wait(request)
        except BaseException:
            self._withdraw(request)
            raise
        if request.error is not None:
            raise request.error
        return request.result

    def _begin(self, request: Request) -> bool:
        """Write it if nobody else does; otherwise have it wait, and return False."""
        try:
            with self._mutex:
                if self._closed:
                    raise StoreClosed("the ledger was closed; open it again")
                if self._leader is None and not self._urgent and not self._ordinary:
                    self._leader = request
                else:
                    self._queue(request)
            if self._leader is request:  # nobody else makes it so, or not so
                if self._lead_once(request):
                    return True
                with self._mutex:
                    self._queue(request)
            return False
        finally:
            if self._leader is request:
                self._hand_over()

    def _queue(self, request: Request) -> None:
        request.latch.acquire()
        (self._urgent if request.urgent else self._ordinary).append(request)

    def _lead_once(self, request: Request) -> bool:
        if not self._work.try_enter(urgent=request.urgent):
            return False
        self._leading_ident = threading.get_ident()
        try:
            request.begun = True
            self._work.run([request])
        finally:
            self._leading_ident = 0
            self._work.leave()
        return True

    def _hand_over(self) -> None:
        """Stop leading, and have the thread lead where something waits (T1)."""
        with self._mutex:
            waiting = bool(self._urgent or self._ordinary)
            self._leader = self if waiting else None
            if self._closed and not waiting:
                self._quiet.set()
        if waiting:
            self._awake().release()

    def _awake(self) -> threading.Semaphore:
        """Have the thread be there; only who leads asks for it."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="turnctl-ledger", daemon=True)
            thread.start()
            self._thread = thread
        return self._wake

    def _wait(self, request: Request) -> None:
        if request.latch.acquire(timeout=self._bound_s):
            return
        if self._withdraw(request):
            raise self._work.too_long()
        request.latch.acquire()  # its transaction has begun (T2)

    def _withdraw(self, request: Request) -> bool:
        with self._mutex:
            line = self._urgent if request.urgent else self._ordinary
            if request.begun or request not in line:
                return False
            line.remove(request)
            return True

    # -- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._quiet.is_set():
            self._wake.acquire()
            self._lead()
        self._work.ended()

    def _lead(self) -> None:
        """Write until nothing waits."""
        while True:
            with self._mutex:
                if self._leader is not self:
                    return
                urgent = bool(self._urgent)
                if not urgent and not self._ordinary:
                    self._leader = None
                    if self._closed:
                        self._quiet.set()
                    return
            try:
                self._work.enter(urgent=urgent)
            except OSError as error:  # no locks to be had: all that waits is told
                self._fail(error)
                continue
            batch: list[Request] = []
            try:
                batch = self._take()
                if batch:
                    self._work.run(batch)
            finally:
                self._leading_ident = 0
                self._work.leave()
                for request in batch:
                    request.latch.release()

    def _take(self) -> list[Request]:
        with self._mutex:
            line = self._urgent or self._ordinary
            batch = [line.popleft() for _ in range(min(len(line), TOGETHER))]
            for request in batch:
                request.begun = True
            self._leading_ident = threading.get_ident() if batch else 0
            return batch

    def _fail(self, error: OSError) -> None:
        with self._mutex:
            batch = [*self._urgent, *self._ordinary]
            self._urgent.clear()
            self._ordinary.clear()
        for request in batch:
            request.error = self._work.no_place(error)
            request.latch.release()

    def close(self, within_s: float) -> bool:
        """Take nothing more, and wait for what was taken; False if that is not over within the time.

        A thread that stands in line behind another process, with nothing left to write there, is hardly waited for.
        """
        with self._mutex:
            self._closed = True
            if self._leader is None:
                self._quiet.set()
            has_work = self._leader is not self or bool(self._urgent or self._ordinary or self._leading_ident)
        if not self._quiet.wait(within_s if has_work else min(within_s, _IDLE_S)):
            return False
        thread = self._thread
        if thread is not None:
            self._wake.release()
            thread.join(within_s)
            return not thread.is_alive()
        return True
