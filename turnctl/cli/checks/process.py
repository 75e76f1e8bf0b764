"""What earlier commands have left on this machine that nobody holds any more, found by identity. Signals nobody."""

from __future__ import annotations

import os
from collections.abc import Iterator

from turnctl.cli.checks.check import Finding, Look
from turnctl.processes.remains import leftovers
from turnctl.processes.table import shows_us

__all__ = ["looks"]


def looks() -> Iterator[tuple[str, Look]]:
    """What there is to look at."""
    yield "process.leftovers", _leftovers


def _leftovers() -> Finding:
    if not shows_us():
        return Finding("skip", "the processes of this machine cannot be seen here")
    found = leftovers()
    details = {"leftovers": [one._asdict() for one in found]}
    if not found:
        return Finding("ok", "no command has left a process that nobody holds, as far as can be found", details=details)
    is_mine = any(one.user == os.geteuid() for one in found)
    remedy = "turnctl doctor --end-leftovers" if is_mine else "have their owners look at them"
    return Finding("warn", f"left by earlier commands: {'; '.join(map(str, found))}", remedy, details)
