"""When the nearest of the deadlines passes that stop a token: its own, and those of all that it follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.tokens.tree import all_above

if TYPE_CHECKING:
    from turnctl.tokens.core import TokenCore

__all__ = ["due_at"]


def due_at(token: TokenCore) -> float | None:
    """Monotonic seconds, None where no deadline is set. It may be moved, or its token closed, at any time after."""
    times: list[float | None] = []
    for one in all_above(token):
        turn = getattr(one, "_turn", None)
        if turn is not None:
            times.append(turn.deadline)
        parts = one._parts_now()
        timer = None if parts is None else parts.cells.get("timer")
        if timer is not None:
            times.append(timer.at)
    return min([at for at in times if at is not None], default=None)
