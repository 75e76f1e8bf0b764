"""``turnctl help``: the help of a command, or of a topic, for a terminal, for ``man`` or for a program."""

from __future__ import annotations

import click

from turnctl.cli.answering import Answering
from turnctl.cli.codes import Code
from turnctl.cli.commands import near
from turnctl.cli.common import option
from turnctl.cli.stdout import put, put_document, width
from turnctl.cli.topics import TOPICS

__all__ = ["Steady", "help"]

#: columns of what is read; wider lines are hard to follow
_WIDEST = 78


class Steady(Answering):
    """A command that does the same whatever the files of settings say, so that it is there when they are wrong."""

    knows_bad_settings = True


@click.command(
    cls=Steady,
    short_help="Show the help of a command, or of a topic.",
    examples=[
        ("turnctl help", "the commands, and the topics"),
        ("turnctl help ledger prune", "the same as turnctl ledger prune --help"),
        ("turnctl help exit-codes", "a topic"),
        ("turnctl help --man run | man -l -", "the man page of a command"),
        ("turnctl help --json ps", "the help of a command for a program"),
    ],
    tables=[
        ("Topics", list(TOPICS.items())),
        ("Exit status", [("0", "it is shown"), ("2", "wrong use, or there is no such command or topic")]),
    ],
)
@click.argument("words", nargs=-1, metavar="[TOPIC | COMMAND...]")
@click.option("--man", "as_man", is_flag=True, help="The man page of a command, as man reads it.")
@option("--json", "as_json", is_flag=True, group="output", help="Answer with one JSON document.")
def help(words: tuple[str, ...], as_man: bool, as_json: bool) -> Code:  # noqa: A001 - it is the command of that name
    if as_json and as_man:
        raise click.UsageError("--json is one form and --man another; give one of them")
    if len(words) == 1 and words[0] in TOPICS:
        if as_man:
            raise click.UsageError(f"{words[0]} is a topic, and only commands have man pages")
        from turnctl.cli.topics.reading import as_dict, as_text, parts_of

        parts = parts_of(words[0])
        if as_json:
            put_document(as_dict(words[0], parts))
        else:
            put(as_text(words[0], parts, _columns()))
        return Code.OK
    _check(words)
    from turnctl.cli.pages.reading import page_of
    from turnctl.cli.pages.tree import found

    page = page_of(*found(words))
    if as_json:
        put_document(page.as_dict())
    elif as_man:
        from turnctl.cli.pages.roff import man_page
        from turnctl.cli.topics.texts import KEPT

        put(man_page(page, KEPT))
    else:
        from turnctl.cli.pages.plain import help_text

        put(help_text(page, _columns()))
    return Code.OK


def _columns() -> int:
    return min(width() or _WIDEST, _WIDEST)


def _check(words: tuple[str, ...]) -> None:
    """Whether the first of them is a command; what it has is its own business."""
    from turnctl.cli.group import COMMANDS

    if words and words[0] not in COMMANDS:
        raise click.UsageError(f"there is no command or topic {words[0]!r}{near(words[0], [*COMMANDS, *TOPICS])}")
