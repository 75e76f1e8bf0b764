"""The command ``turnctl`` itself: knows its commands by name and summary, and loads the one that is called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from turnctl._version import __version__
from turnctl.cli import faults, talk
from turnctl.cli.command import Forwarding, option_rows
from turnctl.cli.common import Option, common_options, group_of, option

__all__ = ["cli"]

#: name: (module that holds a command of the same name, summary as in its own help)
COMMANDS = {
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
    "run": ("turnctl.cli.run", "Run a command, and stop it with everything that it started."),
    "stop": ("turnctl.cli.stop", "Stop turns, and say what that reached and what had already got out."),
    "show": ("turnctl.cli.show", "Show what is known of one turn: intent, execution, effects, events."),
    "status": ("turnctl.cli.state", "Say in one line, and by the exit status, how a turn stands."),
}


class LazyGroup(Forwarding):
    """Answers what it can from ``COMMANDS``, without loading a command."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params = [*self.params, *(_as_words(one) for one in common_options(self.params))]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        talk.quiet = talk.verbosity = 0
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        params = self.get_params(ctx)
        for title, group in (("Options", "what"), ("Common options, also after the name of a command", "common")):
            with formatter.section(title):
                formatter.write_dl(option_rows(ctx, [one for one in params if group_of(one) == group]))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = getattr(import_module(COMMANDS[cmd_name][0]), cmd_name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS:
            ctx.fail(f"there is no command {name!r}{_near(name)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in sorted(COMMANDS.items())])


def _as_words(option: Option) -> Option:
    """The same, of which nothing is looked at here: the command that gets it does that, and knows its own name."""
    option.callback = None
    if not (option.is_flag or option.count):
        option.type = click.UNPROCESSED
    return option


def _near(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=1)
    return f"; did you mean {near[0]}?" if near else f"; it has: {', '.join(sorted(COMMANDS))}"


def _print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"turnctl {__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="turnctl COMMAND --help tells more of a command.",
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
@click.pass_context
def cli(ctx: click.Context, is_debug: bool) -> None:
    """Run commands so that they can be stopped, and say what is known afterwards."""
    faults.show_traceback = is_debug
    if ctx.invoked_subcommand is None:
        ctx.fail(f"no command was given; it has: {', '.join(sorted(COMMANDS))}")
