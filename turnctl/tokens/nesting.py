"""A turn as something that its parent owns: it is stopped with the parent, and waited for within the grace."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from turnctl.clock import monotonic
from turnctl.tokens.event import park

if TYPE_CHECKING:
    from turnctl.tokens.turn import TurnCore

__all__ = ["ChildTurn"]


class ChildTurn:
    """What the parent's inventory holds of a turn (``tokens.activities.Owned``)."""

    kind = "turn"

    def __init__(self, turn: TurnCore) -> None:
        self._turn = turn

    @property
    def name(self) -> str:
        return self._turn.turn_id

    def ask(self) -> None:
        turn = self._turn
        if turn._token is not None and not turn.is_over:
            turn.cancel("its parent has ended", cause="parent")

    def end(self, kill_at: Callable[[], float]) -> None:
        # the child ends its own things in its own grace; this waits for that, and no longer than twice
        over = self._turn._over
        outer = self._turn._outer
        assert outer is not None
        # one that this very thread began, and has not ended, cannot end while the thread waits here
        is_ours = self._turn._beginner == threading.get_ident() and not self._turn._ending
        while not over.is_set() and not is_ours:
            at = kill_at()
            left = at - monotonic()
            if left <= 0:
                break
            park(lambda: over.is_set() or kill_at() < at, left, over._waiters, outer._hurry_waiters)  # noqa: B023
        if not over.is_set():
            self._turn.cancel("its parent's grace has passed", cause="parent", level="kill")
            if not is_ours:
                over.wait(1.0)

    def alive(self) -> tuple[str, ...]:
        return () if self._turn.is_over else (f"turn {self._turn.turn_id}",)

    def outcome(self) -> None:
        return None
