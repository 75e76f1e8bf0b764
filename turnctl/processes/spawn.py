"""Starting a command: pipes, session or group, and nothing left behind when it fails.

``subprocess.Popen`` does the fork and exec, and nothing else of it is used. Reasons: it forks safely in a
host with threads (vfork where it can), closes foreign descriptors, changes directory in the child, and tells
errors of the child apart, with the right file name in each. ``os.posix_spawn`` can neither change directory
nor close what it does not know of. When Popen returns, the child has made its own session or group and has
become the command: no signal to the group can go astray because the child had not yet come that far.

As with ``subprocess``: SIGPIPE, SIGXFZ and SIGXFSZ are back to their defaults in the command; other ignored
signals stay ignored, and the signal mask is that of the thread which starts it.

Not promised: a ``KeyboardInterrupt`` that strikes between the fork and the moment its pid is stored, which is
one bytecode of the standard library, leaves a child that nobody knows of.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from typing import Any

from turnctl.processes.console import controlled_by
from turnctl.processes.job import Job
from turnctl.processes.pipes import Pipes
from turnctl.processes.reaping import Child
from turnctl.processes.spec import Spec

__all__ = ["kill_child", "name_a_line", "spawn"]

#: how long the end of a command is waited for that was killed right after its start
ENDING_MS = 5000


def spawn(spec: Spec, pipes: Pipes) -> int:
    """Start the command as a child of ours; its pid. Raises what ``subprocess.Popen`` raises, with no process left
    behind.

    Blocks until the command has been loaded, which a hung file system can delay.
    """
    before_exec = spec.before_exec
    if pipes.pty is not None:
        before_exec = partial(_begin_on, pipes.pty.end, before_exec)
    elif isinstance(before_exec, Job) and before_exec.is_ours:
        before_exec = None
    return _popen(spec, before_exec, {name: _FOR_POPEN.get(end, end) for name, end in pipes.ends.items()})


def name_a_line(spec: Spec, error: BaseException) -> None:
    """Add a hint where a whole command line was given as the name of a program."""
    if isinstance(error, FileNotFoundError) and _looks_like_a_line(spec, error):
        error.add_note("a command given as one string is the name of a program; pass a list, or shell=True")


#: as it was when this was loaded: by now it may be the one of ``install(subprocess=True)``, which comes here
_Popen = subprocess.Popen

_FOR_POPEN: dict[int | str, int | None] = {
    "inherit": None,
    "null": subprocess.DEVNULL,
    "stdout": subprocess.STDOUT,
}


def _begin_on(terminal: int, before_exec: Callable[[], None] | None) -> None:
    """In the child: the new terminal is its session's."""
    controlled_by(terminal)
    if before_exec is not None:
        before_exec()


def _popen(spec: Spec, before_exec: Callable[[], None] | None, ends: dict[str, Any]) -> int:
    popen = _Popen.__new__(_Popen)
    details = spec.details
    try:
        # in two steps, so that a child whose start is interrupted can still be reached
        popen.__init__(  # type: ignore[misc]
            spec.args,
            shell=spec.shell,
            executable=details.executable,
            cwd=spec.cwd,
            env=spec.env,
            close_fds=spec.close_fds,
            pass_fds=spec.pass_fds,
            umask=-1 if spec.hygiene.umask is None else spec.hygiene.umask,
            restore_signals=details.restore_signals,
            user=details.user,
            group=details.group,
            extra_groups=details.extra_groups,
            start_new_session=spec.terminal == "session",
            # only our own command line gives one: between fork and exec a host with threads can do little
            preexec_fn=before_exec,
            process_group=0 if spec.terminal == "group" else None,
            **ends,
        )
    except BaseException:
        _undo(popen)
        raise
    # it is no longer Popen's to reap, nor to complain about
    popen.returncode = 0
    return popen.pid


def _undo(popen: _Popen[Any]) -> None:
    pid = getattr(popen, "pid", None)
    if pid is None or popen.returncode is not None:
        return
    popen.returncode = -signal.SIGKILL
    kill_child(pid)


def kill_child(pid: int) -> None:
    """End a command that was only just started, with its group, and reap it; later, where it does not end at once.

    Blocks for ``ENDING_MS`` at most. Nobody is signalled where the program reaps every child by itself, and has.
    """
    child = Child(pid)
    if not child.is_ours():
        child.close()
        return
    try:
        os.killpg(pid, signal.SIGKILL)  # while the child is not reaped, the number is no other group's either
    except (ProcessLookupError, PermissionError):
        pass  # there is no group yet, where the child had not come so far
    child.kill()
    child.let_go(ENDING_MS)


def _looks_like_a_line(spec: Spec, error: FileNotFoundError) -> bool:
    return not spec.shell and isinstance(spec.given, str) and " " in spec.given and error.filename == spec.given
