"""What one stop came to, for people and for programs: the record, processes and effects, each apart."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from turnctl.cli.codes import Code
from turnctl.cli.showing import precise
from turnctl.cli.stopping import Stopping, see_through
from turnctl.ledger.accounts import report_on
from turnctl.ledger.stopping import refusal_now
from turnctl.records.changes import Refusal
from turnctl.records.tasks import PROCESSES
from turnctl.spelling import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnctl.cli.progress import Progress
    from turnctl.ledger.glance import Glance
    from turnctl.ledger.store import Store
    from turnctl.records.accounts import TaskReport

__all__ = ["Stopped", "plan"]

SCHEMA = "turnctl.stop/1"
_LONGEST = 40


class Stopped:
    """The stop of one turn, from the request on."""

    def __init__(self, stopping: Stopping, glance: Glance) -> None:
        self._stopping = stopping
        self._glance = glance
        self._report: TaskReport | None = None

    @classmethod
    def asked(
        cls, store: Store, glance: Glance, *, by: str, reason: str | None, kill: bool, revision: int | None, quiet: bool
    ) -> Stopped:
        """Ask for it; the store has accepted it, or has said why not, when this returns."""
        made = cls(Stopping(store, glance.turn_id, glance.inc, by=by, reason=reason, quiet=quiet), glance)
        made._stopping.ask(kill=kill, revision=revision)
        return made

    @property
    def refusal(self) -> Refusal | None:
        """Why it was not accepted."""
        answer = self._stopping.answer
        return answer if isinstance(answer, Refusal) else None

    def say_whose_grace(self, grace_s: float) -> None:
        """Say it where another grace counts than the one that was asked for."""
        if self.refusal is None:
            self._stopping.say_whose_grace(grace_s)

    @staticmethod
    def see_through(
        asked: Sequence[Stopped], within_s: float, grace_s: float, *, kill: bool, progress: Progress
    ) -> None:
        """Wait for the end of all that were accepted, together, and help where nobody answers."""
        waiting = [one._stopping for one in asked if one.refusal is None]
        for one in waiting:
            one.progress = progress
        with progress:
            progress.within(within_s)
            see_through(waiting, within_s, grace_s=grace_s, kill=kill)

    def code(self, *, is_waited_for: bool, ok_if_finished: bool) -> Code:
        """What the exit status says of it."""
        refusal = self.refusal
        if refusal is not None:
            is_over = refusal.code in ("already_completed", "stale_generation")
            if is_over and ok_if_finished:
                return Code.OK
            return {"no_such_task": Code.NO_SUCH}.get(refusal.code, Code.OVER)
        if not is_waited_for:
            return Code.OK
        if not self._stopping.is_at_rest:
            return Code.TIME_PASSED
        return Code.UNRESOLVED if self._on_record().effects_unresolved else Code.OK

    def _on_record(self) -> TaskReport:
        if self._report is None:
            self._report = self._stopping.report()
        return self._report

    # -- for programs -------------------------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """As one object of JSON, schema ``turnctl.stop/1``."""
        answer, report = self._stopping.answer, self._on_record()
        common = {
            "schema": SCHEMA,
            "turn_id": self._glance.turn_id,
            "state": report.state,
            "execution": {"state": report.task.execution, "missing": list(report.missing)},
            "processes": _processes(report),
            "effects": {"unresolved": report.effects_unresolved, "dispositions": _dispositions(report)},
            "helped": self._stopping.helped,
        }
        if answer is None or isinstance(answer, Refusal):
            why = None if answer is None else {"code": answer.code, "text": answer.text}
            return {**common, "accepted": False, "first": False, "refused": why, "record": None}
        record = {**answer.cr.as_dict(), "at": precise(answer.cr.at)}
        return {**common, "accepted": True, "first": answer.is_new, "refused": None, "record": record}

    @staticmethod
    def planned(store: Store, glance: Glance, revision: int | None = None) -> dict[str, Any]:
        """The same for one that is only asked about."""
        made = Stopped(Stopping(store, glance.turn_id, glance.inc, by="", reason=None, quiet=True), glance)
        made._stopping.answer = refusal_now(store, glance.turn_id, revision=revision)
        return made.as_dict()

    # -- for people ---------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """What a person reads: that it was accepted, of what, what is left, what got out."""
        answer = self._stopping.answer
        if answer is None or isinstance(answer, Refusal):
            return f"{self._glance.turn_id} was not stopped: {'' if answer is None else visible(answer.text)}\n"
        report, cr = self._on_record(), answer.cr
        why = f": {visible(cr.reason)}" if cr.reason else ""
        accepted = "Stop accepted" if answer.is_new else "Stop had been accepted"
        last = f"{report.state[0].upper()}{report.state[1:]}."
        if report.decisions:
            last += f"   next: turnctl reconcile {self._glance.turn_id}"
        return "\n".join(
            [
                f"{accepted} for {self._glance.turn_id} (revision {cr.accepted_rev}, by {visible(cr.requester)}{why})",
                f"  work       closed {precise(cr.at)}, no new actions admitted",
                f"  processes  {_process_words(report)}",
                f"  effects    {_effect_words(report)}",
                last,
                "",
            ]
        )


def _processes(report: TaskReport) -> dict[str, Any]:
    """How many there were, how they ended as far as their turns have told, and who may still act."""
    ended, killed, is_proven = 0, 0, True
    for turn in report.turns:
        is_proven = is_proven and turn.report is not None
        for one in () if turn.report is None else json.loads(turn.report)["processes"]:
            ended += one["ended"]
            killed += one["killed"]
            is_proven = is_proven and one["empty_proven"]
    found = [one for one in report.activities if one.kind in PROCESSES]
    left = [one for one in found if one.may_act]
    return {
        "started": len(found),
        "ended": ended,
        "killed": killed,
        "empty_proven": is_proven and not left,
        "left": [{"name": one.name, "pid": None if one.process is None else one.process.pid or None} for one in left],
    }


def _process_words(report: TaskReport) -> str:
    found = _processes(report)
    left = [f"{_short(one['name'])} {one['pid'] or '(no pid on record)'}" for one in found["left"]]
    if not found["started"]:
        return "none on record"
    how = f"{found['ended']} ended" + (f" ({found['killed']} by KILL)" if found["killed"] else "")
    if not found["ended"]:
        how = f"{found['started'] - len(left)} of {found['started']} commands ended"
    if left:
        return f"{how}, not told to have ended: {', '.join(left)}"
    return f"{how}, {'none left' if found['empty_proven'] else 'none found left'}"


def _short(name: str) -> str:
    text = visible(name)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _dispositions(report: TaskReport) -> dict[str, int]:
    return dict(Counter(one.disposition for one in report.effects))


def _effect_words(report: TaskReport) -> str:
    found = _dispositions(report)
    order = ("completed", "rejected", "provider_cancelled", "suppressed", "pending", "unknown")
    return ", ".join(f"{found[name]} {name}" for name in order if name in found) or "none on record"


def plan(store: Store, glance: Glance, revision: int | None = None) -> str:
    """Who would be asked, and what is beyond recall; or why nobody would."""
    refusal = refusal_now(store, glance.turn_id, revision=revision)
    if refusal is not None:
        return f"{glance.turn_id} would not be stopped: {refusal.text.removesuffix(': nothing was stopped')}\n"
    report = report_on(store, glance.inc)
    lines = [f"{glance.turn_id} ({report.state}) would be stopped"]
    lines += [
        f"  ends      {visible(one.title)}{', and what it started' if one.kind == 'process' else ''}"
        for one in report.activities
        if one.may_act
    ]
    lines += [
        f"  recalls   {visible(one.kind)} {one.key!r}: not sent yet"
        for one in report.effects
        if one.phase == "admitted"
    ]
    lines += [
        f"  too late  {visible(one.kind)} {one.key!r}: {one.disposition}"
        for one in report.effects
        if one.phase not in ("admitted", "suppressed")
    ]
    return "\n".join([*lines, ""])
