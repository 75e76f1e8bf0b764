"""The command's place on the terminal: in the foreground while it runs, stopped and continued with our own job.

What the terminal's keys do is decided by where the foreground is; docs/adr/0005 has the reasons.

Invariants
  F1  The foreground is handed over before the command is loaded, if we hold it and share it with nobody.
  F2  Where we share it with the rest of a pipeline, the command is handed it when it is stopped for wanting it.
  F3  When the command is stopped, we take the foreground back and stop our own job the same way, so that the shell
      sees it; when we are continued, both are undone. With no shell that could continue us we do not stop.
  F4  A press that the command ignores is a press for us; three within two seconds always are one.
  F5  ``end`` leaves the terminal as it was found, whatever has happened.
  F6  A Ctrl-Z that reaches us while the command is being started, or while we deal with another stop, is not lost: it
      is carried out as soon as the command is known and that is over.

All of it runs on the main thread, in signal handlers too, but for the reader of the sentinel, which signals this
process and touches nothing else. Nothing here blocks, but that F3 stops the process.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from turnctl.cli.talk import say
from turnctl.processes.handover import Handover
from turnctl.processes.job import Job
from turnctl.processes.sentinel import Sentinel, reaction
from turnctl.processes.terminal import Terminal

__all__ = ["Foreground"]


_KEYS = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP)
_PRESSES_THAT_STOP = 3
_WITHIN_S = 2.0


class Foreground(Handover):
    """One command on one terminal. Made before the turn begins, while this process has one thread."""

    def __init__(self, terminal: Terminal, *, is_stopping: Callable[[], bool], quiet: bool) -> None:
        super().__init__(terminal, is_stopping)
        self._quiet = quiet
        self._was_handed = False
        self._is_busy = False
        self._has_news = False
        # whether a command may be running that is not known yet, and whether a Ctrl-Z waits to be carried out (F6)
        self._is_starting = False
        self._is_stop_due = False
        self._pressed: list[tuple[int, float]] = []
        self._sentinel = Sentinel.start() if self._may_hold else None
        ends = None if self._sentinel is None or not self._from_start else self._sentinel.ends
        self._job = Job(
            self._claim,
            self._look,
            foreground=terminal.descriptor if self._from_start else None,
            announce=ends,
            console=self._console(),
            on_end=self._leave,
        )
        self._reader: threading.Thread | None = None
        self._before = {
            number: signal.signal(number, handler)
            for number, handler in (
                (signal.SIGCHLD, self._on_child),
                (signal.SIGCONT, self._on_continued),
                (signal.SIGTSTP, self._on_stop_key),
            )
            if signal.getsignal(number) is not signal.SIG_IGN
        }

    # -- starting ---------------------------------------------------------------------------------------------

    def options(self) -> dict[str, Any]:
        """What ``turn.run`` has to know of this. The start is to come next."""
        self._is_starting = True
        return {
            "tty": "inherit",
            "on_start": self._started,
            "before_exec": self._job,
        }

    @property
    def keys(self) -> frozenset[int]:
        """The signals that the terminal's keys sent to the command, as far as it could get any."""
        return frozenset((signal.SIGINT, signal.SIGQUIT) if self._was_handed else ())

    def _leave(self) -> None:
        """Take the sentinel out of the command's group."""
        if self._sentinel is not None:
            self._sentinel.join(0)

    def _claim(self) -> None:
        """Take the foreground for the command: called in the child, before it becomes the command (F1).

        A warden does so by itself, and starts the command without our handlers.
        """
        if not self._from_start:
            return
        for number in _KEYS:
            # ours would swallow a key that is pressed before the command is loaded
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        if self._sentinel is not None:
            self._sentinel.join(os.getpid())
        self._terminal.claim()

    def _started(self, pid: int) -> None:
        if self._sentinel is not None and not self._from_start:
            self._sentinel.join(pid)
        # handed over, whatever it has done since: an interactive shell passes it on at once
        self._is_handed, self._from_start = self._from_start, False
        self._command = pid  # from here on the handlers act
        self._is_starting = False
        self._look()  # it may have been stopped before they did
        if self._sentinel is not None:
            self._reader = threading.Thread(
                target=self._read_keys, args=(self._sentinel, pid), name="turnctl-keys", daemon=True
            )
            self._reader.start()

    # -- stopped and continued --------------------------------------------------------------------------------

    def _on_child(self, _number: int, _frame: FrameType | None) -> None:
        self._look()

    def _look(self) -> None:
        """Deal with every stop of the command that there is to see.

        Called again while it is at work it only leaves word, so that a stop of that moment is seen as well: between
        the last look and the end of this there is no other signal to come.
        """
        self._has_news = True
        if self._command is None or self._is_busy:
            return
        while self._has_news or self._is_stop_due:
            with self._busy():
                if self._is_stop_due:
                    self._stop_with_command()
                    continue
                self._has_news = False
                while stopped := self._stopped_by():
                    self._stopped(stopped)

    @contextmanager
    def _busy(self) -> Iterator[None]:
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False

    def _stopped_by(self) -> int:
        """The signal that has just stopped the command, 0 for none."""
        assert self._command is not None
        if self._job.is_guarded:
            return self._job.stops.popleft() if self._job.stops else 0
        try:
            found = os.waitid(os.P_PID, self._command, os.WSTOPPED | os.WNOHANG)
        except ChildProcessError:
            return 0
        return 0 if found is None else found.si_status

    def _tell_of_stuck(self, number: int) -> None:
        if not self._quiet:
            say(
                f"the command was stopped by {signal.Signals(number).name} and waits for SIGCONT; "
                "a signal to turnctl ends it"
            )

    def _stop_by(self, number: int, target: int) -> None:
        """Stop ourselves, or with 0 our job; comes back when somebody has continued us."""
        before = signal.signal(number, signal.SIG_DFL)
        self._is_stop_due = False  # this is it
        os.kill(target, number)
        signal.signal(number, before)

    def _on_stop_key(self, _number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z where we hold the foreground, or a SIGTSTP from elsewhere: the command is stopped with us."""
        if self._is_stopping() or self._terminal.shell_group() is None:
            return
        self._is_stop_due = True
        if self._is_busy or self._is_starting:
            return  # a command that is not known yet would run on while we are stopped
        if self._command is None:
            with self._busy():
                self._stop_by(signal.SIGTSTP, os.getpid())
        self._look()

    def _stop_with_command(self) -> None:
        self._is_stop_due = False
        if self._is_stopping():
            return
        was_handed = self._is_handed
        self._signal_command(signal.SIGTSTP)
        self._take_back()
        self._stop_by(signal.SIGTSTP, os.getpid())
        self._resume(hand_over=was_handed, modes=None)

    def _on_continued(self, _number: int, _frame: FrameType | None) -> None:
        """Somebody stopped and continued us, not the command: the shell has had the terminal in between."""
        if self._command is None or self._is_busy:
            return
        was_handed = self._is_handed
        if was_handed and self._terminal.foreground() == self._terminal.shell_group():
            self._is_handed = False  # continued in the background
        self._resume(hand_over=was_handed, modes=None)

    # -- keys -------------------------------------------------------------------------------------------------

    def _read_keys(self, sentinel: Sentinel, command: int) -> None:
        while numbers := sentinel.read():
            for number in numbers:
                if self._is_for_us(number, command):
                    os.kill(os.getpid(), number)
        # killed with the group: who is still there can no longer be reached by keys, so the next ones are ours
        if self._is_stopping() and self._is_handed:
            self._terminal.take()

    def _is_for_us(self, number: int, command: int) -> bool:
        now = time.monotonic()
        self._pressed.append((number, now))
        if self._is_stopping() or number == signal.SIGHUP:
            return True
        recent = sum(now - at <= _WITHIN_S for _, at in self._pressed)
        return recent >= _PRESSES_THAT_STOP or (reaction(command, number) == "ignored")

    # -- the end ----------------------------------------------------------------------------------------------

    def end(self, *, restore: bool) -> None:
        """Take the terminal back; with ``restore`` put its settings back to what they were at the start.

        May be called at any time from the main thread, and more than once.
        """
        if self._sentinel is not None:
            self._sentinel.end()
            if self._reader is not None:
                self._reader.join(1.0)
        self._command = None
        self._is_starting = self._is_stop_due = False
        if self._from_start or self._is_handed:
            # also where the command could not be started: its child had claimed the foreground already
            self._was_handed = self._is_handed
            self._is_handed = self._from_start = False
            self._terminal.take()
            if restore:
                self._terminal.set_modes(self._terminal.saved)
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()
