"""Threads that outstay a turn which nobody has stopped: its checkpoints end them, as a stop would have.

A turn that completes stops nothing, so its threads have the grace to come to an end by themselves. What is still there
then is sent off here: on that thread, and on no other, checkpoints of the turn raise from now on, also the one that it
stands at. So only what is blocked in foreign code is left behind. Code of the caller's that goes on after the ``with``
is no thread of the turn, and is not reached.

Invariants
  V1  ``_due`` is raised in the tree below, *then* the mark is stored, *then* who waits is woken to look again. A wait
      is on its list, *then* looks for the mark (``tokens.event``, E1); whoever finds it finds ``_due`` up, or puts it
      up: a child token that was closed under its thread is no more in the tree, and would never hear of it.
  V2  A mark is of one piece of work, and goes with it (``settle``): a thread that somebody else lends is free again.
      Work that ends has ended, *then* takes its mark away; who marks stores the mark, *then* looks what has ended.
  V3  When the grace is over all that are still there are marked at once, so that one which is blocked in foreign code
      takes no time from the others.

May block: nothing. Not promised: that a function which swallows what is raised comes back.
"""

from __future__ import annotations

import os
from threading import Thread, get_ident
from typing import TYPE_CHECKING, Protocol, cast

from turnctl import points
from turnctl.clock import monotonic
from turnctl.errors import CancelledError
from turnctl.tokens.tree import all_below, is_under

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken
    from turnctl.tokens.turn import TurnCore

__all__ = ["has_to_leave", "leave_if_sent_off", "send_off", "settle"]

#: how long the end of a turn waits for those that it has sent off, all together
_COMES_UP_S = 0.25


class HasThreads(Protocol):
    """What is at work on threads of the turn."""

    def threads_at_work(self) -> list[tuple[object, Thread]]:
        """Each piece of work that has not come back, and its thread; not the thread that asks."""


#: by piece of work: its thread, the token of its turn, and when it was marked, in monotonic seconds
_sent: dict[object, tuple[Thread, CancelToken, float]] = {}


def send_off(turn: TurnCore, leaving: HasThreads) -> float | None:
    """Have ``turn``'s checkpoints raise on the threads of ``leaving`` until ``settle``, once the grace is over on those
    of all that it still owns.

    Monotonic seconds until which it may be waited for; None if the turn runs or was stopped, or nothing is at work.
    """
    token = turn.token
    if token.cancelled or not token.retired:
        return None
    at, now = turn.kill_at(), monotonic()
    leavers = [leaving]
    if at is None or at <= now:  # V3
        owned = [one.owned for one in turn.activities.all() if one.is_open]
        leavers.extend(cast("HasThreads", one) for one in owned if hasattr(one, "threads_at_work"))
    at_work = [found for one in leavers for found in one.threads_at_work()]
    marked = {work: thread for work, thread in at_work if work not in _sent}
    if marked:
        for below in all_below(token):
            below._due = True
        _sent.update({work: (thread, token, now) for work, thread in marked.items()})
        points.reach("leaving.marked")
        token._nudge()
        still = {work for one in leavers for work, _ in one.threads_at_work()}  # V2
        for work in marked.keys() - still:
            settle(work)
    until = [_sent[work][2] + _COMES_UP_S for work, _ in leaving.threads_at_work() if work in _sent]
    return max(until, default=None)


def settle(work: object) -> None:
    """It has come back."""
    if _sent:
        _sent.pop(work, None)


def has_to_leave(token: CancelToken) -> bool:
    """Whether this thread was sent off by the turn that ``token`` belongs to; its next checkpoint then raises."""
    if not _sent or _turn_left(token) is None:
        return False
    token._due = True  # V1
    return True


def leave_if_sent_off(token: CancelToken) -> None:
    """Raise ``CancelledError``, of the turn that has ended, if this thread was sent off by it. No shield holds it."""
    of = _turn_left(token) if _sent else None
    if of is not None:
        text = f"{of._title()} has ended ({of.outcome}), and this thread of it was still at work"
        raise CancelledError(text, token=of)


def _turn_left(token: CancelToken) -> CancelToken | None:
    me = get_ident()
    for thread, of, _ in list(_sent.values()):
        if thread.ident == me and is_under(token, of):
            return of
    return None


os.register_at_fork(after_in_child=_sent.clear)
