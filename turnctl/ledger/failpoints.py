"""Named places of the ledger where a test may hold, kill or fail a process, asked for by its environment only.

``TURNCTL_LEDGER_FAILPOINT=gate.before_commit=pause`` (more than one with commas between them) acts at the first arrival
there, ``=pause:3`` at the third. ``pause`` writes the name into the FIFO ``reached`` of the folder that
``TURNCTL_LEDGER_FIFOS`` names and goes on when something was written into ``go``; ``kill`` is SIGKILL; ``raise`` raises
``InjectedFault``. Without the variable a point costs two global reads.

The names: ``gate``, ``send``, ``close``, ``cancel``, ``child``, ``lease``, ``complete``, ``share``, ``release``,
``reconcile``, ``compensate`` and ``submit``, each with ``.before_begin``, ``.before_commit`` and ``.after_commit``
(``send`` is the claim of what was admitted before); and ``send.before_claim``, ``send.after_claim``,
``send.after_bytes`` (reached by who sends, since the ledger does not), ``send.before_receipt``, ``child.before_spawn``,
``reconcile.before_write``, ``escalate.after_term`` (the members of a command's tree were asked to end).
"""

from __future__ import annotations

import os
import threading

from turnctl import points

__all__ = ["InjectedFault", "arm", "reach"]

ENV, FIFOS = "TURNCTL_LEDGER_FAILPOINT", "TURNCTL_LEDGER_FIFOS"

#: points of rooms that know nothing of the ledger, by their names here
_ELSEWHERE = {"processes.ladder.asked": "escalate.after_term"}

_lock = threading.Lock()
#: for each armed point what to do, and at which arrival from now on
_armed: dict[str, tuple[str, int]] = {}


class InjectedFault(RuntimeError):
    """What a failpoint raises, for a test that asked for it."""


def arm(text: str) -> None:
    """Take the failpoints from a text of the form that the environment has; for tests."""
    _armed.clear()
    for one in filter(None, text.split(",")):
        name, _, action = one.partition("=")
        action, _, at = action.partition(":")
        if action not in ("pause", "kill", "raise"):
            raise ValueError(f"{ENV}: {one!r} asks for neither pause, kill nor raise")
        _armed[name] = (action, int(at or 1))
    if points.hook is None and _armed.keys() & set(_ELSEWHERE.values()):
        points.hook = _reached_elsewhere
    elif points.hook is _reached_elsewhere and not _armed:
        points.hook = None


def _reached_elsewhere(name: str) -> None:
    if name in _ELSEWHERE:
        _act(_ELSEWHERE[name])


def reach(name: str) -> None:
    """Tell that this thread is at ``name``, and do what a test has asked for."""
    points.reach(name)
    if _armed:
        _act(name)


def _act(name: str) -> None:
    with _lock:
        action, left = _armed.get(name, ("", 0))
        if not action:
            return
        if left > 1:
            _armed[name] = (action, left - 1)
            return
        del _armed[name]
    if action == "kill":
        os.kill(os.getpid(), 9)
    elif action == "raise":
        raise InjectedFault(f"failpoint {name}")
    else:
        folder = os.environ[FIFOS]
        with open(os.path.join(folder, "reached"), "w", encoding="ascii") as fifo:
            fifo.write(f"{name}\n")
        with open(os.path.join(folder, "go"), encoding="ascii") as fifo:
            fifo.read()


arm(os.environ.get(ENV, ""))
