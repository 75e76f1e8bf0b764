"""``turnctl ledger``: reading a ledger as a whole, copying it, and purging it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import click

from turnctl.cli.answering import Answering, answering
from turnctl.cli.codes import Code
from turnctl.cli.commands import Commands
from turnctl.cli.common import option
from turnctl.cli.duration import Duration
from turnctl.cli.interrupts import telling_when_interrupted
from turnctl.cli.options import Folder
from turnctl.cli.problems import Problem
from turnctl.cli.progress import Progress, can_move
from turnctl.cli.stdout import put, put_document
from turnctl.cli.talk import explain, note, say
from turnctl.errors import BadArgument, StoreDamaged, StoreMissing
from turnctl.ledger.whereabouts import default_path
from turnctl.spelling import visible

if TYPE_CHECKING:
    from turnctl.ledger.store import Store
    from turnctl.ledger.verify import Verified

__all__ = ["ledger"]

_MISSING = ("4", "there is no such ledger")
_UNUSABLE = ("5", "the state directory, or stdout, cannot be used")


@click.command(
    cls=Commands,
    short_help="Verify, copy or purge the ledger as a whole.",
    help="turnctl ledger COMMAND --help tells more of a command.",
    examples=[
        ("turnctl ledger verify", "is it as it was written"),
        ("turnctl ledger backup ledger-2026-11-30.sqlite3", "a copy, beside who uses it"),
        ("turnctl ledger prune --older-than 30d", "take away what is over and settled"),
    ],
    tables=[
        (
            "Exit status",
            [("0", "it is so, or done"), ("1", "something is wrong with it"), ("2", "wrong use"), _MISSING, _UNUSABLE],
        )
    ],
)
def ledger() -> None:
    """What is done with the ledger as a whole."""


@ledger.command(
    cls=Answering,
    family=("ledger",),
    short_help="Read all of a ledger, and say what is wrong with it.",
    help="Reads beside whoever uses it, and changes nothing. What is wrong is told a line each, on stdout.",
    examples=[
        ("turnctl ledger verify", "the ledger of the state directory"),
        ("turnctl ledger verify backup.sqlite3", "a copy of one"),
        ("turnctl ledger verify -q && echo sound", "the exit status alone"),
    ],
    tables=[
        (
            "Exit status",
            [("0", "it is as it was written"), ("1", "something is not"), ("2", "wrong use"), _MISSING, _UNUSABLE],
        )
    ],
)
@click.argument("path", required=False)
@answering()
def verify(path: str | None, as_json: bool, state_dir: str | None, quiet: int) -> Code:
    if path == "":
        raise click.UsageError("the name of the file is empty; is a variable in it not set?")
    from turnctl.ledger.verify import Verified
    from turnctl.ledger.verify import verify as read_all

    where = str(default_path(state_dir) if path is None else path)
    shown = Progress(moves=can_move(as_json=as_json, quiet=quiet), quiet=quiet > 0)
    try:
        with (
            telling_when_interrupted(lambda: ("nothing was changed, and no verdict was reached", "run it again")),
            shown,
        ):
            found = read_all(where, tell=shown.state)
    except StoreDamaged as error:
        found = Verified(0, 0, (str(error),))
    if found.still is not None:
        note(found.still)
    return _told(
        {"schema": "turnctl.verified/1", "path": where, **_plain(found), "unchanging": found.still is not None},
        found,
        as_json,
        quiet,
    )


def _plain(found: Verified) -> dict[str, Any]:
    return {
        "is_sound": not found.findings,
        "incarnations": found.incarnations,
        "lines": found.lines,
        "findings": list(found.findings),
    }


def _counted(number: int) -> str:
    return "1 incarnation" if number == 1 else f"{number} incarnations"


def _told(document: dict[str, Any], found: Verified, as_json: bool, quiet: int) -> Code:
    if as_json:
        put_document(document)
    elif not quiet:
        sound = f"{document['path']} is sound: {_counted(found.incarnations)}, {found.lines} lines of log"
        put("".join(f"{visible(one)}\n" for one in found.findings or (sound,)))
    return Code.NOT_SO if found.findings else Code.OK


@ledger.command(
    cls=Answering,
    family=("ledger",),
    short_help="Copy the ledger into a new file, and verify the copy.",
    help="Made by SQLite beside whoever uses the ledger, one state of it, readable by its owner alone. Do not copy the "
    "file by other means while it is in use. Replaces nothing.",
    examples=[("turnctl ledger backup ledger-2026-11-30.sqlite3", "a copy that can be verified, opened or put back")],
    tables=[
        (
            "Exit status",
            [
                ("0", "it is there, and sound"),
                ("1", "it is there, and something in it, and in the ledger, is not as it was written"),
                ("2", "wrong use, or there is such a file already"),
                _MISSING,
                _UNUSABLE,
            ],
        )
    ],
)
@click.argument("file")
@answering()
def backup(file: str, as_json: bool, state_dir: str | None, quiet: int) -> Code:
    if not file:
        raise click.UsageError("the name of the file is empty; is a variable in it not set?")
    if file == "-":
        raise click.UsageError("a backup is read again when it is made, so it does not go to stdout; name a file")
    from turnctl.ledger.copying import backup as copy
    from turnctl.ledger.workshop import abandon_all

    def left() -> tuple[str, str]:
        abandon_all()
        return f"the ledger is as it was, and {file} is there only if it is whole", "run it again"

    shown = Progress(moves=can_move(as_json=as_json, quiet=quiet), quiet=quiet > 0)
    try:
        with telling_when_interrupted(left), shown:
            made = copy(default_path(state_dir), file, tell=shown.state)
    except BadArgument as error:
        raise Problem("file_exists", *_halves(error), Code.USAGE) from error
    if made.still is not None:
        note(made.still)
    for one in made.cleared:
        note(f"taken away: {one}, which a backup had left that was killed")
    document = {
        "schema": "turnctl.backup/1",
        "path": made.path,
        "size": made.size,
        **_plain(made.verified),
        "cleared": list(made.cleared),
    }
    return _told(document, made.verified, as_json, quiet)


def _halves(error: Exception) -> tuple[str, str]:
    message, _, hint = str(error).partition("; ")
    return message, hint


@ledger.command(
    cls=Answering,
    family=("ledger",),
    short_help="Take away what is over for long and wholly told of.",
    help="Only tasks that are completed, failed or cancelled and settled, with all below them; what is unresolved "
    "stays. So does a tombstone of each: what comes late for it is known to be late. It may be interrupted, and run "
    "again.",
    examples=[
        ("turnctl ledger prune --older-than 30d --dry-run", "how many would go, and why others stay"),
        ("turnctl ledger prune --older-than 30d", "take them away, and give the room back"),
    ],
    tables=[("Exit status", [("0", "done, or nothing is on record"), ("2", "wrong use"), _UNUSABLE])],
)
@option(
    "--older-than",
    type=Duration(zero=True),
    envvar="TURNCTL_KEEP",
    shared="keep",
    help="What has ended longer ago than this; by default as long as the setting keep says, or TURNCTL_KEEP.",
)
@click.option(
    "--keep-tombstones",
    type=Duration(zero=True),
    default="90d",
    show_default=True,
    help="How long a late request is still recognised; longer than any queue may deliver it again.",
)
@click.option("--export", type=Folder(), help="First write a bundle of each tree of tasks that goes into this folder.")
@click.option("--include-detached", is_flag=True, help="Also what let go of work whose end nobody tells.")
@click.option("--dry-run", is_flag=True, help="Change nothing.")
@answering()
def prune(
    older_than: str | None,
    keep_tombstones: str,
    export: str | None,
    include_detached: bool,
    dry_run: bool,
    as_json: bool,
    state_dir: str | None,
    quiet: int,
) -> Code:
    if older_than is None:
        raise click.UsageError('say how old: --older-than 30d; or keep = "30d", once and for all, in your settings')
    from turnctl.clock import parse_duration
    from turnctl.ledger.purging import purge
    from turnctl.records.retention import Purged

    left = ("what was taken away is gone as a whole, and the rest is as it was", "turnctl ledger prune again goes on")
    explain(f"takes away from {default_path(state_dir)} what ended more than {older_than} ago")
    with telling_when_interrupted(lambda: left), _opened(state_dir, quiet) as store:
        found = (
            Purged(0, 0, 0, {}, dry_run)
            if store is None
            else purge(
                store,
                older_than_s=parse_duration(older_than, zero=True) or 0.0,
                tombstones_s=parse_duration(keep_tombstones, zero=True) or 0.0,
                dry_run=dry_run,
                include_detached=include_detached,
                export=export,
            )
        )
    if as_json:
        put_document(found.as_dict())
    elif not quiet:
        put(f"{found}\n")
        if found.tombstones or found.given_back:
            say(f"{found.tombstones} tombstones dropped, {found.given_back} bytes given back")
    return Code.OK


@contextmanager
def _opened(state_dir: str | None, quiet: int) -> Iterator[Store | None]:
    """The ledger; where nothing was ever recorded that is said, and there is nothing to take away."""
    from turnctl.ledger.opening import open_sqlite

    try:
        store = open_sqlite(default_path(state_dir))
    except StoreMissing:
        from turnctl.cli.opened import tell_of_none

        if not quiet:
            tell_of_none(state_dir)
        yield None
        return
    with closing(store):
        yield store
