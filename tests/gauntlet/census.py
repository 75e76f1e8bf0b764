"""Counting the processes of one run from outside: by a tag in argv, by pid and start, by threads, in every namespace.

It reads /proc by itself, with none of the code that ended them. A scan cannot see a process whose pid changes while it
is read; so runs of such kinds are counted when they have come to rest.
"""

from __future__ import annotations

import os
import signal
import time
from typing import NamedTuple

from cmdlines import cmdline_of

Identity = tuple[int, int]
_TICKS = os.sysconf("SC_CLK_TCK")


class _Stat(NamedTuple):
    state: bytes
    parent: int
    start: int


def stat_of(pid: int) -> _Stat | None:
    """State, parent and start of a process; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            field = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return _Stat(field[0], int(field[1]), int(field[19]))


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _living_threads(pid: int) -> list[str]:
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found = []
    for task in tasks:
        words = _read(f"/proc/{pid}/task/{task}/stat").rpartition(b")")[2].split()
        if words and words[0] not in (b"Z", b"X"):
            found.append(task)
    return found


class Census:
    """Who belongs to the run that has ``tag``; ``look`` again and again, so that nobody is lost from sight."""

    def __init__(self, tag: str) -> None:
        self._tag = tag.encode()
        self._since = (time.clock_gettime(time.CLOCK_BOOTTIME) - 0.1) * _TICKS
        #: who was seen alive with the tag, whatever they call themselves by now
        self.seen: set[Identity] = set()
        self._dead_before: set[Identity] = set()
        #: launchers, wardens and first processes of namespaces above them
        self.helpers: set[Identity] = set()

    def look(self, *, but: int = 0) -> tuple[set[Identity], set[Identity]]:
        """Who lives now and who is a zombie, apart from the process ``but``."""
        stats: dict[int, _Stat] = {}
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != but:
                stat = stat_of(int(name))
                if stat is not None and stat.start >= self._since:
                    stats[int(name)] = stat
        living: set[Identity] = set()
        for pid, stat in stats.items():
            one = (pid, stat.start)
            threads = _living_threads(pid) if stat.state in (b"Z", b"X") else [str(pid)]
            if threads and (one in self.seen or self._has_tag(pid, threads)):
                living.add(one)
        self.seen |= living
        family = {pid for pid, _ in living}
        zombies = {
            (pid, stat.start)
            for pid, stat in stats.items()
            if stat.state == b"Z" and (pid, stat.start) not in living
            if (pid, stat.start) in self.seen | self._dead_before or stat.parent in family
        }
        self._dead_before |= zombies
        return living, zombies

    def _has_tag(self, pid: int, threads: list[str]) -> bool:
        return any(self._tag in cmdline_of(f"{pid}/task/{thread}") for thread in threads)

    def look_above(self) -> None:
        """Note the processes of turnctl's own that hold whoever was seen."""
        for pid, _ in self.seen:
            above = pid
            while above > 1:
                stat = stat_of(above)
                if stat is None:
                    break
                if cmdline_of(above).startswith(b"turnctl: "):
                    self.helpers.add((above, stat.start))
                above = stat.parent

    def helpers_left(self) -> set[Identity]:
        return {one for one in self.helpers if is_there(one)}

    def end_all(self, *, but: int = 0, within: float = 20.0) -> None:
        """Kill whoever is left, each by a pidfd that was opened before it was looked at, until nobody is found."""
        give_up_at = time.monotonic() + within
        quiet = 0
        while quiet < 3 and time.monotonic() < give_up_at:
            living, _ = self.look(but=but)
            living |= self.helpers_left()
            for one in living:
                _kill(one)
            quiet = 0 if living else quiet + 1
            time.sleep(0.02)


def is_there(one: Identity) -> bool:
    """Whether that very process is there and no zombie."""
    stat = stat_of(one[0])
    return stat is not None and stat.start == one[1] and stat.state not in (b"Z", b"X")


def _kill(one: Identity) -> None:
    try:
        fd = os.pidfd_open(one[0])
    except OSError:
        return
    try:
        stat = stat_of(one[0])
        if stat is not None and stat.start == one[1]:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
    except OSError:
        pass  # it has gone, or belongs to somebody else: it ends by itself within the minute
    finally:
        os.close(fd)
