"""Who drives the loop of a command, and how others ask something of it.

Invariants
  V1  One thread at a time drives, the holder of ``_driver``. It alone touches what the loop works on.
  V2  A request (``ask``, ``hurry``, ``end``, the owner's bell) stores what it wants and *then* rings; the
      loop clears the bell and *then* reads what is wanted. So none is lost, and none needs a lock.
  V3  A command that was *left* has no driver. The loop stores that it leaves and *then* reads ``_asked``; who asks
      stores ``_asked`` and *then* reads the phase: one of the two goes on. The same holds between a background thread
      that lets go and who asks meanwhile.
  V4  In a forked child nothing here does anything: the processes belong to the parent.

Lock order: ``_driver``, then the condition of a reader of output. Requests take neither. May block: ``end``
and ``join``, until the driver is through, which every phase bounds.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Literal

from turnctl import points
from turnctl.waiting.wakeup import Wakeup

__all__ = ["Driven", "Phase"]

Phase = Literal["new", "running", "draining", "waiting", "left", "ending", "handing", "over"]


class Driven:
    """The threads and the requests of one supervised command; ``Supervision`` adds what is done in the
    loop.
    """

    def __init__(self) -> None:
        self.phase: Phase = "new"
        self._wakeup: Wakeup | None = None
        self._asked = False
        self._limits: list[Callable[[], float]] = []
        self._to_send: deque[int] = deque()
        self._home = os.getpid()
        self._driver = threading.Lock()
        self._driving: int | None = None
        self._thread: threading.Thread | None = None
        self._in_background = False
        self._background_gate = threading.Lock()

    @property
    def _is_called(self) -> bool:
        """Whether somebody wants something of a command that was left."""
        return self._asked

    def _drive(self) -> None:
        """Go on until the command is over or left. Called with ``_driver`` held."""
        raise NotImplementedError

    def _look_at_what_is_left(self) -> None:
        """Let go of it if it has ended. Called with ``_driver`` held."""
        raise NotImplementedError

    def _drive_here(self, work: Callable[[], None]) -> None:
        """Do ``work`` as the driver."""
        with self._driver:
            self._driving = threading.get_ident()
            try:
                work()
            finally:
                self._driving = None

    def _go_on(self) -> None:
        if self.phase not in ("new", "over"):
            self._attend()

    def _attend(self) -> None:
        """Drive, and hear signals meanwhile where this is the main thread."""
        wakeup = self._wakeup
        assert wakeup is not None
        wakeup.listen()
        try:
            self._drive()
        finally:
            wakeup.deafen()

    # -- requests --------------------------------------------------------------------------------------------

    @property
    def is_foreign(self) -> bool:
        """Whether this is a forked child, which owns none of it (V4)."""
        return os.getpid() != self._home

    def ask(self) -> None:
        """Begin to end it. Never blocks, never raises; may be called more than once."""
        if self.is_foreign:
            return
        self._asked = True
        self.wake()
        if self.phase == "left":
            try:
                self._drive_in_background()
            except RuntimeError:
                pass  # no thread to be had now: the owner's ``end`` does it

    def send(self, signum: int) -> None:
        """Have one signal sent to the main process, if that has not ended by then. Never blocks, never raises."""
        self._to_send.append(signum)
        self.wake()

    def hurry(self, grace_s: float) -> None:
        """Begin to end it, and have it killed ``grace_s`` from now at the latest. Never blocks."""
        at = monotonic() + grace_s
        self._limits.append(lambda: at)
        self.ask()

    def end(self, kill_at: Callable[[], float]) -> None:
        """Block until it has ended or has been given up; ``kill_at()`` is when asking turns into killing."""
        if self.is_foreign or self._driving == threading.get_ident():
            return
        self._limits.append(kill_at)
        self._asked = True
        self.wake()
        self._drive_here(self._go_on)
        self.join()

    def end_by(self, ends_at: float) -> bool:
        """Block until what was asked for has been carried out, or the monotonic time ``ends_at``; whether it has.

        Needs no thread: what nobody drives is driven here.
        """
        self.wake()
        if self.is_foreign or not self._driver.acquire(timeout=max(0.0, ends_at - monotonic())):
            return False
        try:
            self._driving = threading.get_ident()
            self._go_on()
        finally:
            self._driving = None
            self._driver.release()
        return True

    def wake(self) -> None:
        """Have a blocked loop look at what is wanted. Never blocks; safe in a signal handler."""
        if not self.is_foreign and self._wakeup is not None:
            self._wakeup.ring()

    def look_again(self) -> None:
        """Close the account of what was left and has ended by itself since. Never blocks."""
        if self.is_foreign or self.phase != "left" or not self._driver.acquire(False):
            return
        try:
            self._driving = threading.get_ident()
            if self.phase == "left":
                self._look_at_what_is_left()
        finally:
            self._driving = None
            self._driver.release()

    # -- a thread of its own ---------------------------------------------------------------------------------

    def _drive_in_background(self) -> None:
        """Drive on another thread, unless one does so already."""
        if not self._claim_background():
            return
        try:
            # the shield of the caller's context, if there is one, holds for the command too
            context = contextvars.copy_context()
            thread = threading.Thread(
                target=context.run, args=(self._background,), name=self._thread_name(), daemon=True
            )
            thread.start()
        except BaseException:
            self._in_background = False
            raise
        self._thread = thread

    def _thread_name(self) -> str:
        return "turnctl-process"

    def _claim_background(self) -> bool:
        if not self._background_gate.acquire(False):
            return False  # another thread is just claiming it
        try:
            claimed = not self._in_background
            self._in_background = True
            return claimed
        finally:
            self._background_gate.release()

    def _background(self) -> None:
        while True:
            with self._driver:
                self._driving = threading.get_ident()
                try:
                    self._go_on()
                finally:
                    self._driving = None
            points.reach("processes.drive.leaving")
            self._in_background = False
            # then read what was asked: who asked before found this thread still there (V3)
            if not (self.phase == "left" and self._is_called and self._claim_background()):
                return

    def join(self) -> None:
        """Wait for the supervising thread, which ends when the command is over or left."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
