"""What is wrong with a setting, with what to do about it."""

from __future__ import annotations

import click

__all__ = ["SettingsProblem"]


class SettingsProblem(click.UsageError):
    """A setting, or a file of them, that cannot be used; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint
