"""What one command is known to have done and to have been done to: collected as it happens, told as a
record.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Literal

from turnctl.clock import format_duration
from turnctl.processes.consumers import Consumers
from turnctl.processes.signames import name_of
from turnctl.processes.spec import Spec
from turnctl.processes.tree import Reached
from turnctl.records.process import STRENGTHS, LeftoversFate, ProcessOutcome, SignalSent, Survivor, pid_words

if TYPE_CHECKING:
    from turnctl.processes.custody import Custody

__all__ = ["Account", "status_words"]

_SCOPES: dict[str, Literal["group", "namespace", "cgroup"]] = {
    "group": "group",
    "namespace": "namespace",
    "cgroup": "cgroup",
}


class Account:
    """The facts of one command. Written by whoever supervises it; ``outcome`` may be asked from any
    thread.
    """

    def __init__(self, spec: Spec, consumers: Consumers | None = None) -> None:
        self._argv = spec.argv
        self._idle_s = spec.idle_s
        self._consumers = Consumers() if consumers is None else consumers
        self._limits = spec.hygiene.limits
        self.started_at = monotonic()
        self.ended_at: float | None = None
        self.timed_out = False
        #: its limit was that of silence
        self.was_idle = False
        self.stopped = False
        self.signals: list[SignalSent] = []
        self.leftovers: tuple[Survivor, ...] = ()
        self.survivors: tuple[Survivor, ...] = ()
        #: whether the ending began for them alone
        self.was_for_leftovers = False
        self._sent_before_leftovers = 0
        self.notes: list[str] = []
        self.output_held = False
        #: told the name of each signal that was sent
        self.on_signal: Callable[[str], object] | None = None
        self.asked_after_s: float | None = None
        self.learned_after_s: float | None = None

    @property
    def was_ended(self) -> bool:
        """Whether it was ended, and did not end by itself."""
        return self.timed_out or self.stopped

    def sent(self, signum: int, reached: list[Reached]) -> None:
        """Note who a signal was sent to."""
        after = monotonic() - self.started_at
        if self.asked_after_s is None:
            self.asked_after_s = after
        name = name_of(signum)
        self.signals += [SignalSent(name, after, scope, pid) for scope, pid in reached]
        if self.on_signal is not None and reached:
            self.on_signal(name)

    def told(self, sent: list[tuple[float, int, str, int]]) -> None:
        """Note what a warden has sent: seconds since the start, number, scope and pid of each."""
        self.signals += [
            SignalSent(name_of(signum), after, _SCOPES.get(scope, "process"), pid) for after, signum, scope, pid in sent
        ]
        if self.on_signal is not None:
            for name in dict.fromkeys(name_of(signum) for _, signum, _, _ in sent):
                self.on_signal(name)

    def left(self, leftovers: tuple[Survivor, ...]) -> None:
        """Note who lives on after the main process has ended by itself."""
        self.leftovers = leftovers
        self._sent_before_leftovers = len(self.signals)

    def _fate(self, is_over: bool) -> LeftoversFate | None:
        if not self.leftovers:
            return None
        if not is_over:
            return "kept"
        if self.survivors:
            return "survived"
        is_ended = self.was_for_leftovers or len(self.signals) > self._sent_before_leftovers
        return "ended" if is_ended else "gone"

    def learned(self) -> None:
        """Note that this program has only now heard of the ending that others have begun."""
        self.learned_after_s = monotonic() - self.started_at

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def verdict(self, returncode: int | None) -> tuple[Literal["abandoned", "cancelled", "completed", "unknown"], str]:
        """How the activity ended, and in words. What was killed by a stop is cancelled, never failed."""
        status = status_words(returncode)
        if self.survivors:
            pids = ", ".join(pid_words(survivor.pid) for survivor in self.survivors)
            return "abandoned", f"could not be ended: pid {pids}"
        if self.stopped:
            return "cancelled", f"stopped: {status}"
        if self.timed_out:
            return "completed", f"{self._limit_in_words()}: {status}"
        return "unknown" if returncode is None else "completed", status

    def _limit_in_words(self) -> str:
        if self.was_idle and self._idle_s is not None:
            return f"it wrote nothing for {format_duration(self._idle_s)}"
        return "its timeout passed"

    def outcome(self, custody: Custody) -> ProcessOutcome:
        """The record as of now."""
        until = monotonic() if self.ended_at is None else self.ended_at
        is_over = self.ended_at is not None  # before that, counts may grow and proofs are not yet wanted
        ended, killed = custody.counts if is_over else (0, 0)
        notes = list(self.notes)
        if self.output_held:
            notes.append("the output was still held open when the command had ended, and was read no further")
        if told := self._limits.told_by(custody.returncode):
            notes.append(told)
        if custody.has_ended and custody.returncode is None:
            notes.append(f"the exit status is not known: {custody.why_unknown}")
        notes += self._consumers.notes()
        if self.was_idle:
            notes.append(f"it was ended because {self._limit_in_words()} (idle_timeout)")
        return ProcessOutcome(
            pid=custody.pid,
            argv=self._argv,
            returncode=custody.returncode,
            exited=custody.has_ended,
            timed_out=self.timed_out,
            timed_out_by=("idle" if self.was_idle else "timeout") if self.timed_out else None,
            stopped=self.stopped,
            signals=tuple(self.signals),
            ended=ended,
            killed=killed,
            leftovers=self.leftovers,
            leftovers_fate=self._fate(is_over),
            survivors=self.survivors,
            containment=STRENGTHS[custody.held_by],
            held_by=custody.held_by,
            empty_proven=is_over and custody.empty_proven,
            output_held=self.output_held,
            cuts=self._consumers.cuts(),
            tee_lost=self._consumers.tee_lost,
            escapes=custody.escapes if is_over else None,
            asked_after_s=self.asked_after_s,
            learned_after_s=self.learned_after_s,
            duration_s=until - self.started_at,
            notes=tuple(notes),
        )

    def handed(self, custody: Custody, to: str | None) -> ProcessOutcome:
        """The record as the one who gave it away keeps it: nothing of it is that one's any more."""
        return self.outcome(custody).handed_over(to)


def status_words(returncode: int | None) -> str:
    """An exit status for people."""
    if returncode is None:
        return "exit status not known"
    if returncode >= 0:
        return f"exit status {returncode}"
    return f"ended by {name_of(-returncode)}"
