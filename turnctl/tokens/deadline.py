"""Deadlines: one thread for the whole process, started with the first one, ended soon after the last.

Invariants
  D1  The heap belongs to the timer thread alone; others append orders to a deque and *then* release its waiter
      (``tokens.event``), and it alone takes them off.
  D2  At most one thread holds ``_runner``. Who sends an order tries for ``_runner`` *after* the append; the thread
      that leaves gives it up and *then* looks at the orders again. So an order is never left without a thread.
  D3  Orders are taken in the order of their sending, and of two that are due together the earlier one is run first.
      So when a call that is due at once has run, all that was due before it has (``settle``).

``_runner`` is only ever tried, never waited for, so nothing can deadlock on it; a signal handler may set a deadline.
The clock is the monotonic one in use: the real one stands still while the machine is suspended, so a deadline may fire
late after a suspension and never early. The time for which an idle thread lingers is always real.
"""

from __future__ import annotations

import heapq
import itertools
import math
import os
import sys
import threading
import weakref
from _thread import LockType, allocate_lock
from collections import deque
from typing import TYPE_CHECKING, Protocol

from turnctl import clock, points
from turnctl.tokens.event import park, release_all
from turnctl.tokens.threads import needing_threads

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Timer", "cancel_at", "is_time", "settle", "start"]

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
        self._orders: deque[Timer] = deque()
        self._waiters: list[LockType] = []
        self._runner = allocate_lock()

    def send(self, timer: Timer) -> None:
        self._orders.append(timer)
        release_all(self._waiters)  # D1
        if self._runner.acquire(False):
            try:
                thread = threading.Thread(target=self._serve, name="turnctl-deadlines", daemon=True)
                with needing_threads("the thread that keeps deadlines"):
                    thread.start()
            except BaseException:
                # a process at its thread limit, or an interpreter that is shutting down: the next order tries again
                self._runner.release()
                timer.live, timer.run = False, None  # who is refused must not be called by it later on
                raise

    def _serve(self) -> None:
        me = threading.get_ident()
        clock.own_threads.add(me)
        try:
            self._serve_orders()
        finally:
            clock.own_threads.discard(me)

    def _serve_orders(self) -> None:
        count = itertools.count()
        heap: list[tuple[float, int, Timer]] = []
        dead = 0
        while True:
            now = clock.monotonic()
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
            if heap:
                park(self._has_orders, min(heap[0][0] - clock.monotonic(), _LONGEST_S), self._waiters)
            elif not self._orders and not self._linger():
                points.reach("deadline.idle")
                self._runner.release()  # D2
                if not self._orders or not self._runner.acquire(False):
                    return
            if not self._orders:
                continue
            order = self._orders.popleft()
            if order.live:
                heapq.heappush(heap, (order.at, next(count), order))
            elif order.at > clock.monotonic():
                dead += 1
                if dead * 2 > len(heap):  # so that a million short turns with long limits stay cheap
                    heap = [entry for entry in heap if entry[2].live]
                    heapq.heapify(heap)
                    dead = 0

    def _has_orders(self) -> bool:
        return bool(self._orders)

    def _linger(self) -> bool:
        """Wait a little for another order, in real time; whether there is one."""
        lock = allocate_lock()
        lock.acquire()
        self._waiters.append(lock)
        if not self._orders:
            lock.acquire(True, _LINGER_S)
        self._waiters.clear()  # nobody else waits here
        return bool(self._orders)

    def settle(self, within: float) -> bool:
        if not self._runner.locked() and not self._orders:
            return True
        lock = allocate_lock()
        lock.acquire()
        self.send(Timer(clock.monotonic(), lock.release))
        return lock.acquire(True, within)

    def reset_in_child(self) -> None:
        self.__init__()  # type: ignore[misc]
        clock.own_threads.clear()


_service = _Service()
os.register_at_fork(after_in_child=_service.reset_in_child)


def settle(within: float) -> bool:
    """Wait, at most ``within`` seconds of real time, until all that is due by now has been called; whether it has.

    For clocks that stand in (``clock.keepers``). Not a checkpoint; not for a call that is made by a deadline itself.
    """
    return _service.settle(within)


clock.keepers.append(settle)


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


def is_time(at: object) -> bool:
    """Whether it is a time at which something can be due."""
    return isinstance(at, (int, float)) and math.isfinite(at)
