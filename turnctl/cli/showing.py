"""A turn in one line, for people and for programs; what lists and one-line answers share."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from turnctl.cli.codes import Code
from turnctl.cli.common import colour_option, time_option
from turnctl.cli.stdout import is_terminal
from turnctl.clock import parse_duration
from turnctl.errors import BadDuration
from turnctl.records.states import STATES

if TYPE_CHECKING:
    from turnctl.cli.times import TimeFormat
    from turnctl.ledger.glance import Glance

__all__ = [
    "LEAST_SHOWN",
    "SCHEMA",
    "Moment",
    "State",
    "code_of",
    "colour_option",
    "effects_cell",
    "format_of",
    "line_of",
    "precise",
    "time_option",
]

SCHEMA = "turnctl.turn-line/1"
#: letters of an id that a terminal shows at least
LEAST_SHOWN = 6

if TYPE_CHECKING:
    OfMoment = click.ParamType[str]
else:
    OfMoment = click.ParamType


class Moment(OfMoment):
    """A moment: so long ago, as 42m, or a time of RFC 3339; given on as seconds since the epoch, as text."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        try:
            at = _parsed(text)
        except (ValueError, BadDuration):
            self.fail(f"{text!r} is no time; write 42m for so long ago, or 2026-01-31T14:02:11Z", param, ctx)
        return repr(at)


class State(OfMoment):
    """A word of state, or how it begins; given on as the word."""

    name = "STATE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = " ".join(str(value).replace("_", " ").lower().split())
        found = [word for word in STATES if word == text] or [
            word for word in STATES if text and word.replace(",", "").startswith(text.replace(",", ""))
        ]
        if len(found) != 1:
            listed = "; ".join(found or STATES)
            self.fail(
                f"{str(value)!r} is {'several words' if found else 'no word'} of state; write one of: {listed}",
                param,
                ctx,
            )
        return found[0]


def _parsed(text: str) -> float:
    if re.match(r"\d{4}-", text):
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.astimezone()).timestamp()
    from turnctl.clock import wall

    return wall() - (parse_duration(text, what="--since", unit_required=True) or 0.0)


#: effects whose receiver has told what became of them
_TOLD = ("completed", "rejected", "provider_cancelled")


def effects_cell(glance: Glance) -> str:
    """How many effects were told of, and after a plus, with a question mark, how many were not: "2+1?"."""
    told = sum(glance.dispositions.get(name, 0) for name in _TOLD)
    untold = glance.dispositions.get("pending", 0) + glance.dispositions.get("unknown", 0)
    return f"{told}+{untold}?" if untold else str(told)


def line_of(glance: Glance) -> dict[str, Any]:
    """A turn as one object of JSON, schema ``turnctl.turn-line/1``."""
    return {
        "schema": SCHEMA,
        "turn_id": glance.turn_id,
        "session_id": glance.session,
        "name": glance.name,
        "label": glance.label,
        "command": None if glance.command is None else list(glance.command),
        "folder": glance.folder,
        "task": {"tenant": glance.tenant, "task_id": glance.task_id, "inc": glance.inc},
        "state": glance.state,
        "outcome": glance.outcome,
        "started_at": precise(glance.begun_at),
        "ended_at": None if glance.ended_at is None else precise(glance.ended_at),
        "intent": {
            "cancel_requested": glance.is_stopped,
            "by": glance.cancelled_by,
            "reason": glance.reason,
            "at": None if glance.cancelled_at is None else precise(glance.cancelled_at),
        },
        "execution": {
            "state": glance.execution,
            "pid": glance.pid,
            "processes": glance.processes,
            "lost": glance.lost,
        },
        "effects": {"unresolved": glance.unresolved, "dispositions": glance.dispositions},
    }


def precise(at: float) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_of(chosen: TimeFormat | None) -> TimeFormat:
    """How moments are written: as chosen, else how long ago where a person looks, and RFC 3339 elsewhere."""
    return chosen or ("relative" if is_terminal() else "iso")


def code_of(glance: Glance) -> Code:
    """What the exit status says of a turn."""
    word = glance.state
    if "unresolved" in word:
        return Code.UNRESOLVED
    if word in ("failed", "lost"):
        return Code.NOT_SO
    if word == "superseded" or word.endswith("settled"):
        return Code.OVER
    return Code.OK
