"""Sleeping and waiting on a token. Both wake in one hop when it trips, and poll nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from turnctl.clock import parse_duration
from turnctl.tokens.event import park
from turnctl.tokens.shielding import shielded_until

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken

__all__ = ["sleep", "wait"]


def sleep(token: CancelToken | None, duration: float | str) -> None:
    """Block for ``duration`` (seconds or "1m30s"), or raise ``CancelledError`` as soon as ``token`` trips.

    A checkpoint at both ends, also for 0. Under a shield it sleeps on until the shield's limit. With no token it
    is a plain sleep.
    """
    seconds = parse_duration(duration, what="sleep", zero=True)
    assert seconds is not None
    if token is None:
        time.sleep(seconds)
        return
    token.check()
    ends_at = time.monotonic() + seconds
    waiters = token._grow().waiters
    while time.monotonic() < ends_at:
        if token.cancelled:
            # a shield holds the stop back; a kill passes it, and releases the waiters once more
            held = shielded_until(token) or 0.0
            park(lambda: shielded_until(token) is None, min(ends_at, held) - time.monotonic(), waiters)
        else:
            park(lambda: token.cancelled, ends_at - time.monotonic(), waiters)
        token.check()
    token.check()


def wait(token: CancelToken, timeout: float | str | None = None) -> bool:
    """Block until ``token`` trips or is retired, or ``timeout`` has passed; whether it has tripped.

    Not a checkpoint: it returns the stop instead of raising it.
    """
    seconds = parse_duration(timeout, what="timeout", zero=True, none=True)
    waiters = token._grow().waiters
    park(lambda: token.cancelled or token.retired, seconds, waiters)
    return token.cancelled
