"""Adopting an event that the host made, so that the host's ``set()`` is a stop and our stop sets it.

A ``TurnEvent`` is simply joined to the token. A plain ``threading.Event`` is watched without polling: a bell of ours
stands in its condition's queue of waiters, so that the host's ``set()`` rings it on the host's own stack. The bell
trips the token at once and leaves callbacks to the bridge, since the event's lock is held at that moment. The other
way round the bridge thread sets the host's event, never the canceller: ``Event.set()`` in a signal handler can hang.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from turnctl.errors import BadArgument, EventMisuse
from turnctl.tokens.entries import new_stop
from turnctl.tokens.event import TurnEvent

if TYPE_CHECKING:
    from turnctl.tokens.turn import TurnCore

__all__ = ["Adopted", "adopt"]


class Adopted:
    """A plain event joined to a turn; ``release`` is what the event's condition calls on a set."""

    __slots__ = ("event", "turn", "unwatch")

    def __init__(self, event: threading.Event, turn: TurnCore) -> None:
        self.event = event
        self.turn = turn
        self.unwatch: Callable[[], None] | None = None

    def release(self) -> None:
        """Trip the turn. Called by ``Event.set()`` with the event's lock held: takes nothing, calls nobody."""
        turn = self.turn
        turn.token._enter(new_stop("event set", None, "event", "cancel", None, None), inline=False)
        turn.bridge.ring()

    def carry(self) -> None:
        """Set the host's event if the turn was stopped; on the bridge thread only. Watches no longer than needed."""
        token = self.turn.token
        if token.cancelled:
            token._settle()  # runs the inline callbacks that could not be run under the event's lock
        if token.cancelled and not self.event.is_set():
            self.event.set()
        if (token.cancelled or token.retired) and self.unwatch is not None:
            self.unwatch()

    def leave(self) -> None:
        """Take the bell out of the event's queue; a later set then reaches nobody."""
        try:
            self.event._cond._waiters.remove(self)  # type: ignore[attr-defined]
        except ValueError:
            pass  # a set took it out


def adopt(event: threading.Event, turn: TurnCore) -> Adopted | None:
    """Join ``event`` to the turn both ways. Already set: the turn is born cancelled, cause ``event``."""
    token = turn.token
    if isinstance(event, TurnEvent):
        if event._over:
            raise EventMisuse(f"{event!r} belonged to a turn that has ended; make a new TurnEvent for this one")
        if event._token is not None:
            raise EventMisuse(f"{event!r} belongs to another turn; make one TurnEvent for each turn")
        token._grow().cells["event"] = event
        event._token = token
        if event.is_set():  # then read the flag: the host may have set it in between
            token.cancel("event set", cause="event")
        token._settle()  # and the log: a stop may have come before the event was there to show it
        return None
    check_event(event)
    adopted = Adopted(event, turn)
    adopted.unwatch = turn.bridge.watch(token, adopted.carry)
    event._cond._waiters.append(adopted)  # type: ignore[attr-defined]
    if event.is_set():
        token.cancel("event set", cause="event")
    return adopted


def check_event(event: object) -> None:
    """Refuse what cannot be watched without polling."""
    if isinstance(event, TurnEvent):
        return
    if not isinstance(event, threading.Event):
        raise BadArgument(
            f"event must be a threading.Event or a TurnEvent, not {_kind(event)}; for anything else call "
            "turn.stop() from its own callback"
        )
    if not hasattr(getattr(event, "_cond", None), "_waiters"):
        raise BadArgument(
            f"{event!r} has no queue of waiters to join, so it cannot be watched without polling; hand in a "
            "turnctl.TurnEvent"
        )


def _kind(event: object) -> str:
    return f"{type(event).__module__}.{type(event).__qualname__}"
