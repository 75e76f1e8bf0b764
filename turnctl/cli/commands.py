"""A command that has commands: its help is that of one, and a name that it has not is answered with the nearest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from turnctl.cli.command import Command, Forwarding

__all__ = ["Commands", "near"]


class Commands(Command, Forwarding):
    """Says with what it has whatever it is called with that it does not have."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("invoke_without_command", True)
        kwargs.setdefault("subcommand_metavar", "COMMAND [ARG]...")
        super().__init__(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        if not _rest_of(ctx):
            super().invoke(ctx)
            ctx.fail(f"no command was given; it has: {', '.join(sorted(self.list_commands(ctx)))}")
        return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known:
            ctx.fail(f"there is no command {args[0]!r}{near(args[0], known)}")
        return super().resolve_command(ctx, args)


def _rest_of(ctx: click.Context) -> bool:
    # it stands in the one until click 8.1, and in the other from 8.2 on
    return bool(vars(ctx).get("protected_args") or vars(ctx).get("_protected_args") or ctx.args)


def near(name: str, known: Iterable[str]) -> str:
    """What to try instead of ``name``: the nearest that is known, else all of it."""
    from difflib import get_close_matches

    known = sorted(known)
    found = get_close_matches(name, known, n=1) or [one for one in known if len(name) > 1 and one.startswith(name)][:1]
    return f"; did you mean {found[0]}?" if found else f"; it has: {', '.join(known)}"
