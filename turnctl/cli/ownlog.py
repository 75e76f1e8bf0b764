"""turnctl's own log on stderr, where TURNCTL_LOG or ``-vv`` asks for it."""

from __future__ import annotations

import os
import time
from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

from turnctl._version import __version__
from turnctl.cli import talk

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FORMATS", "LEVELS", "begin", "chosen"]

LEVELS = ("info", "debug")
FORMATS = ("console", "json")


def chosen(name: str, words: Sequence[str], default: str | None) -> str | None:
    """What the variable ``name`` says; a usage error where that is none of ``words``."""
    text = os.environ.get(name) or default
    if text is None or text.lower() in words:
        return text and text.lower()
    near = get_close_matches(text.lower(), words, n=1)
    raise click.UsageError(
        f"{name} is {text!r}; " + (f"did you mean {near[0]}?" if near else f"use {' or '.join(words)}")
    )


def begin(ctx: click.Context, *, debug: bool) -> None:
    """Write it until the command has ended. ``debug`` is stronger than TURNCTL_LOG, which says the level else."""
    level = chosen("TURNCTL_LOG", LEVELS, None)
    how = chosen("TURNCTL_LOG_FORMAT", FORMATS, "console")
    from turnctl import log

    end = log.to_stderr("debug" if debug else level or "info", as_json=how == "json")
    began = time.monotonic()
    talk.listener = lambda text: log.debug("step", text=text)
    log.event("command.begun", command=ctx.command_path, version=__version__, pid=os.getpid())

    def close() -> None:
        talk.listener = None
        log.event("command.ended", command=ctx.command_path, seconds=round(time.monotonic() - began, 3))
        end()

    ctx.find_root().call_on_close(close)  # that one is closed also where the command is not understood
