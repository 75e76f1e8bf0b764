"""What a person is told of a task: a line of what is known, and whether somebody has to decide.

Nothing here claims more than its record: that a stop was asked for says nothing of effects, "settled" is said beside
what already happened, and what is unknown is never called failed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple

from turnctl.records.words import named
from turnctl.spelling import visible

if TYPE_CHECKING:
    from turnctl.records.accounts import TaskReport
    from turnctl.records.effects import Consequence, EffectRecord

__all__ = ["ESCALATIONS", "PROCESSES", "Decision", "Escalation", "decisions", "how_soon", "line"]

#: kinds of what a task owns that are processes of their own, which may outlive the worker; all else dies with it
PROCESSES = frozenset({"process", "scope"})
Escalation = Literal["wait", "notify", "page"]
#: who should look at what nobody can tell, by how much hangs on it; from the one that can wait to the one that cannot
ESCALATIONS: dict[Consequence, Escalation] = {"low": "wait", "medium": "notify", "high": "page"}
_URGENCY = {escalation: n for n, escalation in enumerate(ESCALATIONS.values())}

#: what there is to do about unknown effects, by whether a way to look them up was named, and whether it is one
_WAYS = {
    (True, True): "look it up, or close it by name",
    (True, False): "look them up, or close them by name",
    (False, True): "ask its receiver, or close it by name",
    (False, False): "ask their receiver, or close them by name",
}


class Decision(NamedTuple):
    """What somebody has to decide, and how soon."""

    escalation: Escalation
    text: str


def decisions(report: TaskReport) -> tuple[Decision, ...]:
    """What nothing settles but a person, or an answer that somebody has to ask for; the most urgent first."""
    found = []
    unknown = [one for one in report.effects if _is_unknown(one, report)]
    for is_reconcilable in (True, False):
        these = [one for one in unknown if one.reconcilable is is_reconcilable]
        if these:
            worst = how_soon(one.consequence for one in these)
            found.append(Decision(worst, _WAYS[is_reconcilable, len(these) == 1]))
    if report.task.execution == "unproven":
        found.append(Decision("notify", "see whether what is left of it has ended"))
    for inc, escalation in report.open_below:
        found.append(Decision(escalation, f"see the account of child {inc}"))
    return tuple(sorted(found, key=lambda one: -_URGENCY[one.escalation]))


def how_soon(consequences: Iterable[Consequence]) -> Escalation:
    """For the one that can wait least; there is at least one."""
    return max((ESCALATIONS[one] for one in consequences), key=_URGENCY.__getitem__)


def _is_unknown(one: EffectRecord, report: TaskReport) -> bool:
    """Whether it may have happened and nobody will tell by himself: also one that a worker was sending who is gone."""
    return one.is_unresolved and (one.phase == "closed" or (report.worker_is_gone and one.compensates is None))


def line(report: TaskReport) -> str:
    """The line for people: the state's word, who asked for what, what is open, what got out, what is to be decided.

    Names and reasons come from whoever gave them: none of them moves the cursor, or makes a line of its own.
    """
    parts = [
        report.state,
        _asked(report),
        *_execution(report),
        *_effects(report),
        *(f"{one.ref} went to {one.owner}" for one in report.detached if one.came_back is None),
        _decision(report),
    ]
    if not report.durable:
        parts.append("not durable")
    return visible("; ".join(parts))


def _asked(report: TaskReport) -> str:
    promise, cr = f"promise {report.task.promise}", report.cancellation
    if cr is None:
        return promise
    why = f" ({cr.reason})" if cr.reason else ""
    return f"stop requested by {cr.requester}{why}, {promise}"


def _execution(report: TaskReport) -> Iterable[str]:
    task = report.task
    lost = [one for one in report.turns[-1:] if one.state == "lost"]
    if lost and not task.is_over:
        yield f"turn {lost[0].turn_id} ended without a word: {lost[0].lost}"
    if task.state in ("completed", "failed"):
        if task.execution == "active":
            yield "something of it still runs"
        elif task.execution == "unproven":
            yield "something of it may still run"
    elif task.is_running and task.execution == "idle":
        yield "nobody works on it"
    elif task.is_running and task.execution == "unproven":
        yield "something of it may still run"
    elif task.execution == "fenced":
        yield "its worker was fenced, and may live"
    still = [one for one in report.missing if not one.startswith("effect ")]
    if still:
        yield f"still open: {', '.join(still)}"


def _effects(report: TaskReport) -> Iterable[str]:
    if not report.effects:
        return ["no effect is on record"]
    groups: dict[str, list[EffectRecord]] = {}
    for one in sorted(report.effects, key=_rank):
        groups.setdefault(_said(one, report), []).append(one)
    return [_counted(said, ones) for said, ones in groups.items()]


_ORDER = ("completed", "rejected", "provider_cancelled", "suppressed", "unknown", "pending")


def _rank(one: EffectRecord) -> tuple[int, bool, bool]:
    return _ORDER.index(one.disposition), one.closed_by is not None, one.phase == "claimed"


def _said(one: EffectRecord, report: TaskReport) -> str:
    """How it stands, with what depends on how many there are in braces."""
    when, is_stopped = "", report.cancellation is not None
    if is_stopped and one.compensates is None:
        when = ", admitted before the stop and sent after it" if one.after_cutoff else ", admitted before the stop"
    what = "effect" if one.compensates is None else "compensation"
    match one.disposition:
        case "completed":
            said = f"already happened{when}"
        case "rejected":
            said = "{was} refused by the receiver"
        case "provider_cancelled":
            said = "{was} cancelled by the provider before taking place"
        case "suppressed":
            said = "{was} never sent"
        case "unknown" if one.closed_by is not None:
            said = f"may have happened{when}, closed as unknown by {one.closed_by}"
        case _ if one.disposition == "unknown" or _is_unknown(one, report):
            said = f"may have happened{when}{', and' if when else ' and'} {{is}} to be looked up"
        case _ if one.phase == "claimed":
            said = f"{{is}} on the way{when}, and still being checked" if is_stopped else "{is} on the way"
        case _:
            said = "{is} admitted and not sent yet"
    return f"{what} {said}"


def _counted(said: str, ones: list[EffectRecord]) -> str:
    what, _, rest = said.partition(" ")
    is_one = len(ones) == 1
    rest = rest.replace("{is}", "is" if is_one else "are").replace("{was}", "was" if is_one else "were")
    count = f"one {what}" if is_one else f"{len(ones)} {what}s"
    return f"{count} {rest}: {named(ones)}"


def _decision(report: TaskReport) -> str:
    found = decisions(report)
    if not found:
        return "no decision is needed"
    most = found[0].escalation
    opening = "a decision can wait" if most == "wait" else f"a decision is needed ({most})"
    return f"{opening}: {'; and '.join(one.text for one in found)}"
