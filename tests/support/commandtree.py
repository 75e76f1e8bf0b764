"""All commands of the command line, with those below them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from turnctl.cli.group import cli


def _below(ctx: click.Context, command: click.Command) -> Iterator[click.Command]:
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            found = command.get_command(ctx, name)
            assert found is not None
            yield found
            yield from _below(ctx, found)


def every() -> list[click.Command]:
    """All commands, with those below them."""
    return list(_below(click.Context(cli), cli))
