"""Which options a file of settings may set, read off the commands, for the topic of settings."""

from __future__ import annotations

from turnctl.cli.common import files_of, group_of, key_of, path_of
from turnctl.cli.pages.model import Rows
from turnctl.cli.pages.tree import ROOT, commands

__all__ = ["of_commands"]

_BY_FILE = {"project": "a project's file, or the user's", "user": "the user's file"}


def of_commands() -> Rows:
    """Each as it stands in a file: the table, and the key in it."""
    rows = []
    for name, command in commands():
        path = path_of(command)
        for param in command.params:
            key, files = key_of(param), files_of(path, param)
            if name != ROOT and key is not None and group_of(param) != "common" and files in _BY_FILE:
                rows.append((f"[{'.'.join(path)}] {key}", _BY_FILE[files]))
    return tuple(rows)
