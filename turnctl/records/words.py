"""The sentence of a report: what is known, in one line for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnctl.records.effects import EffectRecord
    from turnctl.records.process import ProcessOutcome
    from turnctl.records.report import TurnReport
    from turnctl.records.stops import StopRecord

__all__ = ["named", "sentence", "who"]

#: how many things a line names before it counts
_MOST_NAMES = 5

_WHO = {
    "user": "the user",
    "deadline": "its deadline",
    "signal": "a signal",
    "parent": "its parent",
    "shutdown": "shutdown",
    "displaced": "a newer turn of its session",
    "budget": "its budget",
    "event": "its event",
    "closed": "the close of its generator",
    "operator": "an operator",
}


def who(record: StopRecord) -> str:
    """By whom or what a stop came, for "stopped by ..."."""
    if record.cause == "signal" and record.reason:
        return record.reason
    return record.by or _WHO[record.cause]


def named(effects: Sequence[EffectRecord]) -> str:
    """The first few of them by kind and key, and how many more there are."""
    first = ", ".join(f"{one.kind} {one.key!r}" for one in effects[:_MOST_NAMES])
    more = len(effects) - _MOST_NAMES
    return f"{first} and {more} more" if more > 0 else first


def sentence(report: TurnReport) -> str:
    """One line: how it stands, who stopped it, what became of its processes, what is left."""
    parts = [_opening(report)]
    found = _processes(report.processes, anything_alive=bool(report.alive))
    if found:
        parts.append(found)
    if report.alive:
        parts.append("still alive: " + ", ".join(report.alive))
    if report.effects_unresolved:
        n = report.effects_unresolved
        parts.append(f"{n} effect{'s' if n > 1 else ''} with unknown outcome")
    done = [one for one in report.effects if one.disposition == "completed"]
    if done and report.stop is not None:  # a stop takes nothing back, and whoever asked for it may think so
        parts.append(f"{len(done)} effect{'s' if len(done) > 1 else ''} already happened ({named(done)})")
    return parts[0] + (": " + ", ".join(parts[1:]) if len(parts) > 1 else "")


def _opening(report: TurnReport) -> str:
    stop = report.stop
    if stop is None:
        return report.state
    text = f"by {who(stop)}"
    if stop.reason and stop.reason != who(stop):
        text += f" ({stop.reason})"
    if report.outcome is None or report.execution != "ended":
        return f"{report.state}, asked to stop {text}"
    if report.level == "soft":
        text += " after finishing the step in hand"
    if report.outcome != "cancelled":
        return f"{report.state}, asked to stop {text}"
    if report.stop_took_s is not None:
        text += f", which took {report.stop_took_s:.2f} s"  # from when it was accepted
    return f"stopped {text}"


def _processes(processes: tuple[ProcessOutcome, ...], *, anything_alive: bool) -> str:
    if not processes:
        return ""
    ended = sum(p.ended for p in processes)
    killed = sum(p.killed for p in processes)
    left = sum(len(p.survivors) for p in processes)
    texts = [f"{ended} process{'es' if ended != 1 else ''} ended"]
    if killed:
        texts.append(f"{killed} needed SIGKILL")
    if left:
        texts.append(f"{left} left")
    elif anything_alive:
        pass  # the line goes on to name it
    elif any(p.is_held_by_unknown for p in processes):
        texts.append("none found left, but somebody still held the output open")
    elif all(p.empty_proven for p in processes):
        texts.append("none left")
    else:
        # a scan that finds nothing is no proof, so the line does not say that nothing is left
        texts.append("none found left")
    return ", ".join(texts)
