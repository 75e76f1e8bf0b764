"""What ``turnctl run`` gives or denies its command: limits, environment, file mask, core files, shield."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from turnctl.cli import values
from turnctl.cli.options import Checked

__all__ = ["hygiene_options"]

_OPTIONS = (
    click.option(
        "--limit",
        "limits",
        type=Checked("NAME=VALUE", values.limit),
        multiple=True,
        envvar="TURNCTL_RUN_LIMIT",
        show_envvar=True,
        help="Limit each of its processes, such as cpu=30s, memory=2GiB or nofile=256. Repeatable.",
    ),
    click.option("--no-core-dumps", is_flag=True, envvar="TURNCTL_RUN_NO_CORE_DUMPS", show_envvar=True,
                 help="Have no core file written."),
    click.option("--umask", type=Checked("MASK", values.umask), envvar="TURNCTL_RUN_UMASK", show_envvar=True,
                 help="Its mask for the permissions of new files, in octal."),
    click.option("--env", "env", type=Checked("NAME=VALUE", values.pair), multiple=True,
                 help="Add this to its environment. Repeatable."),
    click.option(
        "--unset-env",
        type=Checked("PATTERN", values.pattern),
        multiple=True,
        envvar="TURNCTL_RUN_UNSET_ENV",
        show_envvar=True,
        help="Take what matches out of its environment, such as '*_TOKEN'. Repeatable.",
    ),
    click.option("--shield", is_flag=True, envvar="TURNCTL_RUN_SHIELD", show_envvar=True,
                 help="Have it send no signals to what it did not start; it cannot use sudo then. Linux 6.12."),
)  # fmt: skip


def hygiene_options(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Give these options to a command; they are for ``carry_out``."""
    for option in reversed(_OPTIONS):
        fn = option(fn)
    return fn
