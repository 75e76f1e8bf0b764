"""Which process holds a store's write lock, for the error of one that has waited too long.

The kernel tells no process of locks of its own, and to open a file of the store here would drop those that we have; so
a helper process asks (``F_GETLK`` on SQLite's write-lock byte).
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

__all__ = ["described", "who_writes"]

#: where SQLite's write lock is in the -shm file: part of its file format
_WRITE_LOCK_BYTE = 120
_ASK = f"""
import fcntl, os, struct, sys
layout = '@qqihh' if sys.platform == 'darwin' else '@hhqqi0q'
lock = (
    struct.pack(layout, {_WRITE_LOCK_BYTE}, 1, 0, fcntl.F_WRLCK, 0)
    if sys.platform == 'darwin'
    else struct.pack(layout, fcntl.F_WRLCK, 0, {_WRITE_LOCK_BYTE}, 1, 0)
)
fd = os.open(sys.argv[1], os.O_RDWR)
found = struct.unpack(layout, fcntl.fcntl(fd, fcntl.F_GETLK, lock))
kind, pid = (found[3], found[2]) if sys.platform == 'darwin' else (found[0], found[4])
print(0 if kind == fcntl.F_UNLCK else pid)
"""
_WITHIN_S = 5.0


def who_writes(path: str) -> int | None:
    """The process that is within a writing transaction on the store at ``path``; None where none is known to be."""
    import subprocess

    if not sys.executable:
        return None
    argv = [sys.executable, "-I", "-S", "-c", _ASK, f"{path}-shm"]
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        done = subprocess.run(argv, capture_output=True, timeout=_WITHIN_S, check=True, stdin=subprocess.DEVNULL)
        pid = int(done.stdout)
        return pid if pid > 0 else None
    return None


def described(pid: int) -> str:
    """The process in words: its name, and whether it is stopped, as far as the system tells."""
    if pid == os.getpid():
        return f"this process itself ({pid})"
    with suppress(OSError, ValueError):
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            name, _, rest = file.read().partition("(")[2].rpartition(")")
        stopped = ", which is stopped," if rest.split()[0] in "Tt" else ""
        return f"process {pid} ({name}){stopped}"
    return f"process {pid}"
