"""Asking and killing everything below this process, until the kernel says that nothing is left.

Stand-alone, for the launcher and its wardens. ``Below`` does single steps and never waits longer than a freeze takes;
when to do which, and waiting, is its owner's.

Invariants
  W1  Nothing is left if and only if ``wait`` says ECHILD: this process is a child subreaper, so whoever lives below
      has a living chain of parents that ends here. With ``spared`` children (a launcher's wardens) it is a list of our
      children, read whole, that holds only these: only we reap, so nobody can leave the list while it is read.
  W2  The main process is not reaped while its group may still be signalled: its zombie keeps the number.
  W3  The first sweep kills the group in one step, which no fork in it survives, and then whoever a walk finds. Every
      further one freezes from the top down first: a stopped parent cannot fork, so what it has is all it will have.
  W4  A process that may not be signalled is tried again at each sweep and holds up nothing else.
  W5  The same is known where each of our children is a zombie through and through, and a list that is read after that
      has nobody else: a process that traces one keeps it from ``wait``, but whoever lives has a parent that lives.
"""

import os
from errno import EPERM
from select import poll
from time import monotonic

from turnctl.processes.kernel import SIGCONT, SIGKILL, SIGSTOP, WALL
from turnctl.processes.kin import Member, children_of, describe, is_dead, own_children, read_member, send, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Below"]

#: how long one sweep waits for what it stopped to stand still
FREEZE_S = 0.1
#: how long nobody may be found among those that are left
PUZZLED_S = 2.0
_LOOK_AGAIN_MS = 1


class Below:
    """The processes below this one: a main process and its group, if there is one, and all others."""

    def __init__(self, since: int, *, spared: "Callable[[], frozenset[int]]" = frozenset) -> None:
        self.leader = 0
        #: the session of the main process; 0 where it is not known
        self.session = 0
        #: how the main process ended: 0 to 255, minus the number of a signal; None while it lives
        self.status: int | None = None
        #: whether its zombie is still there to hold the number of the group
        self.is_held = False
        self.cpu = (0.0, 0.0)
        self.most_memory = 0
        self.reaped = 0
        self.killed: set[int] = set()
        self.seen: set[tuple[int, int]] = set()
        #: those of them that had left the main process's group, its session, or lost their parent
        self.strays: tuple[set[tuple[int, int]], ...] = (set(), set(), set())
        #: those of them that were sent KILL
        self.struck: set[tuple[int, int]] = set()
        self.refused: set[int] = set()
        self.sent: list[tuple[float, int, str, int]] = []
        #: what is worth telling of the way in which the command is held
        self.details: dict[str, Any] = {}
        self._since = since
        self._puzzled_until: float | None = None
        self._spared = spared
        self._has_swept = False

    @property
    def fd(self) -> int:
        """A descriptor that becomes readable when there is something to ``hear``; -1 without one."""
        return -1

    def hear(self) -> bool:
        """Take in what the descriptor tells; whether there may be more of it."""
        return True

    def close(self) -> None:
        """Let go of what is held for a command of which nothing is left, or that was given up."""

    # -- seeing ends ---------------------------------------------------------------------------------------------------

    def reap(self, ended: "Callable[[int, int], None] | None" = None) -> bool:
        """Take leave of whoever has ended; whether nothing is left (W1). ``ended(pid, status)`` is told of each."""
        while True:
            if self.is_held and not self._reap_around():
                return False
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT | WALL)
            except ChildProcessError:
                return True
            if found is None:
                return self._has_only_spared()
            if found.si_pid == self.leader and self.status is None:
                self.status = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
                self.is_held = True
            else:
                status = self._let_go(found.si_pid)
                if ended is not None:
                    ended(found.si_pid, status)

    def _reap_around(self) -> bool:
        """Reap everybody but the main process, and that too once it is the last; whether it has gone."""
        if _all_are_dead():
            self.release()
            return True
        is_alone = True
        for pid in own_children(self._since):
            if pid == self.leader:
                continue
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT | WALL) is None:
                is_alone = False
            else:
                self._let_go(pid)
        if is_alone:
            self.release()
        return is_alone

    def release(self) -> None:
        """Let the main process go if it has ended: its group is not signalled any more."""
        if self.is_held:
            self.is_held = False
            self._let_go(self.leader)

    def _let_go(self, pid: int) -> int:
        _, status, used = os.wait4(pid, WALL)
        self.cpu = (self.cpu[0] + used.ru_utime, self.cpu[1] + used.ru_stime)
        self.most_memory = max(self.most_memory, used.ru_maxrss)
        self.reaped += 1
        self.killed.discard(pid)
        self.refused.discard(pid)
        return status

    def _has_only_spared(self) -> bool:
        spared = self._spared()
        return bool(spared) and spared.issuperset(own_children(self._since))

    def stops(self) -> "tuple[object, ...]":
        """A message about a main process that was stopped or goes on since the last look; empty if there is none."""
        try:
            found = os.waitid(os.P_PID, self.leader, os.WSTOPPED | os.WCONTINUED | os.WNOHANG)
        except ChildProcessError:
            return ()
        if found is not None and found.si_code == os.CLD_STOPPED:
            return ("stopped", found.si_status)
        return ("continued",) if found is not None and found.si_code == os.CLD_CONTINUED else ()

    # -- asking --------------------------------------------------------------------------------------------------------

    def members(self) -> list[Member]:
        """Whom a walk finds alive now, parents before children."""
        return walk(own_children(self._since), self._spared())

    def ask(self, signum: int) -> None:
        """Send to the group in one step, then to everybody outside it; whoever is stopped is sent CONT after it.

        Whom to ask is read first: a main process that dies of the signal at once would take the walk's way with it, and
        what is forked in answer to it is not asked, since it may be the clean-up.
        """
        members = self.members()
        in_group = self.signal_group(signum)
        for member in members:
            self._see(member)
            if not (in_group and member.pgrp == self.leader):
                self._send(member, signum)
            if member.state in ("T", "?"):
                self._send(member, SIGCONT)

    def _see(self, member: Member) -> None:
        identity = (member.pid, member.start)
        if member.pid == self.leader:
            self.session = member.session
        elif self.leader and identity not in self.seen:
            # without its own session the main process may be gone before anybody has read which it is in
            has_left = (
                member.pgrp != self.leader,
                self.session not in (0, member.session),
                member.ppid == os.getpid(),
            )
            for which, there in zip(self.strays, has_left, strict=True):
                if there:
                    which.add(identity)
        self.seen.add(identity)

    def signal_group(self, signum: int) -> bool:
        """Send to the main process's group, if its number is certainly still its own; whether it reached anybody."""
        if not self.leader or (self.status is not None and not self.is_held) or self.leader == os.getpgrp():
            return False
        try:
            os.killpg(self.leader, signum)
        except OSError:
            return False
        self._note(signum, "group", self.leader)
        return True

    def signal_leader(self, signum: int) -> bool:
        """Send to the main process alone, unless it has ended."""
        if not self.leader or self.status is not None:
            return False
        try:
            os.kill(self.leader, signum)
        except OSError:
            return False
        self._note(signum, "process", self.leader)
        return True

    def _send(self, member: Member, signum: int) -> int:
        errno = send(member, signum)
        if errno == 0:
            self._note(signum, "process", member.pid)
        return errno

    def _note(self, signum: int, scope: str, pid: int) -> None:
        if len(self.sent) < 10_000:
            self.sent.append((monotonic(), signum, scope, pid))

    # -- killing -------------------------------------------------------------------------------------------------------

    def sweep(self, wake: int) -> None:
        """Kill whoever is there now. Takes milliseconds, at most ``FREEZE_S`` and what a large tree takes.

        ``wake`` is a descriptor that becomes readable when a child stops or ends.
        """
        in_group = False
        if not self._has_swept:
            self._has_swept = True
            members = self.members()
            in_group = self.signal_group(SIGKILL)
            self.release()
        else:
            members = self._freeze(wake)
        for member in reversed(members):  # the children of the stopped before their parents
            self._see(member)
            errno = 0
            if not (in_group and member.pgrp == self.leader):
                errno = self._send(member, SIGKILL)
            if errno == 0:
                self.killed.add(member.pid)
                self.struck.add((member.pid, member.start))
                self.refused.discard(member.pid)
            elif errno == EPERM:
                self.refused.add(member.pid)

    def is_swept(self) -> bool:
        """Whether each child that is there has been sent KILL or may not be, or has ended."""
        others = set(own_children(self._since)).difference(self.killed, self.refused, self._spared())
        return all(map(_has_ended, others))

    def holds_only_dead(self) -> bool:
        """Whether all that is left are zombies that a process elsewhere traces and has not let go of (W5).

        Where ``wait`` has not said ECHILD there is somebody, so a list with nobody in it is no proof of anything.
        """
        children, spared = own_children(self._since), self._spared()
        if not children or not all(pid in spared or _has_ended(pid) for pid in children):
            return False
        return set(children).issuperset(own_children(self._since))

    def _freeze(self, wake: int) -> list[Member]:
        """Stop everybody from the top down (W3); whom there was to stop, parents before children."""
        until = monotonic() + FREEZE_S
        me = os.getpid()
        spared = self._spared()
        moved = poll()
        moved.register(wake, 1)
        seen = set(spared)
        found: list[Member] = []
        moving: list[Member] = []
        self._stop([(pid, me) for pid in own_children(self._since)], seen, moving)
        found += moving
        while moving and monotonic() < until:
            still: list[Member] = []
            born: list[Member] = []
            for member in moving:
                now = read_member(member.pid)
                if now is not None and now.start == member.start and now.state not in "TtZXx":
                    still.append(member)
                elif now is not None:
                    self._stop([(pid, member.pid) for pid in children_of(now) or ()], seen, born)
            if len(still) == len(moving):
                moved.poll(_LOOK_AGAIN_MS)
            found += born
            moving = still + born
        return found

    def _stop(self, pids: list[tuple[int, int]], seen: set[int], into: list[Member]) -> None:
        me = os.getpid()
        for pid, parent in pids:
            if pid in seen:
                continue
            member = read_member(pid)
            if member is None:
                if parent != me:
                    continue
                member = Member(pid, me)
            seen.add(pid)
            if not is_dead(member) and send(member, SIGSTOP) in (0, EPERM):
                into.append(member)

    # -- telling -------------------------------------------------------------------------------------------------------

    def facts(self, survivors: "tuple[tuple[Any, ...], ...]") -> "dict[str, Any]":
        """What is known at the end, when nothing is left but these."""
        return {
            "status": self.status,
            "empty": not survivors,
            "survivors": survivors,
            "cpu": self.cpu,
            "memory": self.most_memory,
            "reaped": self.reaped,
            "seen": len(self.seen),
            "strays": tuple(len(which) for which in self.strays),
            "killed": len(self.struck),
        }

    def take_sent(self, began: float) -> list[tuple[float, int, str, int]]:
        """What was sent since the last call, with times counted from ``began``."""
        sent, self.sent = self.sent, []
        return [(at - began, signum, scope, pid) for at, signum, scope, pid in sent]

    def left_over(self, now: float) -> "list[tuple[int, int, int, str, bytes, str]] | None":
        """Who lives on after the main process has ended; None while nobody is found, though the end is not proved.

        The kernel may be about to prove it; after ``PUZZLED_S`` whoever can be named is.
        """
        found = [describe(member, "running") for member in self.members()]
        self._puzzled_until = self._puzzled_until or now + PUZZLED_S
        if found or now < self._puzzled_until:
            return found or None
        return self.describe("running")

    def describe(self, reason: str = "") -> list[tuple[int, int, int, str, bytes, str]]:
        """Whoever is there, and why; without a reason, why it could not be ended."""
        return [describe(member, reason) for member in self.members()]


def _has_ended(child: int) -> bool:
    member = read_member(child)
    return member is not None and is_dead(member)


def _all_are_dead() -> bool:
    """Whether each of our children is a zombie, by one call where the kernel answers so; False says nothing.

    Asked for a child that could stop, Linux counts no zombie among ours. No proof rests on it: if it were wrong, the
    group's number would be given up too early, and is then not signalled any more.
    """
    try:
        os.waitid(os.P_ALL, 0, os.WSTOPPED | os.WNOHANG | os.WNOWAIT | WALL)
    except ChildProcessError:
        return True
    return False
