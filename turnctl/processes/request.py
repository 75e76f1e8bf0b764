"""One command as it is asked for, and how it is put into a message for a warden."""

# annotations are values here: NamedTuple compiles each that is a text, which is most of the time it takes

import os
from collections.abc import Mapping, Sequence
from errno import EINVAL
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from turnctl.processes.link import MOST_DESCRIPTORS
from turnctl.processes.moment import Moment
from turnctl.processes.table import read_entry

__all__ = ["Hold", "Leftovers", "Request", "Steps", "Uncontained", "compose", "error_of", "kind_of", "plain"]

Steps = tuple[tuple[int, float], ...]
Hold = Literal["warden", "namespace", "cgroup"]
Leftovers = Literal["end", "end-now", "wait", "detach"]

_TERM = 15
#: what ``subprocess`` puts back to its default in a child: PIPE and XFSZ, which Python ignores
_RESTORED = (13, 25)
#: of what the child could not do by its name
_REFUSED = {
    "limits": "a limit of the command could not be set",
    "nice": "the priority of the command could not be set; a higher one needs a privilege",
    "shield": "the command could not be shielded",
}

# the environment that was sent last, and as it was sent; a dictionary of 40 names is compared in 2 us
_last_environment: tuple[dict[Any, Any], tuple[list[bytes], bytes]] | None = None


class Request(NamedTuple):
    """One command. What is None is taken from the requesting moment.

    ``stdin``, ``stdout`` and ``stderr`` are open descriptors, None for the null device; those of 0 to 2 in ``closed``
    are closed. ``terminal``: ``session`` is a session of its own, ``group`` a process group of its own in this
    process's session, and ``foreground`` then a descriptor of the terminal whose foreground the command is given
    before it is loaded. Before that its pid, four bytes in little-endian order, is written to the first of
    ``announce``, and a byte awaited from the second, for a second. ``controlling`` is a descriptor of the terminal
    that is to control the new session. ``console`` is what a warden puts right when this process is lost: a terminal
    of this session, our group, the driver's settings, and whether we change these ourselves. ``steps`` are signals,
    each with the seconds until the next; after the last comes KILL. ``orphaned`` are the steps for the loss of this
    process or the launcher. ``timeout_s`` begins the ladder without being asked again. ``drain_s`` bounds the time
    from the first KILL to the end. ``due_s`` is when the owner's deadline passes, in seconds from now; ``unheard`` the
    reading end of this process's wake-up descriptor, a socket, and the signals that stop the command
    (``processes.unheard``). ``restore_signals`` is that of ``subprocess``. ``hold`` is what holds the command
    besides a warden: with ``namespace`` a pid namespace of its own, with ``cgroup`` a control group of its own in
    ``folder``.
    ``limits`` are number, soft and hard, ``nice`` is absolute, and ``shield`` is Landlock's scope of signals.
    ``marked``: its environment is to say who holds it (``marks``).
    """

    argv: Sequence[str | bytes]
    executable: str | bytes | os.PathLike[str] | os.PathLike[bytes] | None = None
    env: Mapping[Any, Any] | None = None
    cwd: str | bytes | None = None
    stdin: int | None = None
    stdout: int | None = None
    stderr: int | None = None
    pass_fds: tuple[int, ...] = ()
    closed: tuple[int, ...] = ()
    terminal: Literal["session", "group"] = "session"
    foreground: int | None = None
    controlling: int | None = None
    console: tuple[int, int, list[Any], bool] | None = None
    announce: tuple[int, int] | None = None
    watch_stops: bool = False
    steps: Steps = ((_TERM, 5.0),)
    orphaned: Steps = ((_TERM, 1.0),)
    timeout_s: float | None = None
    drain_s: float = 5.0
    leftovers: Leftovers = "end"
    due_s: float | None = None
    unheard: tuple[int, tuple[int, ...]] | None = None
    restore_signals: bool = True
    umask: int | None = None
    mask: tuple[int, ...] | None = None
    limits: tuple[tuple[int, int, int], ...] = ()
    nice: int | None = None
    processors: tuple[int, ...] | None = None
    user: int | None = None
    group: int | None = None
    groups: tuple[int, ...] | None = None
    hold: Hold = "warden"
    folder: str = ""
    shield: bool = False
    marked: bool = False


class Uncontained(OSError):
    """The command was not started, since it could not be held as asked; ``step`` is what this machine refused."""

    def __init__(self, errno: int, step: str) -> None:
        super().__init__(errno, os.strerror(errno))
        self.step = step


def kind_of(request: Request) -> Literal["session", "group"]:
    """Which launcher it needs: one of our own session, where a warden is to reach our terminal."""
    return "session" if request.terminal == "session" and request.console is None else "group"


def error_of(request: Request, errno: int, what: str) -> OSError:
    """What ``subprocess`` raises for this, or ``Uncontained``."""
    if what.startswith(("namespace:", "cgroup:")):
        return Uncontained(errno, what)
    text = os.strerror(errno)
    if what == "exec":
        return OSError(errno, text, request.argv[0] if request.executable is None else request.executable)
    if what == "chdir":
        return OSError(errno, text, request.cwd)
    refused = _REFUSED.get(what)
    return OSError(errno, f"{text}: {refused}" if refused else text)


def compose(request: Request, moment: Moment, given: Moment) -> tuple[dict[str, Any], tuple[int, ...], int]:
    """The request as it is sent, its descriptors, and the one that was opened for it, or -1.

    What the launcher was ``given`` when it was started is not sent again.
    """
    fds: list[int] = []

    def place(fd: int | None) -> int:
        if fd is None:
            return -1
        if fd not in fds:
            fds.append(fd)
        return fds.index(fd)

    std = (place(request.stdin), place(request.stdout), place(request.stderr))
    keep = tuple((fd, place(fd)) for fd in request.pass_fds if fd > 2)
    foreground = place(request.foreground)
    controlling = place(request.controlling)
    console = None if request.console is None else (place(request.console[0]), *request.console[1:])
    announce = None if request.announce is None else tuple([place(fd) for fd in request.announce])
    cwd = None if request.cwd is None else os.fsencode(request.cwd)
    opened = -1
    if cwd is None or not cwd.startswith(b"/"):
        opened = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    cwd_fd = place(None if opened < 0 else opened)
    unheard = request.unheard or (None, ())
    ear = place(unheard[0])
    if len(fds) > MOST_DESCRIPTORS:
        if opened >= 0:
            os.close(opened)
        raise OSError(EINVAL, f"{len(fds)} descriptors are too many for one command; at most {MOST_DESCRIPTORS}")
    restored = _RESTORED if request.restore_signals else ()
    nice = moment.nice if request.nice is None else request.nice
    processors = moment.processors if request.processors is None else request.processors
    limits = []
    if moment.limits != given.limits:
        limits = [(n, *pair) for n, pair in enumerate(moment.limits) if pair != given.limits[n]]
    env, path = _environment(request.env)
    body = {
        "argv": [os.fsencode(one) for one in request.argv],
        "programs": _programs(request, path),
        "env": env,
        "std": std,
        "keep": keep,
        "closed": request.closed,
        "cwd": cwd,
        "cwd_fd": cwd_fd,
        "session": request.terminal == "session",
        "foreground": foreground,
        "controlling": controlling,
        "console": console,
        "announce": announce,
        "watch_stops": request.watch_stops,
        "restore": request.restore_signals,
        "ignored": tuple(n for n in moment.ignored if n not in restored),
        "mask": moment.mask if request.mask is None else tuple(map(int, request.mask)),
        "umask": moment.umask if request.umask is None else request.umask,
        "limits": tuple((int(n), soft, hard) for n, soft, hard in (*limits, *request.limits)),
        "nice": None if nice == given.nice else nice,
        "processors": None if processors == given.processors else processors,
        "shield": request.shield,
        "marked": request.marked,
        "uid": request.user,
        "gid": request.group,
        "groups": None if request.groups is None else list(request.groups),
        "steps": plain(request.steps),
        "orphaned": plain(request.orphaned),
        "timeout": request.timeout_s,
        "drain": request.drain_s,
        "leftovers": request.leftovers,
        "hold": request.hold,
        "folder": request.folder,
        "host": (os.getpid(), _own_start()) if request.hold == "cgroup" else (0, 0),
        "unheard": (request.due_s, unheard[1], ear),
    }
    return body, tuple(fds), opened


def _own_start() -> int:
    entry = read_entry(os.getpid())
    return 0 if entry is None else int(entry.start)


def plain(steps: Steps) -> Steps:
    """The steps as numbers, which members of ``signal.Signals`` are not for the protocol."""
    return tuple((int(signum), float(seconds)) for signum, seconds in steps)


def _environment(env: Mapping[Any, Any] | None) -> tuple[list[bytes], bytes]:
    """The environment as it is sent, and the PATH in it."""
    global _last_environment
    if env is None:
        # what os.environ keeps inside is what it gives out, without a decoding and encoding for each name
        now: Mapping[Any, Any] = getattr(os.environ, "_data", None) or os.environb
        last = _last_environment
        if last is None or last[0] != now:
            now = dict(now)  # in one step: another thread may change it
            items = [b"%b=%b" % item for item in now.items()]
            last = _last_environment = (now, (items, _path_of(items)))
        return last[1]
    items = [os.fsencode(name) + b"=" + os.fsencode(value) for name, value in env.items()]
    return items, _path_of(items)


def _path_of(env: list[bytes]) -> bytes:
    return next((item[5:] for item in env if item.startswith(b"PATH=")), os.fsencode(os.defpath))


def _programs(request: Request, path: bytes) -> tuple[bytes, ...]:
    """The files that are tried in turn, as the C library would search the command's own PATH."""
    program = os.fsencode(request.argv[0] if request.executable is None else request.executable)
    if b"/" in program:
        return (program,)
    return _found(program, path)


@lru_cache(maxsize=64)
def _found(program: bytes, path: bytes) -> tuple[bytes, ...]:
    return tuple([folder + b"/" + program if folder else program for folder in path.split(b":")])
