"""One run of a program on trial: held like a command of ``turnctl run``, stopped at one place or at none.

It has a state directory of its own, so that no run finds what an earlier one has left in a ledger, nothing to read, and
its output is read and not shown. At a checkpoint the program stops its turn itself; for any other place it is stopped
from here, as ``turnctl stop`` would: asked, and killed after the grace. A program whose turn is not over in time, or
that does not end, is ended so as well. Blocks until nothing of it is left.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from turnctl.cli.trials.journal import Journal
from turnctl.cli.trials.places import Checkpoint, Delay, Line
from turnctl.errors import StoreError, StoreMissing
from turnctl.ledger.glance import Glances
from turnctl.ledger.ownfiles import NAME
from turnctl.spelling import visible
from turnctl.turns import Turn
from turnctl.waiting.trialled import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from turnctl.cli.trials.places import Place
    from turnctl.records.process import ProcessOutcome

__all__ = ["Limits", "Seen", "run"]

#: lines of its last output that are kept for people
_TAIL = 5
_LONGEST = 500


class Limits(NamedTuple):
    """In seconds: how long one run may take, and how long it has from a stop on."""

    timeout_s: float
    grace_s: float


class Seen(NamedTuple):
    """What was seen of one run. Times are of the clock that all processes of a machine share."""

    began_at: float
    ended_at: float
    #: None where the place was not reached
    stopped_at: float | None
    outcome: ProcessOutcome | None
    #: why it was ended from here, though nothing of the kind was planned: "late", "endless"
    forced: str | None
    journal: Journal
    lines: int
    lines_after: int
    tail: tuple[str, ...]
    #: of how many of its effects the outcome is not known; where that itself is not, why
    unresolved: int | str


class _Output:
    """Counts the lines of both streams, and says when there are enough. Called on the thread that reads them."""

    def __init__(self) -> None:
        self.lines = 0
        self.tail: deque[bytes] = deque(maxlen=_TAIL)
        self._came: list[tuple[float, int]] = []
        self.wanted: int | None = None
        self.reached = threading.Event()

    def __call__(self, piece: bytes) -> None:
        count = piece.count(b"\n")
        self._came.append((time.monotonic(), count))
        self.lines += count
        self.tail.extend(piece[-_LONGEST:].splitlines())
        if self.wanted is not None and self.lines >= self.wanted:
            self.reached.set()

    def after(self, at: float | None) -> int:
        """How many lines have been read since."""
        return 0 if at is None else sum(count for came_at, count in self._came if came_at > at)


def run(
    argv: Sequence[str], folder: str | None, place: Place | None, limits: Limits, begins: Callable[[Turn], object]
) -> Seen:
    """Run it; ``begins`` is given its turn before. Raises ``OSError`` where it cannot be started."""
    with TemporaryDirectory(prefix="turnctl-trial-", ignore_cleanup_errors=True) as name:
        with Journal(name) as journal:
            one = _Run(argv, folder, place, limits, name, journal)
            one.go(begins)
        return one.seen()  # when all of the journal has been read


class _Run:
    def __init__(
        self, argv: Sequence[str], folder: str | None, place: Place | None, limits: Limits, name: str, journal: Journal
    ) -> None:
        self._argv, self._cwd, self._place, self._limits = argv, folder, place, limits
        self._state, self._journal = os.path.join(name, "state"), journal
        self._output = _Output()
        self._output.wanted = place.number if isinstance(place, Line) else None
        self._turn = Turn(timeout=limits.timeout_s + limits.grace_s, grace=limits.grace_s, inherit=False)
        self._stopped_at: float | None = None
        self._forced: str | None = None
        self._has_begun, self._has_ended = threading.Event(), threading.Event()
        self._began_at = self._ended_at = 0.0

    def go(self, begins: Callable[[Turn], object]) -> None:
        """Run it to its end."""
        stop = self._place if isinstance(self._place, Checkpoint) else None
        env = {
            VARIABLE: self._journal.variable(stop),
            "TURNCTL_STATE_DIR": self._state,
            "PYTHONUNBUFFERED": "1",  # or a line would come when its buffer is full
        }
        with self._turn, self._watched():
            begins(self._turn)
            self._turn.run(
                self._argv,
                cwd=self._cwd,
                env_extra=env,
                tee=self._output,
                capture=False,
                leftovers="end-now",
                on_start=self._started,
            )
        self._ended_at = time.monotonic()

    def _started(self, _pid: int) -> None:
        self._began_at = time.monotonic()
        self._has_begun.set()

    def seen(self) -> Seen:
        """What there was to see."""
        processes = self._turn.report.processes
        outcome = processes[-1] if processes else None
        if isinstance(self._place, Checkpoint):
            stopped_at = self._journal.stopped_at
        else:  # it may have ended by itself in that very moment
            stopped_at = self._stopped_at if outcome is None or outcome.stopped else None
        return Seen(
            self._began_at,
            self._ended_at,
            stopped_at,
            outcome,
            self._forced,
            self._journal,
            self._output.lines,
            self._output.after(stopped_at),
            tuple(one.decode("utf-8", "replace") for one in self._output.tail),
            self._unresolved(),
        )

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Somebody stops it in time, or when it takes too long."""
        watcher = threading.Thread(target=self._watch, name="turnctl-trial", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            self._has_ended.set()
            self._has_begun.set()
            self._output.reached.set()
            self._journal.has_stopped.set()
            self._journal.is_over.set()
            watcher.join()

    def _watch(self) -> None:
        self._has_begun.wait()
        until = self._began_at + self._limits.timeout_s
        place = self._place
        if isinstance(place, Delay):
            self._has_ended.wait(min(place.seconds, self._limits.timeout_s))
        elif isinstance(place, Line):
            self._output.reached.wait(self._limits.timeout_s)
        elif isinstance(place, Checkpoint):
            self._journal.has_stopped.wait(self._limits.timeout_s)
            if self._has_ended.is_set():
                return
            if self._journal.stopped_at is not None and not self._journal.is_over.wait(self._limits.grace_s):
                self._force("late")
                return
        if not isinstance(place, (Delay, Line)):
            if not self._has_ended.wait(max(0.0, until - time.monotonic())):
                self._force("endless")
        elif not self._has_ended.is_set():
            is_reached = isinstance(place, Delay) or self._output.lines >= place.number
            self._stop(None if is_reached else "endless")

    def _force(self, why: str) -> None:
        self._forced = why
        self._turn.cancel("turnctl trial", by=why)

    def _stop(self, forced: str | None) -> None:
        self._forced = forced
        if forced is None:
            self._stopped_at = time.monotonic()
        self._turn.cancel("turnctl trial", by=str(self._place))

    def _unresolved(self) -> int | str:
        """Effects of its turns on record of which nobody knows what became; or why they cannot be counted."""
        path = os.path.realpath(os.path.join(self._state, NAME))
        try:
            with Glances(path) as there:
                return sum(one.unresolved for one in there.all())
        except StoreMissing:
            return 0  # it has its name only when it is whole, so nothing was ever let out by it
        except StoreError as error:  # without the folder, so that it is the same in each run
            return str(error).partition("; ")[0].replace(visible(path), "its ledger").replace(self._state, "its folder")
