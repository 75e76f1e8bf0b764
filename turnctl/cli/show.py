"""``turnctl show``: what is known of one turn, intent, execution and effects apart, and its last events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from turnctl.cli.answering import Answering, answering
from turnctl.cli.codes import Code
from turnctl.cli.colour import Colour, is_coloured, paint_state
from turnctl.cli.effects import evidence, plain
from turnctl.cli.names import find
from turnctl.cli.opened import no_turns, opened
from turnctl.cli.showing import code_of, colour_option, format_of, line_of, precise, time_option
from turnctl.cli.state import CODES
from turnctl.cli.stdout import put, put_document
from turnctl.cli.streams import BOTH
from turnctl.cli.talk import complain
from turnctl.cli.times import TimeFormat, shown
from turnctl.clock import wall
from turnctl.ledger.effects_glance import effects as look
from turnctl.ledger.effects_glance import events_of
from turnctl.ledger.spool import sizes
from turnctl.ledger.whereabouts import default_path
from turnctl.spelling import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from turnctl.ledger.effects_glance import EffectGlance
    from turnctl.ledger.glance import Glance, Glances

__all__ = ["show"]

SCHEMA = "turnctl.shown/1"
#: events that are shown where not all are asked for
_LAST = 10

_CODES = [*CODES, ("6", "with --stacks: its program has not answered")]
_STACKS = [
    ("0", "its program has answered"),
    ("1, 3", "it was lost; it is over"),
    ("6", "its program has not answered within 2 s; why is on stderr"),
]
_PROCESSES = """
SELECT kind, name, process, begun_at, signal, stopped, ended_at, detail FROM activity
WHERE inc = ? AND gen = ? ORDER BY pos
"""


@click.command(
    cls=Answering,
    short_help="Show what is known of one turn: intent, execution, effects, events.",
    examples=[
        ("turnctl show @", "the newest turn"),
        ("turnctl show --events t2nn3c", "all that happened, in the order of the ledger"),
        ("turnctl show --stacks @", "where its program stands in its code now, if it runs"),
        ("turnctl show --json session:build", "all of it for a program"),
    ],
    tables=[("Exit status", _CODES), ("With --stacks", _STACKS)],
    help="The three facts are apart: that a stop was asked for says nothing of what ended, and neither says what got "
    "out. Without options all blocks are shown, with the last ten events.",
)
@click.argument("turn")
@click.option("--events", "is_events", is_flag=True, help="Only the events, and all of them.")
@click.option("--processes", "is_processes", is_flag=True, help="Only what it started.")
@click.option("--effects", "is_effects", is_flag=True, help="Only its effects.")
@click.option(
    "--stacks", "is_stacks", is_flag=True, help="Only where its program stands in its code now, and its processes."
)
@time_option()
@colour_option()
@answering()
def show(
    turn: str,
    is_events: bool,
    is_processes: bool,
    is_effects: bool,
    is_stacks: bool,
    time_format: TimeFormat | None,
    color: Colour,
    as_json: bool,
    state_dir: str | None,
    quiet: int,
) -> Code:
    if is_stacks and (is_events or is_processes or is_effects):
        raise click.UsageError("--stacks is of this moment, and the others are of the record; give one of them")
    there = opened(state_dir)
    if there is None:
        raise no_turns(state_dir, turn)
    with there:
        found = find(there, turn)
        if is_stacks:
            return _stacks(there, found, str(default_path(state_dir)), as_json=as_json, quiet=quiet)
        known = _Known(there, found)
    if found.ended_at is None:  # its row says nothing yet of what is kept, and never will where it was killed
        known.look_at(sizes(str(default_path(state_dir).parent), found.turn_id))
    if as_json:
        put_document(known.as_dict())
    elif not quiet:
        now, how = wall(), format_of(time_format)
        chosen = (is_events, is_processes, is_effects)
        text = known.text(lambda at: shown(at, how, now), chosen if any(chosen) else None, color)
        put("\n".join(text) + "\n")
    return code_of(found)


def _stacks(there: Glances, found: Glance, path: str, *, as_json: bool, quiet: int) -> Code:
    from turnctl.cli.stacks import asked

    stacks = asked(there, found, path)
    problem = stacks.problem()
    if as_json:
        put_document(stacks.as_dict())
    elif not quiet:
        put("\n".join(stacks.text()) + "\n")
    if problem is not None:
        complain(problem, f"turnctl show {found.turn_id} tells what is on record")
    return stacks.code


class _Known:
    """What is on record of one turn, read from one state."""

    def __init__(self, there: Glances, glance: Glance) -> None:
        self._glance = glance
        ((gen, report, output, revision, promise, execution),) = there.ask(
            "SELECT gen, report, output, revision, promise, execution FROM turn JOIN task ON task.inc = turn.inc "
            "WHERE turn_id = ?",
            [glance.turn_id],
        )
        self._report: dict[str, Any] | None = None if report is None else json.loads(report)
        self._output: dict[str, Any] | None = None if output is None else json.loads(output)
        self._task = {"revision": revision, "promise": promise, "execution": execution}
        names = ("kind", "name", "process", "begun_at", "signal", "stopped", "ended_at", "detail")
        self._things = [dict(zip(names, row, strict=True)) for row in there.ask(_PROCESSES, [glance.inc, gen])]
        for one in self._things:
            process = None if one["process"] is None else json.loads(one["process"])
            one["process"] = None if process is None else process[2] or None  # the number, where it is on record
            one["stopped"] = bool(one["stopped"])
        self._effects: list[EffectGlance] = list(look(there, turn_id=glance.turn_id))
        self._events = list(events_of(there, glance.inc))

    def look_at(self, kept: dict[str, int]) -> None:
        """So much of its output is in its files."""
        if kept:
            self._output = {**(self._output or {}), "kept": {name: {"bytes": size} for name, size in kept.items()}}

    def as_dict(self) -> dict[str, Any]:
        """As one document, schema ``turnctl.shown/1``."""
        things = [
            {**one, "begun_at": precise(one["begun_at"]), "ended_at": _moment(one["ended_at"])} for one in self._things
        ]
        return {
            "schema": SCHEMA,
            "turn": line_of(self._glance),
            "task": self._task,
            "activities": things,
            "effects": [plain(one) for one in self._effects],
            "events": [{**one, "at": precise(one["at"])} for one in self._events],
            "output": self._output,
            "report": self._report,
        }

    def text(self, at: Callable[[float], str], chosen: tuple[bool, bool, bool] | None, color: Colour) -> Iterator[str]:
        """The blocks, line by line."""
        if chosen is None:
            word = self._glance.state
            yield f"{visible(self._glance.turn_id)}  {paint_state(word, word) if is_coloured(color) else word}"
        yield from map(visible, self._blocks(at, chosen))

    def _blocks(self, at: Callable[[float], str], chosen: tuple[bool, bool, bool] | None) -> Iterator[str]:
        if chosen is None:
            yield from self._head(at)
            yield "intent"
            yield f"  {self._intent(at)}"
            yield "execution"
            yield f"  {self._execution()}"
        if chosen is None or chosen[1]:
            yield from self._started(at)
        if chosen is None or chosen[2]:
            yield from self._got_out(at)
        if chosen is None or chosen[0]:
            events = self._events if chosen is not None else self._events[-_LAST:]
            more = len(self._events) - len(events)
            yield f"events (the last {len(events)} of {len(self._events)})" if more else "events"
            for one in events:
                yield f"  {at(one['at'])}  {one['kind']} {one['subject']} by {one['actor']}"

    def _head(self, at: Callable[[float], str]) -> Iterator[str]:
        glance = self._glance
        rows = [
            ("name", None if glance.command is not None else glance.title),
            ("command", glance.command_line),
            ("label", glance.label),
            ("folder", glance.folder),
            ("session", glance.session),
            ("task", f"{glance.tenant}/{glance.task_id} (incarnation {glance.inc}), promise {self._task['promise']}"),
            ("began", at(glance.begun_at)),
            ("ended", None if glance.ended_at is None else at(glance.ended_at)),
            ("output", self._kept()),
        ]
        for name, value in rows:
            if value is not None:
                yield f"  {name:<9}  {value}"

    def _kept(self) -> str | None:
        if self._output is None:
            return None
        kept = self._output.get("kept") or {}
        elsewhere = {name: to for name, to in (self._output.get("streams") or {}).items() if to != name}
        words = [f"{name} {one.get('bytes', 0)} bytes" for name, one in kept.items()]
        words += [f"{name}: {to}" for name, to in elsewhere.items() if to not in kept and to != BOTH]
        return ", ".join(words) or "none was kept"

    def _intent(self, at: Callable[[float], str]) -> str:
        glance = self._glance
        if not glance.is_stopped:
            return "no stop was asked for"
        if glance.cancelled_by is None:
            stop = None if self._report is None else self._report["intent"]["record"]
            why = "" if not stop or not stop.get("reason") else f": {stop['reason']}"
            return f"this turn was stopped{why}; its task was not cancelled"
        why = f": {glance.reason}" if glance.reason else ""
        when = "" if glance.cancelled_at is None else f", {at(glance.cancelled_at)}"
        return f"stop requested by {glance.cancelled_by}{why}{when}"

    def _execution(self) -> str:
        glance = self._glance
        if glance.lost is not None:
            return f"lost: process {glance.pid} ended without a word: {glance.lost}"
        if glance.ended_at is None:
            return f"process {glance.pid} works on it"
        alive = [] if self._report is None else self._report["execution"]["alive"]
        left = f"; not ended: {', '.join(alive)}" if alive else ""
        return f"process {glance.pid} has told its end: {glance.execution}{left}{self._status()}"

    def _status(self) -> str:
        """How the command ended, where the turn is one."""
        processes = [] if self._report is None or self._glance.command is None else self._report["processes"]
        if not processes or not processes[-1]["exited"]:
            return ""
        last = processes[-1]
        if last["signal"] is not None:
            return f"; its command was ended by signal {last['signal']}"
        return "" if last["returncode"] is None else f"; its command exited with {last['returncode']}"

    def _started(self, at: Callable[[float], str]) -> Iterator[str]:
        yield "activities" if self._things else "activities: none on record"
        for one in self._things:
            number = f" {one['process']}" if one["kind"] == "process" and one["process"] else ""
            end = f"ended {at(one['ended_at'])}" if one["ended_at"] is not None else "not told to have ended"
            sent = f", sent {one['signal']}" if one["signal"] else ""
            detail = f" ({one['detail']})" if one["detail"] else ""
            yield f"  {one['kind']}{number} {one['name']}: {end}{sent}{detail}"

    def _got_out(self, at: Callable[[float], str]) -> Iterator[str]:
        yield "effects" if self._effects else "effects: none on record"
        for one in self._effects:
            soon = "" if one.escalation is None else f"; somebody has to decide ({one.escalation})"
            known = one.disposition if evidence(one) == "-" else f"{one.disposition}, {evidence(one)}"
            yield f"  {one.effect_id}  {one.kind} {one.key!r}, admitted {at(one.at)}: {known}{soon}"


def _moment(at: float | None) -> str | None:
    return None if at is None else precise(at)
