"""The entries of a token's log, and the pure functions that say what a log means."""

from __future__ import annotations

import sys
import weakref
from _thread import LockType
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turnctl.clock import monotonic, parse_duration, wall
from turnctl.errors import BadArgument
from turnctl.records.stops import CAUSES, LEVELS, StopAnswer
from turnctl.tokens.asked import Stop
from turnctl.tokens.sites import raw_site

if TYPE_CHECKING:
    from turnctl.records.stops import Cause, Level, Outcome
    from turnctl.tokens.callbacks import Registration
    from turnctl.tokens.core import TokenCore

__all__ = [
    "CANCEL",
    "Entry",
    "Parts",
    "Retirement",
    "Stop",
    "adds",
    "check_request",
    "derive",
    "is_ended",
    "is_stopped",
    "level_name",
    "new_stop",
    "outcome_of",
    "read",
]

CANCEL = LEVELS["cancel"]
_new = object.__new__
_TEXT = (str, type(None))
_NAMES: tuple[Level, ...] = ("soft", "cancel", "kill")


class Parts:
    """What an idle token does without: waiters, children, callbacks and bells.

    ``kids`` holds children weakly; the value holds one strongly while it has callbacks, which must be able to
    fire. ``bells`` are rung after every change and must neither block nor raise.
    """

    __slots__ = ("bells", "calls", "cells", "forget", "kids", "waiters")

    def __init__(self) -> None:
        self.waiters: list[LockType] = []
        self.kids: dict[weakref.ref[TokenCore], TokenCore | None] = {}
        self.calls: dict[Registration, None] = {}
        self.bells: list[Callable[[], None]] = []
        self.cells: dict[str, Any] = {}
        pop = self.kids.pop
        self.forget: Callable[[weakref.ref[TokenCore]], object] = lambda ref: pop(ref, None)


class Retirement:
    """The entry that ends a token; the outcome it proposes holds if no stop precedes it.

    ``overruled`` is a stop that a higher authority had accepted before, and that was not known here yet: it counts as
    if it stood before this entry.
    """

    __slots__ = ("at", "overruled", "proposed")

    def __init__(self, proposed: Outcome) -> None:
        self.proposed = proposed
        self.overruled: Stop | None = None
        self.at = monotonic()


Entry = Stop | Retirement | Parts


def read(log: list[Entry]) -> tuple[Stop | None, int, float | None, Retirement | None]:
    """The first stop, the highest level, the least grace given, and the retirement, as far as they count."""
    first: Stop | None = None
    level = 0
    grace: float | None = None
    for entry in log:
        if type(entry) is Stop:
            if first is None:
                first = entry
            level = max(level, LEVELS[entry.level])
            if entry.grace_s is not None and (grace is None or entry.grace_s < grace):
                grace = entry.grace_s
        elif type(entry) is Retirement:
            if entry.overruled is not None:
                return first or entry.overruled, max(level, LEVELS[entry.overruled.level]), grace, entry
            return first, level, grace, entry
    return first, level, grace, None


def is_stopped(log: list[Entry]) -> bool:
    """Whether ``read`` finds a stop; quicker, since a loop asks before each step."""
    for entry in log:
        if type(entry) is Stop:
            return True
        if type(entry) is Retirement:
            return entry.overruled is not None
    return False


def is_ended(log: list[Entry]) -> bool:
    """Whether ``read`` finds a retirement; quicker, since each call of a loop asks."""
    for entry in log:  # noqa: SIM110 - a generator would take longer than the loop
        if type(entry) is Retirement:
            return True
    return False


def adds(stop: Stop, level: int, grace: float | None) -> bool:
    """Whether a later request changes anything: a higher level, or a shorter grace."""
    if LEVELS[stop.level] > level:
        return True
    return stop.grace_s is not None and (grace is None or stop.grace_s < grace)


def outcome_of(first: Stop | None, end: Retirement) -> Outcome:
    """The outcome that a retirement decided: a stop before it wins."""
    return "cancelled" if first is not None else end.proposed


def level_name(level: int) -> Level:
    """The word for a level's number."""
    return _NAMES[level - 1]


def derive(log: list[Entry], source: str | None) -> list[Stop]:
    """The entries under which what a parent's ``log`` says reaches its children, in their order; none without a stop.

    One for each request, with the time of that: a later level or a shorter grace counts from then on, here as there.
    """
    found: list[Stop] = []
    for entry in log:
        if type(entry) is Stop:
            found.append(entry)
        elif type(entry) is Retirement:
            if entry.overruled is not None:
                found.append(entry.overruled)
            break
    return [
        Stop("parent", one.level, one.at, one.wall_at, found[0].reason, found[0].by, one.grace_s, found[0], source)
        for one in found
    ]


def check_request(reason: object, by: object, cause: object, level: object) -> None:
    """Refuse what no stop can carry: ``BadArgument``, also where there is nothing to stop."""
    if cause not in CAUSES:
        raise BadArgument(f"unknown cause {cause!r}; use one of {', '.join(sorted(CAUSES))}")
    if level not in LEVELS:
        raise BadArgument(f"unknown level {level!r}; use soft, cancel or kill")
    if not isinstance(reason, _TEXT) or not isinstance(by, _TEXT):
        raise BadArgument(f"reason and by of a stop are str or None, not {reason!r} and {by!r}")


def new_stop(
    reason: str | None,
    by: str | None,
    cause: Cause,
    level: Level,
    grace: float | str | None,
    source: str | None,
) -> Stop:
    """A checked request of the caller; ``BadArgument`` or ``BadDuration`` before anything is recorded."""
    if cause != "user" or level != "cancel" or by is not None or (reason is not None and type(reason) is not str):
        check_request(reason, by, cause, level)
    seconds = None if grace is None else parse_duration(grace, what="grace", zero=True)
    stop = _new(Stop)  # its initialiser would take three times as long as these lines, and waiters wait for it
    stop.cause = cause
    stop.level = level
    stop.at = monotonic()
    stop.wall_at = wall()
    stop.reason = reason
    stop.by = by
    stop.grace_s = seconds
    stop.origin = None
    stop.source = source
    stop.site = raw_site(sys._getframe(1))
    stop._made = []
    return stop


def answer(log: list[Entry], stop: Stop | None, turn_id: str | None, session_id: str | None) -> StopAnswer:
    """What ``stop``'s place in the log means; None for a request that was not entered because nothing could
    change any more."""
    first: Stop | None = None
    for entry in log:
        if entry is stop:
            if first is None:
                return StopAnswer("accepted", entry, None, None, turn_id, session_id)
            return StopAnswer("already_cancelled", first, None, None, turn_id, session_id)
        if type(entry) is Stop:
            first = first or entry
        elif type(entry) is Retirement:
            first = first or entry.overruled
            outcome = outcome_of(first, entry)
            if outcome == "superseded":
                return StopAnswer("refused", None, outcome, "retired", turn_id, session_id)
            return StopAnswer("already_ended", first, outcome, None, turn_id, session_id)
    return StopAnswer("already_cancelled", first, None, None, turn_id, session_id)
