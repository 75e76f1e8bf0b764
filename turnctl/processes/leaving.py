"""The end of the program: a command that somebody still owns is ended then, and not left behind.

A thread that the interpreter does not wait for (a daemon), or a turn that was begun and never ended, would leave its
commands running when the main program is through.

Invariants
  Q1  A command is entered here before it is started, and *then* the mark of the end is read; the end sets the mark and
      *then* reads who is there. So none is started behind its back by another thread.
  Q2  It runs after the threads that the interpreter waits for have ended (``atexit``), so it cuts none of them short.
  Q3  In a forked child it does nothing: the commands are the parent's.

May block: the end of the program, at most ``GRACE_S`` (less, where the command's grace is less), and 6 s for what KILL
does not end, or for a thread that has the command in hand and does not come through: then its group is killed all the
same. Not promised: anything where the interpreter is not asked (a signal nobody handles, ``os._exit``,
``os.exec``, a crash).
"""

from __future__ import annotations

import atexit
import os
import threading
from time import monotonic
from typing import TYPE_CHECKING

from turnctl.errors import ShuttingDown
from turnctl.processes.ladder import DRAIN_S

if TYPE_CHECKING:
    from turnctl.processes.supervise import Supervision

__all__ = ["GRACE_S", "enter", "everybody", "held", "leave"]

#: what a command has at most to end by itself when the program ends
GRACE_S = 2.0
#: beyond grace and drain: for a thread that has it in hand to come through
_MARGIN_S = 1.0

_there: dict[Supervision, None] = {}
_is_ending = False
_is_registered = False


def enter(supervision: Supervision) -> None:
    """Have the command ended with the program. Raises ``ShuttingDown`` on a thread that runs on while that ends."""
    global _is_registered
    if not _is_registered:
        _is_registered = True
        atexit.register(end_all)
    _there[supervision] = None
    # the main thread is the one that runs the end: what its clean-up runs comes and goes in between
    if _is_ending and threading.current_thread() is not threading.main_thread():
        leave(supervision)
        raise ShuttingDown("the program is ending, so the command was not started")


def leave(supervision: Supervision) -> None:
    """It has ended, or was never started."""
    _there.pop(supervision, None)


def everybody() -> list[Supervision]:
    """Those that are there now."""
    return [one for one in list(_there) if not one.is_foreign]


def held() -> dict[int, Supervision]:
    """Those whose main process has a pid that is known, by it."""
    found = {}
    for one in everybody():
        custody = one._custody
        if custody is not None and custody.pid is not None:
            found[custody.pid] = one
    return found


def end_all() -> None:
    """End what is there: ask, a short grace, KILL. Never raises."""
    global _is_ending
    _is_ending = True
    found = everybody()
    for limit in (GRACE_S, 0.0):
        try:
            _end(found, limit)
        except BaseException:  # noqa: BLE001, S112 - a Ctrl-C means: at once; there is nobody left to raise to
            continue
        return


def _end(found: list[Supervision], limit: float) -> None:
    for one in found:
        one.hurry(min(one.grace_s, limit))
    ends_at = monotonic() + limit + DRAIN_S + _MARGIN_S
    for one in found:
        if not one.end_by(ends_at):
            one.strike()


os.register_at_fork(after_in_child=_there.clear)
