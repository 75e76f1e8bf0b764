"""What a run is called: the session that it belongs to, and a label. Names only: nothing is locked by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from turnctl.cli.options import OfText
from turnctl.processes.signames import number_of

__all__ = ["Label", "SessionName", "naming_options"]

_LONGEST_SESSION = 64
_LONGEST_LABEL = 128


class _Name(OfText):
    """Text in one line that can be read back from a table."""

    longest = 0
    what = ""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not text.strip():
            self.fail(f"the {self.what} is empty; is a variable in it not set?", param, ctx)
        if not text.isprintable():
            self.fail(f"{text!r} has a character in it that cannot be shown; take it out", param, ctx)
        if len(text) > self.longest:
            self.fail(f"it has {len(text)} characters; a {self.what} has {self.longest} at most", param, ctx)
        if text.startswith("-"):
            self.fail(f"{text!r} begins with a dash, as an option does; was the {self.what} left out?", param, ctx)
        self.check(text, param, ctx)
        return text

    def check(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> None:
        """Fail where it cannot be."""


class SessionName(_Name):
    """The name of a session: one word."""

    name = "NAME"
    what = "name of a session"
    longest = _LONGEST_SESSION

    def check(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> None:
        if " " in text:
            self.fail(f"{text!r} has a blank in it; write one word, such as {'-'.join(text.split())}", param, ctx)
        # timeout(1) has -s for the signal: a run that is asked by another one than was meant would not be noticed
        if text == text.upper() and not text.isdecimal() and number_of(text) is not None:
            self.fail(f"{text} is a signal, which --signal {text} sets; call the session something else", param, ctx)


class Label(_Name):
    """A label for people."""

    name = "LABEL"
    what = "label"
    longest = _LONGEST_LABEL


_OPTIONS = (
    click.option(
        "-s",
        "--session",
        type=SessionName(),
        envvar="TURNCTL_RUN_SESSION",
        show_envvar=True,
        help="The session that it belongs to, by which it can be found: turnctl stop session:NAME. Several may run.",
    ),
    click.option(
        "-n",
        "--name",
        "label",
        type=Label(),
        envvar="TURNCTL_RUN_NAME",
        show_envvar=True,
        help="A label for people, which lists show before the command.",
    ),
)


def naming_options(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Give these options to a command; it gets ``session`` and ``label``."""
    for option in reversed(_OPTIONS):
        fn = option(fn)
    return fn
