"""``turnctl effects``: what got out, what may have, what that rests on, and who has to decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from turnctl.cli.answering import Answering, answering
from turnctl.cli.codes import Code
from turnctl.cli.colour import Colour, is_coloured, paint_state
from turnctl.cli.names import EFFECTS_HINT, LEAST, check, find
from turnctl.cli.opened import no_turns, opened, tell_of_none
from turnctl.cli.problems import Problem
from turnctl.cli.showing import colour_option, format_of, precise, time_option
from turnctl.cli.stdout import put, put_document, put_line, width
from turnctl.cli.table import lines
from turnctl.cli.times import TimeFormat, shown
from turnctl.clock import wall
from turnctl.ledger.effects_glance import effects as look
from turnctl.ledger.effects_glance import events_of, receipts_of
from turnctl.spelling import visible

if TYPE_CHECKING:
    from turnctl.ledger.effects_glance import EffectGlance
    from turnctl.ledger.glance import Glances

__all__ = ["effects", "evidence", "one_effect", "plain"]

LIST, ONE = "turnctl.effects/1", "turnctl.effect/1"
_DISPOSITIONS = ("pending", "suppressed", "rejected", "completed", "provider_cancelled", "unknown")


@click.command(
    cls=Answering,
    short_help="Show what got out, what may have, and who has to decide.",
    examples=[
        ("turnctl effects", "all whose outcome nobody has told"),
        ("turnctl effects @", "all of the newest turn"),
        ("turnctl effects --check t2nn3c", "whether one of a turn is unresolved, as the exit status"),
        ("turnctl effects -a --disposition unknown --jsonl", "a JSON object for each that may have happened"),
        ("turnctl effects show e-9f3c", "one, with its receipts and its history"),
    ],
    tables=[
        (
            "Columns",
            [
                ("DISPOSITION", "what is known: only a receipt makes rejected, completed or provider_cancelled"),
                ("LEVEL", "how much hangs on it, as its program says: low, medium or high"),
                ("DECISION", "whether somebody has to decide: it can wait, tell somebody (notify), or at once (page)"),
                ("EVIDENCE", "what its receiver said, or who closed it without"),
            ],
        ),
        (
            "Exit status",
            [
                ("0", "the list is whole, if it is empty or not"),
                ("4", "there is no such turn or effect, or the name fits several"),
                ("7", "with --check: one of these is unresolved"),
                ("2, 5", "wrong use; the state directory cannot be used"),
            ],
        ),
    ],
    help="Without a TURN all that are open or unresolved are shown, of every turn; with one, all of that turn. Nothing "
    "is shown as failed that may have happened, and a turn that has ended says nothing of its effects.",
)
@click.argument("words", nargs=-1, metavar="[TURN | show EFFECT]")
@click.option("-a", "--all", "is_all", is_flag=True, help="Those of every turn, whatever is known of them.")
@click.option(
    "--disposition",
    "dispositions",
    multiple=True,
    type=click.Choice(_DISPOSITIONS),
    metavar="WORD",
    help=f"Only those of which this is known; repeatable: {', '.join(_DISPOSITIONS)}.",
)
@click.option("--check", "is_check", is_flag=True, help="Exit with 7 if one of them is unresolved.")
@time_option()
@colour_option()
@answering(lines=True)
def effects(
    words: tuple[str, ...],
    is_all: bool,
    dispositions: tuple[str, ...],
    is_check: bool,
    time_format: TimeFormat | None,
    color: Colour,
    as_json: bool,
    as_lines: bool,
    state_dir: str | None,
    quiet: int,
) -> Code:
    turn, effect = _asked(words)
    if is_all and (turn or effect):
        raise click.UsageError("--all is of every turn; leave out which one, or --all")
    there = opened(state_dir)
    if there is None:
        if turn or effect:
            raise no_turns(state_dir, turn or effect or "", is_effect=turn is None)
        if not quiet:
            tell_of_none(state_dir)
        found: list[EffectGlance] = []
    else:
        with there:
            if effect is not None:
                return _show(there, one_effect(there, effect), time_format, is_check, as_json=as_json or as_lines)
            found = _listed(there, turn, is_all)
    found = [one for one in found if not dispositions or one.disposition in dispositions]
    if as_json:
        put_document({"schema": LIST, "effects": [plain(one) for one in found]})
    elif as_lines:
        for one in found:
            put_line(plain(one))
    elif quiet:
        put("".join(f"{one.effect_id}\n" for one in found))
    else:
        put("\n".join(_table(found, time_format, color)) + "\n")
    return _code(found, is_check)


def _asked(words: tuple[str, ...]) -> tuple[str | None, str | None]:
    if not words:
        return None, None
    if words[0] == "show":
        if len(words) != 2:
            raise click.UsageError("say which effect: turnctl effects show EFFECT")
        return None, words[1]
    if len(words) > 1:
        raise click.UsageError(f"one turn at a time, not {' '.join(words)!r}")
    return words[0], None


def _listed(there: Glances, turn: str | None, is_all: bool) -> list[EffectGlance]:
    if turn is not None:
        return list(look(there, turn_id=find(there, turn).turn_id))
    return [one for one in look(there) if is_all or one.is_open]


def one_effect(there: Glances, name: str) -> EffectGlance:
    """The effect whose id is, or begins with, ``name``."""
    check(name, is_effect=True)
    if len(name) < LEAST:
        text = f"{name!r} is too short: the beginning of an id needs {LEAST} letters"
        raise Problem("bad_name", text, EFFECTS_HINT, Code.USAGE)
    found = list(look(there, start=name))
    exact = [one for one in found if one.effect_id == name]
    if len(exact or found) != 1:
        if not found:
            text = f"there is no effect {name}"
            raise Problem("no_such_effect", text, EFFECTS_HINT, Code.NO_SUCH)
        listed = ", ".join(one.effect_id for one in found[:5])
        raise Problem("ambiguous", f"{name} fits several effects: {listed}", "give more of its letters", Code.NO_SUCH)
    return (exact or found)[0]


def _code(found: list[EffectGlance], is_check: bool) -> Code:
    return Code.UNRESOLVED if is_check and any(one.is_unresolved for one in found) else Code.OK


def plain(one: EffectGlance) -> dict[str, Any]:
    """An effect as an object of JSON, schema ``turnctl.effect/1``."""
    return {
        "schema": ONE,
        "effect_id": one.effect_id,
        "turn_id": one.turn_id,
        "inc": one.inc,
        "kind": one.kind,
        "key": one.key,
        "phase": one.phase,
        "disposition": one.disposition,
        "is_unresolved": one.is_unresolved,
        "consequence": one.consequence,
        "escalation": one.escalation,
        "adapter": one.adapter,
        "request_ref": one.request_ref,
        "reconcilable": bool(one.reconcilable),
        "after_cutoff": bool(one.after_cutoff),
        "closed_by": one.closed_by,
        "compensates": one.compensates,
        "admitted_rev": one.admitted_rev,
        "admitted_at": precise(one.at),
        "payload": {"sha256": one.payload_sha, "bytes": one.payload_size},
        "receipt": None if one.receipt is None else {"source": one.receipt_source, "body": one.receipt},
    }


def evidence(one: EffectGlance) -> str:
    """What it rests on, in a cell."""
    if one.receipt is not None:
        return one.receipt
    return f"closed as unknown by {one.closed_by}" if one.closed_by is not None else "-"


def _table(found: list[EffectGlance], time_format: TimeFormat | None, color: Colour) -> list[str]:
    now, how = wall(), format_of(time_format)
    rows = [
        (
            one.effect_id,
            one.turn_id or "-",
            one.kind,
            one.key,
            shown(one.at, how, now),
            one.disposition,
            one.consequence,
            one.escalation or "-",
            evidence(one),
        )
        for one in found
    ]
    headers = ("EFFECT", "TURN", "KIND", "KEY", "ADMITTED", "DISPOSITION", "LEVEL", "DECISION", "EVIDENCE")
    words = {"unknown": "lost", "completed": "completed", "rejected": "failed"}
    paint: Any = None
    if is_coloured(color):
        paint = lambda n, cell, text: paint_state(words.get(cell, ""), text) if n == 5 else text  # noqa: E731
    return lines(headers, rows, width=width(), paint=paint)


def _show(there: Glances, one: EffectGlance, time_format: TimeFormat | None, is_check: bool, *, as_json: bool) -> Code:
    receipts, events = receipts_of(there, one.effect_id), list(events_of(there, one.inc, subject=one.effect_id))
    if as_json:
        for each in (*receipts, *events):
            each["at"] = precise(each["at"])
        put_document({**plain(one), "receipts": receipts, "events": events})
        return _code([one], is_check)
    now, how = wall(), format_of(time_format)
    size = "not kept" if one.payload_size is None else f"{one.payload_size} bytes"
    rows = [
        ("turn", one.turn_id or f"none on record (incarnation {one.inc})"),
        ("admitted", f"{shown(one.at, how, now)}, at revision {one.admitted_rev}"),
        ("payload", f"{size}, sha256 {one.payload_sha}"),
        ("level", one.consequence),
        ("adapter", one.adapter or "none"),
        ("decision", _decision(one)),
        *(
            ("receipt", f"{each['body']} ({each['establishes']}, from {each['source']}, {shown(each['at'], how, now)})")
            for each in receipts
        ),
        *[("closed", f"as unknown by {one.closed_by}")] * (one.closed_by is not None),
        *[("makes good", str(one.compensates))] * (one.compensates is not None),
    ]
    text = [f"{one.effect_id}  {one.kind} {one.key!r}  {one.disposition}"]
    text += [f"  {name:<10}  {visible(value)}" for name, value in rows]
    text.append("history")
    text += [f"  {shown(each['at'], how, now)}  {each['kind']} by {visible(each['actor'])}" for each in events]
    put("\n".join(text) + "\n")
    return _code([one], is_check)


def _decision(one: EffectGlance) -> str:
    if one.escalation is None:
        return "none is needed" if one.disposition != "pending" else "none yet: it is on its way"
    way = "look it up" if one.reconcilable else "ask its receiver"
    soon = {"wait": "it can wait", "notify": "somebody should know", "page": "at once"}[one.escalation]
    return f"{soon}: {way}, or close it by name (turnctl reconcile --effect {one.effect_id})"
