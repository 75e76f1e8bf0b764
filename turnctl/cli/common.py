"""The options of every command, and what is known of each option: its group in the help, its variable, who may set it.

What is known of an option can be read from the command itself: ``group_of``, ``key_of``, ``files_of``, and ``envvar``,
which each command gives to those of its options that have none: ``TURNCTL_<COMMAND>_<OPTION>``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from turnctl.cli import talk
from turnctl.cli.colour import COLOURS
from turnctl.cli.settings.scopes import Files, files_for
from turnctl.cli.times import TIME_FORMATS

__all__ = [
    "COMMON",
    "GROUPS",
    "SHARED",
    "Files",
    "Group",
    "Option",
    "SessionWanted",
    "Whole",
    "colour_option",
    "common_options",
    "common_value",
    "files_of",
    "group_of",
    "key_of",
    "option",
    "path_of",
    "quiet_option",
    "shared_of",
    "state_dir_option",
    "time_option",
    "variables_of",
    "with_variables",
]

#: which part of the help an option stands in
Group = Literal["what", "time", "output", "common"]

#: the parts of a help text in their order, with their titles
GROUPS: tuple[tuple[Group, str], ...] = (
    ("what", "Options"),
    ("time", "How long"),
    ("output", "Output"),
    ("common", "Common options"),
)

#: what a file may set outside of the tables of commands
SHARED: dict[str, Files] = {
    "color": "user",
    "keep": "user",
    "quiet": "user",
    "state-dir": "user",
    "time-format": "project",
    "verbose": "project",
}

_META = "turnctl.common."
_OUTPUT = frozenset({"as_json", "as_lines"})

if TYPE_CHECKING:
    OfText = click.ParamType[str]  # generic from click 8.4 on, for type checkers alone
else:
    OfText = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])


class Option(click.Option):
    """An option that says which group it belongs to.

    ``shared`` is a key outside of the tables of commands that sets it as well.
    """

    def __init__(self, *args: Any, group: Group | None = None, shared: str | None = None, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.group = group
        self.shared = shared

    def handle_parse_result(self, ctx: click.Context, opts: Any, args: list[str]) -> tuple[Any, list[str]]:
        value, rest = super().handle_parse_result(ctx, opts, args)
        if self.group == "common":
            ctx.meta[f"{_META}{self.name}"] = value
        return value, rest


def option(*names: str, group: Group | None = None, shared: str | None = None, **attrs: Any) -> Callable[[F], F]:
    """``click.option``, with its group."""
    return click.option(*names, cls=Option, group=group, shared=shared, **attrs)


def group_of(param: click.Parameter) -> Group:
    """The part of the help that it stands in; where nothing is said, times by their type, and the rest is what is
    done."""
    said: Group | None = getattr(param, "group", None)
    if said is not None:
        return said
    if "--help" in param.opts:
        return "common"
    if param.name in _OUTPUT:
        return "output"
    return "time" if param.type.name == "DUR" else "what"


def common_value(ctx: click.Context, name: str) -> Any:
    """The value of a common option, which need not be given to the command."""
    return ctx.meta.get(f"{_META}{name}")


def files_of(path: tuple[str, ...], param: click.Parameter) -> Files:
    """Which files may set it, of the command at ``path``."""
    key = key_of(param) or ""
    return SHARED.get(key, "call") if group_of(param) == "common" else files_for(path, key)


def key_of(param: click.Parameter) -> str | None:
    """What it is called in a file, and as a part of its variable: its long name. None for help, and for operands."""
    if not isinstance(param, click.Option) or {"--help", "--version"} & set(param.opts):
        return None
    return next((one[2:] for one in param.opts if one.startswith("--")), None)


def variables_of(param: click.Parameter) -> tuple[str, ...]:
    """The variables that set it, the strongest first."""
    given = param.envvar
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


def shared_of(param: click.Parameter) -> str | None:
    """The key outside of the tables of commands that sets it as well."""
    said: str | None = getattr(param, "shared", None)
    return said


def with_variables(path: Sequence[str], params: Iterable[click.Parameter]) -> None:
    """Give each option of the command at ``path`` its variable, before one that it may have already."""
    for param in params:
        key = key_of(param)
        if key is None or group_of(param) == "common":
            continue
        name = "_".join(("TURNCTL", *path, key)).replace("-", "_").upper()
        param.envvar = list(dict.fromkeys((name, *variables_of(param))))


def path_of(command: click.Command) -> tuple[str, ...]:
    """The words that call it, after ``turnctl``."""
    return tuple(word for word in (*getattr(command, "family", ()), command.name) if word)


# -- the options themselves ---------------------------------------------------------------------------------------


class _Directory(OfText):
    """The name of a directory, which whoever uses it looks at."""

    name = "DIR"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value:
            self.fail("the name of the directory is empty; is a variable in it not set?", param, ctx)
        return str(value)


class Whole(click.IntRange):
    """A whole number, such as of lines; what is none is told in words."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            least = "" if self.min is None else f" from {self.min} on"
            self.fail(f"{str(value)!r} is no whole number{least}", param, ctx)


class SessionWanted(OfText):
    """The name of a session that is looked for, which is a program's: any that is not empty."""

    name = "NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value:
            self.fail("the name of the session is empty; is a variable in it not set?", param, ctx)
        return str(value)


def _made(*names: str, **attrs: Any) -> Callable[..., Option]:
    key = names[-1].lstrip("-")

    def make(*, expose: bool = False) -> Option:
        variable = "TURNCTL_" + key.replace("-", "_").upper()
        return Option([*names], group="common", envvar=variable, expose_value=expose, shared=key, **attrs)

    return make


def _heed_quiet(_ctx: click.Context, _param: click.Parameter, value: int) -> int:
    talk.quiet = value
    return value


def _heed_verbose(ctx: click.Context, _param: click.Parameter, value: int) -> int:
    talk.verbosity = value
    if not ctx.resilient_parsing and (value > 1 or os.environ.get("TURNCTL_LOG")):
        from turnctl.cli import ownlog

        ownlog.begin(ctx, debug=value > 1)
    return value


_MAKERS: dict[str, Callable[..., Option]] = {
    "state_dir": _made(
        "--state-dir",
        type=_Directory(),
        help="Where turnctl keeps what it remembers.",
    ),
    "quiet": _made(
        "-q",
        "--quiet",
        count=True,
        type=Whole(min=0),
        callback=_heed_quiet,
        help="Say less: ids alone, or nothing but errors; twice: no warning either.",
    ),
    "verbose": _made(
        "-v",
        "--verbose",
        count=True,
        type=Whole(min=0),
        callback=_heed_verbose,
        help="Say each step on stderr; twice: also turnctl's own log.",
    ),
    "color": _made(
        "--color",
        type=click.Choice(COLOURS),
        metavar="WHEN",
        default="auto",
        help="When to colour words of state: always, never, or auto, on a terminal unless NO_COLOR is set.",
    ),
    "time_format": _made(
        "--time-format",
        type=click.Choice(TIME_FORMATS),
        metavar="HOW",
        help="Times: relative (the default on a terminal), iso, which is RFC 3339 in UTC, or epoch, in seconds.",
    ),
    "config": _made("--config", metavar="FILE", help="Take settings from this file, and from no other."),
    "no_config": _made("--no-config", is_flag=True, help="Take settings from no file."),
}

#: the names of the common options, in their order
COMMON = tuple(_MAKERS)


def common_options(params: Iterable[click.Parameter], *, expose: bool = False) -> list[Option]:
    """Those that ``params`` do not have yet. Their values are not given to the command unless ``expose`` says so."""
    there = {param.name for param in params}
    return [make(expose=expose) for name, make in _MAKERS.items() if name not in there]


def _decorator(name: str) -> Callable[[], Callable[[F], F]]:
    def decorate() -> Callable[[F], F]:
        def add(fn: F) -> F:
            found = _MAKERS[name](expose=True)
            # as ``click.option`` does it: the last decorator is the first option
            params = getattr(fn, "__click_params__", [])
            fn.__click_params__ = [*params, found]  # type: ignore[attr-defined]
            return fn

        return add

    return decorate


state_dir_option = _decorator("state_dir")
quiet_option = _decorator("quiet")
colour_option = _decorator("color")
time_option = _decorator("time_format")
