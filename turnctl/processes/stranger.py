"""A process that turnctl did not start: who it is, whether it may be ended here, and how its end is seen.

Invariants
  X1  It is known by pid and start, and by a pidfd that was opened before the start was read: who has the number later
      is nobody that is signalled.
  X2  It is never reaped here but by the object of its parent (a ``Popen``), which then has the status as ever. A child
      of this process that nobody gave such an object for is left to be waited for by whoever made it.
  X3  Refused: process 1, this process, who it descends from, the leader of its group or session, helpers of turnctl,
      what a turn has started, who may not be signalled, and who has ended.
"""

from __future__ import annotations

import os
import select
import signal
from typing import Any

from turnctl.errors import BadArgument
from turnctl.processes import leaving
from turnctl.processes.leader import Leader, open_pidfd
from turnctl.processes.members import Members
from turnctl.processes.sentinel import helpers
from turnctl.processes.table import Entry, is_readable, read_entry, read_table
from turnctl.processes.tree import Tree

__all__ = ["LOOK_AGAIN_S", "Stranger", "not_ours", "pid_of", "prove", "tree_of"]

#: where there is no descriptor that tells of its end, and it is no child
LOOK_AGAIN_S = 0.25

_HELPERS = (b"turnctl: warden", b"turnctl: launch")


class Stranger(Leader):
    """In the place of a main process. ``given`` is the object of its parent that may reap it, if there is one."""

    __slots__ = ("_given", "_start", "is_child")

    def __init__(self, entry: Entry, fd: int | None, given: Any = None) -> None:
        self.pid = entry.pid
        self.returncode = None
        self.ended = False
        self.lost = False
        self.fd = fd
        self.entry = entry
        self._thread = None
        self._start = entry.start
        self._given = given
        self.is_child = entry.ppid == os.getpid()

    def _wait(self, flags: int) -> bool:  # noqa: ARG002 - it is looked at, never reaped
        if self.is_child and not self.ended:
            try:
                return super()._wait(os.WNOWAIT)
            except OSError:
                pass
            return False
        if not self.ended and self._is_gone():
            self._note_end()
        return self.ended

    def look(self) -> bool:
        was_ended = self.ended
        self._wait(os.WNOWAIT)
        if self.ended and not was_ended:
            self._note_end()
        return self.ended

    def _is_gone(self) -> bool:
        if self.fd is not None:
            ready = select.poll()
            ready.register(self.fd, select.POLLIN)
            return bool(ready.poll(0))
        now = read_entry(self.pid)
        return now is None or now.start != self._start or now.is_dead

    def _note_end(self) -> None:
        """It has ended: nobody we know of holds its number, unless it is our child and was not waited for."""
        self.ended = True
        self.lost = self.lost or not self.is_child
        if self.lost and self.returncode is None:
            self.returncode = getattr(self._given, "returncode", None)

    def reap(self) -> bool:
        """Let go of the descriptor. Its end is its parent's to see; see X2."""
        if self.look() and self.is_child:
            self._let_parent_reap()
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
        return True

    def _let_parent_reap(self) -> None:
        """Have the object that was given take the status, as its own ``poll`` would have at some time (X2)."""
        poll = getattr(self._given, "poll", None)
        if callable(poll):
            poll()
        found = getattr(self._given, "returncode" if callable(poll) else "exitcode", None)  # the second one polls
        self.returncode = found if self.returncode is None and isinstance(found, int) else self.returncode

    def abandon(self) -> None:
        """There is nothing to be reaped later."""


class _Members(Members):
    """Those of a process that is older than our first look at it."""

    def is_surely_empty(self) -> bool:
        return False  # what it started before has any number


class _Tree(Tree):
    """Its processes; nobody among them is reaped here, since one may be another child of this program."""

    def close(self) -> None:
        self._members.adopted.clear()
        super().close()


def tree_of(stranger: Stranger) -> Tree:
    """The processes of a stranger, read once, so that who daemonises later is known."""
    tree = _Tree(stranger)
    tree._members = _Members(stranger)
    tree.members()
    return tree


def pid_of(given: Any) -> int:
    """The pid that was given, or that of a process object."""
    pid = given if isinstance(given, int) else getattr(given, "pid", None)
    if isinstance(pid, bool) or not isinstance(pid, int):
        raise BadArgument(f"{given!r} is no process; give a pid, a psutil.Process or a subprocess.Popen")
    return pid


def prove(given: Any, *, what: str, held_too: bool = False) -> tuple[Entry, int | None]:
    """Who it is, with a pidfd where there can be one. Raises ``BadArgument`` for who may not be ended here (X3).

    ``held_too`` takes what a turn has started as well.
    """
    pid = pid_of(given)
    if not is_readable():
        raise BadArgument(f"{what}: the processes of this machine cannot be seen here, so no identity can be proved")
    _refuse_by_number(pid, what)
    fd = open_pidfd(pid)
    try:
        entry = read_entry(pid)
        _refuse_gone(given, entry, pid, what)
        assert entry is not None
        _refuse_ours(entry, what, held_too=held_too)
        try:
            if fd is None:
                os.kill(pid, 0)
            else:
                signal.pidfd_send_signal(fd, 0)
        except PermissionError:
            owner = os.stat(f"/proc/{pid}").st_uid
            raise BadArgument(f"{what}: {_named(entry)} is user {owner}'s, whom this program may not signal") from None
        except ProcessLookupError:
            raise BadArgument(f"{what}: {_named(entry)} has just ended") from None
    except BaseException:
        if fd is not None:
            os.close(fd)
        raise
    return entry, fd


def _refuse_by_number(pid: int, what: str) -> None:
    if pid <= 0:
        raise BadArgument(f"{what}: {pid} is no pid; give the number of one process")
    if pid == 1:
        raise BadArgument(f"{what}: process 1 is never ended by turnctl")
    if pid == os.getpid():
        raise BadArgument(f"{what}: {pid} is this program itself; stop the turn to have its work ended")
    if pid in (os.getpgrp(), _session_of(0)):
        raise BadArgument(f"{what}: process {pid} leads the group or the session of this program, so it is left alone")


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def _refuse_gone(given: Any, entry: Entry | None, pid: int, what: str) -> None:
    is_running = getattr(given, "is_running", None)
    if entry is None or entry.is_dead or (callable(is_running) and not is_running()):
        raise BadArgument(f"{what}: process {pid} has ended")
    if getattr(given, "returncode", None) is not None:
        raise BadArgument(f"{what}: process {pid} has ended; its number may be another's by now")


def _refuse_ours(entry: Entry, what: str, *, held_too: bool) -> None:
    if entry.comm.startswith(_HELPERS) or entry.pid in helpers:
        raise BadArgument(f"{what}: process {entry.pid} is a helper of turnctl")
    held = leaving.held()
    above: Entry | None = None if held_too else entry
    for _ in range(10_000):
        if above is None or above.pid <= 1:
            break
        if above.pid in held:
            raise BadArgument(
                f"{what}: {_named(entry)} belongs to {held[above.pid].name}, which a turn has already; "
                "turn.detach moves that to another turn"
            )
        above = read_entry(above.ppid)
    up = read_entry(os.getpid())
    for _ in range(10_000):
        if up is None or up.pid <= 1:
            return
        if up.pid == entry.pid:
            raise BadArgument(f"{what}: {_named(entry)} is among those that started this program")
        up = read_entry(up.ppid)


def _named(entry: Entry) -> str:
    return f"process {entry.pid} ({entry.name})"


def not_ours() -> tuple[str, ...]:
    """The living children of this program that no turn has, in words. Reads the process table once; never blocks."""
    held = leaving.held().keys() | helpers
    me = os.getpid()
    return tuple(
        f"process {entry.pid} ({entry.name})"
        for entry in sorted(read_table().values())
        if entry.ppid == me and entry.pid not in held and not entry.comm.startswith(_HELPERS) and not entry.is_dead
    )
