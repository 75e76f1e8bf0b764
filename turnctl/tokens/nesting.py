"""A turn as something that its parent owns: it is stopped with the parent, and waited for within the grace."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from turnctl.clock import monotonic
from turnctl.tokens.entries import derive
from turnctl.tokens.event import park, release_all
from turnctl.tokens.tree import parents_of

if TYPE_CHECKING:
    from turnctl.tokens.turn import TurnCore

__all__ = ["ChildTurn", "hurrying_with_the_outer"]


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


@contextmanager
def hurrying_with_the_outer(turn: TurnCore) -> Iterator[None]:
    """While ``turn`` ends: a kill, or a shorter grace, of what it follows counts for it as well.

    Its own token is retired by now and is not reached any more. Whoever waits for it, on its thread or another, may be
    the very one that was to be stopped.
    """
    parents = parents_of(turn.token)
    heard: list[tuple[object, ...]] = []

    def hear() -> None:  # on the canceller's stack
        for parent in parents:
            kept: float | None = None  # the grace that a soft stop named is that of a later one which names none
            for one in derive(parent._log, parent._source()):
                if one.grace_s is None:
                    one.grace_s = kept
                elif one.level == "soft":
                    kept = one.grace_s if kept is None else min(kept, one.grace_s)
                if one.level == "soft" or (one.level != "kill" and one.grace_s is None):
                    continue
                if (found := (parent, one.level, one.grace_s, one.at)) not in heard:
                    heard.append(found)
                    turn._hurry.append(one)
                    turn._ring()
                    release_all(turn._hurry_waiters)

    bells = [parent._grow().bells for parent in parents]
    try:
        for each in bells:
            each.append(hear)
        if parents:
            hear()  # then read the log: a stop may have come before the bell
        yield
    finally:
        for each in bells:
            with suppress(ValueError):
                each.remove(hear)
