"""``turnctl stop``: stop turns from any terminal, and say what that reached and what had already got out."""

from __future__ import annotations

import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from turnctl import log
from turnctl.cli.answering import Answering, answering
from turnctl.cli.codes import Code
from turnctl.cli.common import SessionWanted, Whole
from turnctl.cli.duration import Duration
from turnctl.cli.interrupts import telling_when_interrupted
from turnctl.cli.names import find
from turnctl.cli.opened import no_turns, opened
from turnctl.cli.problems import Problem, of_store
from turnctl.cli.stdout import put, put_document
from turnctl.cli.talk import explain
from turnctl.cli.user import login, one_line
from turnctl.clock import parse_duration
from turnctl.errors import StoreBusy, StoreError
from turnctl.ledger.whereabouts import default_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnctl.ledger.glance import Glance

__all__ = ["stop"]


@click.command(
    cls=Answering,
    short_help="Stop turns, and say what that reached and what had already got out.",
    examples=[
        ("turnctl stop @", "the newest turn"),
        ("turnctl stop --reason 'wrong repo' t2nn3c", "one, with why, which is kept"),
        ("turnctl stop --force session:build", "the one that runs in a session, at once"),
        ("turnctl stop --all -y --no-wait", "all that run, without waiting for their end"),
        ("turnctl stop --dry-run @", "who would be asked, and what is beyond recall"),
    ],
    steps=[
        "The gate is closed, for good: no new effect of the turn is let out. Who asked, when and why is kept.",
        "The turn's own program hears of it, and ends what it owns with its own grace; with --force it kills at once.",
        "Where that program stands still, it is continued.",
        "Where it is gone, or does not answer for two seconds, what it started is ended from here: asked, then killed.",
        "Its end is waited for, for as long as --wait says; meanwhile stderr says for whom.",
        "Processes and effects are told apart: that nothing runs any more says nothing of what got out.",
    ],
    tables=[
        (
            "Exit status",
            [
                ("0", "all of it has stopped and is settled; with --no-wait: the stop was accepted"),
                ("3", "the turn was over already, and nothing was stopped"),
                ("4", "there is no such turn, or the name fits several"),
                ("6", "the time for waiting has passed, and it still drains"),
                ("7", "it has stopped, and the outcome of effects is not known"),
                ("2, 5", "wrong use; the state directory cannot be used"),
            ],
        )
    ],
    help="A stop asks first, and then kills; it closes the gate for good, and cannot undo what was already sent. The "
    "first one stays on record: repeating it changes nothing, and waits again. With several turns the highest exit "
    "status counts.",
)
@click.argument("turns", nargs=-1, metavar="[TURN]...")
@click.option("-s", "--session", type=SessionWanted(), metavar="NAME", help="The turn that runs in this session.")
@click.option("--all", "is_all", is_flag=True, help="All turns that have not ended.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before all are stopped.")
@click.option("--reason", metavar="TEXT", help="Why; it is kept on record.")
@click.option("--by", metavar="NAME", help="Who asks; by default the user's login name.")
@click.option("-f", "--force", is_flag=True, help="Kill at once, without asking first; kept on record as that.")
@click.option(
    "--grace",
    type=Duration(zero=True),
    default="5s",
    show_default=True,
    metavar="DUR",
    help="From asking to killing, where its program is gone or does not answer; else its own grace counts.",
)
@click.option(
    "--wait", type=Duration(), default="30s", show_default=True, metavar="DUR", help="Wait so long for its end."
)
@click.option("--no-wait", is_flag=True, help="Do not wait: say that it was accepted.")
@click.option("--expect-rev", type=Whole(min=1), metavar="N", help="Only if its task is at this revision.")
@click.option("--ok-if-finished", is_flag=True, help="Exit with 0 where it was over already.")
@click.option("--dry-run", is_flag=True, help="Stop nothing: say who would be asked.")
@answering()
def stop(
    turns: tuple[str, ...],
    session: str | None,
    is_all: bool,
    yes: bool,
    reason: str | None,
    by: str | None,
    force: bool,
    grace: str,
    wait: str,
    no_wait: bool,
    expect_rev: int | None,
    ok_if_finished: bool,
    dry_run: bool,
    as_json: bool,
    state_dir: str | None,
    quiet: int,
) -> Code:
    if sum((bool(turns), session is not None, is_all)) != 1:
        raise click.UsageError("say what to stop: one turn or more, --session NAME, or --all")
    for what, text in (("--reason", reason), ("--by", by)):
        if text is not None:
            one_line(what, text)
    found = _meant(state_dir, turns, session, is_all)
    if is_all and not dry_run and not yes:
        _confirm(found)
    if not found:  # there need be no ledger either
        if as_json:
            put_document({"schema": "turnctl.stops/1", "stops": []})
        elif not quiet:
            put("nothing runs\n")
        return Code.OK
    from turnctl.cli.progress import Progress, can_move
    from turnctl.cli.stopped import Stopped, plan
    from turnctl.cli.stopping import LOOK_S
    from turnctl.ledger.opening import open_sqlite

    progress = _Progress()
    explain(f"{'reads' if dry_run else 'writes to'} {default_path(state_dir)}")
    with (
        telling_when_interrupted(progress.told),
        _telling_who_is_left(found, progress),
        closing(open_sqlite(default_path(state_dir), busy_s=LOOK_S)) as store,
    ):
        if dry_run:
            if as_json:
                planned = [Stopped.planned(store, one, expect_rev) for one in found]
                put_document({"schema": "turnctl.stops/1", "stops": planned})
            else:
                put("".join(plan(store, one, expect_rev) for one in found))
            return Code.OK
        who = by or login()
        asked = []
        for one in found:
            progress.asking = one.turn_id
            stopped = Stopped.asked(store, one, by=who, reason=reason, kill=force, revision=expect_rev, quiet=quiet > 0)
            asked.append(stopped)
            progress.asking = None
            log.event("stop.asked", turn=one.turn_id, by=who, reason=reason, refused=stopped.refusal is not None)
            if stopped.refusal is None:
                progress.accepted.append(one.turn_id)
        grace_s = parse_duration(grace, what="--grace", zero=True) or 0.0
        if not force and click.get_current_context().get_parameter_source("grace") is not ParameterSource.DEFAULT:
            for stopped in asked:
                stopped.say_whose_grace(grace_s)
        if not no_wait:
            within = parse_duration(wait, what="--wait") or 0.0
            shown = Progress(moves=can_move(as_json=as_json, quiet=quiet), quiet=quiet > 0)
            Stopped.see_through(asked, within, grace_s, kill=force, progress=shown)
        code = max(
            (one.code(is_waited_for=not no_wait, ok_if_finished=ok_if_finished) for one in asked), default=Code.OK
        )
        if as_json:
            put_document({"schema": "turnctl.stops/1", "stops": [one.as_dict() for one in asked]})
        elif not quiet:
            put("".join(one.text() for one in asked))
        return code


@contextmanager
def _telling_who_is_left(found: list[Glance], progress: _Progress) -> Iterator[None]:
    """Where a stop cannot be put on record, say which programs go on: they can still be ended by hand."""
    try:
        yield
    except StoreError as error:
        runs = [one for one in found if not one.is_over and one.turn_id not in progress.accepted]
        if isinstance(error, StoreBusy) or not runs:
            raise
        problem = of_store(error)
        pids = " ".join(str(one.pid) for one in runs[:8])
        whose = f"{_listed([one.turn_id for one in runs])} {'goes' if len(runs) == 1 else 'go'} on"
        problem.hint += (
            f"; until then {whose}: kill {pids} ends {'it' if len(runs) == 1 else 'them'} without a record of why"
        )
        raise problem from error


class _Progress:
    """How far it has come, for the one who interrupts it."""

    def __init__(self) -> None:
        self.asking: str | None = None
        self.accepted: list[str] = []

    def told(self) -> tuple[str, str]:
        """What is so, and what to do."""
        parts = []
        if self.accepted:
            parts.append(f"the stop of {_listed(self.accepted)} stays accepted, and is not waited for any more")
        if self.asking is not None:
            parts.append(f"whether the stop of {self.asking} was accepted is not known here")
        hint = f"turnctl status {self.accepted[0] if self.accepted else self.asking or 'TURN'} says how it stands"
        return "; ".join(parts) or "nothing was stopped", hint


def _listed(ids: list[str]) -> str:
    return ", ".join(ids[:8]) + (" and more" if len(ids) > 8 else "")


def _meant(state_dir: str | None, turns: tuple[str, ...], session: str | None, is_all: bool) -> list[Glance]:
    """Which turns are meant, each once."""
    there = opened(state_dir)
    if there is None:
        if is_all:
            return []
        raise no_turns(state_dir, turns[0] if turns else f"session:{session}")
    with there:
        if is_all:
            return list(there.open())
        names = [f"session:{session}"] if session is not None else list(turns)
        return list({one.turn_id: one for one in (find(there, name) for name in names)}.values())


def _confirm(found: list[Glance]) -> None:
    """Ask a person, where there is one to ask; else it has to be said beforehand."""
    if not found:
        return
    listed = _listed([one.turn_id for one in found])
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()):
        raise click.UsageError(f"--all would stop {len(found)} turns ({listed}); say that you mean it: -y")
    try:
        is_meant = click.confirm(f"turnctl: stop {len(found)} turns ({listed})?", err=True)
    except click.Abort:  # the end of the input
        is_meant = False
    if not is_meant:
        raise Problem("not_confirmed", "nothing was stopped", "name the turns that are to be stopped", Code.NOT_SO)
