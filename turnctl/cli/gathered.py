"""All that a report needs of one turn, read from one state of the ledger."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from turnctl.cli.effects import plain
from turnctl.cli.showing import line_of
from turnctl.clock import wall
from turnctl.ledger.effects_glance import effects, events_of
from turnctl.report.facts import Facts

if TYPE_CHECKING:
    from turnctl.ledger.glance import Glance, Glances

__all__ = ["facts_of"]

_TURN = """
SELECT gen, report, output, revision, promise, policy, execution, state, seq FROM turn JOIN task ON task.inc = turn.inc
WHERE turn_id = ?
"""
_ACTIVITIES = """
SELECT ref, kind, name, process, begun_at, signal, signalled_at, evidence, stopped, severed, ended_at, detail
FROM activity WHERE inc = ? AND gen = ? ORDER BY pos
"""
#: the newest ones that are asked for: a task that is submitted by a schedule may have had thousands
_ATTEMPTS = """
SELECT turn.inc, seq, gen, turn_id FROM turn JOIN task ON task.inc = turn.inc WHERE tenant = ? AND task_id = ?
ORDER BY seq DESC, gen DESC, turn.pos DESC LIMIT 20
"""


def facts_of(there: Glances, found: Glance) -> Facts:
    """What is on record of the turn ``found``."""
    ((gen, report, output, *task),) = there.ask(_TURN, [found.turn_id])
    return Facts(
        turn=line_of(found),
        task=dict(zip(("revision", "promise", "policy", "execution", "state", "seq"), task, strict=True)),
        begun_at=found.begun_at,
        ended_at=found.ended_at,
        seen_at=wall(),
        activities=tuple(_activity(row) for row in there.ask(_ACTIVITIES, [found.inc, gen])),
        effects=tuple({**plain(one), "at": one.at} for one in effects(there, turn_id=found.turn_id)),
        events=tuple(events_of(there, found.inc)),
        attempts=tuple(_attempts(there, found)),
        output=None if output is None else json.loads(output),
        report=None if report is None else json.loads(report),
    )


def _activity(row: tuple[Any, ...]) -> dict[str, Any]:
    names = ("ref", "kind", "name", "process", "begun_at", "signal", "signalled_at", "evidence")
    one = dict(zip((*names, "stopped", "severed", "ended_at", "detail"), row, strict=True))
    process = None if one["process"] is None else json.loads(one["process"])
    one["process"] = None if process is None else process[2] or None  # the number, where it is on record
    one["stopped"], one["severed"] = bool(one["stopped"]), bool(one["severed"])
    return one


def _attempts(there: Glances, found: Glance) -> list[dict[str, Any]]:
    """The turns at the same task, the oldest first."""
    known: dict[str, Glance] = {}
    attempts = []
    for inc, seq, gen, turn_id in there.ask(_ATTEMPTS, [found.tenant, found.task_id]):
        if turn_id not in known:
            known |= {one.turn_id: one for one in there.of_incarnation(inc)}
        one = known[turn_id]
        attempts.append(
            {
                "turn_id": turn_id,
                "inc": inc,
                "seq": seq,
                "gen": gen,
                "state": one.state,
                "begun_at": one.begun_at,
                "ended_at": one.ended_at,
            }
        )
    return attempts[::-1]
