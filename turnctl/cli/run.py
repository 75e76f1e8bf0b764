"""``turnctl run``: its options, and what is said where a command cannot be started."""

from __future__ import annotations

import errno
import os
import shlex
import signal
from typing import TYPE_CHECKING, Any

import click

from turnctl.cli import lean
from turnctl.cli.command import Command
from turnctl.cli.common import quiet_option
from turnctl.cli.duration import Duration
from turnctl.cli.ending import Ending
from turnctl.cli.faults import tell_of_fault
from turnctl.cli.folder import current
from turnctl.cli.hygiene import chosen, hygiene_options
from turnctl.cli.naming import naming_options
from turnctl.cli.options import Folder, Leftovers, NewFile, Signal, Size
from turnctl.cli.problems import Problem
from turnctl.cli.record import NotRecorded, record_options, wanted
from turnctl.cli.status import ExitStatus
from turnctl.cli.stdout import put, put_document
from turnctl.cli.summary import remove as remove_summary
from turnctl.cli.talk import complain
from turnctl.cli.topics.presses import PRESSES
from turnctl.errors import BadArgument, ContainmentUnavailable
from turnctl.tokens.threads import is_thread_refused

if TYPE_CHECKING:
    from turnctl.cli.execute import Plan
    from turnctl.processes.containment import Choice
    from turnctl.processes.request import Leftovers as Policy

__all__ = ["run"]

_EXAMPLES = (
    ("turnctl run --timeout 30s -- make test", "stop it and all it started after 30 s, asking first"),
    ("turnctl run --grace 0s --summary run.json ./job", "kill without asking when stopped, and keep a record"),
    ("turnctl run -s build -n nightly -- make all", "by name: turnctl stop session:build"),
    ("turnctl run --dry-run --limit cpu=30s -- make test", "say what would be run, and how; start nothing"),
    ("turnctl run -- bash -c 'make | tee log'", "a pipeline, an alias or a builtin needs a shell"),
)
#: the first that fits
_STATUSES = (
    ("2", "wrong use of turnctl; nothing was run"),
    ("125", "turnctl failed before the start; nothing was run"),
    ("126, 127", "the command cannot be executed; was not found"),
    ("123", "something is still running, or is not known; stderr and the summary name it"),
    ("130, 143", "turnctl was stopped by Ctrl-C, by SIGTERM, and dies of that signal (129 HUP, 131 QUIT)"),
    ("124", "the timeout passed, or the idle timeout"),
    ("122", "stopped, other than by a signal or the timeout"),
    ("128+N", "signal N ended the command"),
    ("N", "the command's own status: it ended by itself"),
    ("70", "turnctl failed after the start: a fault of its own, or limits that are exhausted"),
)
_STEPS = (
    "The command line is checked, and what an earlier run wrote to the summary is taken away.",
    (
        "The turn is put on record: the command, the folder, this process. Where that cannot be, the command runs "
        "without a record, unless one is required."
    ),
    (
        "The command is started below a warden, which holds whatever it starts, in any session; on a terminal it "
        "gets the foreground."
    ),
    "It runs until it ends by itself, a timeout passes, a signal comes, or the turn is stopped from elsewhere.",
    (
        "On a stop everything is asked by --signal, and killed after --grace. The stop goes on until the kernel "
        "says that nothing is left."
    ),
    "The summary and the record are written, and turnctl ends by the first status below that fits.",
)
_PRESERVED = "it is not needed: without a stop the command's own status is the one that you get"
#: what ``timeout``, ``env``, ``docker`` and ``systemd-run`` call it
_ELSEWHERE = {
    "--kill-after": "--grace",
    "-k": "--grace",
    "-t": "--timeout",
    "--time": "--timeout",
    "--stop-timeout": "--grace",
    "--stop-signal": "--signal",
    "--cwd": "--chdir",
    "--workdir": "--chdir",
    "--working-directory": "--chdir",
    "--output": "--summary",
    "-o": "--summary",
    "--preserve-status": _PRESERVED,
    "-p": _PRESERVED,
    "--rlimit": "--limit",
    "-e": "--env",
    "-u": "--unset-env",
    "--unset": "--unset-env",
    "--pty": "--tty new",
    "--foreground": "it is not needed: on a terminal the command has the foreground",
}
_EXHAUSTED = "this machine, or this user's limits (ulimit -u, ulimit -n), are exhausted"
_HELP = """
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
    steps=_STEPS,
    tables=[("Signals", PRESSES), ("Exit status", _STATUSES)],
    elsewhere=_ELSEWHERE,
)
@click.option(
    "--timeout",
    type=Duration(none=True),
    envvar="TURNCTL_RUN_TIMEOUT",
    show_envvar=True,
    help="Stop it after this time, such as 30s or 1m30s; none for no limit.",
)
@click.option(
    "--grace",
    type=Duration(zero=True),
    default="5s",
    show_default=True,
    envvar="TURNCTL_RUN_GRACE",
    show_envvar=True,
    help="The time between asking and killing.",
)
@click.option(
    "--signal",
    "stop_signal",
    type=Signal(),
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
    type=Folder(),
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
    type=Size(),
    envvar="TURNCTL_RUN_MAX_OUTPUT",
    show_envvar=True,
    help="Of stdout and stderr pass on so much, such as 64k or 10MiB: half of it at once, the end of it at the end.",
)
@click.option(
    "--idle-timeout",
    type=Duration(none=True),
    envvar="TURNCTL_RUN_IDLE_TIMEOUT",
    show_envvar=True,
    help="Stop it when it has written nothing for this time. Like --max-output it has the output go through turnctl.",
)
@click.option(
    "--leftovers",
    type=Leftovers(),
    default="end",
    show_default=True,
    envvar="TURNCTL_RUN_LEFTOVERS",
    show_envvar=True,
    help="What becomes of processes that it leaves behind when it ends by itself: end them, or wait for them.",
)
@click.option(
    "--summary",
    type=NewFile(),
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
@naming_options
@hygiene_options
@record_options
@click.option("--dry-run", is_flag=True, help="Start nothing: say what would be run, where, held and recorded how.")
@click.option("--json", "as_json", is_flag=True, help="With --dry-run: answer with one JSON document.")
@quiet_option()
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [ARG]...")
def run(
    command: tuple[str, ...],
    timeout: str | None,
    grace: str,
    stop_signal: int,
    folder: str | None,
    containment: Choice,
    max_output: str | None,
    idle_timeout: str | None,
    leftovers: Policy,
    summary: str | None,
    tty: str,
    quiet: int,
    record: str,
    no_record: bool,
    log: bool,
    log_max: str,
    state_dir: str | None,
    session: str | None,
    label: str | None,
    dry_run: bool,
    as_json: bool,
    **given: Any,
) -> Ending:
    if not command:
        raise click.UsageError("no command was given; say what to run, such as: turnctl run -- make test")
    if not command[0]:
        raise click.UsageError("the command is an empty word; is a variable in it not set?")
    options = chosen(**given)
    asked = wanted(record, no_record, log, log_max, state_dir, label)
    if tty == "new" and (max_output is not None or idle_timeout is not None):
        raise click.UsageError("--tty new shows all output as it comes; leave out --max-output and --idle-timeout")
    if as_json and not dry_run:
        raise click.UsageError("--json goes with --dry-run; of a run the JSON is in the file of --summary FILE")
    if summary is not None and not dry_run:
        # one of an earlier run must not be taken for this one's, should ours never be written
        try:
            remove_summary(summary)
        except BadArgument as error:
            raise click.UsageError(f"--summary: {error}") from error
    # not before it is certain that something will be run: this loads everything
    with lean.loading():
        from turnctl.cli import execute
        from turnctl.cli.execute import Execution, NotStarted

    plan = execute.Plan(
        argv=command,
        timeout=timeout,
        grace=grace,
        stop_signal=stop_signal,
        folder=folder,
        containment=containment,
        max_output=max_output,
        idle_timeout=idle_timeout,
        leftovers=leftovers,
        summary=summary,
        quiet=quiet > 0,
        options=options,
        tty=tty,
        record=asked,
        session=session,
    )
    if dry_run:
        return _preview(plan, as_json=as_json)
    try:
        execution = Execution(plan)
    except NotRecorded as refused:
        return _not_recorded(refused)
    try:
        return execution.run()
    except NotStarted as refused:
        status, message, hint = _not_started(refused.error, command, folder)
        complain(message, hint)
        ending = Ending(status)
        execution.write_not_started(ending, message)
        return ending
    except NotRecorded as refused:
        return _not_recorded(refused)
    except ContainmentUnavailable as refused:
        how = f"as --containment {containment} asks for" if refused.wanted == containment else f"with {refused.wanted}"
        message = f"could not run {command[0]} {how}: {refused.missing}"
        complain(message, refused.remedy)
        ending = Ending(ExitStatus.FAILED)
        execution.write_not_started(ending, message)
        return ending
    except Exception as error:
        if not execution.is_started:
            if is_thread_refused(error):
                complain(f"could not start {command[0]}: no thread is to be had", _EXHAUSTED)
                return Ending(ExitStatus.FAILED)
            if isinstance(error, OSError):
                raise  # what the machine refuses is no fault of ours, and is told as what it is
        if is_thread_refused(error):
            complain("turnctl could not go on: no thread is to be had", _EXHAUSTED)
        else:
            tell_of_fault(error)
        return Ending(ExitStatus.BUG if execution.is_started else ExitStatus.FAILED)


def _preview(plan: Plan, *, as_json: bool) -> Ending:
    """Say what would be done; the status is the one that would be certain beforehand."""
    from turnctl.cli.plan import Preview

    preview = Preview(plan)
    try:
        if as_json:
            put_document(preview.as_dict())
        else:
            put(preview.text())
    except BrokenPipeError:
        return Ending.by(signal.SIGPIPE)
    except Problem as problem:
        complain(problem.message, problem.hint)
        return Ending(problem.status)
    if preview.is_refused:
        return Ending(ExitStatus.FAILED)
    if preview.trouble is None:
        return Ending(ExitStatus.OK)
    status, message, hint = _not_started(preview.trouble, plan.argv, plan.folder)
    complain(message, hint)
    return Ending(status)


def _not_recorded(refused: NotRecorded) -> Ending:
    message = f"nothing was run, since there can be no record of it: {refused}"
    complain(message, "without --record required it runs all the same")
    return Ending(ExitStatus.FAILED)


def _not_started(error: OSError, command: tuple[str, ...], folder: str | None) -> tuple[ExitStatus, str, str]:
    """Why, in words, and the status that shells and ``env`` give for it."""
    name = command[0]
    if error.errno in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE):
        return ExitStatus.FAILED, f"could not start {name}: {error.strerror}", _EXHAUSTED
    if isinstance(error, FileNotFoundError):
        return ExitStatus.NOT_FOUND, *_not_found(name, command, folder)
    return (
        ExitStatus.NOT_EXECUTABLE,
        f"cannot execute {name}: {error.strerror}",
        _not_executable(error, name, folder),
    )


def _not_found(name: str, command: tuple[str, ...], folder: str | None) -> tuple[str, str]:
    from shutil import which  # brings every compressor along

    there = which(name) if os.sep not in name else os.path.join(folder or "", name)
    if there is not None and os.path.exists(there):
        return (
            f"cannot execute {name}: its interpreter was not found",
            f"look at its first line: head -1 {shlex.quote(there)}",
        )
    if len(command) == 1 and len(name.split()) > 1 and which(name.split(maxsplit=1)[0]) is not None:
        return f"command not found: {name!r}", f"that is one word; leave the quotes off: turnctl run -- {name}"
    if os.sep in name:
        return f"command not found: {name}", f"there is no such file, seen from {folder or current()}"
    return (
        f"command not found: {name}",
        f"no folder of PATH has it; a builtin or an alias of a shell needs the shell: turnctl run -- bash -c '{name}'",
    )


def _not_executable(error: OSError, name: str, folder: str | None) -> str:
    path = os.path.join(folder or "", name)
    if os.path.isdir(path):
        return "it is a folder; give the program in it"
    if error.errno == errno.ENOEXEC:
        return f"it has no #! line, and is no program for this machine; name its interpreter: sh {shlex.quote(name)}"
    if error.errno == errno.E2BIG:
        return "the arguments and the environment are longer than this machine allows; hand them over in a file"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"this user may not execute it; if it should be a program: chmod +x {shlex.quote(name)}"
    return f"look at it: ls -ld {shlex.quote(name)}"
