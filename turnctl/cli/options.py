"""The kinds of value that options take, for click: a name for the help, and the check from ``values``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click

from turnctl.errors import BadArgument, BadDuration

__all__ = ["Checked"]

T = TypeVar("T")

if TYPE_CHECKING:
    # generic from click 8.4 on, for type checkers alone
    Base = click.ParamType[T]
else:

    class Base(click.ParamType, Generic[T]):
        """As it is for type checkers."""


class Checked(Base[T]):
    """A value that a function of ``values`` checks; ``name`` is what the help shows for it."""

    def __init__(self, name: str, check: Callable[[str, str], T]) -> None:
        self.name = name
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        try:
            return self._check(str(value), self.name if param is None else param.opts[-1])
        except (BadArgument, BadDuration) as error:
            self.fail(str(error), param, ctx)
