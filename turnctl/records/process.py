"""What is known of one command, as values."""

from __future__ import annotations

from typing import Any, Literal

import attrs

__all__ = [
    "STRENGTHS",
    "Completed",
    "Containment",
    "Escapes",
    "Holder",
    "LeftoversFate",
    "OutputCut",
    "ProcessOutcome",
    "SignalSent",
    "Survivor",
    "pid_words",
]

Containment = Literal["atomic", "complete", "best-effort"]
LeftoversFate = Literal["kept", "ended", "gone", "detached", "survived"]
Holder = Literal["namespace", "cgroup", "warden", "group"]

#: what may be claimed of a command that is held so
STRENGTHS: dict[Holder, Containment] = {
    "namespace": "atomic",
    "cgroup": "atomic",
    "warden": "complete",
    "group": "best-effort",
}


def pid_words(pid: int) -> str:
    """A pid for people; 0 is one that is not known."""
    return str(pid) if pid else "not known"


def _plain(_: object, __: object, value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@attrs.frozen
class SignalSent:
    """One signal that was sent, and to whom.

    ``after_s`` is seconds since the command started. ``scope`` is ``group`` (one call that reached every
    member of the command's group at that moment), ``namespace`` or ``cgroup`` (one that reached all that live in it;
    ``pid`` is its first process) or ``process`` (one process, proved by pid and start time).
    """

    signal: str
    after_s: float
    scope: Literal["group", "process", "namespace", "cgroup"]
    pid: int


@attrs.frozen
class Escapes:
    """How many of the processes that were found when a command was being ended had escaped which net.

    ``group``: they were not in the group of the main process, so a signal to that misses them. ``session``: nor in its
    session (not counted where it was not known which that is). ``parent``: they had lost their parent, so a walk down
    from the main process misses them.
    """

    group: int
    session: int
    parent: int

    def __str__(self) -> str:
        nets = [(self.group, "outside its group"), (self.session, "outside its session"), (self.parent, "orphaned")]
        return ", ".join(f"{count} {net}" for count, net in nets if count)


@attrs.frozen
class Survivor:
    """A process of the command that was still there, and why it could not be ended, as far as known.

    ``pid`` and ``started_at`` are 0 where they are not known.
    """

    pid: int
    started_at: float
    name: str
    state: str
    reason: str


@attrs.frozen
class OutputCut:
    """What is missing of one stream: ``left_out`` bytes, from ``offset`` on, because of ``max_output``.

    ``gaps`` is more than 1 where a handle's reader was too slow more than once: ``offset`` is then the first place,
    ``left_out`` the sum.
    """

    stream: str
    offset: int
    left_out: int
    gaps: int = 1


@attrs.frozen
class ProcessOutcome:
    """How one command ended and what was done to end it.

    ``exited`` means that the main process is known to have ended; ``returncode`` is its status as in
    ``subprocess`` (minus N for signal N), None while or where it is not known. ``timed_out``: its own timeout
    passed before it had ended, ``timed_out_by`` which one: ``timeout``, or ``idle`` where it wrote nothing for too
    long. ``stopped``: it was asked to end while it ran, by a stop, by the end of its turn
    or through its handle. ``signals`` lists what was sent, in order. ``ended`` counts the processes that were
    found when it was being ended and are gone, ``killed`` those of them that had been sent KILL.
    ``leftovers`` are processes still there when the main process had ended by itself, and ``leftovers_fate`` says what
    became of them: ``kept`` (there until the turn ends), ``ended`` (by the ladder), ``gone`` (by themselves),
    ``detached`` (to the turn ``detached_to``) or ``survived``; None without any. ``detached_to`` names the turn that a
    command was handed over to, whose report then has the rest. ``survivors`` are those still there when turnctl gave
    up. ``containment`` is how strongly the command was held: ``atomic`` (one act of the kernel
    ends all of it), ``complete`` (all of it is found, and its end is proved) or ``best-effort``; ``held_by`` is what
    held it: ``namespace``, ``cgroup``, ``warden`` or ``group``. ``empty_proven`` is True only where the kernel said
    that no process is left; a scan that found none does not prove it. ``cuts`` says what of the output was not kept,
    ``tee_lost`` how many bytes of it were not handed on. ``escapes`` counts those that had
    left the group or session or lost their parent, None where that was not looked at. ``asked_after_s`` is when its
    ending began.
    ``learned_after_s`` is given where it began without this program, which had not read a signal or was past a deadline
    and could not say so: when it heard of that. Times are seconds, these two since the start.
    """

    pid: int | None
    argv: tuple[str, ...]
    returncode: int | None = None
    exited: bool = False
    timed_out: bool = False
    stopped: bool = False
    signals: tuple[SignalSent, ...] = ()
    ended: int = 0
    killed: int = 0
    leftovers: tuple[Survivor, ...] = ()
    leftovers_fate: LeftoversFate | None = None
    detached_to: str | None = None
    survivors: tuple[Survivor, ...] = ()
    containment: Containment = "best-effort"
    held_by: Holder = "group"
    empty_proven: bool = False
    output_held: bool = False
    duration_s: float = 0.0
    escapes: Escapes | None = None
    asked_after_s: float | None = None
    learned_after_s: float | None = None
    notes: tuple[str, ...] = ()
    timed_out_by: Literal["timeout", "idle"] | None = None
    cuts: tuple[OutputCut, ...] = ()
    tee_lost: int = 0

    @property
    def signal(self) -> int | None:
        """The number of the signal that ended the main process, if one did."""
        if self.returncode is None or self.returncode >= 0:
            return None
        return -self.returncode

    @property
    def is_held_by_unknown(self) -> bool:
        """Whether somebody who was not found held the output open, so that something of it may be running."""
        return self.output_held and not self.leftovers and not self.empty_proven

    def handed_over(self, to: str | None) -> ProcessOutcome:
        """The same, as the one who gave it to the turn ``to`` reports it; None: let go."""
        return attrs.evolve(self, detached_to=to, leftovers_fate="detached" if self.leftovers else None)

    def as_dict(self) -> dict[str, Any]:
        """The outcome as plain values for JSON."""
        found = attrs.asdict(self, value_serializer=_plain)
        found["signal"] = self.signal
        return found


@attrs.frozen
class Completed:
    """A command that has come back: its arguments, status, captured output and outcome.

    ``stdout`` and ``stderr`` are what was read (bytes, or str with ``text=True``), None where they were not
    captured. After a stop or a timeout they hold all that was read before the call returned. With ``max_output``
    they are the beginning and the end of a long stream, put together: ``cut`` says what is missing between them.
    """

    args: tuple[str, ...] | str
    returncode: int | None
    stdout: bytes | str | None
    stderr: bytes | str | None
    outcome: ProcessOutcome

    def cut(self, stream: Literal["stdout", "stderr"] = "stdout") -> OutputCut | None:
        """What is missing of that stream; None if nothing is."""
        return next((one for one in self.outcome.cuts if one.stream == stream), None)
