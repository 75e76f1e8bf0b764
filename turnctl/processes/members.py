"""Who belongs to a command: found by group, session, descent and memory, each only while it is proved.

A member is a process that has a group or session number of the command, that descends from a member, or that
was found to be a member before and still has the same start. What has left every such group and lost its
parent before anybody looked is not found.

Invariants
  M1  A number (pid, group, session) counts as the command's only while nobody else can have been given it:
      its owner is our unreaped child, or a pidfd still names the group, or a member known from before has it
      still, or the kernel, which gives numbers out in ascending order, has not come to it since the last
      look.
  M2  pid 1, this process and its own helpers are never members.
  M3  Who claims to descend from a member is not older than it.
  M4  Who has a number that was the command's and is not proved any more is no member, but kept as ``doubtful``.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from time import monotonic

from turnctl.processes.leader import Leader
from turnctl.processes.sentinel import helpers
from turnctl.processes.table import Entry, Identity, last_pid, read_entry, read_numbers, read_table

__all__ = ["Members"]

#: numbers looked at one by one before the whole table is read instead
FEW_NUMBERS = 64
#: between two looks that are further apart the numbers may have gone all the way round
ROUND_S = 1.0
#: how often one reading follows what is born while it goes on
MOST_ROUNDS = 10

_Index = dict[int, list[Entry]]


class Members:
    """The memory of one command's processes. Not thread-safe: whoever supervises the command owns it."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        self._known: dict[int, Entry] = {}
        self._numbers = {leader.pid}
        # which number had been given out last at the last look, and when that was
        self._mark: tuple[int | None, float] = (leader.pid, monotonic())
        self._has_read = False
        #: members that have ended and became our children because this process adopts orphans
        self.adopted: set[int] = set()
        #: who may be the command's and may not (M4)
        self.doubtful: dict[Identity, Entry] = {}

    def read(self) -> list[Entry]:
        """What lives of the command now. Takes milliseconds. Raises ``OSError`` where nothing can be read."""
        mark, newer = self._mark, (last_pid(), monotonic())
        table = self._table(mark, newer)
        parents, groups, sessions = _index(table.values())
        again = [now for pid, before in self._known.items() if (now := table.get(pid)) and now.start == before.start]
        numbers = self._proved(again, mark)
        queue = list(again)
        for number in numbers:
            queue += groups[number] + sessions[number]
        if not self._leader.lost and self._leader.pid in table:
            queue.append(table[self._leader.pid])
        found = _closure(queue, (parents, groups, sessions))
        for number in self._numbers - numbers:
            for one in (*groups[number], *sessions[number]):
                if one.pid not in found and not _is_never(one) and not one.is_dead:
                    self.doubtful[one.identity] = one
        self._numbers = {number for number in numbers if groups[number] or sessions[number]} | found.keys()
        alive = self._sort(found)
        # only now: a reading that an exception cut short (a Ctrl-C, no descriptor left) has to be made again in full
        self._mark, self._has_read = newer, True
        return alive

    def _table(self, mark: tuple[int | None, float], newer: tuple[int | None, float]) -> dict[int, Entry]:
        """The part of the process table that matters: all of it, or soon after a look what was known and is new.

        Whoever belongs to the command was known at the last look, or was born since and has a newer number.
        """
        last, at = mark
        if not self._has_read or last is None or monotonic() - at > ROUND_S:
            return _with_newest(read_table(), newer[0])
        pids = {*self._known, *self._numbers, self._leader.pid}
        return _with_newest({pid: entry for pid in pids if (entry := read_entry(pid)) is not None}, last)

    def _proved(self, again: list[Entry], mark: tuple[int | None, float]) -> set[int]:
        """The numbers that are still the command's (M1)."""
        leader, last = self._leader, last_pid()
        proved = {number for number in self._numbers if _is_not_reissued(number, mark, last)}
        if leader.is_held() or (leader.fd is not None and leader.signal_group(0)):
            proved.add(leader.pid)
        for now in again:
            before = self._known[now.pid]
            proved |= {before.pgrp, before.sid} & {now.pgrp, now.sid} & self._numbers
        return proved

    def _sort(self, found: dict[int, Entry]) -> list[Entry]:
        alive = []
        for entry in found.values():
            if not entry.is_dead:
                alive.append(entry)
            elif entry.ppid == os.getpid() and entry.pid != self._leader.pid:
                self.adopted.add(entry.pid)
        self._known = {entry.pid: entry for entry in alive}
        return alive

    def is_surely_empty(self) -> bool:
        """Whether the few numbers given out since the start, looked at one by one, show that nobody is left.

        False means that the table has to be read. For a command that has ended and was not looked at before.
        """
        number = looked = self._leader.pid
        while not self._known:
            last = last_pid()
            if last is None or not _is_not_reissued(number, self._mark, last) or last - number > FEW_NUMBERS:
                return False
            for pid in range(looked + 1, last + 1):
                entry = read_entry(pid)
                if entry is not None and number in (entry.pgrp, entry.sid, entry.ppid) and pid not in helpers:
                    return False
            if last == looked:
                return True
            looked = last
        return False


def _with_newest(table: dict[int, Entry], last: int | None) -> dict[int, Entry]:
    """A reading of the table, with who was born since ``last`` was given out, the number before the reading.

    A process can be listed, have a child, and be gone when its turn to be read comes: then neither it nor the child,
    which came after the listing, would be seen. So the numbers given out since are looked at, until there are none;
    where they are not known or too many, the table is read once more.
    """
    for _ in range(MOST_ROUNDS):
        now = last_pid()
        if now is None or last is None:
            return table | read_table()
        if now == last:
            break
        table |= read_numbers(last + 1, now) if 0 < now - last <= FEW_NUMBERS else read_table()
        last = now
    return table


def _is_not_reissued(number: int, mark: tuple[int | None, float], last: int | None) -> bool:
    """Whether the kernel cannot have given ``number`` out again since the mark, ``last`` being given out last."""
    before, at = mark
    if before is None or last is None or last < before or monotonic() - at > ROUND_S:
        return False
    return not before < number <= last


def _is_never(entry: Entry) -> bool:
    return entry.pid in (1, os.getpid()) or entry.pid in helpers


def _closure(queue: list[Entry], indexes: tuple[_Index, _Index, _Index]) -> dict[int, Entry]:
    found: dict[int, Entry] = {}
    while queue:
        entry = queue.pop()
        if entry.pid in found or _is_never(entry):
            continue
        found[entry.pid] = entry
        for index in indexes:
            queue += [other for other in index[entry.pid] if other.start >= entry.start]  # M3
    return found


def _index(entries: Iterable[Entry]) -> tuple[_Index, _Index, _Index]:
    parents: _Index = defaultdict(list)
    groups: _Index = defaultdict(list)
    sessions: _Index = defaultdict(list)
    for entry in entries:
        parents[entry.ppid].append(entry)
        groups[entry.pgrp].append(entry)
        sessions[entry.sid].append(entry)
    return parents, groups, sessions
