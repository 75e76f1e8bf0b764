"""The ear: counts each signal once, whether the reader of the wake-up descriptor or the Python handler comes first.

Python runs a handler when the main thread next executes bytecode, which in a call to C may be never. The wake-up
descriptor is written to by the C handler at once; a thread of ours reads it and does what the handler would do.

Invariants
  N1  While our descriptor is set, each signal is one byte, and the kernel gives each byte to one reader. Bytes are
      what is counted; a run of the handler only reads those that are left. Of two signals that one run stands for,
      both are counted. The mark (N2) of the second is then left over: one that was there when the last run ended,
      and still is ``_LEFT_OVER_S`` later, has no run of its own to come and counts for none.
  N2  A byte that was read leaves a mark, and a run of the handler takes one. A run that finds none waits a moment for
      a byte that is late: another thread may have taken the signal and not have written yet. If none comes there is
      none, and the run is what is counted: the host called the handler, or the descriptor was not ours.
  N3  Where another descriptor is set, each run is counted, unless a byte of its number was read just before: then
      the host set its own between the two. A byte that came to us while we looked is handed on to it.
  N4  Presses are numbered under ``_lock`` and carried out outside it, and taken off the list after that. So whoever
      comes meanwhile carries them out as well, which changes nothing; a handler never goes on before the stops that
      the reader has numbered are made.
  N5  Whether the latest signal of a number found anybody to stop is kept, and told to each run of its handler: where
      it found nobody, the previous handler is due, on the main thread.
  N6  In a forked child there is no thread and no descriptor of the parent's; both are made anew with the next turn
      that begins on its main thread. The main thread takes its descriptor back for the length of a fork.

Locks: ``_lock`` alone, held for reads that do not block and for numbering; N2 waits under it, only on the main thread.
It is re-entrant for handlers that nest there; the reader's thread is never interrupted. May block: ``close``, bounded.
Not promised: that a signal which comes between another thread's fork and its child's first step is not heard by both.
"""

from __future__ import annotations

import _socket
import os
import select
import signal
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import NamedTuple, Protocol

from turnctl import points
from turnctl.tokens import registry

__all__ = ["Ear", "Order", "Placed"]

_LATE_MS = 10  # how long a byte may come after the handler that runs for it (N2)
_JUST_BEFORE_S = 0.05  # how long a byte may have been read before the host took the descriptor (N3)
_LEFT_OVER_S = 0.2  # how long a run may follow the run before it, where two signals came in one go (N1)
_JOIN_S = 1.0


class Order(Protocol):
    """A press that has its number."""

    def carry_out(self) -> None:
        """Make the stop. More than one thread may call it, and at the same time."""


class Placed(NamedTuple):
    """What one signal comes to: what is to be done, or that nobody was there to stop."""

    orders: Sequence[Order]
    passes_on: bool


Place = Callable[[int], Placed | None]


class Ear:
    """Hears signals for ``place``, which numbers one press, takes no time, and gives None for a signal that is not
    ours. ``rearm`` before the first; made, rearmed and closed by the main thread.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._home = os.getpid()
        self._lock = threading.RLock()
        self._read = self._write = -1
        self._thread: threading.Thread | None = None
        self._is_closing = False
        self._is_forking = False
        self._is_set = False  # whether our descriptor was set, or could be, when it was last looked at
        self._inbox: deque[bytes] = deque()
        self._marks: dict[int, deque[float]] = {}
        self._runs: dict[int, float] = {}  # when the last run of a handler ended
        self._passes_on: dict[int, bool] = {}
        self._orders: list[Order] = []

    def _open(self) -> None:
        try:
            # a socket, in which another process can look for what is not read yet without taking it
            self._read, self._write = (end.detach() for end in _socket.socketpair())
            os.set_blocking(self._read, False)
            os.set_blocking(self._write, False)
            thread = threading.Thread(target=self._listen, name="turnctl-signals", daemon=True)
            thread.start()
        except (OSError, RuntimeError):
            self._shut()  # no descriptor or no thread to be had: the handler does it alone
        else:
            self._thread = thread

    # -- the reader -------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        while True:
            poll.poll()
            points.reach("signals.reader.woken")
            with self._lock:
                if self._is_closing:
                    break
                self._drain()
            points.reach("signals.reader.numbered")
            self._carry_out()
            # also for signals that are not ours: the main thread may have to run a handler, and be parked
            for turn in registry.all_turns():
                turn._nudge()
            registry.tell(registry.on_signal)
        self._shut()

    # -- the handler ------------------------------------------------------------------------------------------

    def account(self, number: int, place: Place) -> bool:
        """Count what a handler runs for, if need be by ``place``; whether the previous handler is due (N5).

        Everything that was counted has been carried out when it returns.
        """
        points.reach("signals.handler.entered")
        if os.getpid() != self._home:
            return True  # before the hooks of the fork: the turns are the parent's
        try:
            with self._lock:
                self._forget_left_over(number)
                if not self._is_counted(number):
                    self._enter(number, place)
                is_due = self._passes_on.get(number, False)
        finally:
            self._carry_out()
            self._runs[number] = monotonic()
        return is_due

    def _is_counted(self, number: int) -> bool:
        self._drain()
        is_ours = self._claim()
        marks = self._marks.setdefault(number, deque())
        if not is_ours:
            is_new = bool(marks) and monotonic() - marks[-1] < _JUST_BEFORE_S
            marks.clear()
            return is_new  # N3
        self._drain()
        if not marks:
            self._await_late()
            self._drain()
        try:
            marks.popleft()
        except IndexError:
            return False
        return True  # N2

    def _forget_left_over(self, number: int) -> None:
        ended = self._runs.get(number, 0.0)
        marks = self._marks.get(number)
        if marks and monotonic() - ended >= _LEFT_OVER_S:
            while marks and marks[0] <= ended:
                marks.popleft()

    def _await_late(self) -> None:
        poll = select.poll()  # one of its own: a handler that nests here polls too
        poll.register(self._read, select.POLLIN)
        poll.poll(_LATE_MS)

    # -- counting ---------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Number all that can be read. Under the lock."""
        try:
            self._collect()
            self._sort()
        except BaseException:
            self._sort()  # a handler of the host's that raised in here: nobody else would look into the inbox
            raise

    def _collect(self) -> None:
        if self._read < 0:
            return
        try:
            # in C from the read to the append: nothing can strike in between and lose what was read
            self._inbox.extend(iter(partial(os.read, self._read, 1), b""))
        except BlockingIOError:
            pass

    def _sort(self) -> None:
        while self._inbox:
            try:
                number = self._inbox.popleft()[0]
            except IndexError:
                return  # a handler that nests here was first
            if self._enter(number, self._place):
                self._marks.setdefault(number, deque()).append(monotonic())

    def _enter(self, number: int, place: Place) -> bool:
        placed = place(number)
        if placed is None:
            return False
        self._passes_on[number] = placed.passes_on
        self._orders.extend(placed.orders)
        return True

    def _carry_out(self) -> None:
        try:
            self._carry_out_all()
        except BaseException:
            self._carry_out_all()
            raise

    def _carry_out_all(self) -> None:
        for order in list(self._orders):
            order.carry_out()
            try:
                self._orders.remove(order)
            except ValueError:
                pass  # another thread has carried it out as well (N4)

    def lend(self) -> int:
        """A copy of the reading end, while signals come there first; else -1. For who only looks, and closes it."""
        with self._lock:  # against the end, which closes it
            return os.dup(self._read) if self._is_set and self._read >= 0 else -1

    # -- the descriptor ---------------------------------------------------------------------------------------

    def rearm(self) -> bool:
        """Set our descriptor if none is set; nothing off the main thread. Whether it is set. Never blocks."""
        if threading.get_ident() != threading.main_thread().ident or self._is_closing:
            return False
        if self._thread is None:
            self._open()
        return self._claim() or self._is_set

    def _claim(self) -> bool:
        """Set our descriptor if none is set; whether it was ours already."""
        if self._write < 0:
            return False
        try:
            before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        except ValueError:
            return False  # not the main thread: the host calls our handler by itself
        self._is_set = before in (self._write, -1)
        if before == self._write:
            return True
        if before != -1:
            self._give_back(before)
        elif self._is_forking:
            signal.set_wakeup_fd(-1)
        else:
            self._forget_old_marks()
        return False

    def _give_back(self, before: int) -> None:
        try:
            signal.set_wakeup_fd(before)
        except (ValueError, OSError):
            return  # the host has closed it, and left it set
        came: deque[bytes] = deque()
        try:
            came.extend(iter(partial(os.read, self._read, 1), b""))
        except BlockingIOError:
            pass
        for byte in came:
            try:
                os.write(before, byte)
            except OSError:
                pass  # full, or closed by now: as if the C handler had met it

    def _forget_old_marks(self) -> None:
        for marks in list(self._marks.values()):
            if marks and monotonic() - marks[-1] >= _JUST_BEFORE_S:
                marks.clear()

    def _let_go(self) -> bool:
        """Take our descriptor back, if it is set; whether it was. Main thread only."""
        now = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        if now in (self._write, -1):
            signal.set_wakeup_fd(-1)
            return now != -1
        self._give_back(now)
        return False

    # -- the end ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Hear no more; main thread only. Blocks until the reader has gone, at most a second."""
        if self._write >= 0:
            self._let_go()
        with self._lock:  # the reader closes the descriptor as soon as it sees the mark
            self._is_closing = True
            if self._write >= 0:
                try:
                    os.write(self._write, b"\0")
                except BlockingIOError:
                    pass  # full, hence readable
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def _shut(self) -> None:
        with self._lock:
            fds = (self._write, self._read)  # this end first: nothing is ever written to a pipe without a reader
            self._read = self._write = -1
        for fd in fds:
            if fd >= 0:
                os.close(fd)

    # -- fork (N6) --------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Take the descriptor back, so that a signal to the child is not heard here."""
        if threading.get_ident() == threading.main_thread().ident and self._write >= 0:
            self._is_forking = self._let_go()

    def after_fork(self) -> None:
        """In the parent: set it again; another thread may fork meanwhile, and leaves it to the main thread."""
        if self._is_forking and threading.get_ident() == threading.main_thread().ident:
            self._is_forking = False
            self._claim()

    def in_child(self) -> None:
        """In the child: let everything of the parent's go."""
        fds = [fd for fd in (self._write, self._read) if fd >= 0]
        if fds:
            now = signal.set_wakeup_fd(-1)
            if now not in (self._write, -1):
                signal.set_wakeup_fd(now)
        self._begin_anew()
        for fd in fds:
            os.close(fd)
