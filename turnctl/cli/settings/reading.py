"""What the files of settings say for one command: every key known, of the right kind, and one that its file may set."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import click

from turnctl.cli.common import Files, files_of, key_of, shared_of, variables_of
from turnctl.cli.settings.places import user_file
from turnctl.cli.settings.problem import SettingsProblem
from turnctl.cli.settings.tables import Setting, Table
from turnctl.homes import expanded

__all__ = ["check_root", "of_command"]

_LISTS = "turnctl doctor --settings lists what there is"
#: kinds of value that know themselves what to make of a number
_NUMBERS = ("DUR", "SIZE", "N")
_PATHS = ("DIR", "FILE")


def of_command(tables: Sequence[Table], path: tuple[str, ...], params: Sequence[click.Parameter]) -> dict[str, Setting]:
    """What ``tables``, the strongest first, set of these options, by the names of the parameters.

    Raises ``SettingsProblem`` for what is unknown, of a wrong kind, or not for such a file.
    """
    found: dict[str, Setting] = {}
    for table in tables:
        for param, setting in _of_table(table, path, params):
            found.setdefault(param.name or "", setting)
    return found


def _of_table(
    table: Table, path: tuple[str, ...], params: Sequence[click.Parameter]
) -> Iterator[tuple[click.Parameter, Setting]]:
    own = _own(table, path)
    options = {key: param for param in params if (key := key_of(param)) is not None}
    for key, value in own.items():
        if isinstance(value, dict) or key not in options:
            raise _unknown(table, path, key, [one for one, param in options.items() if files_of(path, param) != "call"])
        _check_scope(table, path, key, files_of(path, options[key]), options[key])
    for key, param in options.items():
        if key in own:
            yield param, _setting(table, path, key, param, own[key])
        elif (shared := shared_of(param)) is not None and shared in table.root:
            yield param, _setting(table, (), shared, param, table.root[shared])


def _own(table: Table, path: tuple[str, ...]) -> Mapping[str, Any]:
    """The table of the command; empty where there is none."""
    at: Any = table.root
    for n, word in enumerate(path):
        at = at.get(word, {})
        if not isinstance(at, dict):
            raise _no_table(table, path[:n], word)
    return dict(at)


def check_root(
    table: Table, commands: Collection[str], shared: Mapping[str, Files], below: Mapping[str, Collection[str]]
) -> None:
    """Raise ``SettingsProblem`` for what stands outside of the tables of commands and is no setting, and for a table of
    no command. ``below`` are commands that have commands, with these."""
    for key, value in table.root.items():
        if isinstance(value, dict) and key in commands:
            continue
        if key in commands:
            raise _no_table(table, (), key)
        if isinstance(value, dict) or key not in shared:
            is_command = isinstance(value, dict)
            raise _unknown(table, (), key, commands if is_command else shared, "command" if is_command else "setting")
        _check_scope(table, (), key, shared[key], None)
    for name, names in below.items():
        for key in _own(table, (name,)):
            if key not in names:
                raise _unknown(table, (name,), key, names, "command")


def _check_scope(table: Table, path: tuple[str, ...], key: str, files: Files, param: click.Parameter | None) -> None:
    variables = ("TURNCTL_" + key.replace("-", "_").upper(),) if param is None else variables_of(param)
    ways = f"--{key}, or {variables[0]}" if key != "keep" else variables[0]
    if files == "call":
        raise SettingsProblem(f"{table.where(path, key)} belongs to one call, and no file sets it", f"give {ways}")
    if files == "user" and table.found.kind == "project":
        text = f"{table.where(path, key)} is nothing that a project may set"
        raise SettingsProblem(text, f"it is for {user_file() or 'the file of the user'}, {ways}")


def _no_table(table: Table, path: tuple[str, ...], key: str) -> SettingsProblem:
    name = ".".join((*table.prefix, *path, key))
    return SettingsProblem(f"{table.where(path, key)} is no table", f"write it as a table: [{name}]")


def _unknown(
    table: Table, path: tuple[str, ...], key: str, known: Collection[str], what: str = "setting"
) -> SettingsProblem:
    near = get_close_matches(key.replace("_", "-"), known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(known))}" if known else _LISTS
    return SettingsProblem(f"{table.where(path, key)}: there is no such {what}", hint)


def _setting(table: Table, path: tuple[str, ...], key: str, param: click.Parameter, value: Any) -> Setting:
    where = table.where(path, key)

    def wrong(wanted: str) -> SettingsProblem:
        shown = str(value).lower() if isinstance(value, bool) else repr(value)
        return SettingsProblem(f"{where} is {shown}, but has to be {wanted}", f"write it as: {key} = {_example(param)}")

    if getattr(param, "is_flag", False):
        if not isinstance(value, bool):
            raise wrong("true or false")
    elif getattr(param, "count", False):
        if not isinstance(value, int) or not 0 <= value <= 2:
            raise wrong("a number from 0 to 2")
        value = int(value)
    elif isinstance(param.type, click.IntRange):
        if not isinstance(value, int) or isinstance(value, bool):
            raise wrong("a whole number")
    elif getattr(param, "multiple", False):
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise wrong("a list of texts")
    elif not isinstance(value, str) and (isinstance(value, bool) or param.type.name not in _NUMBERS):
        raise wrong("a text")
    if any("\0" in one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)):
        raise wrong("a text without a null character")
    if isinstance(value, str) and (isinstance(param.type, click.Path) or param.type.name in _PATHS):
        value = os.path.join(os.path.dirname(table.found.path), expanded(value))
    return Setting(value, table.found.kind, where)


def _example(param: click.Parameter) -> str:
    if getattr(param, "is_flag", False):
        return "true"
    if getattr(param, "count", False) or isinstance(param.type, click.IntRange):
        return "1"
    if getattr(param, "multiple", False):
        return '["..."]'
    if isinstance(param.type, click.Choice):
        return f'"{param.type.choices[0]}"'
    default = getattr(param, "default", None)
    return f'"{default}"' if isinstance(default, str) else '"..."'
