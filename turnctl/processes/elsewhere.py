"""The process table where there is no /proc of our own: read by psutil. The only place that imports it."""

from __future__ import annotations

import os

from turnctl.processes.table import Entry

__all__ = ["available", "read_entry", "read_table"]

_LETTERS = {"zombie": "Z", "dead": "X", "stopped": "T", "tracing-stop": "t", "disk-sleep": "D"}


def available() -> bool:
    """Whether psutil is there and can list processes."""
    try:
        import psutil

        return bool(psutil.pids())
    except Exception:  # noqa: BLE001 - whatever keeps it from working, there is no table
        return False


def read_entry(pid: int) -> Entry | None:
    """The process that has this pid now, None if there is none or it cannot be seen."""
    import psutil

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            return Entry(
                pid,
                process.ppid(),
                os.getpgid(pid),
                os.getsid(pid),
                _LETTERS.get(process.status(), "S"),
                process.create_time(),
                os.fsencode(process.name()),
            )
    except (psutil.Error, OSError):
        return None


def read_table() -> dict[int, Entry]:
    """Every process that can be seen, by pid."""
    import psutil

    found = {}
    for pid in psutil.pids():
        entry = read_entry(pid)
        if entry is not None:
            found[pid] = entry
    return found
