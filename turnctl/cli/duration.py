"""The kind of value that most commands take: a duration. Its refusal says what would be right."""

from __future__ import annotations

from typing import Any

import click

from turnctl.cli.common import OfText
from turnctl.clock import parse_duration
from turnctl.errors import BadDuration

__all__ = ["Duration"]


class Duration(OfText):
    """A duration with its unit; given on as text, since ``none`` and a number are not the same."""

    name = "DUR"

    def __init__(self, *, none: bool = False, zero: bool = False) -> None:
        self._none = none
        self._zero = zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        what = "duration" if param is None else param.opts[-1]
        try:
            parse_duration(value, what=what, none=self._none, zero=self._zero, unit_required=True)
        except BadDuration as error:
            self.fail(str(error), param, ctx)
        return str(value)
