"""What one stop came to: how it went, and what did not go well. Values for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from turnctl.clock import format_duration
from turnctl.processes.signames import name_of

if TYPE_CHECKING:
    from turnctl.cli.trials.places import Place
    from turnctl.cli.trials.running import Limits, Seen

__all__ = ["Problem", "Stop", "judged"]

SCHEMA = "turnctl.trial-stop/1"
Kind = Literal["late", "swallowed", "endless", "killed", "crashed", "leaking", "alive", "unresolved", "breaking"]


class Problem(NamedTuple):
    """One thing that did not go well."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class Stop(NamedTuple):
    """A run that was to be stopped at one place."""

    n: int
    place: Place
    #: whether it came there
    is_reached: bool
    #: from the stop until the turn was over; of a program without turns until nothing of it was left
    over_s: float | None
    #: from the stop until nothing of it was left
    ended_s: float | None
    code: int | None
    signal: str | None
    lines_after: int
    #: how many further checkpoints; None for a program without turns
    checkpoints_after: int | None
    left: tuple[str, ...]
    #: None where its ledger could not be read
    unresolved: int | None
    problems: tuple[Problem, ...]

    def as_dict(self) -> dict[str, Any]:
        """As one object of JSON, schema ``turnctl.trial-stop/1``."""
        return {
            "schema": SCHEMA,
            "n": self.n,
            "at": {**self.place.as_dict(), "text": str(self.place)},
            "reached": self.is_reached,
            "over_s": self.over_s,
            "ended_s": self.ended_s,
            "exit": {"code": self.code, "signal": self.signal},
            "after": {"lines": self.lines_after, "checkpoints": self.checkpoints_after},
            "left": list(self.left),
            "effects_unresolved": self.unresolved,
            "problems": [one._asdict() for one in self.problems],
        }

    def cells(self) -> tuple[str, ...]:
        """As a line of a table."""
        if not self.is_reached:
            return (*("-",) * 5, ", ".join(one.kind for one in self.problems) or "not reached", str(self.place))
        over = "-" if self.over_s is None else format_duration(round(self.over_s, 3))
        status = self.signal or ("-" if self.code is None else str(self.code))
        effects = "?" if self.unresolved is None else str(self.unresolved)
        kinds = ", ".join(dict.fromkeys(one.kind for one in self.problems)) or "-"
        return (over, status, str(self.lines_after), str(len(self.left)), effects, kinds, str(self.place))


def judged(n: int, place: Place, seen: Seen, limits: Limits, is_at_checkpoints: bool, broken: str | None) -> Stop:
    """What a run says of the stop at ``place``. ``broken`` is what the check of the user has said, if it did."""
    found = list(_problems(seen, limits, is_at_checkpoints))
    if broken is not None:
        found.append(Problem("breaking", broken))
    outcome, stopped_at, over = seen.outcome, seen.stopped_at, seen.journal.over
    status = None if outcome is None else outcome.returncode
    ended_s = None if stopped_at is None else round(seen.ended_at - stopped_at, 4)
    over_s = ended_s
    if is_at_checkpoints:
        over_s = None if over is None or stopped_at is None else round(over["t"] - stopped_at, 4)
    names = [] if outcome is None else [f"{one.name} {one.pid}" for one in outcome.leftovers]
    return Stop(
        n,
        place,
        stopped_at is not None,
        over_s,
        ended_s,
        None if status is None or status < 0 else status,
        None if status is None or status >= 0 else name_of(-status),
        seen.lines_after,
        len(seen.journal.after) if is_at_checkpoints else None,
        tuple(names),
        None if isinstance(seen.unresolved, str) else max(seen.unresolved, _told(seen)),
        tuple(found),
    )


def _problems(seen: Seen, limits: Limits, is_at_checkpoints: bool) -> Any:
    outcome, over, grace = seen.outcome, seen.journal.over, format_duration(limits.grace_s)
    if seen.forced == "late":
        after = seen.journal.after
        last = f"; it went on to {len(after)} more checkpoints, the last at {after[-1]}" if after else ""
        yield Problem("late", f"its turn was not over {grace} after the stop{last}")
    if seen.forced == "endless":
        what = "had not ended" if over is None else "was over with its turn, and had not ended"
        yield Problem("endless", f"it {what} {format_duration(limits.timeout_s)} after its start")
    for one in () if over is None else over["swallowed"]:
        where = f" at {one['by']}" if one["by"] else ""
        text = f"the stop was swallowed{where}: raised at {one['raised_at']}, and it went on to {one['next_at']}"
        yield Problem("swallowed", text)
    if outcome is None:
        return
    if seen.forced is None and not is_at_checkpoints and outcome.killed:
        how = "1 process" if outcome.killed == 1 else f"{outcome.killed} processes"
        yield Problem("killed", f"{how} had to be killed: not ended {grace} after being asked by SIGTERM")
    if is_at_checkpoints and seen.forced is None and outcome.signal is not None:
        yield Problem("crashed", f"it died of {name_of(outcome.signal)}")
    if is_at_checkpoints and seen.forced is None and outcome.leftovers:
        names = ", ".join(one.name for one in outcome.leftovers)  # without their numbers it is the same each time
        yield Problem("leaking", f"it ended and left something running: {names}")
    for one in outcome.survivors:
        yield Problem("alive", f"{one.name} {one.pid} is there still: {one.reason}")
    if isinstance(seen.unresolved, str):
        least = f"; its report tells of {_told(seen)}" if _told(seen) else ""
        yield Problem("unresolved", f"nobody knows what became of its effects: {seen.unresolved}{least}")
    elif max(seen.unresolved, _told(seen)):
        many = max(seen.unresolved, _told(seen))
        yield Problem("unresolved", f"nobody knows what became of {many} of its effects")


def _told(seen: Seen) -> int:
    """How many the report of its turn has."""
    return 0 if seen.journal.over is None else int(seen.journal.over["unresolved"])
