"""Who belongs to a running command, for messages to people. The ending itself goes by ``processes.tree``."""

from __future__ import annotations

import os

from turnctl.processes.sentinel import helpers
from turnctl.processes.table import Entry, read_entry, read_table

__all__ = ["members", "warden_of"]


#: the parent of a command: its warden, or the first process of its namespace
_HOLDERS = ("turnctl: warden", "turnctl: init")


def warden_of(leader: int) -> int | None:
    """The warden of a command that has just been started; None where it has none, or has ended already."""
    entry = read_entry(leader)
    parent = None if entry is None else read_entry(entry.ppid)
    return parent.pid if parent is not None and parent.name in _HOLDERS else None


def members(leader: int | None, warden: int | None = None, *, is_ours: bool = True) -> list[tuple[str, int]]:
    """Name and pid of what lives of the command, by its group, its session and its descendants now.

    Without a ``leader``, which is not known in the moment of the start, by our own children. What has left all three
    is a child of the ``warden``. Where the command is not ours, our own children are no part of it.

    A look, not a proof; empty where processes cannot be seen.
    """
    table = {pid: entry for pid, entry in read_table().items() if pid not in helpers}
    parents = {os.getpid(), warden} if is_ours else {warden}
    found = {pid for pid, entry in table.items() if entry.ppid in parents or leader in (pid, entry.pgrp, entry.sid)}
    news = set(found)
    while news:
        news = {pid for pid, entry in table.items() if entry.ppid in news and pid not in found}
        found |= news
    return [(entry.name, pid) for pid, entry in sorted(table.items()) if pid in found and not _gone(entry)]


def _gone(entry: Entry) -> bool:
    return entry.is_dead
