"""What one command is known to have done and to have been done to: collected as it happens, told as a
record.
"""

from __future__ import annotations

from time import monotonic
from typing import Literal

from turnctl.processes.leader import Leader
from turnctl.processes.signames import name_of
from turnctl.processes.spec import Spec
from turnctl.processes.table import Entry, Identity
from turnctl.processes.tree import Reached
from turnctl.records.process import Containment, ProcessOutcome, SignalSent, Survivor

__all__ = ["Account", "status_words"]


class Account:
    """The facts of one command. Written by whoever supervises it; ``outcome`` may be asked from any
    thread.
    """

    def __init__(self, spec: Spec) -> None:
        self._argv = spec.argv
        self.started_at = monotonic()
        self.ended_at: float | None = None
        self.timed_out = False
        self.stopped = False
        self.signals: list[SignalSent] = []
        self.seen: set[Identity] = set()
        self.killed: set[Identity] = set()
        self.leftovers: tuple[Survivor, ...] = ()
        self.survivors: tuple[Survivor, ...] = ()
        self.notes: list[str] = []
        self.output_held = False

    def sent(self, signum: int, reached: list[Reached]) -> None:
        """Note who a signal was sent to."""
        after = monotonic() - self.started_at
        name = name_of(signum)
        self.signals += [SignalSent(name, after, scope, pid) for scope, pid in reached]

    def saw(self, members: list[Entry]) -> None:
        """Note what is being ended."""
        self.seen.update(member.identity for member in members)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def verdict(self, returncode: int | None) -> tuple[Literal["abandoned", "cancelled", "completed", "unknown"], str]:
        """How the activity ended, and in words. What was killed by a stop is cancelled, never failed."""
        status = status_words(returncode)
        if self.survivors:
            pids = ", ".join(str(survivor.pid) for survivor in self.survivors)
            return "abandoned", f"could not be ended: pid {pids}"
        if self.stopped:
            return "cancelled", f"stopped: {status}"
        if self.timed_out:
            return "completed", f"its timeout passed: {status}"
        return "unknown" if returncode is None else "completed", status

    def outcome(self, leader: Leader, containment: Containment) -> ProcessOutcome:
        """The record as of now."""
        until = monotonic() if self.ended_at is None else self.ended_at
        ended: set[Identity] = set()
        if self.ended_at is not None:  # before that they may grow while they are counted
            left = {survivor.pid for survivor in self.survivors}
            ended = {identity for identity in self.seen if identity[0] not in left}
        notes = list(self.notes)
        if self.output_held:
            notes.append("the output was still held open when the command had ended, and was read no further")
        if leader.ended and leader.returncode is None:
            notes.append(
                "the exit status is not known: another part of this program reaped the process, or it ignores SIGCHLD"
            )
        return ProcessOutcome(
            pid=leader.pid,
            argv=self._argv,
            returncode=leader.returncode,
            exited=leader.ended,
            timed_out=self.timed_out,
            stopped=self.stopped,
            signals=tuple(self.signals),
            ended=len(ended),
            killed=sum(identity in self.killed for identity in ended),
            leftovers=self.leftovers,
            survivors=self.survivors,
            containment=containment,
            empty_proven=False,
            output_held=self.output_held,
            duration_s=until - self.started_at,
            notes=tuple(notes),
        )


def status_words(returncode: int | None) -> str:
    """An exit status for people."""
    if returncode is None:
        return "exit status not known"
    if returncode >= 0:
        return f"exit status {returncode}"
    return f"ended by {name_of(-returncode)}"
