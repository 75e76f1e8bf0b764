"""How each command is called by tests that are about all of them, and what it is that the command needs.

A command that is not listed here fails ``test_errors_state.py``: whoever adds one says here how it is called, and so
gets the tests of every way in which it can come to nothing.
"""

from __future__ import annotations

import click

from turnctl.cli.group import COMMANDS, cli

__all__ = [
    "CALLS",
    "GO_ON",
    "IN_JSON",
    "NEED_NO_STATE",
    "OF_TURNS",
    "READ_BY_OPENING",
    "TELL_IN_THEIR_WAY",
    "argv",
    "paths",
]

#: the shortest call that needs the state directory, of a turn where it is about one; {out} is a file that is not there
CALLS: dict[str, str] = {
    "bundle": "bundle @ -o {out}",
    "doctor": "doctor --only state",
    "effects": "effects @",
    "ledger backup": "ledger backup {out}",
    "ledger prune": "ledger prune --older-than 1d",
    "ledger verify": "ledger verify",
    "logs": "logs @",
    "ps": "ps",
    "reconcile": "reconcile @",
    "report": "report @ -o {out}",
    "run": "run --record required true",
    "show": "show @",
    "status": "status @",
    "stop": "stop --no-wait @",
}
#: those that answer without one
NEED_NO_STATE: dict[str, str] = {
    "adapters": "adapters",
    "completion": "completion bash",
    "help": "help",
    "trial": "trial --at 20ms true",
}
#: those that go on until something is so, or need a terminal: their files test what holds of the others here
GO_ON: dict[str, str] = {
    "top": "top",
    "watch": "watch --timeout 50ms @",
}
#: those that take the name of a turn, which stands in place of the @ above
OF_TURNS = ("bundle", "effects", "logs", "reconcile", "report", "show", "status", "stop", "watch")
#: those that open the ledger as one that is written, or read whole; the others have a glance at it
READ_BY_OPENING = ("bundle", "ledger backup", "ledger prune", "ledger verify")
#: those that do not fail where the state directory cannot be used: ``doctor`` finds that, ``run`` has a status for it
TELL_IN_THEIR_WAY = ("doctor", "run")
#: those with ``--json``
IN_JSON = sorted({*CALLS, *NEED_NO_STATE, *GO_ON})


def argv(name: str, *more: str, turn: str | None = None, out: str = "/nowhere/out") -> list[str]:
    """The call of that command. ``more`` stands behind it, or before the command that it runs."""
    words = [word.replace("{out}", out) for word in (CALLS | NEED_NO_STATE | GO_ON)[name].split()]
    if turn is not None:
        words[words.index("@")] = turn
    return [*words[:-1], *more, *words[-1:]] if name in ("run", "trial") else [*words, *more]


def paths() -> list[str]:
    """All commands that there are, those of groups by both words."""
    found = []
    context = click.Context(cli)
    for name in sorted(COMMANDS):
        command = cli.get_command(context, name)
        if isinstance(command, click.Group):
            found += [f"{name} {one}" for one in sorted(command.commands)]
        else:
            found.append(name)
    return found
