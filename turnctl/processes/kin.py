"""Who lives below this process, and how one of them is signalled without ever reaching anybody else.

Stand-alone, for the launcher and its wardens. This process is a child subreaper with one thread.

Invariants
  N1  Own children are listed by the kernel (``children`` of the own thread) or, without /proc, found by asking
      ``waitid`` about each number that was given out. Only this process reaps them, so a child that was there when the
      reading began is in it.
  N2  An own child that has not been reaped is signalled by its number, which nobody else can have.
  N3  Anybody else is signalled through a pidfd that was opened *before* its parent and start were compared with what
      the walk had read: who has that parent is one of ours, whoever it is, and a pidfd of one that is gone reaches
      nobody.
  N4  Never signalled: pid 1, this process, those spared.
"""

import _signal  # type: ignore[import-not-found,unused-ignore]
import os

from turnctl.processes.kernel import WALL, open_pidfd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable

__all__ = [
    "UNSEEN",
    "Member",
    "by_parent",
    "children_of",
    "describe",
    "is_dead",
    "own_children",
    "read_member",
    "send",
    "walk",
    "walk_from",
]

#: stands, described, for whoever keeps the kernel from saying that nobody is left and is found by no walk
UNSEEN = (0, 0, -1, "?", b"process", "no look has found it, but that nobody is left could not be proved in time")
#: numbers that are asked about, where nothing else tells who our children are. So many take 10 s, each time: that is so
#: where there is no /proc and the numbers have gone round since this process began
MOST_PROBED = 4 * 1024 * 1024


class Member:
    """One process as the walk saw it. ``state`` is "?" where it cannot be read."""

    __slots__ = ("comm", "pgrp", "pid", "ppid", "session", "start", "state", "threads")

    def __init__(
        self,
        pid: int,
        ppid: int,
        pgrp: int = 0,
        state: str = "?",
        start: int = 0,
        threads: int = 2,
        comm: bytes = b"",
        session: int = 0,
    ) -> None:
        self.pid = pid
        self.ppid = ppid
        self.pgrp = pgrp
        self.state = state
        self.start = start
        self.threads = threads
        self.comm = comm
        self.session = session


def _read(path: str) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, 4096)
    except OSError:
        return None
    finally:
        os.close(fd)


def _read_all(path: str) -> bytes | None:
    """A file of /proc that may be long."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        parts = [os.read(fd, 65536)]
        while parts[-1]:
            parts.append(os.read(fd, 65536))
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(fd)


def read_member(pid: int) -> Member | None:
    """The process that has this number now; None if there is none or it cannot be seen."""
    stat = _read(f"/proc/{pid}/stat")
    if stat is None:
        return None
    head, _, tail = stat.rpartition(b")")
    field = tail.split()
    try:
        comm = head.partition(b"(")[2]
        numbers = int(field[1]), int(field[2]), field[0].decode("ascii"), int(field[19]), int(field[17])
        return Member(pid, *numbers, comm, int(field[3]))
    except (ValueError, IndexError):
        return None


def is_dead(member: Member) -> bool:
    """Whether it is a zombie through and through; one whose first thread alone has ended still computes."""
    if member.state not in ("Z", "X", "x"):
        return False
    try:
        tasks = os.listdir(f"/proc/{member.pid}/task")
    except OSError:
        return True
    for task in tasks:
        stat = _read(f"/proc/{member.pid}/task/{task}/stat")
        if stat is not None and stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X", b"x"):
            return False
    return True


# -- who is there ------------------------------------------------------------------------------------------------------


def children_of(member: Member) -> list[int] | None:
    """The children of all of its threads; None where the kernel keeps no such list."""
    folder = f"/proc/{member.pid}/task"
    tasks = [str(member.pid)]
    if member.threads != 1:
        try:
            tasks = os.listdir(folder)
        except OSError:
            return []
    found: list[int] = []
    for task in tasks:
        text = _read_all(f"{folder}/{task}/children")
        if text is None and not _has_lists():
            return None
        if text:
            found += map(int, text.split())
    return found


def _has_lists() -> bool:
    """Whether this kernel lists children in a /proc that shows our own pids."""
    pid = os.getpid()
    try:
        return os.readlink("/proc/self") == str(pid) and os.access(f"/proc/self/task/{pid}/children", os.R_OK)
    except OSError:
        return False


def own_children(since: int) -> list[int]:
    """Our children, zombies too (N1). ``since`` is the number of the oldest that there can be."""
    pid = os.getpid()
    text = _read_all(f"/proc/self/task/{pid}/children")
    if text is not None:
        return [int(number) for number in text.split()]
    return _probed(since)


def _probed(since: int) -> list[int]:
    """Ask the kernel about every number given out since: what needs no /proc."""
    try:
        newest = os.fork()
    except OSError:  # at the limit of processes: then all that there can be, which takes its time
        newest = since - 1
    else:
        if newest == 0:
            os._exit(0)
        os.waitpid(newest, 0)
    numbers = range(since, newest) if since <= newest else [*range(since, MOST_PROBED), *range(1, newest + 1)]
    found = []
    for number in numbers:
        try:
            os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT | WALL)
        except ChildProcessError:
            continue
        found.append(number)
    return found


def by_parent() -> dict[int, list[int]]:
    """The children of everybody, read from the whole table: for kernels that keep no lists."""
    found: dict[int, list[int]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return found
    for name in names:
        if name.isdigit():
            member = read_member(int(name))
            if member is not None:
                found.setdefault(member.ppid, []).append(member.pid)
    return found


def walk(children: "Iterable[int]", spared: "Container[int]" = ()) -> list[Member]:
    """Our children and all that descends from them, parents before children; the dead are left out.

    A process that is born or moves meanwhile may be missing: the walk finds whom to signal, it proves nothing.
    """
    me = os.getpid()
    return walk_from([(pid, me) for pid in children if pid not in spared])


def walk_from(pairs: "Iterable[tuple[int, int]]", spared: "Container[int]" = ()) -> list[Member]:
    """The same from these processes on, each given with its parent; who is ``spared`` is so with all below."""
    me = os.getpid()
    table: dict[int, list[int]] | None = None
    queue = list(pairs)
    seen = {pid for pid, _ in queue}
    found = []
    for pid, parent in queue:
        member = read_member(pid)
        if member is None and parent == me:
            member = Member(pid, me)  # an own child that cannot be read is there all the same
        if member is None or member.ppid not in (parent, me) or pid in (1, me):
            continue
        if not is_dead(member):
            found.append(member)
        below = children_of(member)
        if below is None:
            table = by_parent() if table is None else table
            below = table.get(pid, [])
        queue += [(one, pid) for one in below if one not in seen and one not in spared]
        seen.update(below)
    return found


# -- reaching them -----------------------------------------------------------------------------------------------------


def send(member: Member, signum: int, heir: int = 0) -> int:
    """Send to one process, if it still is one of ours; 0, or the errno of why it was not sent. ESRCH: it is gone.

    ``heir`` is who becomes the parent of orphans, if not this process.
    """
    me = os.getpid()
    if member.pid in (0, 1, me):
        return _ESRCH
    try:
        if member.ppid == me:
            os.kill(member.pid, signum)  # N2
            return 0
        fd = open_pidfd(member.pid)
        try:
            now = read_member(member.pid)
            if now is not None and now.ppid == me and now.start == member.start:
                os.kill(member.pid, signum)  # orphaned meanwhile: our child by now
                return 0
            if now is None or now.ppid not in (member.ppid, heir or me) or now.start != member.start:
                return _ESRCH
            if fd is None:
                os.kill(member.pid, signum)
            else:
                _signal.pidfd_send_signal(fd, signum)
        finally:
            if fd is not None:
                os.close(fd)
    except OSError as error:
        return error.errno or _ESRCH
    return 0


_ESRCH = 3
_EPERM = 1


def _tracer_of(pid: int) -> str:
    words = (_read(f"/proc/{pid}/status") or b"").partition(b"TracerPid:")[2].split()
    return words[0].decode("ascii") if words else "unknown"


def describe(member: Member, reason: str = "") -> tuple[int, int, int, str, bytes, str]:
    """A member for a report: pid, start, uid, state, name, and why it could not be ended."""
    try:
        uid = os.stat(f"/proc/{member.pid}").st_uid
    except OSError:
        uid = -1
    if not reason:
        if send(member, 0) == _EPERM:
            reason = f"belongs to user {uid if uid >= 0 else 'unknown'}, whom this program may not signal"
        elif member.state == "D":
            place = (_read(f"/proc/{member.pid}/wchan") or b"").strip(b"\0\n").decode("ascii", "replace") or "unknown"
            reason = f"in uninterruptible sleep in the kernel ({place}); KILL is pending"
        elif member.state == "t":
            reason = f"killed, but held in its end by process {_tracer_of(member.pid)}, which traces it"
        else:
            reason = "still there although KILL was sent"
    return (member.pid, member.start, uid, member.state, member.comm, reason)
