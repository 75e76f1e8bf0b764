"""What a command shows while it waits or works: a line that moves, where a person looks at stderr; else a line a state.

Invariants
  R1  Nothing moves but on a terminal, in the foreground, for who wants to read: not with ``--json`` or ``-q``, not
      where ``CI`` is set or ``TERM`` is dumb, whatever is said of colours.
  R2  Nothing is shown of what is over within ``_AFTER_S``.
  R3  What is said meanwhile stands above the line that moves, and the line is gone at the end: its place is taken by
      whoever says something (``talk.clearing``), in one write.
  R4  Where nothing moves each state is a line, once; one that comes within ``_QUICK_S`` of the beginning is left out.

The line is drawn from a thread, which begins with the block and ends with it. It blocks nobody: what a terminal does
not take at once is left out.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from types import TracebackType
from typing import Self

from turnctl.cli import talk
from turnctl.clock import format_duration
from turnctl.spelling import visible

__all__ = ["Progress", "can_move"]

_STDERR = 2
_AFTER_S = 0.3
_QUICK_S = 1.0
_TURN_S = 0.1
_CLEAR = "\r\x1b[K"
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PLAIN_SPINNER = "|/-\\"
_BAR = 24


def can_move(*, as_json: bool, quiet: int) -> bool:
    """Whether something may move on stderr (R1)."""
    if as_json or quiet or os.environ.get("CI") or os.environ.get("TERM", "dumb") in ("", "dumb", "unknown"):
        return False
    return sys.__stderr__ is not None and os.isatty(_STDERR)


class Progress:
    """What is shown while the block runs. Its methods may be called from any thread, and do not block."""

    def __init__(self, *, moves: bool, quiet: bool) -> None:
        #: whether the line moves
        self.moves = moves and not quiet
        self._quiet = quiet
        self._text = ""
        self._said = ""
        self._done = self._total = 0
        self._until: float | None = None
        self._began = time.monotonic()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        if self.moves:
            thread = threading.Thread(target=self._run, name="turnctl-progress", daemon=True)
            try:
                thread.start()
                self._thread = thread
            except RuntimeError:  # no thread to be had
                self.moves = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if talk.clearing:
            talk.clearing = ""
            _write(_CLEAR)

    def state(self, text: str, done: int = 0, total: int = 0) -> None:
        """It is at this now, of which so much is done; 0 of 0 where that is not known."""
        self._text, self._done, self._total = text, done, total
        if self.moves or self._quiet or text == self._said:
            return
        if time.monotonic() >= self._began + _QUICK_S:
            self._said = text
            talk.say(text)

    def within(self, seconds: float) -> None:
        """It goes on for so long at most."""
        self._until = time.monotonic() + seconds

    # -- the line that moves ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        n = 0
        wait = _AFTER_S
        while not self._over.wait(wait):
            wait = _TURN_S
            if self._text and _is_in_front():
                talk.clearing = _CLEAR
                _write(f"{_CLEAR}\x1b[?7l{self._line(n)}\x1b[?7h")
                n += 1

    def _line(self, n: int) -> str:
        is_plain = not (getattr(sys.stderr, "encoding", None) or "").lower().startswith("utf")
        spinner = _PLAIN_SPINNER if is_plain else _SPINNER
        parts = [spinner[n % len(spinner)], self._text, *self._amount(is_plain=is_plain)]
        times = [format_duration(float(int(time.monotonic() - self._began)))]
        if self._until is not None:
            times.append(f"{format_duration(float(max(0, round(self._until - time.monotonic()))))} left")
        return visible(f"{' '.join(parts)} ({', '.join(times)})")

    def _amount(self, *, is_plain: bool) -> list[str]:
        done, total = self._done, self._total
        if total <= 0:
            return []
        full = min(_BAR, _BAR * done // total)
        bar = "#" * full + "-" * (_BAR - full) if is_plain else "█" * full + "░" * (_BAR - full)
        return [bar, f"{min(100, 100 * done // total)}%"]


def _is_in_front() -> bool:
    try:
        return os.tcgetpgrp(_STDERR) == os.getpgrp()
    except OSError:
        return False


def _write(text: str) -> None:
    """To stderr, if that takes it now; never stopped for it as a job of the background (each thread has its mask)."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        poll = select.poll()
        poll.register(_STDERR, select.POLLOUT)
        if poll.poll(0):
            os.write(_STDERR, text.encode("utf-8", "backslashreplace")[: select.PIPE_BUF])
    except OSError:
        pass  # it is gone
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
