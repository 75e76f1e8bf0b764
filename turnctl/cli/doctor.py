"""``turnctl doctor``: what this machine can contain and keep, each with a remedy. It signals nobody, unless it is asked
to end what earlier commands have left (``cli.clearing``)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from turnctl.cli.answering import Answering, answering
from turnctl.cli.codes import Code
from turnctl.cli.colour import Colour, is_coloured, paint_state
from turnctl.cli.duration import Duration
from turnctl.cli.problems import Problem
from turnctl.cli.settings.taking import taken_of
from turnctl.cli.showing import colour_option
from turnctl.cli.stdout import put, put_bytes, put_document, width
from turnctl.cli.talk import say
from turnctl.clock import parse_duration
from turnctl.spelling import visible

if TYPE_CHECKING:
    from turnctl.cli.checks.check import Check

__all__ = ["doctor"]

SCHEMA = "turnctl.doctor/1"
AREAS = ("platform", "process", "state", "terminal", "config")
_PATHS = ("state-dir", "ledger", "user-config", "project-config")
#: where what was found begins, and where it does if there is no room for that
_AT = 28
_BELOW = " " * 6
#: columns that it needs beside the name of the check
_LEAST_WORDS = 40
_PAINT = {"ok": "completed", "warn": "warned", "fail": "failed", "skip": ""}


class Doctor(Answering):
    """Looks at settings that cannot be used as at everything else; --config without a FILE shows them."""

    knows_bad_settings = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = [*args, "-"][1:]
        found = [
            "--settings" if one == "--config" and after.startswith("-") else one
            for one, after in zip(args, rest, strict=True)
        ]
        return super().parse_args(ctx, found)


@click.command(
    cls=Doctor,
    short_help="Say what this machine can contain and keep, with remedies.",
    examples=[
        ("turnctl doctor", "all that can be looked at"),
        ("turnctl doctor --only state", "the state directory alone"),
        ("turnctl doctor --fix", "and take from others what they can reach there"),
        ("turnctl doctor --end-leftovers --dry-run", "what earlier commands have left, and what would be done"),
        ("turnctl doctor --config", "every setting, and where it comes from"),
        ("cd $(turnctl doctor --print state-dir)", "where turnctl keeps what it remembers"),
    ],
    tables=[
        (
            "Exit status",
            [
                ("0", "nothing failed; with --end-leftovers: none of this user's is left"),
                ("1", "something did; with --strict also where something is only a warning"),
                ("2", "wrong use; --end-leftovers without -y, where nobody can be asked"),
                ("5", "--end-leftovers where processes cannot be seen"),
            ],
        )
    ],
    help="Each way of holding commands is tried with a command of its own, which takes some tens of milliseconds. "
    "Nothing else is started, and nothing is signalled but by --end-leftovers, which ends processes of this user that "
    "commands of turnctl have left and that nobody holds any more, known by number, start time and the mark of their "
    "command. They are asked first, and killed after the grace.",
)
@click.option(
    "--only",
    "areas",
    multiple=True,
    type=click.Choice(AREAS),
    metavar="AREA",
    help=f"Only this; repeatable: {', '.join(AREAS)}.",
)
@click.option("--leftovers", "is_leftovers", is_flag=True, help="Only what earlier commands have left; --only process.")
@click.option("--end-leftovers", "is_ending", is_flag=True, help="End what earlier commands have left; nothing else.")
@click.option("--dry-run", is_flag=True, help="With --end-leftovers: end nothing, and say what would be done.")
@click.option("-y", "--yes", is_flag=True, help="With --end-leftovers: do not ask before.")
@click.option(
    "--grace", type=Duration(zero=True), metavar="DUR", help="With --end-leftovers: from asking to killing; 5s."
)
@click.option("--strict", is_flag=True, help="Take a warning for a failure.")
@click.option("--fix", is_flag=True, help="Mend the modes of the state directory first, and say what was done.")
@click.option(
    "--settings",
    "is_settings",
    is_flag=True,
    help="Only settings, and where each comes from; --config without a FILE does it too. With -q those that are set.",
)
@click.option(
    "--print", "name", type=click.Choice(_PATHS), metavar="NAME", help=f"Print that path alone: {', '.join(_PATHS)}."
)
@colour_option()
@answering()
def doctor(
    areas: tuple[str, ...],
    is_leftovers: bool,
    is_ending: bool,
    dry_run: bool,
    yes: bool,
    grace: str | None,
    strict: bool,
    fix: bool,
    is_settings: bool,
    name: str | None,
    color: Colour,
    as_json: bool,
    state_dir: str | None,
    quiet: int,
) -> Code:
    if is_ending:
        if areas or is_leftovers or strict or fix or name is not None:
            raise click.UsageError("--end-leftovers is for itself: give it with --dry-run, --yes and --grace alone")
        from turnctl.cli.clearing import clear

        grace = grace or "5s"
        grace_s = parse_duration(grace, what="--grace", zero=True) or 0.0
        return clear(is_dry=dry_run, yes=yes, grace_s=grace_s, grace=grace, as_json=as_json, quiet=quiet > 0)
    for option, given in (("--dry-run", dry_run), ("--yes", yes), ("--grace", grace is not None)):
        if given:
            raise click.UsageError(f"{option} goes with --end-leftovers")
    if name is not None:
        put_bytes(os.fsencode(_path(name, state_dir)) + b"\n")
        return Code.OK
    if is_settings:
        from turnctl.cli.settings import shown

        ctx = click.get_current_context()
        if as_json:
            put_document(shown.as_dict(ctx, taken_of(ctx)))
        else:
            put(shown.as_text(ctx, taken_of(ctx), width=width(), only_given=quiet > 0))
        return Code.OK
    if fix:
        from turnctl.cli.checks.state import mend

        for done in mend(state_dir):
            say(done)
    areas = (*areas, "process") if is_leftovers else areas
    found = []
    for check in _checks(areas or AREAS, state_dir):
        found.append(check)
        if not (as_json or quiet):
            put(_text(check, color, width()))
    counts = {status: sum(one.finding.status == status for one in found) for status in _PAINT}
    if as_json:
        put_document({"schema": SCHEMA, "summary": counts, "checks": [one.as_dict() for one in found]})
    elif not quiet:
        put(", ".join(f"{count} {status}" for status, count in counts.items() if count) + "\n")
    is_bad = counts["fail"] > 0 or (strict and counts["warn"] > 0)
    return Code.NOT_SO if is_bad else Code.OK


def _path(name: str, state_dir: str | None) -> str:
    """The path of that name. Raises ``Problem`` where there is none."""
    if name in ("state-dir", "ledger"):
        from turnctl.ledger.whereabouts import default_path

        path = default_path(state_dir)
        return str(path if name == "ledger" else path.parent)
    from turnctl.cli.settings.places import user_file

    if name == "user-config":
        found = user_file()
        if found is None:
            raise Problem("no_file", "this user has no home directory", "set XDG_CONFIG_HOME", Code.NOT_SO)
        return found
    for one in taken_of(click.get_current_context()).files:
        if one.kind == "project" and one.data is not None:
            return one.path
    text = "no pyproject.toml from here upwards has a table [tool.turnctl], and there is no turnctl.toml"
    raise Problem("no_file", text, "docs/config.md says what can be set there", Code.NOT_SO)


def _checks(areas: tuple[str, ...], state_dir: str | None) -> Iterator[Check]:
    from turnctl.cli.checks.check import made

    if "platform" in areas:
        from turnctl.cli.checks import platform

        yield from made(platform.looks())
    if "process" in areas:
        from turnctl.cli.checks import process

        yield from made(process.looks())
    if "state" in areas:
        from turnctl.cli.checks import state

        yield from made(state.looks(state_dir))
    if "terminal" in areas:
        from turnctl.cli.checks import terminal

        yield from made(terminal.looks())
    if "config" in areas:
        from turnctl.cli.checks import config

        taken = taken_of(click.get_current_context())
        yield from made(config.looks(taken.files, taken.problem))


def _text(check: Check, color: Colour, columns: int | None) -> str:
    """It for people. A remedy stays one line however narrow the terminal is: most are to be pasted."""
    found = check.finding
    summary = visible(found.summary)
    word: Any = found.status.ljust(4)
    if is_coloured(color) and _PAINT[found.status]:
        word = paint_state(_PAINT[found.status], word)
    head = f"{word}  {check.id:<20}  "
    if columns is None or _AT + len(summary) <= columns:
        text = f"{head}{summary}\n"
    elif columns - _AT >= _LEAST_WORDS:
        text = head + f"\n{' ' * _AT}".join(_wrapped(summary, columns - _AT)) + "\n"
    else:
        lines = _wrapped(summary, max(1, columns - len(_BELOW)))
        text = f"{head.rstrip()}\n" + "".join(f"{_BELOW}{line}\n" for line in lines)
    if found.remedy and found.status in ("warn", "fail"):
        text += f"{_BELOW}fix: {visible(found.remedy)}\n"
    return text


def _wrapped(text: str, columns: int) -> list[str]:
    from textwrap import wrap

    return wrap(text, columns, break_long_words=False, break_on_hyphens=False)
