"""Starting the program of one request as a child of this process: descriptors, limits, groups, and exact errors.

Stand-alone, for a warden, which has one thread: so it may change directory and swap signal dispositions for the
moment of the start. The fork and exec is the one that ``subprocess`` uses, in C: it forks without copying where it
can, closes what is not handed over, and reports the errno of an exec that failed. What must be changed in the child
alone (limits, priority, processors, a terminal and its foreground) takes its slower form, which runs a function there.

Invariants
  B1  When ``start`` has returned, the child has made its session or group and has become the program.
  B2  When ``start`` has raised, no child and no descriptor is left.
  B3  The program inherits 0 to 2 and what ``keep`` names, under the numbers that it names, and nothing else.
  B4  Signals that come while it is started may go unheard, also the one for its own end: who calls looks after it.
"""

import _posixsubprocess
import _signal  # type: ignore[import-not-found,unused-ignore]
import os
from errno import EINVAL, ENOENT
from select import POLLIN, poll

from turnctl.processes.console import controlled_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["NotStarted", "start"]


#: how long whoever is told of the pid has to answer
ANSWER_MS = 1000
#: what the child tells by name when it is refused
_STEPS = ("limits", "nice", "shield")


class NotStarted(Exception):
    """The program could not be started: the errno, and what refused.

    That is ``exec``, ``chdir``, ``setup``, of _STEPS, or a step of a containment: ``namespace:map``, ``cgroup:enter``.
    """

    def __init__(self, errno: int, what: str) -> None:
        super().__init__(errno, what)
        self.errno = errno
        self.what = what


def start(request: "dict[str, Any]", fds: tuple[int, ...], lift: "Callable[[int], None]") -> int:
    """Start it; the pid. Blocks until the program has been loaded, which a hung file system can delay.

    ``fds`` came with the request and stay the caller's. ``lift(number)`` moves this process's own descriptors above
    a number that the program is to have. Besides what a request has, ``entered`` may be a descriptor of the list of a
    control group, which the child enters first, and ``proc`` the list of processes in which it finds its own number.
    """
    placed: list[int] = []
    lifted: list[int] = []
    back = False
    try:
        if request["keep"]:
            lifted = _lift(request["keep"], fds, lift)
            placed = _place(request["keep"], fds, lifted)
            fds = tuple(lifted)
        if request["cwd_fd"] >= 0:
            back = True
            _enter(fds[request["cwd_fd"]])
        if request["cwd"] is not None:
            back = True
            _enter(request["cwd"])
        return _fork_exec(request, fds)
    finally:
        for fd in (*placed, *lifted):
            os.close(fd)
        if back:
            os.chdir("/")


def _enter(folder: bytes | int) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        raise NotStarted(error.errno or EINVAL, "chdir") from None


def _lift(keep: tuple[tuple[int, int], ...], fds: tuple[int, ...], lift: "Callable[[int], None]") -> list[int]:
    """Copies of what came, above the numbers that the program is to find its own by; ours are moved there too."""
    from fcntl import F_DUPFD_CLOEXEC, fcntl

    above = max(target for target, _ in keep) + 1
    copies: list[int] = []
    try:
        lift(above)
        copies += [fcntl(fd, F_DUPFD_CLOEXEC, above) for fd in fds]
    except OSError as error:
        for fd in copies:
            os.close(fd)
        raise NotStarted(error.errno or EINVAL, "setup") from None
    return copies


def _place(keep: tuple[tuple[int, int], ...], fds: tuple[int, ...], copies: list[int]) -> list[int]:
    """Put the descriptors to keep under their numbers; those that the caller does not close anyway."""
    placed: list[int] = []
    for target, at in keep:
        os.dup2(copies[at], target, inheritable=False)
        if target not in fds:
            placed.append(target)
    return placed


def _fork_exec(request: "dict[str, Any]", fds: tuple[int, ...]) -> int:
    kept = tuple(target for target, _ in request["keep"])
    ends = [fds[at] if at >= 0 else -1 for at in request["std"]]
    report, told = os.pipe2(os.O_CLOEXEC)
    if told in kept or told < 3:
        from fcntl import F_DUPFD_CLOEXEC, fcntl

        above = max((2, *kept)) + 1
        low = told
        try:
            told = fcntl(low, F_DUPFD_CLOEXEC, above)
        except OSError as error:
            os.close(report)
            raise NotStarted(error.errno or EINVAL, "setup") from None
        finally:
            os.close(low)
    foreground = fds[request["foreground"]] if request["foreground"] >= 0 else -1
    announce = None if request["announce"] is None else [fds[at] for at in request["announce"]]
    controlling = fds[request["controlling"]] if request["controlling"] >= 0 else -1
    in_child = _in_child(request, told, foreground, announce, controlling)
    # not CHLD: with that ignored, a child that ends at once leaves no status
    ignored = [number for number in request["ignored"] if number != _signal.SIGCHLD]
    for number in ignored:
        _signal.signal(number, _signal.SIG_IGN)
    before = _signal.pthread_sigmask(_signal.SIG_SETMASK, request["mask"])
    try:
        fork_exec: Any = _posixsubprocess.fork_exec
        pid: int = fork_exec(
            request["argv"],
            request["programs"],
            True,
            tuple(sorted((*kept, told))),
            None,
            request["env"],
            *(ends[0], -1, -1, ends[1], -1, ends[2]),
            *(report, told),
            request["restore"],
            request["session"],
            -1 if request["session"] else 0,
            *(request["gid"], request["groups"], request["uid"], request["umask"]),
            in_child,
            True,
        )
    except OSError as error:
        os.close(report)
        raise NotStarted(error.errno or EINVAL, "setup") from None
    except (ValueError, TypeError, OverflowError):
        os.close(report)
        raise NotStarted(EINVAL, "setup") from None
    finally:
        os.close(told)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
        for number in ignored:
            _signal.signal(number, _signal.SIG_IGN if number == _signal.SIGPIPE else _caught)
    try:
        words = b""
        while part := os.read(report, 4096):
            words += part
    finally:
        os.close(report)
    if words:
        os.waitpid(pid, 0)
        raise _error_of(words)
    return pid


def _error_of(words: bytes) -> NotStarted:
    """The child's own words: an error type, an errno in hex, and what it was at."""
    kind, _, rest = words.partition(b":")
    number, _, what = rest.partition(b":")
    if kind != b"OSError":
        return NotStarted(EINVAL, "setup")
    try:
        errno = int(number, 16)
    except ValueError:
        errno = ENOENT
    at = what.decode("ascii", "replace")
    return NotStarted(errno, {"": "exec", "cgroup": "cgroup:enter"}.get(at, at if at in _STEPS else "setup"))


def _in_child(
    request: "dict[str, Any]", told: int, foreground: int, announce: list[int] | None, controlling: int
) -> "Callable[[], None] | None":
    """What must be done between fork and exec; None where nothing must, so that the fast form can be taken."""
    limits, nice, processors = request["limits"], request["nice"], request["processors"]
    closed, is_deaf = request["closed"], _signal.SIGCHLD in request["ignored"]
    entered, proc = request.get("entered", -1), request.get("proc", -1)
    shield = _shield() if request["shield"] else None
    needs = (
        limits,
        shield,
        closed,
        is_deaf,
        announce,
        nice is not None,
        processors is not None,
        foreground >= 0,
        entered >= 0,
        controlling >= 0,
    )
    if not any(needs):
        return None
    from resource import setrlimit

    def prepare() -> None:
        what = b"cgroup"
        try:
            if entered >= 0:
                os.write(entered, b"0")
            what = b"setup"
            if processors is not None:
                os.sched_setaffinity(0, processors)
            if nice is not None:
                what = b"nice"
                os.setpriority(os.PRIO_PROCESS, 0, nice)
                what = b"setup"
            if controlling >= 0:
                controlled_by(controlling)
            if announce:
                pid = os.getpid() if proc < 0 else int(os.readlink("self", dir_fd=proc))
                os.write(announce[0], pid.to_bytes(4, "little"))
                answer = poll()
                answer.register(announce[1], POLLIN)
                if answer.poll(ANSWER_MS):
                    os.read(announce[1], 1)
            if foreground >= 0:
                before = _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGTTOU,))
                os.tcsetpgrp(foreground, os.getpid())
                _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
            if is_deaf:
                _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)
            for fd in closed:
                os.close(fd)
            if shield is not None:
                what = b"shield"
                shield()
            what = b"limits"  # last: little may be left to this process itself
            for number, soft, hard in limits:
                setrlimit(number, (soft, hard))
        except BaseException as error:  # noqa: BLE001 - told to the parent; nothing else can be done here
            number = error.errno if isinstance(error, OSError) and error.errno else EINVAL
            os.write(told, b"OSError:%x:%b" % (number, what))
            os._exit(255)

    return prepare


def _shield() -> "Callable[[], None]":
    from turnctl.processes.shielding import enter

    return enter


def _caught(_number: int, _frame: object) -> None:
    pass
