"""The requesting moment: what a command would inherit if this thread started it by itself now.

A command is started by a warden, which was forked long before. So whatever a child takes over from its parent is read
at each request, on the thread that asks. What a warden can give to a command (mask of files and signals, limits,
priority, processors) goes with the request. What it cannot give (users, capabilities, root, namespaces, control group,
seccomp, no_new_privs) is the ``key``: a launcher that was started under another key is replaced.

Not seen: the label of a security module, and a Landlock domain entered after the launcher was started.
Never blocks; each thread reads for itself.
"""

# annotations are values here: NamedTuple compiles each that is a text, which is most of the time it takes

import os
import signal
from typing import NamedTuple

__all__ = ["Moment", "take"]

_NAMESPACES = ("ns/mnt", "ns/net", "ns/user", "ns/pid_for_children", "ns/ipc", "ns/uts", "ns/cgroup")
_LIMITS = range(16)
_KEY = (b"Uid", b"Gid", b"Groups", b"Cap", b"NoNew", b"Seccomp")

_last: "tuple[bytes, _Status] | None" = None


class _Status(NamedTuple):
    """What the kernel's account of a thread says."""

    key: bytes
    umask: int
    mask: tuple[int, ...]
    ignored: tuple[int, ...]
    processors: tuple[int, ...]


class Moment(NamedTuple):
    """What a child would inherit. Two moments with the same ``key`` can share a launcher."""

    key: tuple[object, ...]
    umask: int
    mask: tuple[int, ...]
    ignored: tuple[int, ...]
    processors: tuple[int, ...]
    nice: int
    limits: tuple[tuple[int, int], ...]


def take() -> Moment:
    """Read it for the calling thread. Raises ``OSError`` only where the root directory cannot be looked at."""
    try:
        here = os.open("/proc/thread-self", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        here = -1
    try:
        status = _read_status(here)
        places = (*_namespaces(here), _read("cgroup", here))
    finally:
        if here >= 0:
            os.close(here)
    root = os.stat("/")
    key = (status.key, root.st_dev, root.st_ino, *places)
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    return Moment(key, status.umask, status.mask, status.ignored, status.processors, nice, _limits())


def _limits() -> tuple[tuple[int, int], ...]:
    from resource import getrlimit

    return tuple(map(getrlimit, _LIMITS))


def _read_status(here: int) -> _Status:
    global _last
    text = _read("status", here)
    if not text:
        return _without_proc()
    users, handling = text.find(b"\nUid:"), text.find(b"\nSigBlk:")
    umask = text[: text.find(b"\nState:")].rpartition(b"\nUmask:")[2]
    ids, handled = text.find(b"\nNStgid:", users), text.find(b"\nMems_allowed", handling)
    part = umask + text[users:ids] + text[handling:handled]
    last = _last
    if last is not None and last[0] == part:
        return last[1]
    field = {name: value.strip() for name, _, value in (line.partition(b":") for line in part.splitlines())}
    valid = signal.valid_signals()  # the C library keeps two to itself
    status = _Status(
        key=b" ".join(value for name, value in field.items() if name.startswith(_KEY)),
        umask=int(umask or b"22", 8),
        mask=tuple(n for n in _bits(int(field[b"SigBlk"], 16), 1) if n in valid),
        ignored=tuple(n for n in _bits(int(field[b"SigIgn"], 16), 1) if n in valid),
        processors=_bits(int(field[b"Cpus_allowed"].replace(b",", b""), 16), 0),
    )
    _last = (part, status)
    return status


def _bits(number: int, first: int) -> tuple[int, ...]:
    return tuple(at + first for at in range(number.bit_length()) if number >> at & 1)


def _without_proc() -> _Status:
    umask = os.umask(0o077)
    os.umask(umask)
    mask = tuple(int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    ignored = tuple(n for n in range(1, signal.NSIG) if signal.getsignal(n) is signal.SIG_IGN)
    users = repr((os.getresuid(), os.getresgid(), os.getgroups())).encode()
    return _Status(users, umask, mask, ignored, tuple(sorted(os.sched_getaffinity(0))))


def _read(name: str, here: int) -> bytes:
    if here < 0:
        return b""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=here)
    except OSError:
        return b""
    try:
        return os.read(fd, 16384)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _namespaces(here: int) -> list[str]:
    readlink = os.readlink
    try:
        return [readlink(name, dir_fd=here) for name in _NAMESPACES]
    except OSError:
        return [_link(name, here) for name in _NAMESPACES]  # one of a kind that this kernel does not have


def _link(name: str, here: int) -> str:
    if here < 0:
        return ""
    try:
        return os.readlink(name, dir_fd=here)
    except OSError:
        return ""
