"""What ``turnctl run`` does once its line has been read, and what is said where a command cannot be started."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

from turnctl.cli.faults import tell_of_fault
from turnctl.cli.folder import current
from turnctl.cli.status import Ending, ExitStatus
from turnctl.cli.summary import remove as remove_summary
from turnctl.cli.talk import complain
from turnctl.errors import BadArgument, ContainmentUnavailable
from turnctl.tokens.threads import is_thread_refused

if TYPE_CHECKING:
    from turnctl.processes.containment import Choice
    from turnctl.processes.request import Leftovers as Policy

__all__ = ["Misuse", "carry_out"]

_EXHAUSTED = "this machine, or this user's limits (ulimit -u, ulimit -n), are exhausted"


class Misuse(Exception):
    """The line cannot be meant; the text says why. Nothing was run."""


def carry_out(
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
    quiet: bool,
    **given: Any,
) -> Ending:
    """Run the command with these options, which have been checked, and say how this process has to end.

    Blocks until the command has ended. Raises ``Misuse`` with nothing run or written; ``OSError`` where the machine
    refuses what a command needs.
    """
    if not command:
        raise Misuse("no command was given; say what to run, such as: turnctl run -- make test")
    if not command[0]:
        raise Misuse("the command is an empty word; is a variable in it not set?")
    options = _hygiene(**given)
    if tty == "new" and (max_output is not None or idle_timeout is not None):
        raise Misuse("--tty new shows all output as it comes; leave out --max-output and --idle-timeout")
    if summary is not None:
        # one of an earlier run must not be taken for this one's, should ours never be written
        try:
            remove_summary(summary)
        except BadArgument as error:
            raise Misuse(f"--summary: {error}") from error
    # not before it is certain that something will be run: this loads everything
    from turnctl.cli.execute import Execution, NotStarted, Plan

    execution = Execution(
        Plan(
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
            quiet=quiet,
            options=options,
            tty=tty,
        )
    )
    try:
        return execution.run()
    except NotStarted as refused:
        status, message, hint = _not_started(refused.error, command, folder)
        complain(message, hint)
        ending = Ending(status)
        execution.write_not_started(ending, message)
        return ending
    except ContainmentUnavailable as refused:
        asked = (
            f"as --containment {containment} asks for" if refused.wanted == containment else f"with {refused.wanted}"
        )
        message = f"could not run {command[0]} {asked}: {refused.missing}"
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


def _hygiene(
    limits: tuple[str, ...],
    no_core_dumps: bool,
    umask: int | None,
    env: tuple[str, ...],
    unset_env: tuple[str, ...],
    shield: bool,
) -> dict[str, Any]:
    """What was given, as options of ``turn.run``. Of a name that is given twice the last counts."""
    if no_core_dumps and any(one.startswith("core=") for one in limits):
        raise Misuse("--limit core and --no-core-dumps cannot both be given")
    found: dict[str, Any] = {
        "limits": dict(one.split("=", 1) for one in limits),
        "env_extra": dict(one.split("=", 1) for one in env),
        "env_unset": unset_env,
    }
    found = {name: value for name, value in found.items() if value}
    if umask is not None:
        found["umask"] = umask
    if no_core_dumps:
        found["core_dumps"] = False
    return found | {"shield": True} if shield else found


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
        return f"cannot execute {name}: its interpreter was not found", f"look at its first line: head -1 {there}"
    if len(command) == 1 and len(name.split()) > 1:
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
        return f"it has no #! line, and is no program for this machine; name its interpreter: sh {name}"
    if error.errno == errno.E2BIG:
        return "the arguments and the environment are longer than this machine allows; hand them over in a file"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"this user may not execute it; if it should be a program: chmod +x {name}"
    return f"look at it: ls -ld {name}"
