"""The loop under every wait: the stop is looked at first, then the thing, then the thread is parked on both.

Invariants
  K1  A round asks the token (a checkpoint), *then* looks at the thing. So a wait that raises has taken nothing.
  K2  A parked thread stands on the lists of the token and of the thing, and *then* looks at both again
      (``tokens.event``, E1). Whatever wakes it only begins a new round.
  K3  While a shield holds an accepted stop back the park ends with the shield at the latest.

May block: all of it, until the thing, the stop or the time. Not promised: fairness between waiters.
"""

from __future__ import annotations

from _thread import LockType
from collections.abc import Callable
from typing import TYPE_CHECKING

from turnctl import clock, points
from turnctl.clock import parse_duration
from turnctl.tokens import registry
from turnctl.tokens.current import current_token
from turnctl.tokens.event import park
from turnctl.tokens.leaving import has_to_leave
from turnctl.tokens.shielding import shielded_until

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken
    from turnctl.tokens.turn import TurnCore

__all__ = ["end_of", "grace_end", "left_until", "must_raise", "pend", "token_in", "wait_until"]


def end_of(timeout: float | str | None) -> float | None:
    """The time on the clock at which ``timeout`` (seconds, "5s" or None) is over."""
    if timeout is None:
        return None
    seconds = parse_duration(timeout, what="timeout", zero=True, none=True)
    return None if seconds is None else clock.monotonic() + seconds


def left_until(ends_at: float | None) -> float | None:
    """Seconds until then, not below 0; None for no limit."""
    return None if ends_at is None else max(ends_at - clock.monotonic(), 0.0)


def token_in(turn: TurnCore) -> CancelToken:
    """The token to obey: a child of the turn's that is bound here, such as one with a timeout, else the turn's."""
    token, whole = current_token(), turn.token
    if token is None or token is whole or token.retired or registry.enclosing(token) is not turn:
        return whole
    return token


def grace_end(turn: TurnCore, token: CancelToken) -> float:
    """Monotonic seconds at which the grace of the accepted stop ends; now, if there is none. Only ever sooner."""
    at = turn.kill_at()
    ends = [] if at is None else [at]
    if token is not turn.token:
        for record in token._stops():
            if record.level == "kill":
                ends.append(record.at)
            elif record.level == "cancel" and (record.grace_s is not None or not ends):
                ends.append(record.at + (turn.grace_s if record.grace_s is None else record.grace_s))
    return min(ends) if ends else clock.monotonic()


def must_raise(token: CancelToken | None) -> bool:
    """Whether a checkpoint would raise now: a stop was accepted and no shield of this context holds it back."""
    return token is not None and token.cancelled and shielded_until(token) is None


def pend(token: CancelToken | None, ready: Callable[[], bool], ends_at: float | None, *lists: list[LockType]) -> None:
    """Block until ``ready()``, a stop, or ``ends_at``; which of them it was is found out by looking again (K2)."""
    left = left_until(ends_at)
    if token is None:
        park(ready, left, *lists)
    elif not token.cancelled:
        park(lambda: token.cancelled or ready() or has_to_leave(token), left, token._grow().waiters, *lists)
    else:
        held = left_until(shielded_until(token) or 0.0)  # K3
        assert held is not None
        # a kill passes the shield, and releases the waiters once more
        limit = held if left is None else min(held, left)
        park(lambda: shielded_until(token) is None or ready(), limit, token._grow().waiters, *lists)
    points.reach("waiting.woken")


def wait_until(
    token: CancelToken | None, ready: Callable[[], bool], ends_at: float | None, *lists: list[LockType]
) -> bool:
    """Block until ``ready()`` or ``ends_at``; whether it is ready. A checkpoint at both ends."""
    while True:
        if token is not None:
            token.check()  # K1
        points.reach("waiting.asked")
        if ready():
            return True
        if left_until(ends_at) == 0:
            return False
        pend(token, ready, ends_at, *lists)
