"""``turnctl run``: its options and its help. ``cli.plain`` reads a simple line of it without all this."""

from __future__ import annotations

from typing import Any

import click

from turnctl.cli import values
from turnctl.cli.carry import Misuse, carry_out
from turnctl.cli.command import Command
from turnctl.cli.hygiene import hygiene_options
from turnctl.cli.options import Checked
from turnctl.cli.status import Ending

__all__ = ["run"]

_EXAMPLES = (
    ("turnctl run --timeout 30s -- make test", "stop it and all it started after 30 s, asking first"),
    ("turnctl run --grace 0s --summary run.json ./job", "kill without asking when stopped, and keep a record"),
    ("turnctl run -- bash -c 'make | tee log'", "a pipeline, an alias or a builtin needs a shell"),
)
_STATUSES = (
    ("N", "the command's own status, 128+N if signal N ended it"),
    ("122", "stopped, other than by a signal or the timeout"),
    ("123", "something is still running, or is not known; stderr and the summary name it"),
    ("124", "the timeout passed, or the idle timeout"),
    ("125", "turnctl failed before the start; nothing was run"),
    ("126, 127", "the command cannot be executed; was not found"),
    ("2", "wrong use of turnctl; nothing was run"),
    ("130, 143", "turnctl was stopped by Ctrl-C, by SIGTERM, and dies of that signal (129 HUP, 131 QUIT)"),
)
#: what ``timeout``, ``env``, ``docker`` and ``systemd-run`` call it
_ELSEWHERE = {
    "--kill-after": "--grace",
    "-k": "--grace",
    "-s": "--signal",
    "-t": "--timeout",
    "--time": "--timeout",
    "--stop-timeout": "--grace",
    "--stop-signal": "--signal",
    "--cwd": "--chdir",
    "--workdir": "--chdir",
    "--working-directory": "--chdir",
    "--output": "--summary",
    "-o": "--summary",
    "--json": "--summary FILE",
    "--preserve-status": "it is not needed: without a stop the command's own status is the one that you get",
    "--rlimit": "--limit",
    "-e": "--env",
    "-u": "--unset-env",
    "--unset": "--unset-env",
    "--pty": "--tty new",
    "--foreground": "it is not needed: on a terminal the command has the foreground",
}
_HELP = """
    First Ctrl-C or SIGTERM: the command is asked to end, and killed after the grace. Second: killed now. Third:
    turnctl stops waiting and says what is left.

    On a terminal the command has the foreground, so that its keys go to the command: a program that handles Ctrl-C
    keeps it, and one that ignores it is stopped. Three within two seconds stop either. stdin, stdout and stderr are
    the command's; turnctl speaks on stderr, and says nothing when the command ends by itself with nothing left.
"""


@click.command(
    "run",
    cls=Command,
    short_help="Run a command, and stop it with everything that it started.",
    help=_HELP,
    options_metavar="[OPTIONS] [--]",
    examples=_EXAMPLES,
    tables=[("Exit status", _STATUSES)],
    elsewhere=_ELSEWHERE,
)
@click.option(
    "--timeout",
    type=Checked("DUR", values.duration(none=True)),
    envvar="TURNCTL_RUN_TIMEOUT",
    show_envvar=True,
    help="Stop it after this time, such as 30s or 1m30s; none for no limit.",
)
@click.option(
    "--grace",
    type=Checked("DUR", values.duration(zero=True)),
    default="5s",
    show_default=True,
    envvar="TURNCTL_RUN_GRACE",
    show_envvar=True,
    help="The time between asking and killing.",
)
@click.option(
    "--signal",
    "stop_signal",
    type=Checked("SIG", values.signal),
    default="TERM",
    show_default=True,
    envvar="TURNCTL_RUN_SIGNAL",
    show_envvar=True,
    help="What asking means: the signal that is sent first.",
)
@click.option(
    "-C",
    "--chdir",
    "folder",
    type=Checked("DIR", values.folder),
    envvar="TURNCTL_RUN_CHDIR",
    show_envvar=True,
    help="Run it in this folder. A command given by a relative path is looked for from there.",
)
@click.option(
    "--containment",
    type=click.Choice(["auto", "namespace", "cgroup", "warden", "group"]),
    default="auto",
    show_default=True,
    envvar="TURNCTL_CONTAINMENT",
    show_envvar=True,
    help="What holds it; refused where this machine does not have it. auto is a warden, or else the group.",
)
@click.option(
    "--max-output",
    type=Checked("SIZE", values.size),
    envvar="TURNCTL_RUN_MAX_OUTPUT",
    show_envvar=True,
    help="Of stdout and stderr pass on so much, such as 64k or 10MiB: half of it at once, the end of it at the end.",
)
@click.option(
    "--idle-timeout",
    type=Checked("DUR", values.duration(none=True)),
    envvar="TURNCTL_RUN_IDLE_TIMEOUT",
    show_envvar=True,
    help="Stop it when it has written nothing for this time. Like --max-output it has the output go through turnctl.",
)
@click.option(
    "--leftovers",
    type=Checked("POLICY", values.leftovers),
    default="end",
    show_default=True,
    envvar="TURNCTL_RUN_LEFTOVERS",
    show_envvar=True,
    help="What becomes of processes that it leaves behind when it ends by itself: end them, or wait for them.",
)
@click.option(
    "--summary",
    type=Checked("FILE", values.new_file),
    envvar="TURNCTL_RUN_SUMMARY",
    show_envvar=True,
    help="Write what became of it to this file, as JSON.",
)
@click.option(
    "--tty",
    type=click.Choice(["inherit", "new", "none"]),
    default="inherit",
    show_default=True,
    envvar="TURNCTL_RUN_TTY",
    show_envvar=True,
    help="Its terminal: ours, a new one in between, or none at all.",
)
@hygiene_options
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [ARG]...")
def run(**given: Any) -> Ending:
    try:
        return carry_out(**given)
    except Misuse as error:
        raise click.UsageError(str(error)) from error
