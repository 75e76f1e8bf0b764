"""Leaving out what others wrote: texts go, and what turnctl itself made stays.

One rule, by the name of a field. Times, numbers, words of state and turnctl's own ids stay; every other text becomes
``text-N``, the same for the same text: it can be seen that two are equal, and not what they say. No hash stays, as what
it is of is found by trying if it is short. A field that is not known here is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from turnctl.report.facts import Facts

__all__ = ["redacted"]

#: fields whose texts are words or ids that turnctl makes
KEPT = frozenset(
    (
        *("schema", "state", "outcome", "execution", "promise", "policy", "phase", "disposition", "establishes"),
        *("consequence", "escalation", "authority", "level", "cause", "evidence", "lost", "scope", "containment"),
        *("held_by", "leftovers_fate", "timed_out_by", "started_at", "ended_at", "begun_at", "at", "admitted_at"),
    )
)
#: ids that a host may have chosen itself stay where they have the form in which turnctl makes them
_IDS = frozenset({"turn_id", "name", "effect_id", "inc", "ref", "compensates", "subject", "detached_to", "source"})
_OURS = re.compile(r"t[0-9][0-9a-z]{13}|(?:i|e|a|cr)-[0-9a-f]{32}|lease \d+")
#: kinds stay where they are turnctl's own: of a host's effect the kind is the host's
_KINDS = re.compile(
    r"process|scope|call|turn|thread|stream|http|job|ask|mcp|mcp connection|bound|pool|pause|"
    r"(?:task|turn|lease|worker|cancel|activity|effect|receipt|child|shared|interest|work)\.[a-z_]+"
)
#: what is sent to end something
_SENT = re.compile(r"(?:(?:SIG[A-Z0-9+-]+|stop|cut|close|abort|interrupt)(?: |$))+")
_FORMS = {"kind": _KINDS, "signal": _SENT, **dict.fromkeys(_IDS, _OURS)}
_STATES = re.compile(r"(completed|failed|cancelled|abandoned|detached|unknown|open|found to be gone)(?:: |$)")


class _Redactor:
    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def text(self, name: str, text: str) -> str:
        if name in KEPT or ((form := _FORMS.get(name)) is not None and form.fullmatch(text)):
            return text
        number = self._numbers.setdefault(text, len(self._numbers) + 1)
        hidden = f"text-{number}"
        if name == "detail" and (how := _STATES.match(text)) is not None:
            return f"{how[1]}: {hidden}"  # how it ended is turnctl's own word
        return hidden

    def value(self, name: str, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(name, value)
        if isinstance(value, dict):
            return {
                key if key in KEPT or _FIELD.fullmatch(key) else "text": self.value(key, one)
                for key, one in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(name, one) for one in value]
        return value


_FIELD = re.compile(r"[a-z0-9_]+")


def redacted(facts: Facts) -> Facts:
    """The same, with what others wrote left out."""
    hide = _Redactor().value
    return facts._replace(
        turn=hide("turn", facts.turn),
        task=hide("task", facts.task),
        activities=tuple(hide("activity", one) for one in facts.activities),
        effects=tuple(hide("effect", one) for one in facts.effects),
        events=tuple({**hide("event", one), "body": _sent(one, hide)} for one in facts.events),
        attempts=tuple(hide("attempt", one) for one in facts.attempts),
        output=hide("output", facts.output),
        report=hide("report", facts.report),
        is_redacted=True,
    )


def _sent(event: dict[str, Any], hide: Callable[[str, Any], Any]) -> dict[str, Any]:
    """Of the row that a line holds nothing but what was sent and when, which the drawing needs."""
    row = event["body"].get("row")
    if row is None or row[0] != "activity":
        return {}
    signal, at = row[1][7:9]
    return {"row": [row[0], [*[None] * 7, hide("signal", signal), at]]}
