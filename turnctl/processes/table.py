"""The process table: one reading of it, as entries that carry an identity.

A pid alone names nobody: it is used again. ``(pid, start)`` is the identity that everything here goes by. On
Linux the table is /proc, read as bytes; elsewhere psutil reads it. A /proc of another pid namespace is no table of
ours, for psutil neither: there is none then. A reading is no proof of emptiness: a process that moves from pid to
pid can pass it by.

Where this program has no descriptor left to read with, reading raises ``OSError``: what cannot be read must
not pass for what is not there.
"""

# annotations are values here: NamedTuple compiles each that is a text, which is most of the time it takes

import errno
import os
import sys
import time
from io import FileIO
from typing import NamedTuple

__all__ = [
    "Entry",
    "Identity",
    "has_living_thread",
    "is_readable",
    "last_pid",
    "parse",
    "read_entry",
    "read_numbers",
    "read_table",
    "shows_us",
    "started_at",
]

Identity = tuple[int, float]

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class Entry(NamedTuple):
    """One process at one moment. ``start`` is in the table's own unit; compare it, do not calculate with
    it.
    """

    pid: int
    ppid: int
    pgrp: int
    sid: int
    state: str
    start: float
    comm: bytes

    @property
    def identity(self) -> Identity:
        return (self.pid, self.start)

    @property
    def is_dead(self) -> bool:
        """Whether it is a zombie through and through; one whose main thread alone has ended still
        computes.
        """
        return self.state in "ZXx" and not has_living_thread(self.pid)

    @property
    def name(self) -> str:
        return self.comm.decode("utf-8", "backslashreplace")


def parse(stat: bytes) -> Entry | None:
    """Read the text of a ``stat`` file; None if it is cut short.

    The command name stands in parentheses and may be any bytes, parentheses, spaces and newlines included:
    what follows the *last* parenthesis is the rest.
    """
    head, _, tail = stat.rpartition(b")")
    pid, _, comm = head.partition(b"(")
    field = tail.split()
    try:
        return Entry(
            int(pid),
            int(field[1]),
            int(field[2]),
            int(field[3]),
            field[0].decode("ascii"),
            int(field[19]),
            comm,
        )
    except (ValueError, IndexError):
        return None


_readable: tuple[int, bool] | None = None


def shows_us() -> bool:
    """Whether /proc is there and is of *our* pid namespace: one that was mounted for another names others.

    The kernel writes a process's number in each namespace from that of the mount down to its own. A single one says
    that the two are the same; that the numbers are equal does not, since they may be so by chance.
    """
    global _readable
    pid = os.getpid()
    if _readable is None or _readable[0] != pid:
        _readable = (pid, _is_of_our_namespace(pid))
    return _readable[1]


def _is_of_our_namespace(pid: int) -> bool:
    try:
        if os.readlink("/proc/self") != str(pid):
            return False
    except OSError:
        return False
    status = _read("/proc/self/status")
    if status is None:
        return False
    numbers = next((line.split()[1:] for line in status.splitlines() if line.startswith(b"NSpid:")), None)
    # before Linux 4.1 it was not written
    return numbers is None or numbers == [b"%d" % pid]


def is_readable() -> bool:
    """Whether this machine lets us see its processes at all."""
    if shows_us():
        return True
    if not _is_for_psutil():
        return False
    from turnctl.processes.elsewhere import available

    return available()


def _is_for_psutil() -> bool:
    """Whether psutil reads something else than the /proc that was refused."""
    return sys.platform != "linux"


def read_entry(pid: int) -> Entry | None:
    """The process that has this pid now, None if there is none or it cannot be seen."""
    if not shows_us():
        if not _is_for_psutil():
            return None
        from turnctl.processes import elsewhere

        return elsewhere.read_entry(pid)
    stat = _read(f"/proc/{pid}/stat")
    return None if stat is None else parse(stat)


def read_table() -> dict[int, Entry]:
    """Every process that can be seen, by pid. Takes about 10 µs per process; does not block."""
    if not shows_us():
        if not _is_for_psutil():
            return {}
        from turnctl.processes import elsewhere

        return elsewhere.read_table()
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = _read(f"/proc/{name}/stat")
            entry = None if stat is None else parse(stat)
            if entry is not None:
                found[entry.pid] = entry
    return found


def read_numbers(first: int, last: int) -> dict[int, Entry]:
    """The processes among these pids, looked at one by one; threads, which have numbers too, are left out."""
    found = {}
    for pid in range(first, last + 1):
        entry = read_entry(pid)
        if entry is not None:
            status = _read(f"/proc/{pid}/status")
            if status is not None and b"\nTgid:\t%d\n" % pid in status:
                found[pid] = entry
    return found


def has_living_thread(pid: int) -> bool:
    """Whether a thread of the process still runs, also when its main thread has ended."""
    if not shows_us():
        return False
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError as error:
        _refuse_exhaustion(error)
        return False
    for thread in threads:
        stat = _read(f"/proc/{pid}/task/{thread}/stat")
        entry = None if stat is None else parse(stat)
        if entry is not None and entry.state not in "ZXx":
            return True
    return False


def last_pid() -> int | None:
    """The number that was given out last to a process or thread; None where that is not known."""
    if not shows_us():
        return None
    text = _read("/proc/loadavg")
    try:
        # a container may put a file of its own over this one, which is refreshed only now and then
        if text is None or os.stat("/proc/loadavg").st_dev != os.stat("/proc").st_dev:
            return None
        return int(text.rsplit(None, 1)[1])
    except (OSError, ValueError, IndexError):
        return None


def started_at(entry: Entry) -> float:
    """When the process started, in seconds since the epoch, to about 10 ms."""
    if not shows_us():
        return entry.start
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - entry.start / os.sysconf("SC_CLK_TCK")
    return time.time() - age


def _read(path: str) -> bytes | None:
    try:
        # an object that owns the descriptor: an exception that strikes in here (Ctrl-C) leaves none open
        with FileIO(path) as file:
            return file.read(4096)
    except OSError as error:
        _refuse_exhaustion(error)
        return None  # it has ended, or it is not ours to see


def _refuse_exhaustion(error: OSError) -> None:
    if error.errno in _EXHAUSTED:
        raise error
