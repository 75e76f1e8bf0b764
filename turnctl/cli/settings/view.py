"""Every setting with its value and where that comes from, for ``turnctl doctor``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

import click

from turnctl.cli.common import SHARED, common_value, files_of, group_of, key_of, path_of, variables_of
from turnctl.cli.group import COMMANDS, cli
from turnctl.cli.settings.problem import SettingsProblem
from turnctl.cli.settings.reading import check_root, of_command
from turnctl.cli.settings.tables import Setting, Table

__all__ = ["View", "bad_variables", "every_command", "problems", "strange_variables", "views"]

Origin = Literal["flag", "environment", "project", "user", "named", "default"]

#: variables that are no option's, and what they are by themselves
_OTHERS: Mapping[str, str | None] = {
    "TURNCTL_DEBUG": None,
    "TURNCTL_LOG": None,
    "TURNCTL_LOG_FORMAT": "console",
}
#: what turnctl gives to a command, and what is for its own tests
_GIVEN = frozenset(
    f"TURNCTL_{one}"
    for one in ("TURN_ID", "HELD_BY", "LAUNCHER_LOG", "FAILPOINT", "LEDGER_FAILPOINT", "LEDGER_FIFOS", "KEEP")
)
#: their values may be secrets, or hold them
_SECRET = frozenset({("run", "env")})


class View(NamedTuple):
    """One setting. ``command`` is "" for what is outside of the tables of commands, ``where`` the file or variable."""

    command: str
    key: str
    value: Any
    origin: Origin
    where: str | None
    files: str
    variable: str | None

    def as_dict(self) -> dict[str, Any]:
        """As it is in the JSON of the doctor."""
        return self._asdict()


def every_command() -> Iterator[click.Command]:
    """All commands that do something, with those below a command. Loads every one."""
    root = click.Context(cli)
    for name in sorted(COMMANDS):
        found = cli.get_command(root, name)
        if isinstance(found, click.Group):
            yield from (found.commands[one] for one in sorted(found.commands))
        elif found is not None:
            yield found


def problems(tables: Sequence[Table]) -> list[SettingsProblem]:
    """What is wrong in these files, for any command, one for each."""
    found = []
    below: dict[str, list[str]] = {}
    for command in every_command():
        *above, name = path_of(command)
        for one in above:
            below.setdefault(one, []).append(name)
    for table in tables:
        try:
            check_root(table, COMMANDS, SHARED, below)
        except SettingsProblem as error:
            found.append(error)
        for command in every_command():
            try:
                _converted(table, command)
            except SettingsProblem as error:
                found.append(error)
    return list({str(one): one for one in found}.values())


def _converted(table: Table, command: click.Command) -> None:
    ctx = click.Context(command, info_name=command.name)
    by_name = {param.name: param for param in command.params}
    for name, setting in of_command([table], path_of(command), command.params).items():
        param = by_name[name]
        try:
            param.type_cast_value(ctx, setting.value)
        except click.BadParameter as error:
            raise SettingsProblem(f"{setting.where}: {error.message}", "mend it there") from error


def views(ctx: click.Context, tables: Sequence[Table]) -> list[View]:
    """Every setting in order, first those of every command. ``ctx`` is of the command that asks: its flags count."""
    found = [*_of(ctx.command, tables, ctx)]
    for name, default in _OTHERS.items():
        given = os.environ.get(name)
        origin: Origin = "environment" if given else "default"
        found.append(View("", name, given or default, origin, name if given else None, "call", name))
    for command in every_command():
        found += _of(command, tables)
    return sorted(found, key=lambda one: (one.command, one.key.lower()))


def _of(command: click.Command, tables: Sequence[Table], ctx: click.Context | None = None) -> Iterator[View]:
    """Those of one command; with its ``ctx`` those that every command has."""
    path = path_of(command)
    try:
        settings = of_command(tables, path, command.params)
    except SettingsProblem:
        settings = {}  # it takes none of them then, and is told of it
    for param in command.params:
        key = key_of(param)
        if key is None or (group_of(param) == "common") is not (ctx is not None):
            continue
        variables = variables_of(param)
        value, origin, where = _value(param, settings.get(param.name or ""), ctx)
        if (*path, key) in _SECRET and value:
            value = [f"{one.partition('=')[0]}=…" for one in (value.split() if isinstance(value, str) else value)]
        name = "" if ctx is not None else " ".join(path)
        yield View(name, key, value, origin, where, files_of(path, param), variables[0] if variables else None)


def _value(
    param: click.Parameter, setting: Setting | None, ctx: click.Context | None
) -> tuple[Any, Origin, str | None]:
    if ctx is not None and ctx.get_parameter_source(param.name or "") is click.core.ParameterSource.COMMANDLINE:
        return common_value(ctx, param.name or ""), "flag", None
    for variable in variables_of(param):
        if os.environ.get(variable):
            return os.environ[variable], "environment", variable
    if setting is not None:
        return setting.value, setting.kind, setting.where
    if getattr(param, "is_flag", False):
        return param.default is True, "default", None
    default = getattr(param, "default", None)
    return (default if isinstance(default, (str, int, float, bool)) else None), "default", None


def bad_variables() -> list[str]:
    """What is wrong with variables of ours, a line each."""
    found = []
    for command in every_command():
        ctx = click.Context(command, info_name=command.name)
        for param in command.params:
            try:
                given = param.value_from_envvar(ctx)
                if given is not None:
                    param.type_cast_value(ctx, given)
            except click.BadParameter as error:
                name = next((one for one in variables_of(param) if os.environ.get(one)), "")
                found.append(f"{name}: {error.message}")
    return list(dict.fromkeys(found))


def strange_variables() -> list[tuple[str, str | None]]:
    """Variables that begin as ours do and are none, with the one that may have been meant."""
    known = {name for command in every_command() for param in command.params for name in variables_of(param)}
    known |= {*_OTHERS, *_GIVEN}
    found = sorted(name for name in os.environ if name.startswith("TURNCTL_") and name not in known)
    return [(name, next(iter(get_close_matches(name, known, n=1)), None)) for name in found]
