"""Deadlines: one thread for the whole process, started with the first one, ended soon after the last.

Invariants
  D1  The heap belongs to the timer thread alone; others send it orders through a ``SimpleQueue``.
  D2  At most one thread holds ``_runner``. Who sends an order tries for ``_runner`` *after* the put; the thread
      that leaves gives it up and *then* looks at the queue again. So an order is never left without a thread.

``_runner`` is only ever tried, never waited for, so nothing can deadlock on it; a signal handler may set a deadline.
The clock is the monotonic one: it stands still while the machine is suspended, so a deadline may fire late after a
suspension and never early.
"""

from __future__ import annotations

import heapq
import itertools
import os
import sys
import threading
import time
import weakref
from _queue import Empty, SimpleQueue
from _thread import allocate_lock
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Timer", "cancel_at", "start"]

_LINGER_S = 0.2
_LONGEST_S = 3600.0  # a wait is cut to this, since the platform bounds what a lock can wait for


class _Stoppable(Protocol):
    def _deadline_passed(self, reason: str) -> None: ...


class Timer:
    """One call at one monotonic time. ``cancel`` takes it back; the call may be under way by then."""

    __slots__ = ("at", "live", "run")

    def __init__(self, at: float, run: Callable[[], None]) -> None:
        self.at = at
        self.run: Callable[[], None] | None = run
        self.live = True

    def cancel(self) -> None:
        """Take the call back. Never blocks."""
        if self.live:
            self.live = False
            self.run = None
            _service.send(self)


class _Service:
    def __init__(self) -> None:
        self._orders: SimpleQueue[Timer] = SimpleQueue()
        self._runner = allocate_lock()

    def send(self, timer: Timer) -> None:
        self._orders.put(timer)
        if self._runner.acquire(False):
            try:
                threading.Thread(target=self._serve, name="turnctl-deadlines", daemon=True).start()
            except BaseException:
                # a process at its thread limit, or an interpreter that is shutting down: the next order tries again
                self._runner.release()
                raise

    def _serve(self) -> None:
        count = itertools.count()
        heap: list[tuple[float, int, Timer]] = []
        dead = 0
        while True:
            now = time.monotonic()
            while heap and (not heap[0][2].live or heap[0][0] <= now):
                timer = heapq.heappop(heap)[2]
                if not timer.live:
                    dead -= 1
                    continue
                timer.live = False
                run, timer.run = timer.run, None
                if run is not None:
                    try:
                        run()
                    except BaseException:  # noqa: BLE001 - the thread serves other turns too: it reports, goes on
                        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
            wait = min(heap[0][0] - time.monotonic(), _LONGEST_S) if heap else _LINGER_S
            try:
                order = self._orders.get(timeout=max(wait, 0.0))
            except Empty:
                if heap:
                    continue
                self._runner.release()  # D2
                if self._orders.empty() or not self._runner.acquire(False):
                    return
                continue
            if order.live:
                heapq.heappush(heap, (order.at, next(count), order))
            elif order.at > time.monotonic():
                dead += 1
                if dead * 2 > len(heap):  # so that a million short turns with long limits stay cheap
                    heap = [entry for entry in heap if entry[2].live]
                    heapq.heapify(heap)
                    dead = 0

    def reset_in_child(self) -> None:
        self.__init__()  # type: ignore[misc]


_service = _Service()
os.register_at_fork(after_in_child=_service.reset_in_child)


def start(at: float, run: Callable[[], None]) -> Timer:
    """Have ``run`` called on the timer thread at ``at`` (monotonic seconds), at once if that has passed.

    ``run`` must not block: all deadlines of the process share the thread.
    """
    timer = Timer(at, run)
    _service.send(timer)
    return timer


def cancel_at(target: _Stoppable, at: float, reason: str) -> Timer:
    """Stop ``target`` with cause ``deadline`` at ``at``; does not keep it alive."""
    ref = weakref.ref(target)

    def fire() -> None:
        alive = ref()
        if alive is not None:
            alive._deadline_passed(reason)

    return start(at, fire)
