"""Times of a log in which the wall clock may have been set: in the order of the log, which never goes back.

Where the clock was set back, what came later is moved by as much as is missing, so that it is drawn after what came
before. Where it was set forward the log has a hole that cannot be told from a rest; spans that were measured by the
other clock of the program tell of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["SLACK_S", "Step", "Straight"]

#: so much may be between when something happened and when its line was written, without a clock that was set
SLACK_S = 1.0


class Step(NamedTuple):
    """Before line ``n`` the clock was set back, by at least ``back`` seconds."""

    n: int
    back: float


class Straight:
    """The moments of one turn, moved where its clock was set back. ``events`` are the lines of the turn, by ``n``."""

    def __init__(self, events: Sequence[dict[str, Any]]) -> None:
        self.steps: list[Step] = []
        self._from: list[int] = []
        self._moved: list[float] = []
        self._seen: list[tuple[float, float]] = []
        before, moved, first = None, 0.0, None
        for event in events:
            at = event["at"]
            if before is not None and at < before - SLACK_S:
                self.steps.append(Step(event["n"], before - at))
                self._seen.append((first or 0.0, before))
                moved += before - at
                self._from.append(event["n"])
                self._moved.append(moved)
                first = at
            first = at if first is None else first
            before = at
        self._seen.append((first or 0.0, before or 0.0))

    def of(self, at: float, n: int | None = None) -> float:
        """The moment ``at``, of which line ``n`` tells; without one, as of the first stretch that it may be of."""
        if not self.steps:
            return at
        if n is None:
            found = next((k for k, (a, b) in enumerate(self._seen) if a - SLACK_S <= at <= b + SLACK_S), 0)
        else:
            found = bisect_right(self._from, n)
        return at + (self._moved[found - 1] if found else 0.0)

    def last(self, at: float) -> float:
        """The same for what came after all lines."""
        return at + (self._moved[-1] if self._moved else 0.0)
