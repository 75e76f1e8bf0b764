"""The processes of turns as trees, found by what the ledger has of their commands and the process table now.

A look, not a proof: a process that left its command's session and its parents, or that belongs to a program's own turn
without being one of its commands, is not found. The commands of a turn are its own by number, start and place; who
has that number now and is another one is not shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from turnctl.ledger.identity import identity_of
from turnctl.processes.table import read_table

if TYPE_CHECKING:
    from turnctl.ledger.glance import Glances
    from turnctl.processes.table import Entry

__all__ = ["Node", "Trees", "commands_of"]

_HELPERS = ("turnctl: ", "turnctl-keys")
_MOST = 4096


class Node(NamedTuple):
    """One process, and how deep in the tree of its command it is, from 0."""

    pid: int
    ppid: int
    depth: int
    name: str
    command: str
    #: whether a sibling follows, on its own level and on those above it
    lines: tuple[bool, ...]


class Command(NamedTuple):
    """A command on record as started and not as ended, by its number and start."""

    pid: int
    started: int


def commands_of(there: Glances, turn_id: str) -> list[Command]:
    """Those of that turn that are of this machine and boot."""
    query = (
        "SELECT process FROM activity JOIN turn ON turn.inc = activity.inc AND turn.gen = activity.gen "
        "WHERE turn_id = ? AND NOT stopped AND process IS NOT NULL ORDER BY activity.pos"
    )
    found = []
    me = identity_of(0)
    for (text,) in there.ask(query, [turn_id]):
        boot_id, namespace, pid, started, host = json.loads(text)
        if pid and started and (boot_id, namespace, host) == (me.boot_id, me.pid_ns, me.host):
            found.append(Command(pid, started))
    return found


class Trees:
    """The process table at one moment."""

    def __init__(self) -> None:
        self._table: dict[int, Entry] = {
            pid: entry
            for pid, entry in read_table().items()
            if entry.state not in "ZX" and not entry.name.startswith(_HELPERS)
        }
        self._children: dict[int, list[int]] = {}
        self._in: dict[int, list[int]] = {}
        for pid, entry in sorted(self._table.items()):
            self._children.setdefault(entry.ppid, []).append(pid)
            for number in {entry.sid, entry.pgrp}:
                self._in.setdefault(number, []).append(pid)

    def of(self, commands: Iterable[Command]) -> list[Node]:
        """Who there is of these commands, each parent before its children."""
        found: set[int] = set()
        for command in commands:
            entry = self._table.get(command.pid)
            if entry is not None and entry.start != command.started:
                continue  # somebody else has that number, which was free: so is that of the session
            found |= self._closure([command.pid, *self._in.get(command.pid, ())])
        roots = [pid for pid in sorted(found) if self._table[pid].ppid not in found]
        return list(self._walk(roots, found, ()))

    def _closure(self, pids: list[int]) -> set[int]:
        found: set[int] = set()
        news = [pid for pid in pids if pid in self._table]
        while news:
            pid = news.pop()
            if pid not in found:
                found.add(pid)
                news += self._children.get(pid, ())
        return found

    def _walk(self, pids: list[int], found: set[int], lines: tuple[bool, ...]) -> Iterator[Node]:
        for n, pid in enumerate(pids):
            entry = self._table[pid]
            mine = (*lines, n + 1 < len(pids))
            yield Node(pid, entry.ppid, len(lines), entry.name, _command(entry), mine)
            yield from self._walk([one for one in self._children.get(pid, ()) if one in found], found, mine)


def _command(entry: Entry) -> str:
    """As it was called; its name where that cannot be read."""
    try:
        with open(f"/proc/{entry.pid}/cmdline", "rb") as file:
            data = file.read(_MOST)
    except OSError:
        data = b""
    words = data.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "backslashreplace").strip()
    return words or f"[{entry.name}]"
