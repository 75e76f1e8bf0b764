"""Ending everybody below a warden but for its main process and those who are spared; that one goes on.

Stand-alone, a part of the warden: for a shell that outlives what is done in it. A spared process is spared with all
that is below it.

Invariants
  U1  Neither the main process nor a spared one is ever sent a signal that ends it, nor is a group: who is in the main
      process's group is signalled alone. The main process is stopped for the length of a sweep, at most ``HOLD_S``, and
      then goes on; one that was stopped before stays so.
  U2  A spared process counts only with the start that was given; who has its number later is spared by nothing.
  U3  ``empty`` is true only of a moment at which the main process was seen to stand still, or has ended, and neither
      its list of children nor the warden's has anybody who lives and is not spared. Whoever else there was would have a
      living chain of parents to one of the two, and only what stands still cannot add to it. A list in which a process
      has ended while it was read is read again.
  U4  Who is stopped here and not killed is continued before the sweep ends, whatever happens.

It looks again by the clock while it goes on, in pauses that double: who has the main process for a parent gives the
warden no sign of its end.
"""

import os
from errno import EPERM
from time import monotonic, sleep

from turnctl.processes.kernel import SIGCONT, SIGKILL, SIGSTOP
from turnctl.processes.kin import (
    Member,
    by_parent,
    children_of,
    describe,
    is_dead,
    own_children,
    read_member,
    send,
    walk_from,
)
from turnctl.processes.steps import Ladder, Pauses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Identity = tuple[int, int]

__all__ = ["Cull"]

#: how long the main process is held still by one sweep
HOLD_S = 0.25
#: how often two lists are compared before somebody is taken to be there
_LOOKS = 4
_LOOK_AGAIN_S = 0.001


class Cull:
    """One such ending. ``step`` does what is due and gives the facts once it is over."""

    def __init__(
        self, leader: int, since: int, spared: "list[Identity]", ladder: Ladder, began: float, drain_s: float
    ) -> None:
        self.ladder = ladder
        self._leader = leader
        self._since = since
        self._given = [tuple(one) for one in spared]
        self._began = began
        self._drain_s = drain_s
        self._pauses = Pauses()
        self._look_at = 0.0
        self._seen: set[Identity] = set()
        self._struck: set[Identity] = set()
        self._sent: list[tuple[float, int, str, int]] = []

    def next_at(self) -> float:
        """When something is due by the clock."""
        ladder = self.ladder
        if ladder.killed_at is not None:
            return min(self._look_at, ladder.killed_at + self._drain_s)
        return min(self._look_at, ladder.kill_at, ladder.asks[0][0] if ladder.asks else ladder.kill_at)

    def step(self, now: float) -> "dict[str, Any] | None":
        """Go on; the facts, once nobody is left or the time is over."""
        ladder = self.ladder
        if ladder.killed_at is None and now >= ladder.kill_at:
            ladder.killed_at = self._look_at = now
            self._pauses = Pauses()
        if ladder.killed_at is None:
            while ladder.asks and now >= ladder.asks[0][0]:
                self._ask(ladder.asks.pop(0)[1])
                self._look_at = 0.0
            if now < self._look_at:
                return None
            self._look_at = self._pauses.next_at(now)
            return None if self._members() else self._sweep(is_killing=False)
        if now < self._look_at:
            return None
        found = self._sweep(is_killing=True)
        if found is None and monotonic() >= ladder.killed_at + self._drain_s:
            return self._facts(self._members(), is_empty=False)
        self._look_at = self._pauses.next_at(monotonic())
        return found

    # -- who is there --------------------------------------------------------------------------------------------------

    def _spared(self) -> set[int]:
        """The numbers that are spared now (U2)."""
        found = set()
        for pid, start in self._given:
            member = read_member(pid)
            if member is not None and member.start == start:
                found.add(pid)
        return found

    def _roots(self, spared: set[int]) -> "list[tuple[int, int]]":
        """The children of this process and of the main one, each with its parent, without the spared."""
        me, leader = os.getpid(), self._leader
        main = read_member(leader)
        below: list[int] | None = []
        if main is not None and main.ppid == me:
            below = children_of(main)
            if below is None:  # this kernel keeps no lists
                below = by_parent().get(leader, [])
        pairs = [(pid, leader) for pid in below or ()]
        pairs += [(pid, me) for pid in own_children(self._since)]  # after the other list (U3)
        return [(pid, parent) for pid, parent in pairs if pid != leader and pid not in spared]

    def _members(self) -> list[Member]:
        spared = self._spared()
        return walk_from(self._roots(spared), spared | {self._leader})

    # -- asking --------------------------------------------------------------------------------------------------------

    def _ask(self, signum: int) -> None:
        for member in self._members():
            self._seen.add((member.pid, member.start))
            self._send(member, signum)
            if member.state in ("T", "?"):
                self._send(member, SIGCONT)

    def _send(self, member: Member, signum: int) -> int:
        errno = send(member, signum)
        if errno == 0 and signum != SIGSTOP and len(self._sent) < 10_000:
            self._sent.append((monotonic() - self._began, signum, "process", member.pid))
        return errno

    # -- killing, and the proof ----------------------------------------------------------------------------------------

    def _sweep(self, *, is_killing: bool) -> "dict[str, Any] | None":
        """With the main process held still, kill whoever is there; the facts if nobody is, or is left."""
        main = read_member(self._leader)
        is_ours = main is not None and main.ppid == os.getpid() and not is_dead(main)
        was_stopped = main is not None and main.state in ("T", "t")
        until = monotonic() + HOLD_S
        try:
            if is_ours and not was_stopped:
                os.kill(self._leader, SIGSTOP)  # our child, not reaped
            if is_ours and not self._stands_still(until):
                return None
            while True:
                if self._is_empty():
                    return self._facts([], is_empty=True)
                if not is_killing or monotonic() >= until:
                    return None
                self._kill(until)
                sleep(_LOOK_AGAIN_S)
        finally:
            if is_ours and not was_stopped:
                try:
                    os.kill(self._leader, SIGCONT)
                except ProcessLookupError:
                    pass

    def _stands_still(self, until: float) -> bool:
        """Whether every thread of the main process has stopped, or it has ended."""
        while True:
            try:
                states = [_state(self._leader, task) for task in os.listdir(f"/proc/{self._leader}/task")]
            except OSError:
                states = [b"Z"]
            if all(state in b"TtZXx" for state in states):
                return True
            if monotonic() >= until:
                return False
            sleep(_LOOK_AGAIN_S)

    def _is_empty(self) -> bool:
        """Whether nobody lives but the main process and those spared (U3); False where they change too fast to tell."""
        for _ in range(_LOOKS):
            spared = self._spared()
            pairs = self._roots(spared)
            if not all(_is_gone(pid, parent) for pid, parent in pairs):
                return False
            # a list may skip somebody if one that was read before him left it meanwhile
            if self._spared() == spared and self._roots(spared) == pairs:
                return True
        return False  # somebody who hops from pid to pid is not seen alive: who looks on for ever never kills

    def _kill(self, until: float) -> None:
        """Stop everybody from the top down, then kill them from the bottom up."""
        spared = self._spared() | {self._leader}
        found: dict[Identity, Member] = {}
        held: list[Member] = []
        while True:
            news = [one for one in walk_from(self._roots(spared), spared) if (one.pid, one.start) not in found]
            if not news or (found and monotonic() >= until):
                break
            for member in news:
                found[member.pid, member.start] = member
                if self._send(member, SIGSTOP) == 0:
                    held.append(member)
            self._await_stops(held, until)
        for member in reversed(list(found.values())):
            identity = (member.pid, member.start)
            self._seen.add(identity)
            if self._send(member, SIGKILL) in (0, EPERM):
                self._struck.add(identity)

    def _await_stops(self, held: list[Member], until: float) -> None:
        for member in held:
            while monotonic() < until:
                now = read_member(member.pid)
                if now is None or now.start != member.start or now.state in "TtZXxD":
                    break
                sleep(_LOOK_AGAIN_S)

    # -- telling -------------------------------------------------------------------------------------------------------

    def _facts(self, left: list[Member], *, is_empty: bool) -> "dict[str, Any]":
        return {
            "empty": is_empty,
            "survivors": tuple(describe(member) for member in left),
            "seen": len(self._seen),
            "killed": len(self._struck),
            "signals": list(self._sent),
        }


def _state(pid: int, task: str) -> bytes:
    try:
        with open(f"/proc/{pid}/task/{task}/stat", "rb", buffering=0) as file:
            return file.read(4096).rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return b"X"


def _is_gone(pid: int, parent: int) -> bool:
    """Whether a child that was listed has ended; one that cannot be read, and is our own, is there."""
    member = read_member(pid)
    if member is None:
        return parent != os.getpid()
    return is_dead(member)
