"""Which turns are there: the running turn of each session, and every turn that is not over.

Invariants
  R1  ``sessions[name]`` is written only under ``_claims``, and only from the holder that was read to the next one.
  R2  ``live`` holds each turn from begin until it is over. One whose session has moved on is held weakly from then
      on (``draining``): its frames and its token hold it, and a host that never ends it must not leak it.

Readers take no lock: a stop finds its turn by one dict look-up, so it may come from a signal handler. ``_claims``
is held for two dict operations and never while anything is called; it is re-entrant and remade in a forked child.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from turnctl.errors import ShuttingDown
from turnctl.tokens.tree import parents_of

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken
    from turnctl.tokens.turn import TurnCore

__all__ = [
    "all_turns",
    "claim",
    "enclosing",
    "enter",
    "find",
    "leave",
    "move_on",
    "on_begin",
    "on_signal",
    "refuse_if_shutting_down",
    "release",
    "reopen",
    "sessions",
    "shut",
    "tell",
]

sessions: dict[str, TurnCore] = {}
live: dict[str, TurnCore] = {}  # by turn id
draining: dict[str, weakref.ref[TurnCore]] = {}
_claims = threading.RLock()
_shut: list[str] = []
#: what rooms above want to be told: that a turn is about to begin, on its thread; that a signal came, on a thread of
#: theirs
on_begin: list[Callable[[], None]] = []
on_signal: list[Callable[[], None]] = []


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


def enter(turn: TurnCore) -> bool:
    """Make the turn findable by its id; False if a turn of that id is there already. Atomic."""
    return turn.turn_id not in draining and live.setdefault(turn.turn_id, turn) is turn


def move_on(turn: TurnCore) -> None:
    """Hold the turn weakly from now on, its session has gone to another one; unless it still owns something."""
    turn_id = turn.turn_id
    with _claims:  # against leave(), which may come in between
        if turn_id in live and not turn.activities.owns_something:
            draining[turn_id] = weakref.ref(turn, lambda _: draining.pop(turn_id, None))
            live.pop(turn_id, None)


def leave(turn: TurnCore) -> None:
    """Forget the turn: it is over."""
    with _claims:
        if find(turn.turn_id) is turn:
            live.pop(turn.turn_id, None)
            draining.pop(turn.turn_id, None)


def find(turn_id: str) -> TurnCore | None:
    """The turn of that id, unless it is over. Never blocks."""
    turn = live.get(turn_id)
    if turn is None:
        ref = draining.get(turn_id)
        turn = None if ref is None else ref()
    return turn


def all_turns() -> list[TurnCore]:
    """Every turn that is not over, those included whose session has moved on. Never blocks."""
    found = list(live.values())
    for ref in list(draining.values()):
        turn = ref()
        if turn is not None and turn not in found:
            found.append(turn)
    return found


def enclosing(token: CancelToken | None) -> TurnCore | None:
    """The turn that ``token`` belongs to, unless it is over."""
    found = [] if token is None else [token]
    for one in found:
        turn: TurnCore | None = getattr(one, "_turn", None)
        if turn is not None:
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


def tell(hooks: list[Callable[[], None]]) -> None:
    """Call each of ``on_begin`` or of ``on_signal``; they may be taken off meanwhile."""
    for hook in list(hooks):
        hook()


def _reset_in_child() -> None:
    global _claims
    _claims = threading.RLock()
    turns = all_turns()
    live.clear()
    draining.clear()
    sessions.clear()
    for turn in turns:
        turn._forked()


os.register_at_fork(after_in_child=_reset_in_child)
