"""Finding what commands have left on this machine that nobody holds any more. Reads; never signals.

A command outlives its warden only where the warden and the launcher were killed at one moment, or where it could not be
ended. Such processes are known by the mark in their environment (``marks``), by descent from one that has it, or by the
control group that was made for them.

Not promised: that all are found. A process that was started with an empty environment, after its parents had ended, is
not; nor is one whose environment this user may not read, unless it descends from another that is found. A mark can be
forged by whoever may start programs here: what is found is evidence, to be looked at before anything is ended.
"""

from __future__ import annotations

import os
import time
from typing import Literal, NamedTuple

from turnctl.processes.cgroups import find_leaves
from turnctl.processes.delegated import own_folder
from turnctl.processes.marks import Mark, own_namespace, read_mark
from turnctl.processes.table import Entry, read_table, shows_us

__all__ = ["Leftover", "leftovers", "mark_of"]

_LONGEST = 1 << 20


class Leftover(NamedTuple):
    """One process that nobody holds. ``pid`` and ``start`` (clock ticks since the start of the machine) identify it.

    ``found_by`` is ``"mark"``, ``"descent"`` or ``"cgroup"``. ``warden`` is the pid that its warden had, 0 where no
    mark tells.
    """

    pid: int
    start: int
    user: int
    name: str
    argv: tuple[str, ...]
    found_by: Literal["mark", "descent", "cgroup"]
    warden: int

    def __str__(self) -> str:
        what = " ".join(self.argv) or self.name
        return f"process {self.pid} ({what}), found by {self.found_by}"


def leftovers() -> tuple[Leftover, ...]:
    """The processes of earlier commands, of this program or another, whose warden and launcher are both gone.

    Best effort, see the module; empty where there is no /proc of this pid namespace. What is held, or was detached, is
    not among them. Reads the process table once; takes milliseconds. Signals nobody. Thread-safe; not a checkpoint.
    """
    if not shows_us():
        return ()
    table = {pid: entry for pid, entry in read_table().items() if not entry.is_dead}
    namespace = own_namespace()
    found: dict[int, Leftover] = {}
    for entry in table.values():
        mark = mark_of(entry.pid)
        if mark is not None and mark.namespace == namespace and not mark.is_held():
            _note(found, entry, "mark", mark.warden[0])
    for pid in _in_orphaned_groups():
        if pid in table:
            _note(found, table[pid], "cgroup", 0)
    children: dict[int, list[Entry]] = {}
    for entry in table.values():
        children.setdefault(entry.ppid, []).append(entry)
    waiting = list(found)
    while waiting:
        above = waiting.pop()
        for entry in children.get(above, ()):
            if entry.pid not in found and not _is_held(entry.pid):
                _note(found, entry, "descent", found[above].warden)
                waiting.append(entry.pid)
    return tuple(sorted(found.values()))


def _is_held(pid: int) -> bool:
    """Whether a mark of its own names somebody who is there: a command of a program that was itself left."""
    mark = mark_of(pid)
    return mark is not None and mark.is_held()


def mark_of(pid: int) -> Mark | None:
    """The mark of a process; None where it has none, or its environment may not be read.

    A process shows no environment for the moment in which it becomes another program, and a file of /proc that was
    opened before that moment stays empty: taken for an answer, that hides a process that goes from program to program.
    So an empty one is read again, and for 10 ms at most where there is no command line yet either.
    """
    before_it_begins, in_it = 20, 3
    while True:
        environ = _words(pid, "environ")
        if environ is None or environ or not _has_memory(pid):
            return read_mark(environ or ())
        if _words(pid, "cmdline"):
            in_it -= 1
        else:
            before_it_begins -= 1
            time.sleep(0.0005)
        if not (before_it_begins and in_it):
            return None  # it was started with an empty one


def _has_memory(pid: int) -> bool:
    """Whether it is a program at all: no thread of the kernel, and not dead."""
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
            return not file.read(2).startswith(b"0 ")
    except OSError:
        return False


def _note(
    found: dict[int, Leftover], entry: Entry, found_by: Literal["mark", "descent", "cgroup"], warden: int
) -> None:
    if entry.pid in found or entry.pid == os.getpid():
        return
    try:
        user = os.stat(f"/proc/{entry.pid}").st_uid
    except OSError:
        return  # it has ended meanwhile
    argv = tuple(os.fsdecode(word) for word in _words(entry.pid, "cmdline") or ())
    found[entry.pid] = Leftover(entry.pid, int(entry.start), user, entry.name, argv, found_by, warden)


def _in_orphaned_groups() -> list[int]:
    folder = own_folder()
    leaves = find_leaves(folder) if folder else []
    return [pid for leaf in leaves if leaf.is_orphaned() for pid in leaf.pids()]


def _words(pid: int, name: str) -> list[bytes] | None:
    """The words of a file of /proc that ends each with a zero; None where it may not be read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            text = b""
            while len(text) < _LONGEST and (part := file.read(65536)):
                text += part
    except OSError:
        return None
    return text.split(b"\0")[:-1]
