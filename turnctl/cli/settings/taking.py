"""Giving a command the settings of files for what neither its options nor its variables say."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from turnctl.cli.common import SHARED, path_of
from turnctl.cli.settings.places import Found, look
from turnctl.cli.settings.problem import SettingsProblem
from turnctl.cli.talk import explain, warn

if TYPE_CHECKING:
    from turnctl.cli.settings.tables import Setting

__all__ = ["Taken", "named_by", "state_dir_of", "take", "taken_of", "tell"]

_META = "turnctl.settings"
_SWITCHES = ("--config", "--no-config")


class Taken(NamedTuple):
    """What came from files for a command, by the names of its parameters, and which files there were."""

    files: tuple[Found, ...] = ()
    settings: dict[str, Setting] = {}  # noqa: RUF012 - never changed
    problem: SettingsProblem | None = None


def take(ctx: click.Context, args: list[str], *, may_fail: bool = False) -> None:
    """Have the options of ``ctx`` read from files what is not given otherwise.

    Without a file that is a few looks at names. Raises ``SettingsProblem``, unless ``may_fail`` keeps it for
    ``taken_of``, or only the help is asked for.
    """
    given: dict[str, Any] = {}
    if any(one.startswith(_SWITCHES) for one in args):
        given = _given(ctx, args)
    try:
        named = named_by(given)
        for one in look(named) if named != "" else ():
            if one.data is None or one.kind == "project":
                continue
            from turnctl.cli.settings.tables import read

            said = read(one).root.get("state-dir")
            if isinstance(said, str) and "\0" not in said:
                return os.path.join(os.path.dirname(one.path), os.path.expanduser(said))
    except click.UsageError:
        pass  # the command itself tells of it
    return None


def taken_of(ctx: click.Context) -> Taken:
    """What the command of ``ctx`` got from files."""
    taken: Taken = ctx.meta.get(_META, Taken())
    return taken


def tell(ctx: click.Context) -> None:
    """Say which files were read and which were not, where somebody wants to know, or has to."""
    taken = taken_of(ctx)
    for one in taken.files:
        if one.is_strange:
            warn(f"{one.path} was not read: {one.why}")
        else:
            explain(f"settings: {one.path}" + ("" if one.data is not None else f" was not read: {one.why}"))
    for setting in _used(ctx, taken.settings.items()):
        explain(f"settings: {setting.where.rsplit(' ', 1)[-1]} comes from {setting.where}")


def _used(ctx: click.Context, settings: Iterable[tuple[str, Setting]]) -> list[Setting]:
    source = click.core.ParameterSource.DEFAULT_MAP
    return [one for name, one in settings if ctx.get_parameter_source(name) is source]
