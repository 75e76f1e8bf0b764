"""``turnctl reconcile``: find out what became of effects whose outcome is unknown, by asking or by a person's word."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from turnctl.cli.answering import Answering, answering
from turnctl.cli.codes import Code
from turnctl.cli.duration import Duration
from turnctl.cli.effects import one_effect, plain
from turnctl.cli.interrupts import telling_when_interrupted
from turnctl.cli.names import find
from turnctl.cli.opened import no_turns, opened, tell_of_none
from turnctl.cli.progress import Progress, can_move
from turnctl.cli.stdout import put, put_document
from turnctl.cli.talk import explain
from turnctl.cli.user import login, one_line
from turnctl.clock import parse_duration
from turnctl.ledger.effects_glance import effects as look
from turnctl.ledger.whereabouts import default_path
from turnctl.spelling import in_words, visible

if TYPE_CHECKING:
    from turnctl.ledger.effects_glance import EffectGlance
    from turnctl.ledger.glance import Glances
    from turnctl.records.accounts import Reconciled

__all__ = ["reconcile"]

SCHEMA = "turnctl.reconciled/1"
_LEFT = (
    "answers that were kept stay, and what nobody has told of is as unknown as before",
    "turnctl reconcile again asks about the rest",
)
_MARKS = ("completed", "rejected", "provider_cancelled")
_LONGEST_EVIDENCE = 1024 * 1024

Probe = Callable[[Any], Any]


@click.command(
    cls=Answering,
    short_help="Find out what became of effects whose outcome is unknown.",
    examples=[
        ("turnctl reconcile", "note who is gone, and what is unresolved"),
        ("turnctl reconcile @ --probe email.send=lookups:sent", "ask about those of a turn by a function of yours"),
        ("turnctl reconcile --effect e-9f3c --mark completed --evidence msg-8812", "say what you have found out"),
        ("turnctl reconcile --effect e-9f3c --close --reason 'no log is left'", "decide that nobody will ever know"),
        ("turnctl reconcile --dry-run", "who would be asked about"),
    ],
    tables=[
        (
            "Exit status",
            [
                ("0", "what became of each of these is known, or was closed by name"),
                ("4", "there is no such turn or effect, or the name fits several"),
                ("6", "the time has passed before all were asked about"),
                ("7", "the outcome of one or more is still unknown"),
                ("2, 5", "wrong use; the state directory cannot be used"),
            ],
        )
    ],
    help="Nothing is sent again. A probe is a function that gets the effect, with its own id, and gives "
    "turnctl.ledger.Answer(disposition, receipt) or None; the current folder is looked in for its module. An answer is "
    "kept with its receipt, and what contradicts an earlier one is kept beside it and changes nothing. What nobody can "
    "tell stays unknown: --close says who has decided that, and never makes it completed or failed.",
)
@click.argument("turns", nargs=-1, metavar="[TURN]...")
@click.option("--effect", "names", multiple=True, metavar="ID", help="Only this one, by its id; repeatable.")
@click.option("--probe", "probes", multiple=True, metavar="[KIND=]MODULE:FUNC", help="Ask by this; repeatable.")
@click.option("--mark", type=click.Choice(_MARKS), help="What became of the one --effect, with --evidence.")
@click.option("--evidence", metavar="TEXT|@FILE", help="What its receiver said.")
@click.option("--close", is_flag=True, help="Close the one --effect as unknown, with --reason.")
@click.option("--reason", metavar="TEXT", help="Why nobody will ever know.")
@click.option("--by", metavar="NAME", help="Who says so; by default the user's login name.")
@click.option("--timeout", type=Duration(), default="60s", show_default=True, metavar="DUR", help="For all probes.")
@click.option("--dry-run", is_flag=True, help="Ask nobody and keep nothing: say about what would be asked.")
@answering()
def reconcile(
    turns: tuple[str, ...],
    names: tuple[str, ...],
    probes: tuple[str, ...],
    mark: str | None,
    evidence: str | None,
    close: bool,
    reason: str | None,
    by: str | None,
    timeout: str,
    dry_run: bool,
    as_json: bool,
    state_dir: str | None,
    quiet: int,
) -> Code:
    _check(names, probes, mark, evidence, reason, close=close)
    who = one_line("--by", by) if by is not None else login()
    if reason is not None:
        one_line("--reason", reason)
    asked = _loaded(probes)
    before = _meant(state_dir, turns, names, is_by_hand=mark is not None or close, quiet=quiet > 0)
    problems: dict[str, str] = {}
    is_late = False
    with telling_when_interrupted(lambda: _LEFT):
        if before and not dry_run:
            if mark is not None:
                problems = _mark(state_dir, before[0], mark, _evidence(evidence or ""), who)
            elif close:
                problems = _close(state_dir, before[0], reason or "", who)
            else:
                seconds = parse_duration(timeout, what="--timeout") or 0.0
                shown = Progress(moves=can_move(as_json=as_json, quiet=quiet), quiet=quiet > 0)
                problems, is_late = _ask(state_dir, before, asked, who, seconds, shown)
        after = {one.effect_id: one for one in _again(state_dir, before)}
    found = [(one, after.get(one.effect_id, one), problems.get(one.effect_id)) for one in before]
    if as_json:
        put_document({"schema": SCHEMA, "effects": [_plain(*one) for one in found]})
    elif not quiet:
        put("".join(_line(*one, is_plan=dry_run) for one in found) or "nothing is unresolved\n")
    if is_late:
        return Code.TIME_PASSED
    return Code.UNRESOLVED if any(one.is_unresolved for _, one, _ in found) else Code.OK


def _check(
    names: tuple[str, ...],
    probes: tuple[str, ...],
    mark: str | None,
    evidence: str | None,
    reason: str | None,
    *,
    close: bool,
) -> None:
    if mark is not None and close:
        raise click.UsageError("--mark says what became of it, and --close that nobody knows; give one of them")
    if (mark is not None or close) and (len(names) != 1 or probes):
        raise click.UsageError("a decision is about one effect: give exactly one --effect, and no --probe")
    if (mark is None) != (evidence is None):
        raise click.UsageError("--mark and --evidence belong together: only what a receiver said makes an outcome")
    if close and not reason:
        raise click.UsageError("--close needs a --reason, which is kept")
    if reason is not None and not close:
        raise click.UsageError("--reason belongs to --close")


def _evidence(given: str) -> str:
    text = given
    if given.startswith("@"):
        try:
            with open(given[1:], encoding="utf-8", errors="backslashreplace") as file:
                text = file.read(_LONGEST_EVIDENCE + 1)
        except OSError as error:
            raise click.UsageError(
                f"--evidence: {given[1:]} cannot be read: {in_words(error, of=given[1:])}"
            ) from error
    if not text.strip() or len(text) > _LONGEST_EVIDENCE:
        what = "it is empty" if not text.strip() else "it is longer than 1 MiB"
        raise click.UsageError(f"--evidence is what its receiver said, and {what}")
    return text


def _loaded(probes: tuple[str, ...]) -> dict[str, Probe]:
    """The functions by the kind of effect that they are for; "" for every other kind."""
    found: dict[str, Probe] = {}
    for given in probes:
        kind, _, path = given.rpartition("=")
        module, _, name = path.partition(":")
        if not module or not name:
            raise click.UsageError(f"--probe: {given!r} names no function; write MODULE:FUNC, or KIND=MODULE:FUNC")
        if kind in found:
            raise click.UsageError(f"--probe: there are two for {kind or 'every kind'}")
        found[kind] = _function(module, name)
    return found


def _function(module: str, name: str) -> Probe:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise click.UsageError(f"--probe: {module}:{name} cannot be had: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise click.UsageError(f"--probe: {module}:{name} is no function")
    probe: Probe = found
    return probe


def _meant(
    state_dir: str | None, turns: tuple[str, ...], names: tuple[str, ...], *, is_by_hand: bool, quiet: bool
) -> list[EffectGlance]:
    """The effects that are meant and unresolved; by hand the one that is named, whatever is known of it."""
    there = opened(state_dir)
    if there is None:
        if turns or names:
            raise no_turns(state_dir, (turns or names)[0], is_effect=not turns)
        if not quiet:
            tell_of_none(state_dir)
        return []
    with there:
        if is_by_hand:
            return [one_effect(there, names[0])]
        found = [one_effect(there, name) for name in names]
        for name in turns:
            found += look(there, turn_id=find(there, name).turn_id)
        if not turns and not names:
            found = list(look(there))
        return [one for one in {one.effect_id: one for one in found}.values() if one.is_unresolved]


def _again(state_dir: str | None, before: list[EffectGlance]) -> list[EffectGlance]:
    there: Glances | None = opened(state_dir) if before else None
    if there is None:
        return []
    with there:
        ids = {one.effect_id for one in before}
        return [found for one in before for found in look(there, start=one.effect_id) if found.effect_id in ids]


def _mark(state_dir: str | None, one: EffectGlance, mark: str, evidence: str, by: str) -> dict[str, str]:
    from turnctl.ledger.adapters import Answer
    from turnctl.ledger.opening import open_sqlite
    from turnctl.ledger.reconciling import tell

    explain(f"writes to {default_path(state_dir)}")
    store = open_sqlite(default_path(state_dir))
    try:
        answer = Answer(mark, receipt=evidence, source=f"{by}, by hand")  # type: ignore[arg-type]
        found = tell(store, one.effect_id, answer, by=by)
    finally:
        store.close()
    return {} if found.problem is None else {one.effect_id: found.problem}


def _close(state_dir: str | None, one: EffectGlance, reason: str, by: str) -> dict[str, str]:
    import turnctl
    from turnctl.errors import LedgerRefused

    with turnctl.open_ledger(str(default_path(state_dir))) as ledger:
        task = ledger.incarnation(one.inc)
        try:
            ledger.close_unknown(one.effect_id, by=by, reason=reason, tenant=None if task is None else task.tenant)
        except LedgerRefused as refused:
            return {one.effect_id: str(refused)}
    return {}


def _ask(
    state_dir: str | None,
    before: list[EffectGlance],
    probes: dict[str, Probe],
    by: str,
    seconds: float,
    shown: Progress,
) -> tuple[dict[str, str], bool]:
    """What went wrong with each, and whether the time passed."""
    import turnctl
    from turnctl.errors import CancelledError

    wanted = [one.effect_id for one in before]
    by_kind = {one.kind: probe for one in before if (probe := probes.get(one.kind) or probes.get("")) is not None}
    found: list[Reconciled] = []
    asked: list[str] = []

    def ask(probe: Probe, effect: Any) -> Any:
        shown.state(f"asking about {effect.effect_id}", len(asked), len(before))
        asked.append(effect.effect_id)
        return probe(effect)

    with shown, turnctl.open_ledger(str(default_path(state_dir))) as ledger:
        shown.within(seconds)
        try:
            with turnctl.turn(timeout=seconds, inherit=False) as turn:
                called = {kind: _bounded(turn, partial(ask, probe)) for kind, probe in by_kind.items()}
                found = ledger.reconcile(called, by=by, effects=wanted)
            is_late = turn.report.stop is not None
        except CancelledError:
            return {}, True
    return {one.effect.effect_id: one.problem for one in found if one.problem is not None}, is_late


def _bounded(turn: Any, probe: Probe) -> Probe:
    """A probe that may block, and is left where it stands when the time has passed."""
    return lambda effect: turn.call(probe, effect)


def _plain(before: EffectGlance, after: EffectGlance, problem: str | None) -> dict[str, Any]:
    return {
        "effect_id": before.effect_id,
        "before": before.disposition,
        "after": after.disposition,
        "problem": problem,
        "effect": plain(after),
    }


def _line(before: EffectGlance, after: EffectGlance, problem: str | None, *, is_plan: bool) -> str:
    what = f"{before.effect_id}  {before.kind} {before.key!r}  "
    if is_plan:
        return visible(f"{what}{before.disposition}: would be asked about") + "\n"
    if after.receipt is not None and after.disposition != before.disposition:
        return visible(f"{what}{before.disposition} -> {after.disposition} (receipt {after.receipt.rstrip()})") + "\n"
    if after.closed_by is not None:
        return visible(f"{what}{after.disposition}, closed by {after.closed_by}") + "\n"
    why = f": {problem}" if problem else ""
    soon = "" if after.escalation is None else f" ({after.escalation})"
    return visible(f"{what}{after.disposition}{soon}{why}") + "\n"
