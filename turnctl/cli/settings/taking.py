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
from turnctl.homes import expanded

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
        files = () if named == "" else tuple(look(named))
    except SettingsProblem as error:
        _keep(ctx, args, Taken(problem=error), may_fail)
        return
    if not files:
        ctx.meta[_META] = Taken()
        return
    from turnctl.cli.group import COMMANDS
    from turnctl.cli.settings.reading import check_root, of_command
    from turnctl.cli.settings.tables import read

    try:
        tables = [read(one) for one in files if one.data is not None]
        for table in tables:
            check_root(table, COMMANDS, SHARED, _below(ctx))
        taken = Taken(files, of_command(tables, path_of(ctx.command), ctx.command.get_params(ctx)))
    except SettingsProblem as error:
        taken = Taken(files, problem=error)
    _keep(ctx, args, taken, may_fail)


def _below(ctx: click.Context) -> dict[str, list[str]]:
    """The commands beside this one, where it is one of a command's."""
    above = None if ctx.parent is None else ctx.parent.command
    if not isinstance(above, click.Group) or ctx.parent is None or ctx.parent.parent is None:
        return {}
    return {above.name or "": above.list_commands(ctx.parent)}


def _keep(ctx: click.Context, args: list[str], taken: Taken, may_fail: bool) -> None:
    ctx.meta[_META] = taken
    wanted = ctx.command.get_help_option(ctx)
    if wanted is not None and wanted.name in _given(ctx, args):
        return  # the help shows what is so without any file
    if taken.problem is not None and not may_fail:
        taken.problem.ctx = ctx
        raise taken.problem
    ctx.default_map = {name: one.value for name, one in taken.settings.items()}


def _given(ctx: click.Context, args: list[str]) -> dict[str, Any]:
    """What stands on the command line. Raises ``click.UsageError`` as reading it for good would."""
    opts, _, _ = ctx.command.make_parser(ctx).parse_args(args=list(args))
    return dict(opts)


def named_by(given: dict[str, Any]) -> str | None:
    """The file that is to be the only one; "" where there is to be none, None where nobody has said."""
    named, none = given.get("config"), given.get("no_config")
    if named == "":
        raise SettingsProblem("--config names no file", "is a variable in it not set?")
    if named and none:
        raise SettingsProblem("--config and --no-config cannot both be given", "give one of them")
    if none:
        return ""
    if named:
        return str(named)
    switch = os.environ.get("TURNCTL_NO_CONFIG", "")
    if switch and click.BOOL.convert(switch, None, None):
        return ""
    return os.environ.get("TURNCTL_CONFIG") or None


def state_dir_of(given: dict[str, Any]) -> str | None:
    """The state directory that files of settings name, for who completes words; none where they are wrong."""
    try:
        named = named_by(given)
        for one in look(named) if named != "" else ():
            if one.data is None or one.kind == "project":
                continue
            from turnctl.cli.settings.tables import read

            said = read(one).root.get("state-dir")
            if isinstance(said, str) and "\0" not in said:
                return os.path.join(os.path.dirname(one.path), expanded(said))
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
