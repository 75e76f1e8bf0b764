"""Which process this is, and whether another one is gone: by boot, pid namespace, pid and start time.

A number alone proves nothing: it may have been given out again, and it means another process in another namespace.
Never blocks for long.
"""

# annotations are values here: NamedTuple compiles each that is a text, which is most of the time it takes

import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from turnctl.records.tasks import Holder

__all__ = ["Whoever", "identity_of", "members_of", "not_yet", "proof_of_death", "proof_of_end", "this_process"]


class Whoever(NamedTuple):
    """A process by what tells it from all others; as ``records.tasks.Holder``, which takes longer to load."""

    boot_id: str
    pid_ns: str
    pid: int
    started: int
    host: str


_known: dict[int, Whoever] = {}


def _me() -> Whoever:
    pid = os.getpid()
    found = _known.get(pid)
    if found is None:
        _known.clear()  # a forked child is another one
        found = _known[pid] = Whoever(_boot(), _namespace(), pid, _started(pid) or 0, os.uname().nodename)
    return found


def this_process() -> "Holder":
    """This process, as the holder of a lease."""
    me = _me()
    return _holder(me.pid, me.started)


def identity_of(pid: int) -> "Holder":
    """The process that has that number here and now, with no start time where it has ended: one that was ours."""
    return _holder(pid, _started(pid) or 0)


def not_yet() -> "Holder":
    """What stands for a process of this machine until it has a number: only another boot proves it gone."""
    return _holder(0, 0)


def _holder(pid: int, started: int) -> "Holder":
    from turnctl.records.tasks import Holder

    return Holder(**_me()._replace(pid=pid, started=started)._asdict())


def proof_of_death(holder: "Holder | Whoever") -> str | None:
    """What proves that ``holder`` is gone; None where it lives, or nothing can be said."""
    me = _me()
    if holder.host != me.host:
        return None
    if holder.boot_id != me.boot_id:
        return "the machine was started again" if holder.boot_id and me.boot_id else None
    if holder.pid_ns != me.pid_ns or not holder.pid:
        return None
    if not holder.started:  # the system tells no start times: whoever has the number may be it
        try:
            os.kill(holder.pid, 0)
        except ProcessLookupError:
            return f"there is no process {holder.pid}"
        except PermissionError:
            return None
        return None
    started = _started(holder.pid)
    if started is None:
        return f"there is no process {holder.pid}"
    return None if started == holder.started else f"process {holder.pid} is another one now"


def proof_of_end(holder: "Holder") -> str | None:
    """What proves that the command which began as ``holder`` is gone; None where it lives, or nothing can be said.

    Its main process, and whoever is in the session or group that it led: such a number is not given out again while one
    of them is there. What has left both is not found.
    """
    proof = proof_of_death(holder)
    if proof is None or holder.boot_id != _me().boot_id:
        return proof
    left = members_of(holder.pid)
    return None if left is None or left else f"{proof}, nor one of its session or group"


def members_of(pid: int) -> list[int] | None:
    """Who is in the session or group with that number; None where the process table cannot be read."""
    found = []
    try:
        there = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return None
    for one in there:
        with suppress(OSError), open(f"/proc/{one}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
            if pid in (int(fields[2]), int(fields[3])) and fields[0] not in (b"Z", b"X"):
                found.append(one)
    return found


def _boot() -> str:
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", "rb") as file:
        return file.read().strip().decode("ascii")
    return ""


def _namespace() -> str:
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def _started(pid: int) -> int | None:
    """When it was started, in the kernel's ticks; None if there is no such process, or only what is left of one."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None if os.path.isdir("/proc/self") else 0
    if fields[0] in (b"Z", b"X") and int(fields[17]) <= 1:  # a thread of it may live on behind a leader that has left
        return None
    return int(fields[19])
