"""Reading a page off a command: the command's own objects are the only source, with any version of click."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from turnctl.cli.common import variables_of
from turnctl.cli.pages.grouping import TITLES, group_of, is_duration, long_name
from turnctl.cli.pages.model import Example, Group, Option, Page, Rows

__all__ = ["CODES", "commands_of", "context_of", "page_of"]

#: the table of a command that holds its exit statuses
CODES = "Exit status"


def page_of(command: click.Command, name: str, ctx: click.Context | None = None) -> Page:
    """The page of ``command``, called as ``name``. Loads none of its commands, if it has a list of them."""
    ctx = ctx or context_of(command, name)
    tables: list[tuple[str, Rows]] = [(title, _rows(rows)) for title, rows in getattr(command, "tables", ())]
    return Page(
        name=name,
        summary=" ".join((command.short_help or "").split()),
        synopsis=" ".join([name, *command.collect_usage_pieces(ctx)]),
        examples=tuple(Example(call, what) for call, what in getattr(command, "examples", ())),
        steps=tuple(" ".join(step.split()) for step in getattr(command, "steps", ())),
        groups=_groups(command, ctx),
        commands=commands_of(command, ctx),
        topics=_rows(getattr(command, "topics", ())),
        tables=tuple((title, rows) for title, rows in tables if title != CODES),
        codes=next((rows for title, rows in tables if title == CODES), ()),
        notes=tuple(" ".join(one.split()) for one in (command.help or "").split("\n\n") if one.strip()),
    )


def context_of(command: click.Command, name: str) -> click.Context:
    """A context to ask the command by, in which nothing is parsed."""
    return click.Context(command, info_name=name, resilient_parsing=True, **command.context_settings)


def _rows(rows: Iterable[tuple[str, str]]) -> Rows:
    return tuple((word, " ".join(meaning.split())) for word, meaning in rows)


def commands_of(command: click.Command, ctx: click.Context) -> Rows:
    """The commands that it has, with their summaries."""
    if not isinstance(command, click.Group):
        return ()
    summaries = getattr(command, "summaries", None)
    if summaries is not None:
        return _rows(summaries())
    found = ((name, command.get_command(ctx, name)) for name in command.list_commands(ctx))
    return _rows((name, one.short_help or "") for name, one in found if one is not None and not one.hidden)


def _groups(command: click.Command, ctx: click.Context) -> tuple[Group, ...]:
    options = [one for one in command.get_params(ctx) if isinstance(one, click.Option) and not one.hidden]
    spans = frozenset(long_name(one) for one in options if is_duration(one))
    found: dict[str, list[Option]] = {}
    for one in options:
        found.setdefault(group_of(one, spans), []).append(_option(one))
    titles = dict(TITLES)
    if isinstance(command, click.Group):
        titles["common"] += ", also after the name of a command"
    return tuple(Group(title, tuple(found[name])) for name, title in titles.items() if name in found)


def _option(one: click.Option) -> Option:
    text = " ".join((one.help or "").split())
    is_help = "--help" in one.opts  # click's own, whose text is that of its version
    names = sorted(one.opts, key=lambda name: (name.startswith("--"), one.opts.index(name)))
    return Option(
        names=(*names, *one.secondary_opts),
        metavar=_metavar(one),
        help="Show this message and exit." if is_help else text,
        default=_default(one),
        env=variables_of(one),
        is_repeatable=one.multiple,
        is_required=one.required,
    )


def _metavar(one: click.Option) -> str | None:
    if one.is_flag or one.count:
        return None
    if one.metavar:
        return one.metavar
    if isinstance(one.type, click.Choice):
        return "|".join(str(choice) for choice in one.type.choices)
    return one.type.name.upper() if one.type.name != "integer range" else "N"


def _default(one: click.Option) -> str | None:
    if not one.show_default:
        return None
    if isinstance(one.show_default, str):
        return one.show_default
    value: Any = one.default
    if one.is_flag:
        if not one.secondary_opts:
            return None
        return (one.opts if value else one.secondary_opts)[0].lstrip("-")
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or None
    return str(value) if isinstance(value, (str, int, float)) else None
