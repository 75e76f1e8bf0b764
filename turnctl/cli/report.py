"""``turnctl report``: one turn as a picture in a file that opens anywhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from turnctl.cli.answering import Answering, answering
from turnctl.cli.codes import Code
from turnctl.cli.common import option
from turnctl.cli.names import find
from turnctl.cli.opened import no_turns, opened
from turnctl.cli.problems import Problem
from turnctl.cli.stdout import is_terminal, put, put_document
from turnctl.cli.talk import say
from turnctl.spelling import in_words

if TYPE_CHECKING:
    from turnctl.report.facts import Facts

__all__ = ["report"]

SCHEMA = "turnctl.reported/1"
FORMATS = ("html", "svg", "md", "json", "trace")
_SUFFIXES = {"trace": ".trace.json"}
#: what the end of a name says
_ENDINGS = {
    ".html": "html",
    ".htm": "html",
    ".svg": "svg",
    ".md": "md",
    ".markdown": "md",
    ".trace.json": "trace",
    ".trace": "trace",
    ".json": "json",
}
#: formats that a browser shows
_SHOWN = ("html", "svg")


@click.command(
    cls=Answering,
    short_help="Draw what is on record of one turn, in one file.",
    help="The picture has lanes for the turn, its activities, its processes and its effects; a line where the stop was "
    "accepted, a band for the grace, and hatching for what is not known: that is never drawn like what has gone well. "
    "The file needs no network and runs no script.",
    examples=[
        ("turnctl report @", "the newest turn, as a page in a file of its name"),
        ("turnctl report t2nn3c -o turn.svg", "the drawing alone"),
        ("turnctl report --format md t2nn3c | gh pr comment 12 -F -", "as text for a pull request"),
        ("turnctl report -o turn.trace.json @", "for ui.perfetto.dev and chrome://tracing"),
        ("turnctl report --redact -o turn.html @", "to be shown to others"),
    ],
    tables=[
        (
            "Formats",
            [
                ("html", "a page: the drawing, what is not on record, and all of it as tables"),
                ("svg", "the drawing"),
                ("md", "Markdown, with a drawing in letters"),
                ("json", "the full record, schema turnctl.report/1"),
                ("trace", "trace events, for viewers of such"),
            ],
        ),
        (
            "Exit status",
            [
                ("0", "it is written"),
                ("1", "it could not be written"),
                ("2", "wrong use, or there is another file of that name"),
                ("4", "there is no such turn, or the name fits several"),
                ("5", "the state directory, or stdout, cannot be used"),
            ],
        ),
    ],
)
@click.argument("turn")
@option(
    "-o",
    "--output",
    group="output",
    metavar="FILE",
    help="Where to; - for stdout. Default: on a terminal a file that is named after the turn, elsewhere stdout.",
)
@option(
    "--format",
    "form",
    group="output",
    type=click.Choice(FORMATS),
    help="What to write. Default: what the name of FILE ends with; html without an ending.",
)
@click.option(
    "--redact", is_flag=True, help="Leave out what people and programs wrote: commands, names, keys, reasons."
)
@option("--open", "wants_browser", is_flag=True, group="output", help="Show it in a browser.")
@answering()
def report(
    turn: str,
    output: str | None,
    form: str | None,
    redact: bool,
    wants_browser: bool,
    as_json: bool,
    state_dir: str | None,
    quiet: int,
) -> Code:
    if output == "":
        raise click.UsageError("-o: the name of the file is empty; is a variable in it not set?")
    form = form or _form_of(output)
    to_stdout = output == "-" or (output is None and not (is_terminal() or wants_browser or as_json))
    if to_stdout and (as_json or wants_browser):
        option = "--json answers on stdout, where the report goes" if as_json else "--open shows a file"
        raise click.UsageError(f"{option}; give -o a file")
    if wants_browser and form not in _SHOWN:
        raise click.UsageError(f"--open shows html or svg, not {form}")

    facts = _facts(turn, state_dir)
    turn_id = facts.turn["turn_id"]
    if redact:
        from turnctl.report.redact import redacted

        facts = redacted(facts)
    text = _written(facts, form)
    if to_stdout:
        put(text)
        return Code.OK
    path = output or f"turnctl-{_safe(turn_id)}{_SUFFIXES.get(form, f'.{form}')}"
    size = _put_file(path, text, facts.turn["turn_id"])
    if as_json:
        made = {"schema": SCHEMA, "turn_id": turn_id, "path": path, "format": form, "size": size, "is_redacted": redact}
        put_document(made)
    elif not quiet:
        say(f"{path}: {facts.turn['state']}, {size} bytes")
    if wants_browser:
        _show(path)
    return Code.OK


def _form_of(output: str | None) -> str:
    """What the name of the file says that it is; a page where it has no ending. Raises ``Problem`` for another."""
    name = os.path.basename(output or "")
    for ending, form in _ENDINGS.items():
        if name.lower().endswith(ending):
            return form
    _, dot, ending = name.lstrip(".").rpartition(".")
    if dot:
        text = f"-o: no format is known by the ending .{ending}; {', '.join(_ENDINGS)} are"
        raise Problem("usage", text, "end the name of FILE with one of these, or say --format FORMAT", Code.USAGE)
    return "html"


def _facts(turn: str, state_dir: str | None) -> Facts:
    from turnctl.cli.gathered import facts_of

    there = opened(state_dir)
    if there is None:
        raise no_turns(state_dir, turn)
    with there:
        return facts_of(there, find(there, turn))


def _written(facts: Facts, form: str) -> str:
    from turnctl._version import __version__
    from turnctl.report.drawing import picture_of

    picture, made_by = picture_of(facts), f"turnctl {__version__}"
    if form == "svg":
        from turnctl.report.svg import svg

        return svg(picture, made_by=made_by)
    if form == "md":
        from turnctl.report.markdown import markdown

        return markdown(picture, made_by=made_by)
    if form == "json":
        from turnctl.report.document import document

        return document(picture, facts, made_by=made_by)
    if form == "trace":
        from turnctl.report.trace import trace

        return trace(picture, made_by=made_by)
    from turnctl.report.html import html

    return html(picture, facts, made_by=made_by)


def _safe(turn_id: str) -> str:
    """The id as a part of a file's name: a host may have chosen it."""
    return (
        "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in turn_id)[:64].lstrip(".") or "turn"
    )


def _put_file(path: str, text: str, turn_id: str) -> int:
    from turnctl.cli.files import Occupied, put_file

    data = text.encode("utf-8", "backslashreplace")
    try:
        put_file(path, data, may_replace=lambda there: _is_report(there, turn_id))
    except Occupied:
        message = f"{path} is there already, and is no report of turn {turn_id}; a report replaces nothing else"
        raise Problem("file_exists", message, "name another file, or remove it", Code.USAGE) from None
    except (OSError, ValueError) as error:
        text = f"{path} could not be written: {in_words(error, of=path)}"
        raise Problem("not_written", text, _HINT, Code.NOT_SO) from error
    return len(data)


#: how a report begins, in each of its forms
_BEGINNINGS = (
    b'<!DOCTYPE html>\n<html lang="en" dir="ltr"><head><meta charset="utf-8">',
    b'<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg"',
    b"### turn `",
    b'{\n  "schema": "turnctl.report/1"',
    b'{\n "displayTimeUnit": "ms",\n "otherData": {\n  "schema": "turnctl.trace/1"',
)
_HINT = "give a file in a folder that is there, is yours to write in, and has room"


def _is_report(there: bytes, turn_id: str) -> bool:
    """Whether a file begins as a report of that turn does."""
    return there.startswith(_BEGINNINGS) and turn_id.encode("utf-8", "backslashreplace") in there


def _show(path: str) -> None:
    import webbrowser

    try:
        is_shown = webbrowser.open(Path(path).absolute().as_uri())
    except (webbrowser.Error, OSError):
        is_shown = False
    if not is_shown:
        say(f"no browser was found; {os.path.abspath(path)} is there to be opened")
