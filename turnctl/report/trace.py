"""The report as trace events, the JSON that chrome://tracing and Perfetto open.

Each lane is a process of the trace, each row a thread of it. Slices on one thread may not overlap there, so items that
do are on different threads. A slice whose end is not known begins and does not end, which viewers show as such.
"""

from __future__ import annotations

import json
import math
from typing import Any

from turnctl.report.picture import Item, Lane, Picture
from turnctl.report.texts import moment, whole

__all__ = ["SCHEMA", "trace"]

SCHEMA = "turnctl.trace/1"


def trace(picture: Picture, *, made_by: str) -> str:
    """One object of the JSON object form; times in microseconds after the begin of the turn."""
    events: list[dict[str, Any]] = []
    for pid, lane in enumerate(picture.lanes, 1):
        if lane.items:
            events += _lane(lane, pid)
    for one, name in ((picture.stop, "stop accepted"), (picture.grace, "grace ends")):
        if one is not None:
            at = one.begin if one is picture.stop else one.end
            events.append(
                {
                    "name": name,
                    "ph": "i",
                    "s": "g",
                    "ts": _us(at),
                    "pid": 1,
                    "tid": 1,
                    "cat": "stop",
                    "args": {"what": one.words},
                }
            )
    value = {
        "displayTimeUnit": "ms",
        "otherData": {
            "schema": SCHEMA,
            "made_by": made_by,
            "turn_id": picture.turn_id,
            "state": picture.state,
            "summary": picture.sentence,
            "begun_at": moment(picture.begun_at, digits=6),
            "seen_at": moment(picture.seen_at, digits=6),
            "is_redacted": str(picture.is_redacted).lower(),
            "not_on_record": " ".join(picture.gaps),
        },
        "traceEvents": events,
    }
    return json.dumps(value, indent=1, ensure_ascii=True) + "\n"


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


def _lane(lane: Lane, pid: int) -> list[dict[str, Any]]:
    meta = [
        {"name": "process_name", "ph": "M", "pid": pid, "tid": 0, "args": {"name": lane.title}},
        {"name": "process_sort_index", "ph": "M", "pid": pid, "tid": 0, "args": {"sort_index": pid}},
    ]
    found: list[dict[str, Any]] = []
    free: list[float] = []
    for item in sorted(lane.items, key=lambda one: one.begin if one.spans else 0.0):
        begin, end = (_us(item.begin), _end(item)) if item.spans else (0, 0)
        row = next((n for n, until in enumerate(free) if until <= begin), len(free))
        free[row : row + 1] = [end]
        found += _slices(lane, item, pid, row + 1)
    names = [
        {"name": what, "ph": "M", "pid": pid, "tid": n, "args": args}
        for n in range(1, len(free) + 1)
        for what, args in (
            ("thread_name", {"name": f"{lane.title} {n}" if len(free) > 1 else lane.title}),
            ("thread_sort_index", {"sort_index": n}),
        )
    ]
    return [*meta, *names, *found]


_FOR_EVER = math.inf


def _end(item: Item) -> float:
    return _FOR_EVER if _is_endless(item) else max(_us(item.end), _us(item.begin) + 1)


def _is_endless(item: Item) -> bool:
    """Whether no end of it is known."""
    return item.is_open or item.spans[-1].kind == "unknown"


def _slices(lane: Lane, item: Item, pid: int, tid: int) -> list[dict[str, Any]]:
    place = {"pid": pid, "tid": tid, "cat": lane.key}
    args = {"state": item.word, "what": whole("\n".join(item.about))}
    name = whole(item.name)
    if not item.spans:
        return [{"name": name, "ph": "i", "s": "t", "ts": 0, **place, "args": {**args, "time": "not on record"}}]
    begin = _us(item.begin)
    found: list[dict[str, Any]] = []
    if _is_endless(item):
        found.append({"name": name, "ph": "B", "ts": begin, **place, "args": {**args, "end": "not known, or to come"}})
    else:
        found.append({"name": name, "ph": "X", "ts": begin, "dur": _us(item.end) - begin, **place, "args": args})
    found += [
        {"name": mark.word, "ph": "i", "s": "t", "ts": _us(mark.at), **place, "args": {"what": mark.text}}
        for mark in item.marks
    ]
    return found
