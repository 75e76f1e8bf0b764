"""The terminal of a live view: its second screen, its keys, and the signals that end, stop or resize it.

Invariants
  V1  However the view ends, by a key, by a signal, by an error, the first screen, the cursor and the terminal's
      settings are as they were. Only after KILL they are not.
  V2  A signal is acted upon between two frames, never within one: its handler does nothing, and its number comes by
      the wake-up descriptor. A signal that is ignored stays ignored.
  V3  While the view is stopped by Ctrl-Z the first screen is there; afterwards the second one is drawn anew.
  V4  A view whose terminal is taken away ends by the hang-up, whatever could not be shown any more.

For the main thread.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

from turnctl.cli.problems import Problem
from turnctl.cli.scrolling import Scroll, keys_of
from turnctl.cli.stdout import put

__all__ = ["Viewer", "last_words"]

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"


class Viewer:
    """What stands between a view and its terminal. Without ``screen`` it only hears of signals."""

    def __init__(self, *, screen: bool) -> None:
        self._has_screen = screen
        #: the signal that has to end it, and whether a person pressed the key for that
        self.ended_by: int | None = None
        self.is_left = False
        self._before: dict[int, Any] = {}
        self._modes: list[Any] | None = None
        #: how far a person has gone down, and whether that is all that has changed since ``heed`` was called
        self.scroll = Scroll()
        self.has_scrolled = False
        self._typed = b""
        self._is_shown = False
        self._has_keys = False
        self._read = self._write = self._former = -1

    def __enter__(self) -> Self:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._former = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        wanted = [*_ENDING, *((signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH) if self._has_screen else ())]
        for number in wanted:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, _nothing)
        try:
            self._enter()
        except BaseException:
            self._let_go()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go()

    def _let_go(self) -> None:
        try:
            with suppress(Exception):  # V1: what it was drawn for is told by who drew it
                self._leave()
        finally:
            for number, former in self._before.items():
                signal.signal(number, former)
            self._before = {}
            signal.set_wakeup_fd(self._former)
            for fd in (self._read, self._write):
                os.close(fd)

    # -- the screen ---------------------------------------------------------------------------------------------------

    def _enter(self) -> None:
        if not self._has_screen or self._is_shown:
            return
        self._is_shown = True
        self._listen()
        self._put(_ENTER)

    def _leave(self) -> None:
        if not self._is_shown:
            return
        self._is_shown = False
        if self._modes is not None:
            import termios

            with suppress(termios.error):  # it is gone
                termios.tcsetattr(0, termios.TCSADRAIN, self._modes)
        self._put(_LEAVE)

    def _listen(self) -> None:
        """Have keys come one by one, without showing them, where stdin is a terminal."""
        if sys.__stdin__ is None or not os.isatty(0):
            return
        import termios

        with suppress(termios.error):
            self._modes = termios.tcgetattr(0)
            fresh = termios.tcgetattr(0)
            fresh[3] &= ~(termios.ICANON | termios.ECHO)
            termios.tcsetattr(0, termios.TCSADRAIN, fresh)
            self._has_keys = True

    def draw(self, lines: Iterable[str]) -> None:
        """Put this in place of what is shown, in one write, so that it does not flicker."""
        self._put("\x1b[H" + "\x1b[K\r\n".join(lines) + "\x1b[K\x1b[J")

    def _put(self, text: str) -> None:
        try:
            put(text)
        except Problem as problem:
            if not _is_hung_up(problem):
                raise
            self.ended_by = self.ended_by or signal.SIGHUP  # it may come later than that, and to the leader alone

    # -- what comes ---------------------------------------------------------------------------------------------------

    @property
    def fds(self) -> tuple[int, ...]:
        """What to wait for besides the time."""
        return (self._read, 0) if self._has_keys else (self._read,)

    @property
    def is_over(self) -> bool:
        """Whether it has to end."""
        return self.ended_by is not None or self.is_left

    def heed(self, ready: Iterable[int]) -> None:
        """Act on what came."""
        self.has_scrolled = False
        came = b""
        with suppress(BlockingIOError):
            came = os.read(self._read, 256)
        for number in came:
            if number in _ENDING:
                self.ended_by = self.ended_by or number
        if signal.SIGTSTP in came and self.ended_by is None:
            self._stop()
        elif signal.SIGCONT in came and self._is_shown and self.ended_by is None:
            # stopped by another than Ctrl-Z: who knows what was set since; one that comes with a hang-up is none
            self._leave()
            self._enter()
        if 0 in set(ready) and self._has_keys:
            self.has_scrolled = self._keys() and not came

    def _keys(self) -> bool:
        """Act on the keys; whether they were for scrolling alone."""
        pressed: list[bytes] = []
        with suppress(OSError):
            data = os.read(0, 256)
            if not data:
                self._has_keys = False  # nothing more comes from there
            pressed, self._typed = keys_of(self._typed + data)
            if {b"q", b"Q", b"\x04"} & set(pressed):
                self.is_left = True
        known = [self.scroll.press(key) for key in pressed]
        return all(known)

    def _stop(self) -> None:
        self._leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._enter()


@contextmanager
def last_words(ended_by: int | None) -> Iterator[None]:
    """For what is shown after the view: that it cannot be is no error where the terminal has been taken away."""
    try:
        yield
    except Problem as problem:
        if ended_by != signal.SIGHUP or problem.word != "stdout_lost":
            raise


def _is_hung_up(problem: Problem) -> bool:
    """Whether it says that the terminal was taken away, from somebody who has to end then."""
    why = problem.__cause__
    return isinstance(why, OSError) and why.errno == errno.EIO and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN


def _nothing(*_: object) -> None:
    pass
