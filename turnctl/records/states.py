"""The state word shown to people, derived from intent, execution and effects. No other code makes one up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from turnctl.records.report import Execution
    from turnctl.records.stops import Outcome

__all__ = ["STATES", "StateWord", "state_word"]

StateWord = Literal[
    "running",
    "cancellation requested",
    "draining",
    "finishing",
    "cancelled, settled",
    "stopped, effects unresolved",
    "completed",
    "completed, effects unresolved",
    "failed",
    "failed, effects unresolved",
    "superseded",
    "superseded, effects unresolved",
    "lost",
]
STATES: tuple[StateWord, ...] = StateWord.__args__  # type: ignore[attr-defined]


def state_word(*, stop: bool, outcome: Outcome | None, execution: Execution, unresolved: bool) -> StateWord:
    """The word for one combination; total over its arguments.

    A word that claims an end needs ``execution`` ``ended`` (or ``lost``: the owner is provably gone); one that
    claims settled effects needs ``unresolved`` False.
    """
    if outcome is None:
        return _undecided(stop, execution, unresolved)
    if execution in ("running", "stopping"):
        return "finishing"
    if execution == "unproven":
        return "draining" if outcome == "cancelled" else "finishing"
    if outcome == "cancelled":
        return "stopped, effects unresolved" if unresolved else "cancelled, settled"
    if outcome == "completed":
        return "completed, effects unresolved" if unresolved else "completed"
    if outcome == "failed":
        return "failed, effects unresolved" if unresolved else "failed"
    return "superseded, effects unresolved" if unresolved else "superseded"


def _undecided(stop: bool, execution: Execution, unresolved: bool) -> StateWord:
    if execution == "lost":
        if not stop:
            return "lost"
        return "stopped, effects unresolved" if unresolved else "cancelled, settled"
    if not stop:
        return "running" if execution == "running" else "finishing"
    return "cancellation requested" if execution == "running" else "draining"
