"""Thin calls for hosts that keep a cancel event per session and do not want to change that yet.

``register_cancel_event(session, event)`` begins a turn around an event that the host made; each call retires the
session's earlier turn. New code begins a turn instead.
"""

from __future__ import annotations

import threading

from turnctl.errors import BadArgument
from turnctl.tokens import registry
from turnctl.tokens.adopting import check_event
from turnctl.tokens.ending import finish
from turnctl.tokens.token import TurnToken
from turnctl.tokens.turn import TurnCore
from turnctl.turns import Turn

__all__ = ["register_cancel_event", "unregister_cancel_event"]


def register_cancel_event(session: str, event: threading.Event) -> TurnToken:
    """Begin a turn in ``session`` around ``event``: setting it stops the turn, stopping the turn sets it.

    The session's earlier turn is retired without being stopped. Binds nothing to this context.
    """
    if session is None:
        raise BadArgument("register_cancel_event() needs the name of the session, not None")
    check_event(event)
    return Turn(session, event=event, on_busy="retire", inherit=False).begin()


def unregister_cancel_event(session: str, event: threading.Event) -> bool:
    """End the turn that was begun around ``event``; False if the session has moved on or has none.

    So the late clean-up of an older task leaves the newer turn alone, and ends what the older one still owns, such as
    its commands. Blocks like leaving the ``with`` of a turn. Raises ``BadArgument`` when the session's turn was begun
    without an event, and none around this one is left: that is not this call's to end.
    """
    turn = registry.sessions.get(session)
    older = [one for one in registry.all_turns() if one is not turn and _is_around(one, session, event)]
    for one in older:
        finish(one, "completed")  # it stays what it is, superseded
    if turn is None:
        return False
    if turn._given_event is None and not older:
        raise BadArgument(
            f"session {session!r} runs turn {turn.turn_id}, which was begun without an event; end it with end_turn()"
        )
    if turn._given_event is not event:
        return False
    finish(turn, "completed")
    return True


def _is_around(turn: TurnCore, session: str, event: threading.Event) -> bool:
    return turn._given_event is event and turn.session_id == session and turn.token.retired
