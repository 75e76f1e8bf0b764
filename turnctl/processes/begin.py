"""Starting a command under the strongest custody that is to be had: a warden, else its group.

Never a weaker one in silence: the outcome says which it is and why, and ``require="complete"`` refuses it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from errno import EBADF
from time import monotonic

from turnctl.errors import ContainmentUnavailable
from turnctl.processes import launch
from turnctl.processes.account import Account
from turnctl.processes.custody import Custody
from turnctl.processes.grouped import Grouped
from turnctl.processes.guarded import BACKUP_S, ORPHANED_S, Guarded, steps_until
from turnctl.processes.job import Job
from turnctl.processes.ladder import DRAIN_S
from turnctl.processes.link import MOST_DESCRIPTORS
from turnctl.processes.pipes import Pipes
from turnctl.processes.spawn import spawn
from turnctl.processes.spec import Spec

__all__ = ["begin"]

#: set to ``group`` it has every command started without a warden: for tests, and to find out what is at fault
SWITCH = "TURNCTL_CONTAINMENT"
#: for how long a launcher that could not be started is not tried again
RETRY_S = 30.0
_TRIES = 3
#: room that the standard streams and the folder need among the descriptors of one request
_RESERVED = 8

_refused: tuple[float, str] | None = None


def begin(spec: Spec, account: Account, pipes: Pipes, wake: Callable[[], None], grace_s: float) -> Custody:
    """Start it. Raises what ``subprocess.Popen`` raises, and ``ContainmentUnavailable``; then nothing was started.

    Blocks until it has been loaded, which a hung file system can delay.
    """
    why = _why_not(spec)
    if why is None:
        try:
            return _guarded(spec, account, pipes, grace_s)
        except launch.Unavailable as error:
            why = error.strerror or str(error)
            _remember(why)
    if spec.require == "complete":
        raise ContainmentUnavailable(f"{spec.title}: not started, since its end could not be proved: {why}")
    account.note(f"containment is best-effort: {why}")
    return Grouped(spawn(spec, pipes), spec, account, wake)


def _remember(why: str) -> None:
    global _refused
    _refused = (monotonic() + RETRY_S, why)


def _why_not(spec: Spec) -> str | None:
    """Why this command cannot have a warden; None if it can be tried."""
    refusal = launch.refusal()
    if refusal is not None:
        return refusal
    if os.environ.get(SWITCH) == "group":
        return f"{SWITCH}=group asks for it"
    if spec.before_exec is not None and not isinstance(spec.before_exec, Job):
        return "before_exec= runs in a fork of this program"
    if _refused is not None and monotonic() < _refused[0]:
        return _refused[1]
    return None


def _guarded(spec: Spec, account: Account, pipes: Pipes, grace_s: float) -> Custody:
    for last in range(_TRIES):
        try:
            return Guarded(launch.start(_request(spec, pipes, grace_s)), spec, account)
        except OSError as error:
            # what was to be handed on may have been closed by another thread since it was listed
            if error.errno != EBADF or spec.close_fds or last == _TRIES - 1:
                raise
    raise AssertionError("unreachable")


def _request(spec: Spec, pipes: Pipes, grace_s: float) -> launch.Request:
    job = spec.before_exec if isinstance(spec.before_exec, Job) else None
    args = [spec.args] if isinstance(spec.args, (str, bytes)) else spec.args
    ends = [_number(pipes.ends["stdin"], 0), _number(pipes.ends["stdout"], 1), _number(pipes.ends["stderr"], 2)]
    if pipes.ends["stderr"] == "stdout":
        ends[2] = ends[1]
    closed = tuple(at for at, fd in enumerate(ends) if fd == at and not _is_inherited(fd))
    ends = [None if at in closed else fd for at, fd in enumerate(ends)]
    return launch.Request(
        ["/bin/sh", "-c", *args] if spec.shell else args,
        env=spec.env,
        cwd=spec.cwd,
        stdin=ends[0],
        stdout=ends[1],
        stderr=ends[2],
        closed=closed,
        pass_fds=() if spec.close_fds else _inheritable(),
        terminal=spec.terminal,
        foreground=None if job is None else job.foreground,
        announce=None if job is None else job.announce,
        watch_stops=job is not None,
        steps=steps_until(spec.stop_signal, grace_s),
        orphaned=steps_until(spec.stop_signal, min(grace_s, ORPHANED_S)),
        timeout_s=None if spec.timeout_s is None else spec.timeout_s + BACKUP_S,
        drain_s=DRAIN_S,
    )


def _number(end: int | str, at: int) -> int | None:
    """The descriptor that a stream is connected to; None for the null device."""
    if isinstance(end, int):
        return end
    return None if end == "null" else at


def _is_inherited(fd: int) -> bool:
    """Whether a child would find this standard stream open; its number may be one of our own pipes' by now."""
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


def _inheritable() -> tuple[int, ...]:
    """What a child would have from this process besides the standard streams."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            if fd > 2 and os.get_inheritable(fd):
                found.append(fd)
        except OSError:
            continue  # closed by now, as the one that listed them
    if len(found) > MOST_DESCRIPTORS - _RESERVED:
        raise launch.Unavailable(EBADF, f"{len(found)} open files are to be handed on, which is too many for a message")
    return tuple(sorted(found))
