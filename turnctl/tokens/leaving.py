"""Threads that outstay a turn which nobody has stopped: its checkpoints end them, as a stop would have.

A turn that completes stops nothing, so its threads have the grace to come to an end by themselves. What is still there
then is sent off here: on that thread, and on no other, checkpoints of the turn raise from now on, also the one that it
stands at. So only what is blocked in foreign code is left behind. Code of the caller's that goes on after the ``with``
is no thread of the turn, and is not reached.

Invariants
  V1  ``_due`` is raised in the tree below, *then* the mark is stored, *then* who waits is woken to look again. A wait
      is on its list, *then* looks for the mark (``tokens.event``, E1); whoever finds it finds ``_due`` up.
  V2  A mark is of one piece of work, and goes with it (``settle``): a thread that somebody else lends is free again.

May block: nothing. Not promised: that a function which swallows what is raised comes back.
"""

from __future__ import annotations

import os
from threading import Thread, get_ident
from typing import TYPE_CHECKING

from turnctl import points
from turnctl.errors import CancelledError
from turnctl.tokens.tree import all_below, is_under

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken
    from turnctl.tokens.turn import TurnCore

__all__ = ["COMES_UP_S", "has_to_leave", "leave_if_sent_off", "send_off", "settle"]

#: how long the end of a turn waits beyond the grace for those that it has sent off, all together
COMES_UP_S = 0.25

_sent: dict[object, tuple[Thread, CancelToken]] = {}


def send_off(turn: TurnCore, work: object, thread: Thread | None) -> bool:
    """Have ``turn``'s checkpoints raise on ``thread`` until ``settle(work)``; False if it runs or was stopped."""
    token = turn.token
    if thread is None or token.cancelled or not token.retired:
        return False
    if work not in _sent:
        for one in all_below(token):
            one._due = True
        _sent[work] = (thread, token)
        points.reach("leaving.marked")
        token._nudge()
    return True


def settle(work: object) -> None:
    """It has come back."""
    if _sent:
        _sent.pop(work, None)


def has_to_leave(token: CancelToken) -> bool:
    """Whether this thread was sent off by the turn that ``token`` belongs to."""
    return bool(_sent) and _turn_left(token) is not None


def leave_if_sent_off(token: CancelToken) -> None:
    """Raise ``CancelledError``, of the turn that has ended, if this thread was sent off by it. No shield holds it."""
    of = _turn_left(token) if _sent else None
    if of is not None:
        text = f"{of._title()} has ended ({of.outcome}), and this thread of it was still at work"
        raise CancelledError(text, token=of)


def _turn_left(token: CancelToken) -> CancelToken | None:
    me = get_ident()
    for thread, of in list(_sent.values()):
        if thread.ident == me and is_under(token, of):
            return of
    return None


os.register_at_fork(after_in_child=_sent.clear)
