"""The diagnosis of a turn: why it has not stopped, as far as that was observed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

__all__ = ["Diagnosis", "Gap", "Standing", "Swallow"]


@attrs.frozen
class Swallow:
    """A stop that was raised at ``raised_at``, and a checkpoint that the same thread reached all the same.

    Places are "file:line in function". ``swallowed_at`` is the ``except``, ``finally`` or ``suppress`` that can have
    done it, read from the source; None where that cannot be told. ``count`` is how often it was seen.
    """

    raised_at: str
    next_at: str
    swallowed_at: str | None
    thread: str
    count: int


@attrs.frozen
class Gap:
    """A stretch without a checkpoint, in seconds; ``until`` is None while it lasts. Places as in ``Swallow``."""

    seconds: float
    since: str
    until: str | None
    thread: str


@attrs.frozen
class Standing:
    """A thread that was found running: what it has to do with the turn, and its stack, the innermost line first.

    ``at`` is the innermost line that is not turnctl's own; None where there is none.
    """

    thread: str
    role: str
    at: str | None
    stack: tuple[str, ...] = ()


@attrs.frozen
class Diagnosis:
    """Why a turn has not stopped, or how long it took to. ``str()`` is for people, ``as_dict()`` for machines.

    ``stop_site`` is where ``cancel()`` or ``stop()`` was called. ``first_checkpoint_s`` is the time from the stop to
    the first checkpoint that met it, ``first_checkpoint_at`` its place. ``longest_gap`` is known only for a turn whose
    checkpoints are traced; else it is None and ``unknown`` says why, as it does for everything else that is None.
    ``running`` names what the turn owns and what still runs, ``threads`` are those that belong to it, and
    ``others`` the threads of the process that nothing connects with it.
    ``not_ours`` are living children of this program that no turn has: it started them by itself, and only ``adopt`` has
    them ended.
    """

    turn_id: str
    state: str
    stopped_by: str | None = None
    stopped_ago_s: float | None = None
    stop_site: str | None = None
    first_checkpoint_s: float | None = None
    first_checkpoint_at: str | None = None
    swallowed: tuple[Swallow, ...] = ()
    longest_gap: Gap | None = None
    running: tuple[str, ...] = ()
    threads: tuple[Standing, ...] = ()
    others: tuple[str, ...] = ()
    not_ours: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The diagnosis as plain values for JSON, schema ``turnctl.diagnosis/1``; spans are seconds."""
        return {"schema": "turnctl.diagnosis/1", **attrs.asdict(self), "summary": str(self)}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"turn {self.turn_id}: {self.state}"
        if self.stopped_by is None:
            yield "  no stop was asked for"
        else:
            ago = "" if self.stopped_ago_s is None else f" {_span(self.stopped_ago_s)} ago"
            yield f"  stopped{ago} by {self.stopped_by}" + ("" if self.stop_site is None else f", at {self.stop_site}")
            if self.first_checkpoint_s is None:
                yield "  no checkpoint has met the stop"
            else:
                after = _span(self.first_checkpoint_s)
                place = self.first_checkpoint_at or "a place that is not known"
                yield f"  first checkpoint after it: {after} later, at {place}"
        for one in self.swallowed:
            times = "once" if one.count == 1 else f"{one.count} times"
            by = f"at {one.swallowed_at}" if one.swallowed_at is not None else "somewhere"
            yield f"  the stop was swallowed {times} {by}, in thread {one.thread}:"
            yield f"    raised at {one.raised_at}"
            yield f"    and yet reached {one.next_at}"
        gap = self.longest_gap
        if gap is not None:
            until = "now, without a checkpoint yet" if gap.until is None else gap.until
            yield f"  longest gap between checkpoints: {_span(gap.seconds)}, in thread {gap.thread}"
            yield f"    from {gap.since}"
            yield f"    to {until}"
        if self.running:
            yield "  of what it owns, there still runs: " + "; ".join(self.running)
        for thread in self.threads:
            yield f"  thread {thread.thread} ({thread.role})" + ("" if thread.at is None else f" stands at {thread.at}")
            yield from (f"    {line}" for line in thread.stack)
        if self.others:
            yield f"  not known to belong to it: {', '.join(self.others)}"
        if self.not_ours:
            yield f"  not ours, started by the program itself: {', '.join(self.not_ours)}"
        yield from (f"  not known: {text}" for text in self.unknown)


def _span(seconds: float) -> str:
    return f"{seconds:.3g} s"
