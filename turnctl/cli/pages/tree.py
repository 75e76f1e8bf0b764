"""Every command that there is, with its page: what documents, man pages and tests go through. Loads all of them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from turnctl.cli.pages.model import Page
from turnctl.cli.pages.reading import context_of, page_of

__all__ = ["ROOT", "commands", "found", "pages"]

ROOT = "turnctl"


def commands() -> Iterator[tuple[str, click.Command]]:
    """Each command with the name that it is called by, ``turnctl`` first, those of a command after it."""
    from turnctl.cli.group import cli

    yield from _below(cli, ROOT)


def _below(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        ctx = context_of(command, name)
        for word in command.list_commands(ctx):
            one = command.get_command(ctx, word)
            if one is not None and not one.hidden:
                yield from _below(one, f"{name} {word}")


def pages() -> Iterator[Page]:
    """The page of each."""
    for name, command in commands():
        yield page_of(command, name)


def found(words: tuple[str, ...]) -> tuple[click.Command, str]:
    """The command that these words name below ``turnctl``, loading no other; what says that there is none is click's
    own ``UsageError``."""
    from turnctl.cli.group import cli

    command: click.Command = cli
    name = ROOT
    for word in words:
        ctx = context_of(command, name)
        if not isinstance(command, click.Group):
            ctx.fail(f"{name} has no commands of its own, and so no {word!r}")
        _, one, _ = command.resolve_command(ctx, [word])
        assert one is not None
        command, name = one, f"{name} {word}"
    return command, name
