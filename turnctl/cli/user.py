"""Who asks: the name of this user, or one that was given."""

from __future__ import annotations

import os

import click

__all__ = ["login", "one_line"]


def login() -> str:
    """The login name of this user; the number where it has none."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"


def one_line(option: str, text: str) -> str:
    """``text``, which is a line of text; a usage error where it is not."""
    if not text.isprintable() or not text.strip():
        raise click.UsageError(f"{option} is a line of text, not {text!r}")
    return text
