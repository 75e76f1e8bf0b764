"""The slot of a session: which turn holds it, and what beginning another one does to that turn.

Invariant S1: a holder is displaced or superseded before its slot is released, so two turns never both believe that
the session is theirs and unstopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl import points
from turnctl.clock import monotonic
from turnctl.errors import SessionBusy
from turnctl.tokens import registry
from turnctl.tokens.current import bound, check
from turnctl.tokens.event import park, release_all

if TYPE_CHECKING:
    from turnctl.records.stops import Outcome
    from turnctl.tokens.core import TokenCore
    from turnctl.tokens.turn import TurnCore

__all__ = ["find_outer", "parent_token", "refuse_own_session", "take"]


def parent_token(outer: TurnCore) -> TokenCore:
    """What a turn nested in ``outer`` follows: the token bound to this frame if it is ``outer``'s, else its own."""
    now = bound.get()
    if now is not None and not now.retired and registry.enclosing(now) is outer:
        return now
    return outer.token


def find_outer(session_id: str | None) -> TurnCore | None:
    """The turn that encloses this frame, for one of that session. One of the same session that no ``with`` holds does
    not enclose: it was begun by ``begin_turn`` and left behind, and is there to be displaced."""
    outer = registry.enclosing(bound.get())
    while outer is not None and session_id is not None:
        if outer.session_id != session_id or outer._is_framed:
            break
        outer = outer._outer
    return outer


def refuse_own_session(turn: TurnCore) -> None:
    """Raise ``SessionBusy`` if a turn that encloses this frame holds the session."""
    outer = turn._outer
    while outer is not None and turn.session_id is not None:
        if outer.session_id == turn.session_id:
            raise SessionBusy(
                f"session {turn.session_id!r} is held by turn {outer.turn_id}, which encloses this frame; "
                "use another session name here, or None",
                session_id=turn.session_id,
                turn_id=outer.turn_id,
            )
        outer = outer._outer


def take(turn: TurnCore, name: str, on_busy: str) -> None:
    """Take the session for ``turn`` by the policy ``on_busy``; blocks for ``wait`` only."""
    while True:
        holder = registry.claim(name, turn)
        if holder is turn:
            return
        points.reach("turn.begin.busy")
        if on_busy == "refuse":
            raise SessionBusy(
                f"session {name!r} is busy with turn {holder.turn_id}; stop that first, or begin with "
                'on_busy="wait" or "displace"',
                session_id=name,
                turn_id=holder.turn_id,
            )
        if on_busy == "wait" or (on_busy == "retire" and holder._ending):
            _wait_for(turn, holder, name)
            continue
        if on_busy == "displace":
            _displace(holder, turn)
        else:
            _supersede(holder, turn)
        if registry.release(name, holder):
            release_all(holder._over._waiters)  # who waits for the slot waits for another holder now


def _wait_for(turn: TurnCore, holder: TurnCore, name: str) -> None:
    over = holder._over
    token = turn.token
    outer = token if turn._outer is None else turn._outer.token

    def is_settled() -> bool:
        return over.is_set() or token.cancelled or outer.cancelled or registry.sessions.get(name) is not holder

    park(is_settled, None, over._waiters, token._grow().waiters, outer._grow().waiters)
    if turn._outer is not None:
        check()
    if token.cause == "deadline" and token.cancelled:
        raise SessionBusy(
            f"session {name!r} was not free in time: turn {holder.turn_id} still holds it, and the timeout of "
            f"{turn.timeout_s:g} s has passed",
            session_id=name,
            turn_id=holder.turn_id,
        )
    if token.cancelled:
        raise token._raised()


def _displace(turn: TurnCore, newer: TurnCore) -> None:
    """Trip, then retire, for a newer turn of the session; both change nothing on a turn that has ended."""
    text = f"displaced by turn {newer.turn_id}" + (f": {newer.reason}" if newer.reason else "")
    turn.token.cancel(text, cause="displaced")
    points.reach("turn.displace.tripped")
    _close_for(turn, newer, "cancelled")


def _supersede(turn: TurnCore, newer: TurnCore) -> None:
    """Retire without tripping: the frames run on, own nothing new, and refuse every later stop."""
    _close_for(turn, newer, "superseded")


def _close_for(turn: TurnCore, newer: TurnCore, proposed: Outcome) -> None:
    if turn.token._retire(proposed):
        turn._decided_at = monotonic()
        turn.notes.append(f"its session went to turn {newer.turn_id}")
    turn.activities.close_admission()
    if turn._adopted is not None:
        turn._adopted.leave()
    registry.move_on(turn)
    turn._ring()
