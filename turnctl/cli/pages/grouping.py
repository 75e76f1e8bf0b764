"""Which group an option stands in: as it says itself, else by what it takes, and by what others call the like."""

from __future__ import annotations

import click

from turnctl.cli import common

__all__ = ["TITLES", "group_of", "is_duration", "long_name"]

#: the groups in their order, with their titles; what all commands have comes last
TITLES = dict(common.GROUPS)

#: what has to do with what is written, and where
_OUTPUT = frozenset(
    (
        *("--output", "--format", "--summary", "--print", "--no-trunc", "--max-output"),
        *("--log", "--log-max", "--open", "--path", "--man", "--timestamps"),
    )
)


def group_of(option: click.Option, beside: frozenset[str]) -> common.Group:
    """Its group; ``beside`` are the long names of options of that command that take a duration."""
    if getattr(option, "group", None) is None:
        name = long_name(option)
        if name.replace("--no-", "--", 1) in beside:
            return "time"
        if name in _OUTPUT:
            return "output"
    return common.group_of(option)


def is_duration(option: click.Parameter) -> bool:
    """Whether it takes a span of time."""
    return option.type.name == "DUR"


def long_name(option: click.Parameter) -> str:
    """The name by which it is told apart."""
    return max(option.opts, key=len)
