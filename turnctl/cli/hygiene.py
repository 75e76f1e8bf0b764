"""What ``turnctl run`` gives or denies its command: limits, environment, file mask, core files, shield."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from turnctl.cli.options import OfNumber, OfText
from turnctl.errors import BadArgument, BadDuration
from turnctl.processes.limits import NAMES, read_limits

__all__ = ["chosen", "hygiene_options"]

_MASK = 0o777


class _Pair(OfText):
    """NAME=VALUE, given on as it is."""

    name = "NAME=VALUE"
    example = "write it as NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name, mark, amount = str(value).partition("=")
        if not name or not mark:
            self.fail(f"{value!r} has no {'name' if mark else '='}; {self.example}", param, ctx)
        self.check(name, amount, param, ctx)
        return str(value)

    def check(self, name: str, amount: str, param: click.Parameter | None, ctx: click.Context | None) -> None:
        """Fail where it cannot be."""


class _Limit(_Pair):
    """A limit with its amount, looked at at once: times and sizes need their unit."""

    example = f"write it like cpu=30s, memory=2GiB or nofile=256; there are: {', '.join(NAMES)}"

    def check(self, name: str, amount: str, param: click.Parameter | None, ctx: click.Context | None) -> None:
        try:
            read_limits({name: amount}, unit_required=True)
        except (BadArgument, BadDuration) as error:
            self.fail(str(error), param, ctx)


class _Umask(OfNumber):
    """A mask in octal digits, given on as a number."""

    name = "MASK"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            mask = int(str(value), 8)
        except ValueError:
            mask = -1
        if not 0 <= mask <= _MASK:
            self.fail(f"{value!r} is no mask of permissions; write it in octal, such as 077", param, ctx)
        return mask


class _Pattern(OfText):
    """The name of a variable, or a pattern for some."""

    name = "PATTERN"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value or "=" in str(value):
            self.fail(f"{value!r} is no name; write a name, or a pattern such as '*_TOKEN'", param, ctx)
        return str(value)


_OPTIONS = (
    click.option(
        "--limit",
        "limits",
        type=_Limit(),
        multiple=True,
        envvar="TURNCTL_RUN_LIMIT",
        show_envvar=True,
        help="Limit each of its processes, such as cpu=30s, memory=2GiB or nofile=256. Repeatable.",
    ),
    click.option("--no-core-dumps", is_flag=True, envvar="TURNCTL_RUN_NO_CORE_DUMPS", show_envvar=True,
                 help="Have no core file written."),
    click.option("--umask", type=_Umask(), envvar="TURNCTL_RUN_UMASK", show_envvar=True,
                 help="Its mask for the permissions of new files, in octal."),
    click.option("--env", "env", type=_Pair(), multiple=True, help="Add this to its environment. Repeatable."),
    click.option(
        "--unset-env",
        type=_Pattern(),
        multiple=True,
        envvar="TURNCTL_RUN_UNSET_ENV",
        show_envvar=True,
        help="Take what matches out of its environment, such as '*_TOKEN'. Repeatable.",
    ),
    click.option("--shield", is_flag=True, envvar="TURNCTL_RUN_SHIELD", show_envvar=True,
                 help="Have it send no signals to what it did not start; it cannot use sudo then. Linux 6.12."),
)  # fmt: skip


def hygiene_options(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Give these options to a command; it gets what ``chosen`` takes."""
    for option in reversed(_OPTIONS):
        fn = option(fn)
    return fn


def chosen(
    limits: tuple[str, ...],
    no_core_dumps: bool,
    umask: int | None,
    env: tuple[str, ...],
    unset_env: tuple[str, ...],
    shield: bool,
) -> dict[str, Any]:
    """What was given, as options of ``turn.run``. Of a name that is given twice the last counts."""
    if no_core_dumps and any(one.startswith("core=") for one in limits):
        raise click.UsageError("--limit core and --no-core-dumps cannot both be given")
    found: dict[str, Any] = {
        "limits": dict(one.split("=", 1) for one in limits),
        "env_extra": dict(one.split("=", 1) for one in env),
        "env_unset": unset_env,
    }
    found = {name: value for name, value in found.items() if value}
    if umask is not None:
        found["umask"] = umask
    if no_core_dumps:
        found["core_dumps"] = False
    return found | {"shield": True} if shield else found
