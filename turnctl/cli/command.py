"""How the help of a command looks: what it does, how it is called, examples first, options, exit statuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click

__all__ = ["Command"]

Rows = Sequence[tuple[str, str]]


class Command(click.Command):
    """A command whose help begins with examples and ends with tables; its options end at the first operand.

    ``elsewhere`` says what an option that people know from other tools is called here.
    """

    def __init__(
        self,
        *args: Any,
        examples: Rows = (),
        tables: Sequence[tuple[str, Rows]] = (),
        elsewhere: Mapping[str, str] = MappingProxyType({}),
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("context_settings", {"help_option_names": ["-h", "--help"]})
        super().__init__(*args, **kwargs)
        self.allow_interspersed_args = False
        self._examples = examples
        self._tables = tables
        self._elsewhere = elsewhere

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            ours = self._elsewhere.get(error.option_name)
            if ours is not None:
                text = f"here it is {ours}" if ours.startswith("-") else ours
                raise click.UsageError(f"there is no option {error.option_name}; {text}", ctx) from None
            error.ctx = error.ctx or ctx
            raise
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # the parser does not know whose options it reads
            raise

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_text(self.short_help or "")
        formatter.write_paragraph()
        self.format_usage(ctx, formatter)
        if self._examples:
            with formatter.section("Examples"):
                for call, what in self._examples:
                    # not wrapped: a person copies these
                    formatter.write(f"{'':{formatter.current_indent}}# {what}\n")
                    formatter.write(f"{'':{formatter.current_indent}}{call}\n")
        self.format_options(ctx, formatter)
        for title, rows in self._tables:
            with formatter.section(title):
                formatter.write_dl(rows)
        if self.help:
            formatter.write_paragraph()
            for paragraph in self.help.split("\n\n"):
                formatter.write_text(" ".join(paragraph.split()))
                formatter.write_paragraph()
