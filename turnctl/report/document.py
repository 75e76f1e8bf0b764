"""The report as JSON, schema ``turnctl.report/1``: the full record, what is drawn of it, and what is not on record."""

from __future__ import annotations

import json
from typing import Any

from turnctl.report.facts import Facts
from turnctl.report.picture import Item, Picture, Stretch
from turnctl.report.texts import moment

__all__ = ["SCHEMA", "document"]

SCHEMA = "turnctl.report/1"


def document(picture: Picture, facts: Facts, *, made_by: str) -> str:
    """One object. Moments are RFC 3339 in UTC to the microsecond, those of the drawing seconds after the begin."""
    value = {
        "schema": SCHEMA,
        "made_by": made_by,
        "made_at": _moment(facts.seen_at),
        "is_redacted": facts.is_redacted,
        "turn": facts.turn,
        "task": facts.task,
        "begun_at": _moment(facts.begun_at),
        "ended_at": _moment(facts.ended_at),
        "activities": [
            {**one, **{name: _moment(one[name]) for name in ("begun_at", "signalled_at", "ended_at")}}
            for one in facts.activities
        ],
        "effects": [{name: value for name, value in one.items() if name != "at"} for one in facts.effects],
        "events": [{**one, "at": _moment(one["at"])} for one in facts.events],
        "attempts": [{**one, **{n: _moment(one[n]) for n in ("begun_at", "ended_at")}} for one in facts.attempts],
        "output": facts.output,
        "report": facts.report,
        "drawing": {
            "begun_at": _moment(picture.begun_at),
            "end": picture.end,
            "goes_on": picture.now,
            "stop": _stretch(picture.stop),
            "grace": _stretch(picture.grace),
            "lanes": [{"lane": lane.key, "items": [_item(item) for item in lane.items]} for lane in picture.lanes],
        },
        "gaps": list(picture.gaps),
        "summary": picture.sentence,
    }
    return json.dumps(value, indent=2, ensure_ascii=True) + "\n"


def _moment(at: float | None) -> str | None:
    return None if at is None else moment(at, digits=6)


def _stretch(one: Stretch | None) -> dict[str, Any] | None:
    return None if one is None else one._asdict()


def _item(item: Item) -> dict[str, Any]:
    return {
        "name": item.name,
        "state": item.word,
        "look": item.look,
        "spans": [span._asdict() for span in item.spans],
        "marks": [mark._asdict() for mark in item.marks],
        "took_s": item.took,
        "goes_on": item.is_open,
        "ref": item.ref,
    }
