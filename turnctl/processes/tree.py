"""The processes of one command: signalling them, waiting for them, and saying why one is still there.

Level ``best-effort``: who belongs to the command is found as ``members`` says, which is no proof that nobody
is left.

Invariants
  R1  A single process is signalled only through a pidfd that was opened before its start time was compared
      with the one in the reading; where there is no pidfd, right after that comparison.
  R2  Never signalled: pid 1, this process, this process's own group.
  R3  The group is signalled only while its number is proved to be this command's (``leader``).
  R4  Where nothing can be read, the group as a whole stands for its members: never nobody.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from typing import Literal

from turnctl.processes.leader import Leader, open_pidfd
from turnctl.processes.members import Members
from turnctl.processes.table import Entry, Identity, is_readable, read_entry

__all__ = ["Reached", "Tree", "is_still"]

#: descriptors that one ending holds at most; the rest is waited for in turns
MOST_HELD = 64

#: who a signal was sent to: the group by its number, or a process by its pid
Reached = tuple[Literal["group", "process"], int]


class Tree:
    """What is known of a command's processes. Not thread-safe: whoever supervises it owns it."""

    def __init__(self, leader: Leader) -> None:
        self.leader = leader
        self._members = Members(leader)
        self._killed: dict[Identity, str] = {}
        self._held: dict[Identity, int] = {}
        self.is_blind = not is_readable()

    # -- finding ---------------------------------------------------------------------------------------------

    def members(self) -> list[Entry]:
        """A fresh reading of what lives of the command. Takes milliseconds, no more."""
        if self.is_blind:
            return [] if self.leader.look() else [self._stand_in()]
        try:
            return self._members.read()
        except OSError:  # no descriptor left to read with
            return [self._stand_in()] if self.leader.signal_group(0) else []

    def leftovers(self) -> list[Entry]:
        """What lives on after the main process has ended by itself."""
        try:
            if not self.is_blind and self._members.is_surely_empty():
                return []
        except OSError:
            pass  # ``members`` deals with it
        return self.members()

    def doubtful(self) -> list[Entry]:
        """Who lives and has a number that was the command's, without any proof that it still is; never signalled."""
        return [
            one for identity, one in self._members.doubtful.items() if identity not in self._killed and is_still(one)
        ]

    def _stand_in(self) -> Entry:
        """An entry for the whole group, where nothing can be read of its members."""
        number = self.leader.pid
        return Entry(number, os.getpid(), number, number, "?", 0, b"")

    # -- signalling ------------------------------------------------------------------------------------------

    def signal(self, members: Iterable[Entry], signum: int) -> list[Reached]:
        """Send to the group in one step and to every member outside it by identity; who was reached."""
        reached: list[Reached] = []
        group = self.leader.signal_group(signum)
        if group:
            reached.append(("group", self.leader.pid))
        for member in members:
            if group and member.pgrp == self.leader.pid:
                scope = "group"
            else:
                scope = "process"
                if self.signal_one(member, signum):
                    reached.append(("process", member.pid))
            if signum == signal.SIGKILL:
                self._killed[member.identity] = scope
        return reached

    def signal_one(self, member: Entry, signum: int) -> bool:
        """Send to one process, if it still is the one that was read; whether it was sent."""
        return self._send(member, signum) is None

    def _send(self, member: Entry, signum: int) -> OSError | None:
        if member.pid in (0, 1, os.getpid()):
            return ProcessLookupError()
        if self.is_blind:
            return None if self.leader.signal_group(signum) else ProcessLookupError()
        held = self._held.get(member.identity)
        fd = open_pidfd(member.pid) if held is None else held
        try:
            now = read_entry(member.pid)
            if now is None or now.start != member.start:
                return ProcessLookupError()
            if fd is None:
                os.kill(member.pid, signum)
            else:
                signal.pidfd_send_signal(fd, signum)
        except OSError as error:
            return error
        finally:
            if fd is not None and held is None:
                os.close(fd)
        return None

    def count_unkilled(self, members: Iterable[Entry]) -> int:
        """How many of these have not been sent KILL yet, or left the group before its KILL arrived."""
        count = 0
        for member in members:
            scope = self._killed.get(member.identity)
            if scope is None or (scope == "group" and member.pgrp != self.leader.pid):
                count += 1
        return count

    # -- waiting ---------------------------------------------------------------------------------------------

    def hold(self, members: Iterable[Entry]) -> None:
        """Open descriptors that become readable when these end, as far as the limit allows."""
        for member in members:
            if len(self._held) >= MOST_HELD or self.is_blind:
                return
            if member.pid == self.leader.pid or member.identity in self._held:
                continue
            fd = open_pidfd(member.pid)
            if fd is None:
                continue
            if is_still(member):
                self._held[member.identity] = fd
            else:
                os.close(fd)

    @property
    def held(self) -> tuple[int, ...]:
        """The descriptors to wait on, besides the main process's own."""
        return tuple(self._held.values())

    def let_go(self, fd: int) -> None:
        """Close a descriptor of ``held``: its process has ended."""
        for identity, held in list(self._held.items()):
            if held == fd:
                del self._held[identity]
                os.close(fd)

    # -- the end ---------------------------------------------------------------------------------------------

    def why(self, member: Entry) -> str:
        """Why the member could not be ended, as far as can be seen."""
        error = self._send(member, 0)
        if isinstance(error, PermissionError):
            return f"belongs to user {_owner(member.pid)}, whom this program may not signal"
        if member.state == "D":
            return f"in uninterruptible sleep in the kernel ({_kernel_function(member.pid)}); KILL is pending"
        return "still there although KILL was sent"

    def close(self) -> None:
        """Let go of every descriptor, and reap what became our child because this process adopts orphans."""
        for fd in self._held.values():
            os.close(fd)
        self._held.clear()
        for pid in self._members.adopted:
            try:
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
            except ChildProcessError:
                pass  # reaped by the program itself
        self._members.adopted.clear()


def _owner(pid: int) -> str:
    try:
        return str(os.stat(f"/proc/{pid}").st_uid)
    except OSError:
        return "unknown"


def _kernel_function(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/wchan", encoding="ascii", errors="replace") as file:
            return file.read().strip("\0\n") or "unknown"
    except OSError:
        return "unknown"


def is_still(member: Entry) -> bool:
    """Whether this very process lives; where it cannot be read, it counts as living."""
    try:
        now = read_entry(member.pid)
    except OSError:
        return True
    return now is not None and now.start == member.start and not now.is_dead
