"""Starting a command under the strongest custody that is to be had: a warden, else its group.

Never a weaker one in silence: the outcome says which it is and why, and what was named or required is refused where
it is not to be had.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from errno import EBADF, ENOENT
from time import monotonic

from turnctl.errors import ContainmentUnavailable
from turnctl.processes import launch
from turnctl.processes.account import Account
from turnctl.processes.custody import Custody
from turnctl.processes.delegated import own_folder
from turnctl.processes.foresight import BACKUP_S, Foresight, lent
from turnctl.processes.grouped import Grouped
from turnctl.processes.guarded import ORPHANED_S, Guarded, steps_until
from turnctl.processes.hygiene import Inherited
from turnctl.processes.inherit import inherited
from turnctl.processes.job import Job
from turnctl.processes.ladder import DRAIN_S
from turnctl.processes.link import MOST_DESCRIPTORS
from turnctl.processes.patience import Patience
from turnctl.processes.pipes import Pipes
from turnctl.processes.remedies import explain
from turnctl.processes.spawn import spawn
from turnctl.processes.spec import Spec

__all__ = ["begin"]

#: for how long a launcher that could not be started is not tried again
RETRY_S = 30.0
_TRIES = 3
_LEAVE_OUT = "leave that option out"
#: room that the standard streams and the folder need among the descriptors of one request
_RESERVED = 8

_refused: tuple[float, str] | None = None


def begin(
    spec: Spec,
    account: Account,
    pipes: Pipes,
    wake: Callable[[], None],
    grace_s: float,
    foresight: Foresight,
    patience: Patience,
) -> Custody:
    """Start it. Raises what ``subprocess.Popen`` raises, and ``ContainmentUnavailable``; then nothing was started.

    Nor was anything after ``StopWanted``: then a stop came while the launcher took no request. Blocks until it has been
    loaded, which a hung file system can delay; with a warden ``patience`` ends that.
    """
    job = _job_of(spec, wake)
    try:
        return _begin(spec, account, pipes, wake, grace_s, foresight, patience, job)
    except BaseException:
        if job is not None:
            job.over(is_violent=True)
        raise


def _begin(
    spec: Spec,
    account: Account,
    pipes: Pipes,
    wake: Callable[[], None],
    grace_s: float,
    foresight: Foresight,
    patience: Patience,
    job: Job | None,
) -> Custody:
    wish = spec.wish
    missing: list[tuple[str, str]] = []
    for holder in wish.holders:
        if holder == "group":
            why = missing[-1][0] if missing else f"{wish.by} asks for it"
            if spec.hygiene.of_wardens:
                raise _only_with_a_warden(spec, why)
            account.note(f"containment is best-effort: {why}")
            return Grouped(spawn(spec, pipes), spec, account, wake, job)
        why_not = _why_not(spec)
        if why_not is None:
            _refuse_shield(spec)
            try:
                return _guarded(spec, account, pipes, grace_s, holder, foresight, patience, job)
            except launch.Uncontained as error:
                missing.append(explain(error.step, error.errno or 0))
                continue
            except launch.Unavailable as error:
                why_not = error.strerror or str(error)
                if error.errno != EBADF:  # else it is about this command's descriptors
                    _remember(why_not)
        missing.append((why_not, ""))
    raise _refusal(spec, missing or [(f"{wish.by} asks for less", "")])


def _refusal(spec: Spec, missing: list[tuple[str, str]]) -> ContainmentUnavailable:
    wish = spec.wish
    if wish.choice in ("auto", "group") or not wish.holders:
        wanted: str = wish.require or ""
        is_atomic = wanted == "atomic"
        since = "nothing could end it as a whole" if is_atomic else "its end could not be proved"
    else:
        since, wanted = f"it could not be held as {wish.by} asks for", wish.choice
    why = "; ".join(dict.fromkeys(why for why, _ in missing))
    remedy = "; or ".join(dict.fromkeys(remedy for _, remedy in missing if remedy))
    text = f"{spec.title}: not started, since {since}: {why}"
    if remedy:
        text += f". Remedy: {remedy}"
    return ContainmentUnavailable(text, wanted=wanted, missing=why, remedy=remedy)


def _only_with_a_warden(spec: Spec, why: str) -> ContainmentUnavailable:
    wanted = " and ".join(spec.hygiene.of_wardens)
    text = f"{spec.title}: not started, since only a warden can carry out {wanted}: {why}"
    return ContainmentUnavailable(text, wanted=wanted, missing=f"only a warden can do that: {why}", remedy=_LEAVE_OUT)


def _refuse_shield(spec: Spec) -> None:
    if spec.hygiene.shield:
        from turnctl.processes.shielding import shield_refusal

        refused = shield_refusal()
        if refused:
            text = f"{spec.title}: not started, since it cannot be shielded: {refused}"
            raise ContainmentUnavailable(text, wanted="shield", missing=refused, remedy=_LEAVE_OUT)


def _job_of(spec: Spec, wake: Callable[[], None]) -> Job | None:
    """What it is on a terminal, if it is to be on one of ours; the command line has its own."""
    if isinstance(spec.before_exec, Job):
        return spec.before_exec
    return inherited(wake) if spec.tty == "inherit" else None


def _remember(why: str) -> None:
    global _refused
    _refused = (monotonic() + RETRY_S, why)


def _why_not(spec: Spec) -> str | None:
    """Why this command cannot have a warden; None if it can be tried."""
    refusal = launch.refusal()
    if refusal is not None:
        return refusal
    if spec.before_exec is not None and not isinstance(spec.before_exec, Job):
        return "before_exec= runs in a fork of this program"
    if _refused is not None and monotonic() < _refused[0]:
        return _refused[1]
    return None


def _guarded(
    spec: Spec,
    account: Account,
    pipes: Pipes,
    grace_s: float,
    hold: launch.Hold,
    foresight: Foresight,
    patience: Patience,
    job: Job | None,
) -> Custody:
    for last in range(_TRIES):
        try:
            with lent(foresight) as ear:
                request = _request(spec, pipes, grace_s, hold, foresight, ear, job)
                return Guarded(launch.start(request, patience), spec, account, foresight, hold, job)
        except OSError as error:
            # what was to be handed on may have been closed by another thread since it was listed
            if error.errno != EBADF or spec.close_fds or last == _TRIES - 1:
                raise
    raise AssertionError("unreachable")


def _request(
    spec: Spec, pipes: Pipes, grace_s: float, hold: launch.Hold, foresight: Foresight, ear: int, job: Job | None
) -> launch.Request:
    folder = own_folder() if hold == "cgroup" else ""
    if hold == "cgroup" and not folder:
        raise launch.Uncontained(ENOENT, "cgroup:none")
    hygiene = spec.hygiene
    controlling = None if job is None else job.controlling
    details = spec.details
    args = [spec.args] if isinstance(spec.args, (str, bytes)) else spec.args
    ends = [_number(pipes.ends["stdin"], 0), _number(pipes.ends["stdout"], 1), _number(pipes.ends["stderr"], 2)]
    if pipes.ends["stderr"] == "stdout":
        ends[2] = ends[1]
    inherited = [pipes.ends[name] == "inherit" for name in ("stdin", "stdout", "stderr")]
    closed = tuple(at for at, fd in enumerate(ends) if inherited[at] and fd == at and not _is_inherited(fd))
    ends = [None if at in closed else fd for at, fd in enumerate(ends)]
    return launch.Request(
        ["/bin/sh", "-c", *args] if spec.shell else args,
        executable=details.executable,
        env=spec.env,
        cwd=spec.cwd,
        stdin=ends[0],
        stdout=ends[1],
        stderr=ends[2],
        closed=closed,
        pass_fds=_handed_on(spec),
        terminal=spec.terminal,
        controlling=controlling if pipes.pty is None else pipes.pty.end,
        console=None if job is None else job.console,
        foreground=None if job is None else job.foreground,
        announce=None if job is None else job.announce,
        watch_stops=job is not None,
        steps=steps_until(spec.stop_signal, grace_s),
        orphaned=steps_until(spec.stop_signal, min(grace_s, ORPHANED_S)),
        timeout_s=None if spec.timeout_s is None else spec.timeout_s + BACKUP_S,
        drain_s=DRAIN_S,
        hold=hold,
        folder=folder,
        leftovers="end" if spec.leftovers == "detach" else spec.leftovers,
        due_s=foresight.due_s,
        unheard=None if ear < 0 else (ear, foresight.numbers),
        umask=hygiene.umask,
        nice=None if hygiene.nice is None else max(-20, min(19, os.getpriority(os.PRIO_PROCESS, 0) + hygiene.nice)),
        limits=hygiene.limits.rows,
        shield=hygiene.shield,
        restore_signals=details.restore_signals,
        user=details.user,
        group=details.group,
        groups=details.extra_groups,
        marked=spec.env is None or isinstance(spec.env, Inherited),
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


def _handed_on(spec: Spec) -> tuple[int, ...]:
    """What the program finds open besides the standard streams; ``Unavailable`` where a warden could not have it."""
    found = spec.pass_fds if spec.close_fds else _inheritable()
    if not found:
        return found
    from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit

    limit = getrlimit(RLIMIT_NOFILE)[0]
    if limit != RLIM_INFINITY and max(found) >= limit:
        text = f"descriptor {max(found)} is to be handed on, and only those below {limit} may be opened now (ulimit -n)"
        raise launch.Unavailable(EBADF, text)
    return found


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
