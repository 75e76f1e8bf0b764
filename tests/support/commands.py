"""What tests of commands share: a stand-in for a turn, a gate for programs to report at, and a count of what lives.

The count goes by a random tag in argv and reads /proc by itself: it must not be the walk that did the ending.
"""

from __future__ import annotations

import os
import random
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from cmdlines import cmdline_of
from standins import BOUND

from turnctl.errors import CancelledError, TurnOver
from turnctl.records.process import ProcessOutcome
from turnctl.tokens.activities import Activity, Owned


class FakeTurn:
    """An owner of commands that a test stops and ends by hand; leaving its ``with`` ends what is left."""

    turn_id = "fake"

    def __init__(self, grace_s: float = 5.0) -> None:
        self.grace_s = grace_s
        self.activities: list[Activity] = []
        self.stopped_at: float | None = None
        self.held: float | None = None
        self.is_closed = False
        self._kill_ats: list[float] = []
        self._watchers: dict[object, Callable[[], None]] = {}

    # -- what a room asks -------------------------------------------------------------------------------------

    def stop_wanted(self) -> bool:
        return self.stopped_at is not None

    def kill_at(self) -> float | None:
        return min(self._kill_ats, default=None)

    def due_at(self) -> float | None:
        return None

    def held_until(self) -> float | None:
        return self.held if self.held is not None and time.monotonic() < self.held else None

    def watch(self, fn: Callable[[], None]) -> Callable[[], None]:
        key = object()
        self._watchers[key] = fn
        return lambda: self._watchers.pop(key, None) and None

    def admit(self, owned: Owned) -> Activity:
        if self.is_closed:
            raise TurnOver("the turn is over")
        activity = Activity(owned.kind, owned.name, owned)
        self.activities.append(activity)
        return activity

    def check(self) -> None:
        if self.stop_wanted() and self.held_until() is None:
            raise CancelledError("stopped by the test")

    # -- what a test does -------------------------------------------------------------------------------------

    def stop(self, grace_s: float | None = None) -> None:
        now = time.monotonic()
        if self.stopped_at is None:
            self.stopped_at = now
        self._kill_ats.append(now + (self.grace_s if grace_s is None else grace_s))
        for fn in list(self._watchers.values()):
            fn()

    def end(self, grace_s: float | None = None) -> None:
        self.is_closed = True
        kill_at = time.monotonic() + (self.grace_s if grace_s is None else grace_s)
        open_now = [activity.owned for activity in self.activities if activity.is_open and activity.owned]
        for owned in open_now:
            owned.ask()
        for owned in open_now:
            owned.end(lambda: kill_at)

    @property
    def watched(self) -> int:
        return len(self._watchers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(0.0)


class Gate:
    """A FIFO on which a program says that it has come to a point (``echo > path`` in a shell), or waits for the test.

    Both ends are held open, so that neither side waits for the other to open it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def wait(self) -> bytes:
        """Block until a line has come; the line."""
        ready, _, _ = select.select([self._fd], [], [], BOUND)
        assert ready, "the program did not say that it is ready"
        return os.read(self._fd, 4096)

    def open(self) -> None:
        """Let a program go on that waits in ``read x < path``."""
        os.write(self._fd, b"go\n")

    def close(self) -> None:
        os.close(self._fd)

    def __str__(self) -> str:
        return str(self.path)


def notes_of(outcome: ProcessOutcome) -> tuple[str, ...]:
    """What an outcome says besides how the command was held, which a whole run of tests may have been told."""
    return tuple(note for note in outcome.notes if not note.startswith("containment is best-effort: TURNCTL_"))


def nap() -> str:
    """A ``sleep`` of a minute that no other process has in its argv."""
    return f"sleep 60.{random.randrange(10**8, 10**9)}"


def alive(tag: str) -> list[int]:
    """The pids of all processes that have ``tag`` in their argv and have not ended."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        argv = cmdline_of(name).replace(b"\0", b" ")
        try:
            state = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            continue
        if tag.encode() in argv and state != b"Z":
            found.append(int(name))
    return sorted(found)


def has_group(number: int) -> bool:
    """Whether anybody lives in that process group, looked at often enough to see one that moves from pid to pid."""
    for _ in range(20):
        for name in os.listdir("/proc"):
            try:
                field = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            if name.isdigit() and int(field[2]) == number and field[0] != b"Z":
                return True
    return False


def state_of(pid: int) -> str:
    """The letter of the process's state, empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except OSError:
        return ""


@contextmanager
def timed() -> Iterator[Callable[[], float]]:
    """Gives a function that says how many seconds have passed since."""
    began = time.monotonic()
    yield lambda: time.monotonic() - began


def python(code: str, *args: str) -> list[str]:
    """A command that runs ``code`` in a lean interpreter."""
    return [sys.executable, "-I", "-S", "-c", code, *args]
