"""Ending everything below a process that goes on: for a shell that lives for many turns.

Two ways. Where the leader is the main process of a command that has a warden (or a control group), the warden ends all
that is below it, whatever session or parent that has, and proves that nobody but the leader and the spared is left
(``complete``). Else (``best-effort``) it is whoever descends from the leader, has its session or group where it leads
them, or was found so before; a process that left the leader's session by ``setsid`` *and* lost its parent before
anybody looked is not found. The looks are when the scope opens and while it is being ended.

Invariants
  O1  The leader is never sent a signal that ends it, nor is any group: each process is signalled by its identity.
  O2  Who is spared is spared with all that is below it. With ``only_new`` that is also whoever was there before.
  O3  It is ended once: by the stop or the end of its turn, or by leaving its ``with``; until then nobody drives.

May block: opening it, for the answer of the warden; ending it, as for a command.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from turnctl.clock import parse_duration
from turnctl.errors import BadArgument, TurnctlError
from turnctl.processes import leaving
from turnctl.processes.account import Account
from turnctl.processes.adopted import spec_for
from turnctl.processes.custody import Found
from turnctl.processes.demand import Demanded
from turnctl.processes.grouped import Grouped
from turnctl.processes.guarded import MARGIN_S, Guarded, found_of
from turnctl.processes.ladder import DRAIN_S
from turnctl.processes.output import Pump
from turnctl.processes.scoped import scoped
from turnctl.processes.spec import Spec
from turnctl.processes.stranger import Stranger, pid_of, prove, tree_of
from turnctl.processes.table import Entry, Identity, read_entry
from turnctl.processes.tree import is_still
from turnctl.records.process import STRENGTHS, ProcessOutcome
from turnctl.spelling import in_words
from turnctl.tokens.threads import needing_threads
from turnctl.waiting.wakeup import Wakeup

if TYPE_CHECKING:
    from types import TracebackType

    from turnctl.records.process import Holder
    from turnctl.tokens.activities import Activity, Owner

__all__ = ["Scope", "open_scope"]

_numbers = itertools.count(1)


class _Under:
    """Below a main process that has a warden."""

    def __init__(self, guarded: Guarded, spec: Spec, account: Account, wake: Callable[[], None]) -> None:
        self.held_by: Holder = guarded.held_by
        self.empty_proven = False
        #: whether the leader has
        self.has_ended = False
        #: why it is not known who is left; empty if it is
        self.unsure = ""
        self.counts = (0, 0)
        self._guarded = guarded
        self._spec = spec
        self._account = account
        self._wake = wake
        self._ref = next(_numbers)
        self._spared: list[tuple[int, int]] = []
        self._kill_at = 0.0
        self._answers: list[Any] = []
        self._left: list[Found] = []

    def open(self, spared: list[Entry], *, only_new: bool) -> None:
        self._spared = [(one.pid, int(one.start)) for one in spared]
        if not only_new:
            return
        told = threading.Event()
        found: list[Any] = []

        def on_marked(identities: Any) -> None:
            found.append(identities)
            told.set()

        self._guarded.mark(next(_numbers), on_marked)
        if not told.wait(MARGIN_S):
            raise TurnctlError("the scope was not opened: the warden of its leader does not answer; is it stopped?")
        self._spared += found[0] or ()

    def begin(self, kill_at: float) -> None:
        self._kill_at = kill_at
        self._guarded.cull(self._ref, self._spared, kill_at, self._spec.stop_signal, self._on_culled)

    def _on_culled(self, facts: Any) -> None:
        self._answers.append(facts)
        self._wake()

    def go_on(self, kill_at: float, _pump: Pump) -> float | None:
        if self._answers:
            self._take(self._answers[0])
            return None
        if kill_at < self._kill_at:
            self.begin(kill_at)
        until = self._kill_at + DRAIN_S + MARGIN_S
        if monotonic() < until:
            return until
        self._is_unknown("the warden of the leader does not answer, so it is not known who is left")
        return None

    def _is_unknown(self, why: str) -> None:
        self.unsure = why
        self._account.note(why)

    def _take(self, facts: Any) -> None:
        if facts is None:
            self.has_ended = True
            self._account.note("the leader ended meanwhile, and what it left is that command's")
            return
        self.empty_proven = facts["empty"]
        self._left = [found_of(member, member[5]) for member in facts["survivors"]]
        if not self._left and not self.empty_proven:
            self._is_unknown("nobody was found any more, but that nobody is left could not be proved in time")
        ended = max(0, facts["seen"] - len(self._left))
        self.counts = (ended, min(ended, facts["killed"]))
        self._account.told(facts["signals"])

    def notice(self, _fd: int, _pump: Pump) -> None:
        """Nothing of it is waited for here."""

    def survivors(self) -> list[Found]:
        return self._left

    def finish(self) -> None:
        """There is nothing to let go of."""


class _Bystander(Stranger):
    """The leader, which is looked at and never signalled (O1)."""

    def signal_group(self, signum: int) -> bool:  # noqa: ARG002 - not even to ask for it
        return False


class _Beside(Grouped):
    """Below a process that is known by the process table alone."""

    empty_proven = False
    unsure = ""

    def __init__(self, leader: _Bystander, spec: Spec, account: Account, wake: Callable[[], None]) -> None:
        super().__init__(leader.pid, spec, account, wake)
        self.leader = leader

    def open(self, spared: list[Entry], *, only_new: bool) -> None:
        assert isinstance(self.leader, Stranger)
        tree = self.tree = tree_of(self.leader)
        kept = {one.identity for one in spared}
        all_of = tree.members
        if only_new:
            kept |= {one.identity for one in all_of()}
        leader = self.leader.pid
        tree.members = lambda: _without(all_of(), leader, kept)  # type: ignore[method-assign]

    def begin(self, kill_at: float, _cause: Any = None) -> None:  # type: ignore[override]
        super().begin("scope", kill_at)

    def finish(self) -> None:
        if self.leader.look():
            self._account.note("the leader ended meanwhile: of what it left, only who was seen before is known")
        super().finish()


def _without(members: Iterable[Entry], leader: int, kept: set[Identity]) -> list[Entry]:
    """The members but for the leader, those kept, and all that belongs to one of these (O2)."""
    there = list(members)
    queue = [one for one in there if one.identity in kept and one.pid != leader]
    out = {one.pid for one in queue} | {leader}
    while queue:
        above = queue.pop().pid
        news = [one for one in there if one.pid not in out and above in (one.ppid, one.pgrp, one.sid)]
        out.update(one.pid for one in news)
        queue += news
    return [one for one in there if one.pid not in out]


class Sparing(Demanded):
    """What the turn holds of a scope (``tokens.activities.Owned``)."""

    kind = "scope"

    def __init__(self, spec: Spec, owner: Owner, leader: Entry) -> None:
        super().__init__(spec, owner)
        self.name = spec.title
        self.account = Account(spec)
        self.leader = leader
        self._wakeup = Wakeup()
        self._pump = Pump()
        self._there: list[Found] = []
        self._unwatch: Callable[[], object] = lambda: None
        self._activity: Activity
        self._below: _Under | _Beside

    def open(self, below: _Under | _Beside, spared: list[Entry], *, only_new: bool) -> None:
        self._below = below
        try:
            self._activity = self._owner.admit(self)
        except BaseException:
            self._close()
            raise
        try:
            self._activity.own()
            self._activity.identify(self.leader.pid)
            self.account.on_signal = self._activity.signalled
            below.open(spared, only_new=only_new)
            assert self._wakeup is not None
            self._pump.watch(self._wakeup.fd)
            with needing_threads(self.name):
                self._unwatch = self._owner.watch(self._on_bell)
        except BaseException as error:
            self._activity.close("failed", f"could not be opened: {in_words(error)}")
            self.phase = "over"
            self._close()
            raise
        self.phase = "left"
        if self._asked or self._owner.stop_wanted():  # read after it was stored
            self.ask()

    def _drive(self) -> None:
        wakeup, below, pump = self._wakeup, self._below, self._pump
        assert wakeup is not None
        while self.phase != "over":
            if self.phase == "left":
                if not self._asked:
                    return
                self._asked_at = monotonic()
                self.phase = "ending"
                below.begin(self._kill_at())
            until = below.go_on(self._kill_at(), pump)
            if until is None:
                self._finish()
                return
            for fd in pump.wait(self._sooner(until)):
                if fd == wakeup.fd:
                    wakeup.clear()
                else:
                    below.notice(fd, pump)

    def _finish(self) -> None:
        below = self._below
        self._there = below.survivors()
        self.account.survivors = tuple(one.survivor for one in self._there)
        below.finish()
        self.account.ended_at = monotonic()
        ended = below.counts[0]
        fate = "has ended too" if below.has_ended else "goes on"
        text = f"{ended} process{'es' if ended != 1 else ''} ended below process {self.leader.pid}, which {fate}"
        if self._there:
            pids = ", ".join(str(one.entry.pid) for one in self._there)
            self._activity.close("abandoned", f"could not be ended: pid {pids}")
        elif below.unsure:
            self._activity.close("unknown", below.unsure)
        else:
            self._activity.close("completed", text)
        self.phase = "over"
        self._unwatch()
        self._close()

    def _close(self) -> None:
        self._pump.close()
        if self._wakeup is not None:
            self._wakeup.close()

    def alive(self) -> tuple[str, ...]:
        return tuple(f"process {one.entry.pid} ({one.entry.name})" for one in self._there if is_still(one.entry))

    def outcome(self) -> ProcessOutcome:
        """What is known of those below the leader; its own state is not in it."""
        account, below = self.account, self._below
        is_over = self.phase == "over" and account.ended_at is not None
        ended, killed = below.counts if is_over else (0, 0)
        until = account.ended_at or monotonic()
        return ProcessOutcome(
            pid=self.leader.pid,
            argv=(self.name,),
            signals=tuple(account.signals),
            ended=ended,
            killed=killed,
            survivors=account.survivors,
            containment=STRENGTHS[below.held_by],
            held_by=below.held_by,
            empty_proven=is_over and below.empty_proven,
            duration_s=until - account.started_at,
            notes=tuple(account.notes),
        )


class Scope:
    """A stretch of work below a process that goes on; made by ``turn.scope``, ended by leaving its ``with``."""

    def __init__(self, sparing: Sparing) -> None:
        self._sparing = sparing
        self.leader = sparing.leader.pid

    def end(self, grace: float | str | None = None) -> ProcessOutcome:
        """End everything below the leader but for the spared, and say what became of it. Not a checkpoint.

        Blocks for the grace and 5 s at most. The second call gives the first one's outcome.
        """
        seconds = parse_duration(grace, what="grace", zero=True, none=True)
        if seconds is not None:
            self._sparing.hurry(seconds)
        self._sparing.end(lambda: float("inf"))
        return self.outcome()

    def outcome(self) -> ProcessOutcome:
        """What is known now; ``empty_proven`` says that nobody but the leader and the spared was left."""
        return self._sparing.outcome()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._sparing.is_foreign:
            self.end()

    def __repr__(self) -> str:
        return f"<Scope below {self.leader} {self._sparing.phase}>"


def open_scope(
    owner: Owner,
    leader: Any,
    spare: Iterable[Any],
    *,
    only_new: bool,
    grace: float | str | None,
    stop_signal: int | str,
) -> Scope:
    """Open a scope; see ``Turn.scope``."""
    here = scoped(owner)
    here.check()
    spared = [_spared(one) for one in spare]
    pid = pid_of(leader)
    guarded = _guarded(pid)
    fd: int | None = None
    if guarded is None:
        entry, fd = prove(leader, what="cannot be the leader of a scope", held_too=True)
    else:
        entry = _spared(pid)
    try:
        spec = spec_for(entry, grace=grace, stop_signal=stop_signal, title=f"below process {pid} ({entry.name})")
        sparing = Sparing(spec, here, entry)
    except BaseException:
        if fd is not None:
            os.close(fd)
        raise
    if guarded is not None:
        below: _Under | _Beside = _Under(guarded, spec, sparing.account, sparing.wake)
    else:
        below = _Beside(_Bystander(entry, fd), spec, sparing.account, sparing.wake)
    sparing.open(below, spared, only_new=only_new)
    return Scope(sparing)


def _spared(given: Any) -> Entry:
    pid = pid_of(given)
    entry = read_entry(pid)
    if entry is None or entry.is_dead:
        raise BadArgument(f"process {pid} has ended, so there is nobody to be spared")
    return entry


def _guarded(pid: int) -> Guarded | None:
    """The custody of a command with a warden whose main process has that pid."""
    one = leaving.held().get(pid)
    custody = None if one is None else one._custody
    if isinstance(custody, Guarded) and not custody.has_ended and custody.held_by in ("warden", "cgroup"):
        return custody
    return None
