"""Who belongs to a running command, for messages to people. The ending itself goes by ``processes.tree``."""

from __future__ import annotations

import os

from turnctl.processes.sentinel import helpers
from turnctl.processes.table import Entry, read_table

__all__ = ["members"]


def members(leader: int | None) -> list[tuple[str, int]]:
    """Name and pid of what lives of the command, by its group, its session and its descendants now.

    Without a ``leader``, which is not known in the moment of the start, by our own children.

    A look, not a proof; empty where processes cannot be seen.
    """
    table = {pid: entry for pid, entry in read_table().items() if pid not in helpers}
    me = os.getpid()
    found = {pid for pid, entry in table.items() if entry.ppid == me or leader in (pid, entry.pgrp, entry.sid)}
    news = set(found)
    while news:
        news = {pid for pid, entry in table.items() if entry.ppid in news and pid not in found}
        found |= news
    return [(entry.name, pid) for pid, entry in sorted(table.items()) if pid in found and not _gone(entry)]


def _gone(entry: Entry) -> bool:
    return entry.is_dead
