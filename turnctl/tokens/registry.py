"""Which turns are there: the running turn of each session, and every turn that is not over.

Invariants
  R1  ``sessions[name]`` is written only under ``_claims``, and only from the holder that was read to the next one.
  R2  ``live`` holds each turn from begin until it is over, also when its session has moved on.

Readers take no lock: a stop finds its turn by one dict look-up, so it may come from a signal handler. ``_claims``
is held for two dict operations and never while anything is called; it is re-entrant and remade in a forked child.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from turnctl.errors import ShuttingDown
from turnctl.tokens.tree import parents_of

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken
    from turnctl.tokens.turn import TurnCore

__all__ = ["claim", "enclosing", "live", "refuse_if_shutting_down", "release", "reopen", "sessions", "shut"]

sessions: dict[str, TurnCore] = {}
live: dict[str, TurnCore] = {}  # by turn id
_claims = threading.RLock()
_shut: list[str] = []


def claim(name: str, turn: TurnCore) -> TurnCore:
    """Take the session for ``turn`` if it is free; whoever holds it afterwards is returned. Never waits."""
    with _claims:
        return sessions.setdefault(name, turn)


def release(name: str, turn: TurnCore) -> bool:
    """Free the session if ``turn`` holds it; whether it did."""
    with _claims:
        if sessions.get(name) is turn:
            del sessions[name]
            return True
        return False


def enclosing(token: CancelToken | None) -> TurnCore | None:
    """The turn that ``token`` belongs to, unless it is over."""
    found = [] if token is None else [token]
    for one in found:
        turn = live.get(getattr(one, "turn_id", ""))
        if turn is not None and turn.token is one:
            return turn
        found.extend(parents_of(one))  # type: ignore[arg-type]
    return None


def refuse_if_shutting_down() -> None:
    """Raise ``ShuttingDown`` once ``shut`` has been called."""
    if _shut:
        raise ShuttingDown(f"this process is shutting down ({_shut[0]}) and begins no more turns")


def shut(reason: str) -> None:
    """Refuse every later turn. Never blocks."""
    _shut.append(reason)


def reopen() -> None:
    """Admit turns again; for tests."""
    _shut.clear()


def _reset_in_child() -> None:
    global _claims
    _claims = threading.RLock()
    turns = list(live.values())
    live.clear()
    sessions.clear()
    for turn in turns:
        turn._forked()


os.register_at_fork(after_in_child=_reset_in_child)
