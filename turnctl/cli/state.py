"""``turnctl status``: one turn in one line, and in the exit status."""

from __future__ import annotations

import click

from turnctl.cli.answering import Answering, answering
from turnctl.cli.codes import Code
from turnctl.cli.colour import Colour, is_coloured, paint_state
from turnctl.cli.opened import found_turn
from turnctl.cli.showing import code_of, colour_option, format_of, line_of, time_option
from turnctl.cli.stdout import put, put_document
from turnctl.cli.times import TimeFormat, shown
from turnctl.clock import wall

__all__ = ["CODES", "status"]

CODES = [
    ("0", "it runs, or is being stopped, or has completed"),
    ("1", "it failed, or was lost"),
    ("3", "it was cancelled, and is settled"),
    ("4", "there is no such turn, or the name fits several"),
    ("7", "it has ended, and the outcome of effects is not known"),
    ("2, 5", "wrong use; the state directory cannot be used"),
]


@click.command(
    cls=Answering,
    short_help="Say in one line, and by the exit status, how a turn stands.",
    examples=[
        ("turnctl status @", "the newest turn"),
        ("turnctl status t2nn3c", "by the beginning of its id"),
        ("turnctl status session:build", "the one that runs in a session"),
        ("turnctl status -q @ || turnctl show @", "the exit status alone"),
    ],
    tables=[("Exit status", CODES)],
)
@click.argument("turn")
@time_option()
@colour_option()
@answering()
def status(
    turn: str, time_format: TimeFormat | None, color: Colour, as_json: bool, state_dir: str | None, quiet: int
) -> Code:
    found = found_turn(state_dir, turn)
    if as_json:
        put_document(line_of(found))
    elif not quiet:
        word = found.state
        parts = [f"({found.unresolved} unknown)"] if found.unresolved else []
        # of one that is over and has not told when, only its beginning is on record
        since = "" if found.ended_at is not None else "begun " if found.is_over else "since "
        at = found.begun_at if found.ended_at is None else found.ended_at
        how = format_of(time_format)
        text = " ".join([paint_state(word, word) if is_coloured(color) else word, *parts])
        put(f"{found.turn_id} {text}, {since}{shown(at, how, wall())}\n")
    return code_of(found)
