"""A command as our own child, found by its group, session, descent and start times: containment ``best-effort``."""

from __future__ import annotations

import signal
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from turnctl import points
from turnctl.processes.account import Account
from turnctl.processes.custody import LEFT_OVER, Custody, Found
from turnctl.processes.job import Job
from turnctl.processes.ladder import Ladder
from turnctl.processes.leader import Leader
from turnctl.processes.spawn import kill_child
from turnctl.processes.spec import Spec
from turnctl.processes.table import Entry, Identity
from turnctl.processes.tree import Tree

if TYPE_CHECKING:
    from turnctl.processes.output import Pump

__all__ = ["Grouped"]

#: between two looks at a traced process, whose status its tracer may hold back
TRACED_PAUSE_S = 0.05


class Grouped(Custody):
    """The way without a warden."""

    held_by = "group"
    why_unknown = "another part of this program reaped the process, or it ignores SIGCHLD"

    def __init__(
        self, pid: int, spec: Spec, account: Account, wake: Callable[[], None], job: Job | None = None
    ) -> None:
        super().__init__(job)
        self.pid = pid
        self._signum = spec.stop_signal
        self._account = account
        self._wake = wake
        self._is_traced = False
        self._is_due = False
        self._ladder: Ladder | None = None
        self._seen: set[Identity] = set()
        self._killed: set[Identity] = set()
        self._last: list[Entry] = []
        if job is not None:
            job.note = account.note
            job.begun(pid)
        self.leader: Leader
        self.tree: Tree

    # -- while it runs ---------------------------------------------------------------------------------------

    def watch(self, pump: Pump) -> None:
        leader = self.leader = Leader(self.pid or 0, self._wake)
        self.tree = Tree(leader)
        if leader.fd is not None:
            pump.watch(leader.fd)

    def notice(self, fd: int | None, pump: Pump) -> None:
        if fd is not None:
            pump.unwatch(fd)
            if fd == self.leader.fd:
                self._is_traced = not self.look()
            else:
                self.tree.let_go(fd)
        # the tree is worth a look when the last one that was waited for has ended
        self._is_due = self._is_due or (not self.tree.held and self.look())

    def look(self) -> bool:
        self.has_ended = self.leader.look()
        self.returncode = self.leader.returncode
        if self.has_ended:
            self._end_job(is_asked=self._ladder is not None)
        return self.has_ended

    def look_at(self, now: float) -> float | None:
        return now + TRACED_PAUSE_S if self._is_traced else None

    def leftovers(self) -> list[Found] | None:
        return [Found(member, LEFT_OVER) for member in self.tree.leftovers()]

    def await_end(self, found: list[Found], pump: Pump) -> None:
        self.tree.hold(one.entry for one in found)
        for fd in self.tree.held:
            pump.watch(fd)

    def signal(self, signum: int) -> None:
        if self.leader.signal(signum):
            self._account.sent(signum, [("process", self.leader.pid)])

    # -- the ending ------------------------------------------------------------------------------------------

    def begin(self, cause: str, kill_at: float) -> None:  # noqa: ARG002 - the cause is the loop's to know
        if self.job is not None:
            self.job.ending()
        self._ladder = Ladder(kill_at=kill_at)
        self._is_due = True

    def go_on(self, kill_at: float, pump: Pump) -> float | None:
        ladder, tree = self._ladder, self.tree
        assert ladder is not None
        ladder.shorten(kill_at)
        now = monotonic()  # after the limits were read: a kill that was asked for just now is due
        if not self._is_due and now < ladder.look_at:
            return ladder.look_at
        self._is_due = False
        members = tree.members()
        self._seen.update(member.identity for member in members)
        move = ladder.step(now, alive=len(members), unkilled=tree.count_unkilled(members))
        if move in ("ask", "kill"):
            if move == "ask":
                self._ask_all(members)
            else:
                self._kill_all(members)
            move = ladder.step(now, alive=len(members), unkilled=0)
        if move == "wait":
            tree.hold(members)
            for fd in tree.held:
                pump.watch(fd)
            return ladder.look_at
        self._last = members
        return None

    def _ask_all(self, members: list[Entry]) -> None:
        self._account.sent(self._signum, self.tree.signal(members, self._signum))
        # a stopped process takes the signal only once it goes on
        stopped = [member for member in members if member.state == "T"]
        woken = [member.pid for member in stopped if self.tree.signal_one(member, signal.SIGCONT)]
        self._account.sent(signal.SIGCONT, [("process", pid) for pid in woken])
        points.reach("processes.ladder.asked")

    def _kill_all(self, members: list[Entry]) -> None:
        self._account.sent(signal.SIGKILL, self.tree.signal(members, signal.SIGKILL))
        self._killed.update(member.identity for member in members)
        points.reach("processes.ladder.killed")

    def survivors(self) -> list[Found]:
        return [Found(member, self.tree.why(member)) for member in self._last]

    def finish(self) -> None:
        leader, tree = self.leader, self.tree
        if tree.is_blind:
            leader.signal_group(signal.SIGKILL)
            self._account.note("the process table cannot be read here: only the command's own group was ended")
        doubtful = ", ".join(f"{one.pid} ({one.name})" for one in tree.doubtful() if one.identity not in self._seen)
        if doubtful:
            self._account.note(f"left alone: process {doubtful}, in a group or session whose number was the command's, "
                               "and may have been given out again since")  # fmt: skip
        tree.close()
        if not leader.reap():
            leader.abandon()
        self.has_ended, self.returncode = leader.ended, leader.returncode
        self._end_job(is_asked=self._ladder is not None)
        ended = self._seen - {member.identity for member in self._last}
        self.counts = (len(ended), len(ended & self._killed))

    def undo(self) -> None:
        assert self.pid is not None
        self._end_job(is_asked=True)
        kill_child(self.pid)

    def strike(self) -> None:
        self.leader.signal_group(signal.SIGKILL)
