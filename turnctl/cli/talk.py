"""What turnctl says: on stderr only, every line with its name in front, never so that it could hang."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # ``signal`` makes enumerations; what only looks uses none
import os
import sys
from collections.abc import Callable, Iterable

from turnctl.spelling import visible

__all__ = ["complain", "explain", "names", "note", "say", "warn"]

_STDERR = 2
_MOST_NAMES = 8
_PATIENCE_MS = 200
#: what a pipe takes in one piece, so that the lines of two programs do not mix
_PIPE_BUF = 4096 if sys.platform == "linux" else 512
#: what ends a line: another one while our terminal is raw
line_end = "\n"
#: what takes away a line that is drawn anew again and again (``cli.progress``), so that ours stands in its place
clearing = ""
#: how often -q and -v were given to the command that runs
quiet = 0
verbosity = 0
#: who else wants to know of each step: turnctl's own log, while it is written
listener: Callable[[str], None] | None = None


def say(*lines: str) -> None:
    """Write lines to stderr, each on one line of its own whatever is in it: a name of a file may have a line feed.

    Blocks for 0.2 s at most: a terminal that is halted, or a pipe that nobody reads, loses them. Safe in a signal
    handler, and in a background job of a terminal that stops those who write.
    """
    if sys.stderr is None:
        return  # closed before we began: the number may by now be another file's
    text = "".join(f"turnctl: {visible(line)}{line_end}" for line in lines)
    data = f"{clearing}{text}".encode("utf-8", "backslashreplace")[:_PIPE_BUF]
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, {_signal.SIGTTOU})
    try:
        _put(data)
    except OSError:
        pass  # the reader has gone; there is nobody to tell
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def _put(data: bytes) -> None:
    try:
        import select
    except (ImportError, OSError):  # no descriptor is left to load it with, which is what there is to say
        os.set_blocking(_STDERR, False)
        try:
            os.write(_STDERR, data)
        finally:
            os.set_blocking(_STDERR, True)
        return
    poll = select.poll()
    poll.register(_STDERR, select.POLLOUT)
    if poll.poll(_PATIENCE_MS):
        os.write(_STDERR, data)


def complain(message: str, hint: str | None = None) -> None:
    """Say what is wrong, and what to do about it."""
    say(f"error: {message}", *([f"hint: {hint}"] if hint else []))


def warn(text: str) -> None:
    """Say what a person should know though nothing has failed; not with -qq."""
    note(f"warning: {text}")


def note(text: str) -> None:
    """The same, without the word."""
    if quiet < 2:
        say(text)


def explain(text: str) -> None:
    """Say what is done, where -v asks for it, and to the log."""
    if listener is not None:
        listener(text)
    if verbosity:
        say(text)


def names(found: Iterable[tuple[str, int]]) -> str:
    """Processes by name and pid, "bash 4121, sleep 4130"; a long list is cut."""
    texts = [f"{name} {pid}" for name, pid in found]
    more = len(texts) - _MOST_NAMES
    return ", ".join(texts[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
