"""What a test left behind: threads, descriptors, child processes, temporary files.

Descriptors and children are seen where there is a /proc (Linux); elsewhere only threads and files are.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import textwrap
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from turnctl.tokens.sites import frame_of, frames_now

__all__ = ["LeakCheck", "own_tmpdir"]

# bound here, so that a test which replaces them does not stop the check
_monotonic = time.monotonic
_sleep = time.sleep

_STACK_DEPTH = 8


class LeakCheck:
    """What was there when it was made, to be held against what is there later.

    ``tmpdir`` is a directory in which every new entry counts. Not thread-safe.
    """

    def __init__(self, tmpdir: Path) -> None:
        self._tmpdir = tmpdir
        self._threads = set(threading.enumerate())
        self._raw_threads = _raw_threads()
        self._descriptors = set(_descriptors().items())
        self._children = set(_children().items())
        self._files = set(os.listdir(tmpdir))

    def found(self, within: float = 3.0) -> list[str]:
        """What is new and still there, in words; waits up to ``within`` seconds for it to go."""
        leaks = self._now()
        if not leaks:
            return []
        _let_go()
        gc.collect()  # things in reference cycles are not lost; if they warn, the test fails by that
        pause = 0.001
        # in a large program that takes seconds, in which no thread could end: so the time is counted from here
        give_up_at = _monotonic() + within
        leaks = self._now()
        while leaks and _monotonic() < give_up_at:
            _sleep(pause)
            pause = min(2 * pause, 0.05)
            leaks = self._now()
        return leaks

    def _now(self) -> list[str]:
        threads = [t for t in threading.enumerate() if t not in self._threads]
        known = {t.ident for t in threads}
        raw = _raw_threads() - self._raw_threads - known
        descriptors = sorted(set(_descriptors().items()) - self._descriptors)
        children = sorted(set(_children().items()) - self._children)
        files = sorted(set(os.listdir(self._tmpdir)) - self._files)
        return [
            *(f"  thread {_thread_words(t)}" for t in threads),
            *(f"  thread unknown to threading, ident {ident}{_stack(ident)}" for ident in sorted(raw)),
            *(f"  descriptor {fd} -> {target}" for fd, target in descriptors),
            *(f"  child {_child_words(pid)}" for pid, _ in children),
            *(f"  file {self._tmpdir / name}" for name in files),
        ]


def _let_go() -> None:
    """Let go of the launcher, which turnctl keeps from the first command on: a tool of the program, and no leak."""
    shutdown = getattr(sys.modules.get("turnctl.processes.upkeep"), "shutdown", None)
    if shutdown is not None:  # a thread that was left behind may be in the middle of loading it
        shutdown()


def _raw_threads() -> set[int]:
    """Idents of threads that run Python and were not started by ``threading``, but by ``_thread`` or in C."""
    return set(frames_now()) - {t.ident for t in threading.enumerate() if t.ident is not None}


def _thread_words(thread: threading.Thread) -> str:
    daemon = ", a daemon" if thread.daemon else ""
    return f"{thread.name!r}{daemon}{_stack(thread.ident)}"


def _stack(ident: int | None) -> str:
    frame = frame_of(ident)
    if frame is None:
        return ""
    stack = "".join(traceback.format_stack(frame)[-_STACK_DEPTH:])
    return ", at:\n" + textwrap.indent(stack.rstrip(), "    ")


def _descriptors() -> dict[int, str]:
    found = {}
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        return {}
    for name in names:
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the one that listed the directory is closed by now
            continue
    return found


def _children() -> dict[int, str]:
    """Pid and start time of each child, zombies too."""
    return {pid: start for pid in _child_pids() if (start := _stat_field(pid, 21)) is not None}


def _child_pids() -> list[int]:
    pids: list[int] = []
    try:
        for task in os.listdir("/proc/self/task"):
            pids.extend(map(int, _read(f"/proc/self/task/{task}/children").split()))
    except FileNotFoundError:
        # a thread has just ended, or the kernel keeps no such list
        own = str(os.getpid())
        return [pid for pid in _all_pids() if _stat_field(pid, 3) == own]
    except OSError:
        return []
    return pids


def _all_pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


def _stat_field(pid: int, index: int) -> str | None:
    """A field of /proc/PID/stat, counted from 0; None if the process is gone."""
    try:
        stat = _read(f"/proc/{pid}/stat")
    except OSError:
        return None
    # the name, in parentheses, may hold anything; it is field 1
    return stat[stat.rindex(")") + 2 :].split()[index - 2]


def _child_words(pid: int) -> str:
    if _stat_field(pid, 2) == "Z":
        return f"{pid}, a zombie: it has ended and nobody waited for it"
    try:
        command = _read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()
    except OSError:
        command = ""
    return f"{pid}: {command or 'command unknown'}"


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


@contextmanager
def own_tmpdir(path: Path) -> Iterator[Path]:
    """Make ``path`` the place for temporary files of this process and its children until the block ends."""
    before = (tempfile.tempdir, os.environ.get("TMPDIR"))
    tempfile.tempdir = str(path)
    os.environ["TMPDIR"] = str(path)
    try:
        yield path
    finally:
        tempfile.tempdir = before[0]
        if before[1] is None:
            os.environ.pop("TMPDIR", None)
        else:
            os.environ["TMPDIR"] = before[1]
