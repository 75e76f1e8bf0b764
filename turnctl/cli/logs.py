"""``turnctl logs``: what a turn has printed, as far as it is kept, and what it prints while it runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from turnctl.cli.answering import Answering, answering
from turnctl.cli.codes import Code
from turnctl.cli.colour import Colour, is_coloured
from turnctl.cli.showing import Moment, colour_option, time_option
from turnctl.cli.stdout import is_terminal, put_document
from turnctl.cli.talk import say
from turnctl.ledger.whereabouts import default_path

if TYPE_CHECKING:
    from turnctl.cli.times import TimeFormat

__all__ = ["logs"]

#: lines that a terminal shows where nothing else is said
_LAST = 200


if TYPE_CHECKING:
    OfText = click.ParamType[str]
else:
    OfText = click.ParamType


class Count(OfText):
    """A number of lines, or ``all``."""

    name = "N"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if text != "all" and not (text.isascii() and text.isdigit()):
            self.fail(f"{text!r} is no number of lines; write 50, or all", param, ctx)
        return text


@click.command(
    cls=Answering,
    short_help="Show what a turn has printed, and what it prints.",
    examples=[
        ("turnctl logs @", "of the newest turn; on a terminal the last 200 lines"),
        ("turnctl logs -f session:build", "what comes, until the turn is over"),
        ("turnctl logs -t --since 5m t2nn3c", "with times, of the last five minutes"),
        ("turnctl logs --stream err -n all @ > errors.txt", "one stream, byte for byte"),
        ("turnctl logs --stream out --stream events @", "between the events that the ledger has of it"),
    ],
    tables=[
        (
            "Exit status",
            [
                ("0", "it was shown, if there is any or not"),
                (
                    "4",
                    "there is no such turn or stream, it was purged, its output is not kept; or the name fits several",
                ),
                ("2, 5", "wrong use; the state directory cannot be used"),
            ],
        )
    ],
    help="Of each stream the beginning and the end are kept (turnctl run --log-max); what is missing between them is "
    "said where it is missing. A line stands where its end came, and has that time; between streams the order is that "
    "in which they were read.\n\n"
    "On a terminal nothing that a turn printed can move the cursor or act otherwise: what cannot be seen is written as "
    "\\x1b, but for colours. Anywhere else its bytes are as they came.",
)
@click.argument("turn")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until the turn is over.")
@click.option("-n", "--lines", "number", type=Count(), help="The last N lines, or all; 200 on a terminal, else all.")
@click.option("--since", type=Moment(), help="Only what came since then: 42m, or a time of RFC 3339.")
@click.option("--until", type=Moment(), help="Only what came until then.")
@click.option("-t", "--timestamps", is_flag=True, help="Begin each line with its time.")
@click.option(
    "--stream", "streams", multiple=True, metavar="NAME", help="Only out, err, events, or a stream by name; repeatable."
)
@time_option()
@colour_option()
@answering(lines=True)
def logs(
    turn: str,
    follow: bool,
    number: str | None,
    since: str | None,
    until: str | None,
    timestamps: bool,
    streams: tuple[str, ...],
    time_format: TimeFormat | None,
    color: Colour,
    as_json: bool,
    as_lines: bool,
    state_dir: str | None,
    quiet: int,
) -> Code:
    if follow and as_json:
        raise click.UsageError("--json is one document; with -f give --jsonl")
    if follow and until is not None:
        raise click.UsageError("-f goes on with what comes, and --until is of what came; give one of them")
    from turnctl.cli.logged import Chosen, Log
    from turnctl.cli.logout import AsDocument, AsJson, AsText

    chosen = Chosen(
        streams=frozenset(streams),
        since=None if since is None else float(since),
        until=None if until is None else float(until),
        last=_most(number, is_cut=is_terminal() and not as_lines and not as_json),
    )
    log = Log(os.path.realpath(default_path(state_dir)), turn, state_dir, chosen)
    if not quiet:
        for note in log.notes():
            say(f"note: {note}")
    if as_json:
        document = AsDocument(log)
        log.give(document)
        put_document(document.as_dict())
        return Code.OK
    to = AsJson(log.turn_id) if as_lines else AsText(log, timestamps, time_format, colour=is_coloured(color))
    log.give(to)
    if follow:
        log.follow(to)
        if not quiet:
            say(log.farewell())
    to.end()
    return Code.OK


def _most(number: str | None, *, is_cut: bool) -> int | None:
    if number is None:
        return _LAST if is_cut else None
    return None if number == "all" else int(number)
