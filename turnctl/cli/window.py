"""``--tty new``: between our own streams and the terminal that was made for the command.

From a terminal it is a window to the command's: ours is put into raw mode, every key goes on as a byte, and so do its
sizes. From anywhere else stdin is typed there, and its end is the end of the input.

Invariants
  L1  Our terminal's settings are put back by ``end``, before a stop of this process by SIGTSTP, and by the warden where
      this process is killed. They are changed only while our group has the foreground; where a shell could bring us
      there, we wait for it, stopped.
  L2  What the command has written is passed on before ``end`` comes back, unless somebody who is left holds the
      terminal open and is silent for ``SILENCE_S``, or, after a stop, stdout takes nothing for ``STUCK_S``.
  L3  A Ctrl-C is for the command, as a byte; a press for us only as ``cli.foreground`` has it: what the command
      ignores, the third within two seconds, and each one while a stop is going on.

One thread of its own moves the bytes. Handlers and ``end`` run on the main thread. Lock: ``_state``, for our terminal's
settings, re-entrant for handlers; no waiting under it.
"""

from __future__ import annotations

import os
import select
import signal
import termios
import threading
from collections.abc import Callable
from time import monotonic
from types import FrameType
from typing import Any

from turnctl.cli import talk
from turnctl.processes.job import Job
from turnctl.processes.pty import Pty
from turnctl.processes.sentinel import reaction
from turnctl.processes.terminal import Terminal
from turnctl.processes.ttys import NewTty, size_of_ours
from turnctl.tokens.ruled import Keeper

__all__ = ["Window"]

_CHUNK = 65536
_PRESSES_THAT_STOP = 3
_WITHIN_S = 2.0
SILENCE_S = 0.2
STUCK_S = 1.0


class Window:
    """One command on a terminal of its own. Made before the turn begins."""

    def __init__(self, terminal: Terminal | None, *, is_stopping: Callable[[], bool]) -> None:
        self._is_stopping = is_stopping
        is_typed = terminal is not None and os.isatty(0) and os.isatty(1)
        # a read of a terminal from its background would stop us
        self._may_read = not os.isatty(0) or (terminal is not None and terminal.is_ours())
        self._terminal = terminal if is_typed else None
        self._saved = None if self._terminal is None else self._terminal.modes()
        self._pty = Pty(NewTty(size_of_ours(), echo=is_typed))
        self._master = self._pty.open()
        os.set_blocking(self._master, False)
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._state = threading.RLock()
        self._is_raw = False
        self._ending_since: float | None = None
        self._moved_at = 0.0
        self._pressed: list[float] = []
        self._thread = threading.Thread(target=self._move, name="turnctl-relay", daemon=True)
        self._before: dict[int, Any] = {}
        #: who keeps what the command writes, where somebody does
        self.kept: Keeper | None = None

    def options(self) -> dict[str, Any]:
        """What ``turn.run`` has to know of this. In the background of a shell it stops our job until it is in front."""
        self._wait_for_foreground()
        end = self._pty.end
        console = None
        if self._terminal is not None and self._saved is not None:
            console = (self._terminal.descriptor, os.getpgrp(), self._saved, True)
        job = Job(self._claim, _nothing, controlling=end, console=console)
        return {"stdin": end, "stdout": end, "stderr": end, "before_exec": job, "on_start": self._started}

    @property
    def keys(self) -> frozenset[int]:
        """The signals that keys sent to the command, as far as it could get any."""
        return frozenset() if self._terminal is None else frozenset((signal.SIGINT, signal.SIGQUIT))

    def _claim(self) -> None:
        """In the child, where there is no warden."""
        from turnctl.processes.console import controlled_by

        controlled_by(self._pty.end)

    def _started(self, _pid: int) -> None:
        self._close_end()
        if self._terminal is not None:
            for number, handler in (
                (signal.SIGWINCH, self._on_size),
                (signal.SIGTSTP, self._on_stop),
                (signal.SIGCONT, self._on_continued),
            ):
                self._before[number] = signal.signal(number, handler)
            self._set_raw()
        self._thread.start()

    def _close_end(self) -> None:
        if self._pty.end >= 0:
            os.close(self._pty.end)
            self._pty.end = -1

    # -- our terminal -----------------------------------------------------------------------------------------

    def _set_raw(self) -> None:
        with self._state:
            terminal = self._terminal
            if terminal is None or self._saved is None or not terminal.is_ours() or self._ending_since is not None:
                return
            modes = [list(part) if isinstance(part, list) else part for part in self._saved]
            _make_raw(modes)
            terminal.set_modes(modes)
            self._is_raw = True
            talk.line_end = "\r\n"
        self._ring()  # from now on keys are read

    def _set_back(self) -> None:
        with self._state:
            if self._is_raw and self._terminal is not None:
                self._is_raw = False
                talk.line_end = "\n"
                self._terminal.set_modes(self._saved)

    def _on_size(self, _number: int, _frame: FrameType | None) -> None:
        self._pty.resize(*size_of_ours())

    def _on_stop(self, number: int, _frame: FrameType | None) -> None:
        self._set_back()
        before = signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, before)

    def _wait_for_foreground(self) -> None:
        """Who sets a terminal from its background is stopped; and a job that runs is not told when it is in front."""
        terminal = self._terminal
        while terminal is not None and not (terminal.is_ours() or terminal.shell_group() is None):
            before = signal.signal(signal.SIGTTOU, signal.SIG_DFL)
            os.kill(0, signal.SIGTTOU)
            signal.signal(signal.SIGTTOU, before)
            if before is signal.SIG_IGN or terminal.foreground() is None:
                return

    def _on_continued(self, _number: int, _frame: FrameType | None) -> None:
        self._wait_for_foreground()
        self._set_raw()
        self._pty.resize(*size_of_ours())

    # -- the bytes --------------------------------------------------------------------------------------------

    def _move(self) -> None:
        typed = b""
        is_in_line = False
        is_fed = True
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        while True:
            has_input = is_fed and not typed and (self._may_read if self._terminal is None else self._is_raw)
            poll.register(self._master, select.POLLIN | (select.POLLOUT if typed else 0))
            if has_input:
                poll.register(0, select.POLLIN)
            ready = dict(poll.poll(self._patience_ms()))
            if has_input:
                poll.unregister(0)
            if self._wake in ready:
                os.read(self._wake, 64)
            events = ready.get(self._master, 0)
            if events & select.POLLOUT and typed:
                typed = typed[self._type(typed) :]
            if events & ~select.POLLOUT and not self._show():
                return
            if not events and self._patience_ms() == 0:
                return
            if 0 in ready and has_input:
                typed = self._read_input()
                if typed:
                    is_in_line = typed[-1:] != b"\n"
                    self._count(typed)
                else:
                    is_fed = False
                    typed = self._pty.last_words(in_line=is_in_line)

    def _patience_ms(self) -> int | None:
        if self._ending_since is None:
            return None
        until = max(self._ending_since, self._moved_at) + SILENCE_S
        return max(0, int((until - monotonic()) * 1000))

    def _read_input(self) -> bytes:
        try:
            return os.read(0, 1024)
        except OSError:
            return b""  # it has hung up

    def _type(self, data: bytes) -> int:
        try:
            return os.write(self._master, data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)  # nobody reads there any more

    def _show(self) -> bool:
        """Pass on what there is; False at the end."""
        try:
            data = os.read(self._master, _CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False  # nobody holds the other end
        if self.kept is not None:
            self.kept.write(data)
        while data:
            try:
                data = data[os.write(1, data) :]
            except BlockingIOError:
                select.select([], [1], [])
            except OSError:
                return False  # nobody reads us: the command gets a hang-up, as it would get SIGPIPE
            self._moved_at = monotonic()
        return True

    def _count(self, typed: bytes) -> None:
        """Ctrl-C and Ctrl-backslash, where they would send a signal or a stop is going on (L3)."""
        try:
            modes = termios.tcgetattr(self._master)
            group = os.tcgetpgrp(self._master)
        except (OSError, termios.error):
            return
        if self._terminal is None or not (modes[3] & termios.ISIG or self._is_stopping()):
            return
        for key, number in ((termios.VINTR, signal.SIGINT), (termios.VQUIT, signal.SIGQUIT)):
            for _ in range(typed.count(modes[6][key])):
                now = monotonic()
                self._pressed.append(now)
                recent = sum(now - at <= _WITHIN_S for at in self._pressed)
                if self._is_stopping() or recent >= _PRESSES_THAT_STOP or reaction(group, number) == "ignored":
                    os.kill(os.getpid(), number)

    def _ring(self) -> None:
        try:
            os.write(self._waker, b"w")
        except BlockingIOError:
            pass  # it is readable already

    # -- the end ----------------------------------------------------------------------------------------------

    def pass_on(self, *, gives_up: bool) -> None:
        """Pass on, and keep, the rest of what was written; with ``gives_up`` not where nobody takes it.

        From the main thread; may be called more than once. Blocks until then (L2).
        """
        self._close_end()
        if not self._thread.is_alive():
            return
        self._ending_since = monotonic()
        self._ring()
        while self._thread.is_alive():
            before = self._moved_at
            self._thread.join(STUCK_S)
            if gives_up and self._moved_at == before:
                break

    def end(self, *, restore: bool) -> None:
        """Pass on the rest and put our terminal back; with ``restore``, the command has not ended by itself.

        From the main thread; may be called more than once. Blocks until the rest is passed on (L2).
        """
        self.pass_on(gives_up=restore)
        self._ending_since = self._ending_since or monotonic()
        self._set_back()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
        self._pty.close()


def _make_raw(modes: list[Any]) -> None:
    """As ``cfmakeraw`` of C: keys are bytes, and output is what the other terminal made of it."""
    modes[0] &= ~(
        termios.IGNBRK | termios.BRKINT | termios.PARMRK | termios.ISTRIP
        | termios.INLCR | termios.IGNCR | termios.ICRNL | termios.IXON
    )  # fmt: skip
    modes[1] &= ~termios.OPOST
    modes[2] = (modes[2] & ~(termios.CSIZE | termios.PARENB)) | termios.CS8
    modes[3] &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
    modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0


def _nothing() -> None:
    pass
