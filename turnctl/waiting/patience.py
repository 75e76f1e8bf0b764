"""How long a function has to come back after a stop, where that is less than the grace: its patience.

A shield in the function holds the stop back, so its patience begins when the shield is left, or over. The grace bounds
both: it is what the stop itself gives.

Nothing here blocks. For those who wait; the function runs on another thread, in a context of its own.
"""

from __future__ import annotations

from _thread import LockType
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING

from turnctl import clock
from turnctl.tokens.shielding import shield_over

if TYPE_CHECKING:
    from turnctl.tokens.shielding import Shield
    from turnctl.tokens.token import CancelToken

__all__ = ["Forbearance", "Patience"]

#: the seconds that a function has after a stop; None for the grace
Patience = Callable[[], float | None]


class Forbearance:
    """The patience with one function that obeys ``token``, and the shields that were seen in it since the stop."""

    def __init__(self, patience: Patience, token: CancelToken) -> None:
        self._patience = patience
        self._token = token
        self._shield: Shield | None = None
        self._asked_at: float | None = None  # for the end of a turn that was not stopped

    @property
    def was_shielded(self) -> bool:
        """Whether a shield was seen in the function."""
        return self._shield is not None

    def seconds(self) -> float | None:
        """What it has, counted from the stop or the end of its shield; None for the grace."""
        return self._patience()

    def until(self, context: Context, ident: int | None) -> float | None:
        """Monotonic seconds at which it is over for what runs in ``context``, on the thread of that number; None where
        the grace alone counts.

        It may move either way, with each shield that is entered or left.
        """
        seconds = self.seconds()
        return None if seconds is None else self._since(context, ident) + seconds

    def waiters(self) -> list[list[LockType]]:
        """What is released when the shield that was seen is left."""
        return [] if self._shield is None else [self._shield.token._grow().waiters]

    def _since(self, context: Context, ident: int | None) -> float:
        token = self._token
        since = next((stop.at for stop in token._stops() if stop.level != "soft"), None)
        if since is None:
            since = self._asked_at = self._asked_at or clock.monotonic()
        # the thread that runs in it may change it meanwhile; a copy is one state of it
        shield = context.copy().run(shield_over, token, ident)
        if shield is not None:
            self._shield = shield
            return max(since, shield.ends_at)
        seen = self._shield
        if seen is None or token.level == "kill":
            return since
        return max(since, seen.ends_at if seen.left_at is None else min(seen.left_at, seen.ends_at))
