"""Ctrl-C in a command that waits or works: it dies of it at once, as without us, and says what is left as it is.

Nothing is unwound: what the ledger has not committed was never there, and its locks end with the process. Where SIGINT
is ignored it stays ignored.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from turnctl.cli.main import die_of
from turnctl.cli.talk import say

__all__ = ["telling_when_interrupted"]

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def telling_when_interrupted(told: Callable[[], tuple[str, str]]) -> Iterator[None]:
    """Before INT, TERM or HUP end us in the block, say what ``told`` gives: what is left as it is, and what to do.

    ``told`` is called in the signal handler: between any two steps of the block. For the main thread. A long call of
    SQLite's delays it, unless it lets Python breathe (``ledger.connections.breathe``).
    """

    def strike(number: int, _frame: FrameType | None) -> None:
        for one in taken:
            signal.signal(one, signal.SIG_DFL)  # a second one does not wait for our words
        message, hint = told()
        say(f"interrupted: {message}", f"hint: {hint}")
        die_of(number)
        os._exit(128 + number)  # process 1 of a container, which the kernel does not let die of it

    taken = [one for one in _NUMBERS if signal.getsignal(one) is signal.SIG_DFL]
    for one in taken:
        signal.signal(one, strike)
    try:
        yield
    finally:
        for one in taken:
            signal.signal(one, signal.SIG_DFL)
