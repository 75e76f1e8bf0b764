"""The output and events of one turn as they are chosen: what is kept, then what comes until the turn is over."""

from __future__ import annotations

import json
import os
import re
import time
from collections import deque
from collections.abc import Iterator
from heapq import merge
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from turnctl.cli.codes import Code
from turnctl.cli.names import find
from turnctl.cli.opened import glances, no_turns, opened
from turnctl.cli.problems import Problem
from turnctl.ledger.effects_glance import events_of
from turnctl.ledger.spool_lines import Following, Line
from turnctl.ledger.stirring import Stirring

if TYPE_CHECKING:
    from turnctl.ledger.glance import Glances

__all__ = ["EVENTS", "Chosen", "Entry", "Log", "Taker"]

EVENTS = "events"
_LOOK_S = 1.0
#: what each word means; joint streams belong to both
_WORDS = {
    "out": re.compile(r"(?:.*\.)?stdout(?:\+stderr)?(?:-\d+)?"),
    "err": re.compile(r"(?:.*\.)?(?:stdout\+)?stderr(?:-\d+)?"),
}
_KEEPING = "turnctl run keeps what goes through it, without --no-log; of a terminal with --tty new"


class Chosen(NamedTuple):
    """What is asked for. No stream is all but the events."""

    streams: frozenset[str]
    since: float | None
    until: float | None
    last: int | None

    @property
    def has_events(self) -> bool:
        return EVENTS in self.streams

    def has(self, stream: str) -> bool:
        """Whether that stream of output is asked for."""
        if not self.streams:
            return True
        words = (pattern for word, pattern in _WORDS.items() if word in self.streams)
        return stream in self.streams or any(pattern.fullmatch(stream) for pattern in words)

    def is_in_time(self, line: Line) -> bool:
        """Whether it came within the time asked for, as far as is known."""
        if line.at is None:
            return True
        return (self.since is None or line.at >= self.since) and (self.until is None or line.at <= self.until)


class Entry(NamedTuple):
    """A line, and the event that it is of."""

    line: Line
    event: dict[str, Any] | None = None


class Taker(Protocol):
    """Where entries go."""

    def take(self, entries: list[Entry]) -> None: ...


class Log:
    """That of the turn ``name``. Raises ``Problem`` where there is none, or nothing of it is kept."""

    def __init__(self, path: str, name: str, state_dir: str | None, chosen: Chosen) -> None:
        self._path, self._state_dir, self._chosen = path, state_dir, chosen
        self._events = 0
        there = opened(state_dir)
        if there is None:
            raise no_turns(state_dir, name)
        with there:
            try:
                self.glance = find(there, name)
            except Problem as problem:
                is_name = problem.word != "bad_name"
                raise (_purged(there, name) if is_name else None) or problem from None
            ((output,),) = there.ask("SELECT output FROM turn WHERE turn_id = ?", [self.glance.turn_id])
            self._output: dict[str, Any] | None = None if output is None else json.loads(output)
            first = list(self._new_events(there))
        self._first = first
        self._kept = Following(os.path.dirname(path), self.glance.turn_id)
        self._check()

    @property
    def turn_id(self) -> str:
        return self.glance.turn_id

    def _is_over(self) -> bool:
        return self.glance.is_over  # as the last look has found it

    @property
    def names(self) -> list[str]:
        """The streams of output that are kept, as far as anything came of them."""
        return self._kept.names()

    @property
    def has_several(self) -> int:
        """How needed it is to name the streams: 0 not at all, 1 those that are not a command's only two, 2 each."""
        if len(self._chosen.streams) == 1 and not self._chosen.streams & {*_WORDS}:
            return 0
        return 2 if self._chosen.has_events else 1

    # -- what is there at all -----------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Refuse what cannot be shown, because it is not kept or not there."""
        turn_id, there = self.glance.turn_id, self.names
        wants_output = not self._chosen.streams or self._chosen.streams != {EVENTS}
        if self.glance.command is not None and self._output is None and not there and wants_output:
            text = f"nothing of what {turn_id} printed is kept: it was run with --no-log"
            raise Problem("no_log", text, _KEEPING, Code.NO_SUCH)
        elsewhere = self._elsewhere()
        told = (self._output or {}).get("streams") or {}
        if told and len(elsewhere) == len(told) and not there and wants_output:
            listed = "; ".join(f"{name}: {why}" for name, why in elsewhere.items())
            raise Problem("no_log", f"nothing of what {turn_id} printed is kept ({listed})", _KEEPING, Code.NO_SUCH)
        for name in sorted(self._chosen.streams - {EVENTS}):
            self._check_stream(name, there, elsewhere)

    def _check_stream(self, name: str, there: list[str], elsewhere: dict[str, str]) -> None:
        full = {"out": "stdout", "err": "stderr"}.get(name, name)
        alone = self._chosen._replace(streams=frozenset({name}))
        if any(alone.has(one) for one in there):
            return
        if full in elsewhere:
            text = f"{full} of {self.glance.turn_id} is not kept: {elsewhere[full]}"
            raise Problem("no_log", text, _KEEPING, Code.NO_SUCH)
        if name not in _WORDS and self.glance.is_over:
            text = f"{self.glance.turn_id} has no stream {name!r}"
            raise Problem("no_such_log", text, f"it has: {', '.join(['events', *there])}", Code.NO_SUCH)

    def _elsewhere(self) -> dict[str, str]:
        """The streams that are not kept, and why."""
        told: dict[str, str] = (self._output or {}).get("streams") or {}
        return {name: to for name, to in told.items() if not any(pattern.fullmatch(to) for pattern in _WORDS.values())}

    def notes(self) -> Iterator[str]:
        """What a person should know before."""
        if not self._chosen.streams:
            for name, why in self._elsewhere().items():
                yield f"{name} is not kept: {why}"
        kept: dict[str, Any] = (self._output or {}).get("kept") or {}
        for name, one in kept.items():
            if isinstance(one, dict) and one.get("not_kept"):
                yield f"{one['not_kept']} bytes of {name} found no room: {one['problem']}"
        if kept.get("streams_left_out"):
            yield f"the first {kept['streams_left_out']} streams were left out: only the last 64 are kept"
        if self._chosen.since is not None or self._chosen.until is not None:
            for name in self._kept.without_times():
                if self._chosen.has(name):
                    yield f"not all times of {name} are known, and what has none is shown"

    # -- what is kept, and what comes ---------------------------------------------------------------------------------

    def give(self, to: Taker) -> None:
        """What is there now, as it is chosen."""
        # where times are chosen, which of them are the last ones is not known before all are read
        has_times = self._chosen.since is not None or self._chosen.until is not None
        lines = (Entry(line) for line in self._output_lines(None if has_times else self._chosen.last))
        merged: Iterator[Entry] = merge(self._first, lines, key=lambda entry: entry.line.at or 0.0)
        found = (entry for entry in merged if self._chosen.is_in_time(entry.line))
        _hand(to, found if self._chosen.last is None else iter(deque(found, self._chosen.last)))

    def _output_lines(self, last: int | None = None) -> Iterator[Line]:
        yield from self._kept.more(self._chosen.has, last=last)
        if self._is_over():
            yield from self._last_lines()

    def _last_lines(self) -> Iterator[Line]:
        """What is left when nothing more comes, and what is known to have come and is not there."""
        yield from self._kept.end()
        for name, one in ((self._output or {}).get("kept") or {}).items():
            if isinstance(one, dict) and self._chosen.has(name):
                gone = one.get("bytes", 0) - self._kept.position(name)
                if gone > 0:
                    yield Line(None, name, b"", missing=gone)

    def follow(self, to: Taker) -> None:
        """What comes, until the turn is over. Blocks."""
        if self._is_over():
            return
        with Stirring(self._path) as stirring:
            stirring.watch_process(self.glance.pid)
            stirring.watch_reader(1)
            looked = 0.0
            while True:
                is_new = [stirring.add(folder) for folder in (os.path.dirname(self._kept.folder), self._kept.folder)]
                events = list[Entry]()
                # by the time as well: that its process is gone is written by nobody
                if stirring.has_changed() or time.monotonic() >= looked + _LOOK_S:
                    events, looked = self._look(), time.monotonic()
                _hand(to, (one for one in self._came(events) if self._chosen.is_in_time(one.line)))
                if self._is_over():
                    return
                if not any(is_new):
                    stirring.wait()
                    if stirring.has_lost_reader:
                        raise BrokenPipeError
                    if stirring.has_seen_end:
                        looked = 0.0

    def _came(self, events: list[Entry]) -> Iterator[Entry]:
        yield from merge(events, (Entry(line) for line in self._output_lines()), key=lambda entry: entry.line.at or 0.0)

    def _look(self) -> list[Entry]:
        """How the turn stands now; the events since the last look."""
        with glances(self._state_dir) as there:
            found = there.named(self.glance.turn_id, 1)
            if not found:
                text = f"{self.glance.turn_id} was purged while it was shown"
                raise Problem("purged", text, "turnctl ps -a lists those that are on record", Code.NO_SUCH)
            self.glance = found[0]
            if self.glance.is_over:
                ((output,),) = there.ask("SELECT output FROM turn WHERE turn_id = ?", [self.glance.turn_id])
                self._output = None if output is None else json.loads(output)
            return list(self._new_events(there))

    def farewell(self) -> str:
        """Why there is nothing more to follow."""
        glance = self.glance
        return f"{glance.turn_id} {glance.state}" + (f": {glance.lost}" if glance.lost is not None else "")

    # -- events -------------------------------------------------------------------------------------------------------

    def _new_events(self, there: Glances) -> Iterator[Entry]:
        if not self._chosen.has_events:
            return
        for event in events_of(there, self.glance.inc):
            if event["n"] > self._events:
                self._events = event["n"]
                yield _entry(event)


def _entry(event: dict[str, Any]) -> Entry:
    text = f"{event['kind']} {event['subject']} by {event['actor']}"
    fields = {name: event[name] for name in ("n", "kind", "subject", "actor")}
    return Entry(Line(event["at"], EVENTS, text.encode("utf-8", "backslashreplace")), fields)


def _hand(to: Taker, entries: Iterator[Entry], size: int = 500) -> None:
    held: list[Entry] = []
    for entry in entries:
        held.append(entry)
        if len(held) >= size:
            to.take(held)
            held = []
    if held:
        to.take(held)


def _purged(there: Glances, name: str) -> Problem | None:
    """Where there was such a turn, whose record was taken away."""
    query = "SELECT 1 FROM tombstone WHERE inc = ? OR (tenant = 'turnctl-run' AND task_id = ?) LIMIT 1"
    if not list(there.ask(query, [name, name])):
        return None
    text = f"{name} was purged, and what it printed with it"
    return Problem("purged", text, "turnctl ps -a lists those that are on record", Code.NO_SUCH)
