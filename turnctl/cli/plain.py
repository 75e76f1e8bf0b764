"""A plain line of ``turnctl run``, read without click, whose loading takes longer than most commands.

Plain is a line that leaves nothing to explain: ``run``, options by their full names with good values, each once where
it is not repeatable, and a command; with nothing of turnctl's in the environment. Every other line, above all every
wrong one, is click's to read: it knows what to say. What is read here is what click would have read; a test holds the
two tables together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from turnctl.cli import values
from turnctl.errors import BadArgument, BadDuration

__all__ = ["DEFAULTS", "FLAGS", "READERS", "REPEATABLE", "read"]

_OURS = ("TURNCTL_RUN_", "TURNCTL_DEBUG", "TURNCTL_CONTAINMENT", "_TURNCTL_COMPLETE")


def _one_of(*words: str) -> Callable[[str, str], str]:
    def check(value: str, _: str) -> str:
        if value not in words:
            raise BadArgument(value)
        return value

    return check


#: option: (parameter, what reads its value)
READERS: dict[str, tuple[str, Callable[[str, str], object]]] = {
    "--timeout": ("timeout", values.duration(none=True)),
    "--grace": ("grace", values.duration(zero=True)),
    "--signal": ("stop_signal", values.signal),
    "-C": ("folder", values.folder),
    "--chdir": ("folder", values.folder),
    "--containment": ("containment", _one_of("auto", "namespace", "cgroup", "warden", "group")),
    "--max-output": ("max_output", values.size),
    "--idle-timeout": ("idle_timeout", values.duration(none=True)),
    "--leftovers": ("leftovers", values.leftovers),
    "--summary": ("summary", values.new_file),
    "--tty": ("tty", _one_of("inherit", "new", "none")),
    "--limit": ("limits", values.limit),
    "--umask": ("umask", values.umask),
    "--env": ("env", values.pair),
    "--unset-env": ("unset_env", values.pattern),
}
FLAGS = {"--no-core-dumps": "no_core_dumps", "--shield": "shield", "-q": "quiet", "--quiet": "quiet"}
REPEATABLE = ("limits", "env", "unset_env")
DEFAULTS: dict[str, Any] = {
    "timeout": None,
    "grace": "5s",
    "stop_signal": 15,
    "folder": None,
    "containment": "auto",
    "max_output": None,
    "idle_timeout": None,
    "leftovers": "end",
    "summary": None,
    "tty": "inherit",
    "limits": (),
    "no_core_dumps": False,
    "umask": None,
    "env": (),
    "unset_env": (),
    "shield": False,
    "quiet": False,
}


def read(args: Sequence[str]) -> dict[str, Any] | None:
    """What ``carry_out`` takes; None where click has to read the line. Tries what it names, such as the summary."""
    if not args or args[0] != "run" or any(name.startswith(_OURS) for name in os.environ):
        return None
    found: dict[str, Any] = {}
    left = list(reversed(args[1:]))
    while left and left[-1][:1] == "-" and left[-1] != "-":
        word = left.pop()
        if word == "--":
            break
        name, mark, value = word.partition("=")
        if name in FLAGS and not mark:
            found[FLAGS[name]] = True
            continue
        if name not in READERS or (mark and not name.startswith("--")):
            return None
        if not mark:
            value = left.pop() if left else ""
        if not value or value[0] == "-":
            return None
        parameter, reader = READERS[name]
        if parameter not in REPEATABLE and parameter in found:
            return None
        try:
            good = reader(value, name)
        except (BadArgument, BadDuration):
            return None
        found[parameter] = (*found.get(parameter, ()), good) if parameter in REPEATABLE else good
    if not left or not left[-1]:
        return None
    return {**DEFAULTS, **found, "command": tuple(reversed(left))}
