"""What the loop of a command needs to know of those who hold the command, whichever way it is held.

Two ways: ``Guarded`` has a warden beside the command, which proves that nothing is left; ``Grouped`` is its parent by
itself, and finds its processes in the process table. Output, stdin, phases and reports are the same for both.

Used by the thread that drives the loop, but for ``strike`` and the plain attributes. Nothing here blocks but ``undo``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.processes.table import Entry, started_at
from turnctl.records.process import Survivor

if TYPE_CHECKING:
    from turnctl.processes.foresight import Foresight
    from turnctl.processes.job import Job
    from turnctl.processes.output import Pump
    from turnctl.records.process import Escapes, Holder

__all__ = ["LEFT_OVER", "Custody", "Found"]

LEFT_OVER = "still running when the command had ended"


class Found:
    """A process of a command that was found: who it is, and the record of it."""

    __slots__ = ("entry", "survivor")

    def __init__(self, entry: Entry, reason: str) -> None:
        started = started_at(entry) if entry.start else 0.0
        self.entry = entry
        self.survivor = Survivor(entry.pid, started, entry.name, entry.state, reason)


class Custody:
    """A command that has been started, as the loop holds it."""

    held_by: Holder
    #: why a status is not known where the main process has ended without one
    why_unknown = ""

    def __init__(self, job: Job | None = None) -> None:
        #: what it is on a terminal
        self.job = job
        #: None where it is not even known whether it was started
        self.pid: int | None = None
        self.returncode: int | None = None
        #: whether the main process is known to have ended
        self.has_ended = False
        #: whether the kernel has said that nothing is left
        self.empty_proven = False
        #: how many processes were found when they were being ended, and are gone; how many of these were sent KILL
        self.counts = (0, 0)
        #: how many of them had escaped which net, where that was looked at
        self.escapes: Escapes | None = None
        #: why the ending began without the loop; empty if it did not
        self.began_by_itself = ""

    def _end_job(self, *, is_asked: bool) -> None:
        """Its main process has ended, or the command is let go of: the terminal is somebody else's again."""
        if self.job is not None:
            status = self.returncode
            self.job.over(is_violent=is_asked or status is None or not 0 <= status < 128)

    # -- while it runs ---------------------------------------------------------------------------------------

    def watch(self, pump: Pump) -> None:
        """Have the loop woken by what tells of the command."""
        raise NotImplementedError

    def notice(self, fd: int | None, pump: Pump) -> None:
        """One of these descriptors is ready; None: something else was, or the time has come."""
        raise NotImplementedError

    def look(self) -> bool:
        """Whether the main process has ended."""
        raise NotImplementedError

    def look_at(self, now: float) -> float | None:  # noqa: ARG002 - most need no clock
        """When to look again by the clock while it runs."""
        return None

    def foresee(self, foresight: Foresight) -> bool:  # noqa: ARG002 - most cannot
        """Have it ended by this also where this program cannot tell of it; whether that was news. Any thread."""
        return False

    def leftovers(self) -> list[Found] | None:
        """Who lives on after the main process has ended by itself; None while that is not known yet."""
        raise NotImplementedError

    def left_behind(self) -> list[Found]:
        """Who was there when the main process had ended, whatever has become of them since."""
        return self.leftovers() or []

    def await_end(self, found: list[Found], pump: Pump) -> None:
        """Have the loop woken when these have ended."""

    def signal(self, signum: int) -> None:
        """Send one signal to the main process, if that has not ended."""
        raise NotImplementedError

    # -- the ending ------------------------------------------------------------------------------------------

    def begin(self, cause: str, kill_at: float) -> None:
        """Begin to ask everybody to end, and to kill at ``kill_at``."""
        raise NotImplementedError

    def go_on(self, kill_at: float, pump: Pump) -> float | None:
        """Go on with that; when to be called again at the latest, None once it is over (see ``survivors``)."""
        raise NotImplementedError

    def survivors(self) -> list[Found]:
        """Who is still there, and why, after the ending is over."""
        raise NotImplementedError

    def was_asked_in_time(self) -> bool:
        """Whether the ending began while the main process lived, as far as can be told afterwards."""
        return True

    def finish(self) -> None:
        """Let go of the command, which has ended or has been given up."""
        raise NotImplementedError

    def undo(self) -> None:
        """End a command that nobody supervises yet. Blocks until it is gone, bounded."""
        raise NotImplementedError

    def strike(self) -> None:
        """Have everything killed although another thread drives. Any thread; never raises."""
        raise NotImplementedError
