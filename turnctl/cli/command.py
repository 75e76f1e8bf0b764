"""How a command reads its options, and how its help looks: what it does, how it is called, examples first, options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click

from turnctl.cli.common import COMMON, common_options, group_of, path_of, with_variables
from turnctl.cli.settings.taking import take, tell

__all__ = ["Command", "Forwarding"]

Rows = Sequence[tuple[str, str]]


class Command(click.Command):
    """A command whose help begins with examples and ends with tables; its options end at the first operand.

    ``steps`` say what it does, one after the other; the table "Exit status" has its statuses. All of it is read off the
    command by ``cli.pages``, for its help, its man page and the documents.

    ``elsewhere`` says what an option that people know from other tools is called here; ``family`` are the words before
    its name. It has the common options, and a variable for each option; what is given by neither comes from the files
    of settings.
    """

    def __init__(
        self,
        *args: Any,
        examples: Rows = (),
        steps: Sequence[str] = (),
        tables: Sequence[tuple[str, Rows]] = (),
        elsewhere: Mapping[str, str] = MappingProxyType({}),
        family: tuple[str, ...] = (),
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("context_settings", {"help_option_names": ["-h", "--help"]})
        super().__init__(*args, **kwargs)
        self.allow_interspersed_args = False
        self.examples = examples
        self.steps = steps
        self.tables = tables
        self.elsewhere = elsewhere
        self.family = family
        params = [*self.params, *common_options(self.params)]
        # in one order, whatever each command reads itself
        rank = {name: n for n, name in enumerate(COMMON, 1)}
        self.params = sorted(params, key=lambda one: rank.get(one.name, 0) if group_of(one) == "common" else 0)
        with_variables(path_of(self), self.params)

    #: whether a setting that cannot be used is left to the command
    knows_bad_settings = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            if ctx.resilient_parsing or isinstance(self, click.Group):
                return super().parse_args(ctx, args)
            take(ctx, args, may_fail=self.knows_bad_settings)
            rest = super().parse_args(ctx, args)
            tell(ctx)
            return rest
        except click.NoSuchOption as error:
            ours = self.elsewhere.get(error.option_name)
            if ours is not None:
                text = f"here it is {ours}" if ours.startswith("-") else ours
                raise click.UsageError(f"there is no option {error.option_name}; {text}", ctx) from None
            error.ctx = error.ctx or ctx
            raise
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # the parser does not know whose options it reads
            raise

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from turnctl.cli.pages.plain import help_text
        from turnctl.cli.pages.reading import page_of

        formatter.write(help_text(page_of(self, ctx.command_path, ctx), formatter.width))


class Forwarding(click.Group):
    """A command of commands: common options that stand before the name of a command are that command's."""

    _META = "turnctl.forwarded"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words: list[str] = []
        if args and args[0].startswith("-"):
            given, _, order = self.make_parser(ctx).parse_args(args=list(args))
            for param in dict.fromkeys(order):
                if group_of(param) == "common" and param.name in given:
                    words += _words(param, given[param.name])
        ctx.meta[f"{self._META}.{ctx.command_path}"] = words
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        # before what stands after the name, which is the stronger one thereby
        return name, command, [*ctx.meta.get(f"{self._META}.{ctx.command_path}", ()), *rest]


def _words(param: click.Parameter, value: Any) -> list[str]:
    name = param.opts[-1]
    if getattr(param, "count", False):
        return [name] * int(value)
    if getattr(param, "is_flag", False):
        return [name]
    return [f"{name}={value}"]
