"""The command ``turnctl`` itself: knows its commands by name and summary, and loads the one that is called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from turnctl._version import __version__
from turnctl.cli import faults, lean, talk
from turnctl.cli.commands import Commands
from turnctl.cli.common import group_of, option
from turnctl.cli.topics import TOPICS

__all__ = ["cli"]

#: name: (module that holds a command of the same name, summary as in its own help)
COMMANDS = {
    "completion": ("turnctl.cli.completion", "Have the shell complete commands, options, and turns on record."),
    "help": ("turnctl.cli.help", "Show the help of a command, or of a topic."),
    "bundle": ("turnctl.cli.bundle", "Write all that is on record of a task into one file."),
    "ledger": ("turnctl.cli.ledger", "Verify, copy or purge the ledger as a whole."),
    "adapters": ("turnctl.cli.adapters", "Show what the adapters for effects establish, and can promise."),
    "doctor": (
        "turnctl.cli.doctor",
        "Say what this machine can contain and keep, with remedies.",
    ),
    "effects": ("turnctl.cli.effects", "Show what got out, what may have, and who has to decide."),
    "logs": ("turnctl.cli.logs", "Show what a turn has printed, and what it prints."),
    "ps": ("turnctl.cli.ps", "Show which turns run, or all that are on record."),
    "reconcile": ("turnctl.cli.reconcile", "Find out what became of effects whose outcome is unknown."),
    "report": ("turnctl.cli.report", "Draw what is on record of one turn, in one file."),
    "run": ("turnctl.cli.run", "Run a command, and stop it with everything that it started."),
    "stop": ("turnctl.cli.stop", "Stop turns, and say what that reached and what had already got out."),
    "show": ("turnctl.cli.show", "Show what is known of one turn: intent, execution, effects, events."),
    "top": ("turnctl.cli.top", "Show the turns that run and their processes, live."),
    "watch": ("turnctl.cli.watch", "Watch a turn until it has stopped; how it ended is the exit status."),
    "trial": ("turnctl.cli.trial", "Stop a program at each of its checkpoints, and say what did not stop well."),
    "status": ("turnctl.cli.state", "Say in one line, and by the exit status, how a turn stands."),
}


class LazyGroup(Commands):
    """Answers what it can from ``COMMANDS``, without loading a command."""

    #: what ``turnctl help`` tells besides
    topics = tuple(TOPICS.items())

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs | {"name": None})  # its function's is no word of any variable
        self.params = [_as_words(one) if group_of(one) == "common" else one for one in self.params]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        talk.quiet = talk.verbosity = 0
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = getattr(import_module(COMMANDS[cmd_name][0]), cmd_name)
        lean.loaded()
        return found

    def summaries(self) -> list[tuple[str, str]]:
        """Each command with what it is for."""
        return [(name, summary) for name, (_, summary) in sorted(COMMANDS.items())]


def _as_words(param: click.Parameter) -> click.Parameter:
    """The same, of which nothing is looked at here: the command that gets it does that, and knows its own name."""
    if isinstance(param, click.Option):
        param.callback = None
        if not (param.is_flag or param.count):
            param.metavar = param.metavar or param.type.name
            param.type = click.UNPROCESSED
    return param


def _print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"turnctl {__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    short_help="Run commands so that they can be stopped, and say what is known afterwards.",
    help="turnctl COMMAND --help, or turnctl help COMMAND, tells more of a command; turnctl help TOPIC of a topic.",
    examples=[
        ("turnctl run --timeout 30s -- make test", "run a command as a turn"),
        ("turnctl ps", "from any other terminal: what runs"),
        ("turnctl stop @", "stop the newest turn, with all that it started"),
        ("turnctl show @", "what is known of it"),
    ],
    tables=[
        (
            "Exit status",
            [
                ("0", "what was asked is so"),
                ("2", "wrong use; each command names its others, and turnctl help exit-codes all of them"),
            ],
        )
    ],
)
@option(
    "-V",
    "--version",
    group="what",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version.",
)
@option("--debug", "is_debug", is_flag=True, envvar="TURNCTL_DEBUG", help="Show where an error came from.")
def cli(is_debug: bool) -> None:
    faults.show_traceback = is_debug
