"""Stopping turns from outside, and seeing them through: the cancellation, who is waited for, what is left.

The turn's own program ends what it owns: it hears of the cancellation at once. Where it does not answer, it is helped:

- a program that stands still (SIGSTOP, Ctrl-Z) is continued, or it would never hear of it; also where it stands still
  within a transaction, and nobody could write before it goes on;
- of one that is gone, or does not answer within the patience, the processes on record are ended from here, by identity,
  asked first and killed after the grace.

What was sent is put on record. Of several turns all are waited for at once: each has a look in turn, and what is ended
from here is ended on a thread for each. Blocks; for one thread.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from turnctl.cli.talk import say
from turnctl.clock import format_duration, wall
from turnctl.errors import StoreBusy
from turnctl.ledger import dealings
from turnctl.ledger.accounts import report_on
from turnctl.ledger.deaths import deaths_in
from turnctl.ledger.identity import identity_of, members_of, proof_of_death
from turnctl.ledger.stopping import Accepted, stop_turn
from turnctl.processes.kernel import open_pidfd
from turnctl.records.changes import By, Refusal
from turnctl.records.tasks import PROCESSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnctl.cli.progress import Progress
    from turnctl.ledger.store import Books, Store
    from turnctl.processes.adopted import Adopted
    from turnctl.records.accounts import TaskReport
    from turnctl.records.tasks import Holder, OwnedActivity
    from turnctl.records.turns import TurnRecord

__all__ = ["LOOK_S", "Stopping", "see_through"]

#: how long a program has to say that it begins nothing more, before its processes are ended from here
PATIENCE_S = 2.0
FORCED_S = 0.5
#: how long others may hold the ledger, and from look to look at who does
BUSY_S = 10.0
LOOK_S = 0.5
#: how long from one look at the ledger to the next: nobody rings when a turn ends
_LOOK_S = 0.02
#: after so long a person is told who is waited for
_SAID_AFTER_S = 0.2
#: less than that is told as now
_LEAST_S, _LATE_S = 0.1, 1.0


class Stopping:
    """The stop of one turn. ``ask`` once, then ``see_through`` with others."""

    def __init__(self, store: Store, turn_id: str, inc: str, *, by: str, reason: str | None, quiet: bool) -> None:
        self._store = store
        self.turn_id = turn_id
        self.inc = inc
        self._by = by
        self._reason = reason
        self._quiet = quiet
        self._said = ""
        #: what was done from here, in words
        self.helped: list[str] = []
        self.answer: Accepted | Refusal | None = None
        #: where whom it waits for is shown, if that can move
        self.progress: Progress | None = None
        #: what tells its lines from those of others
        self.prefix = ""
        #: whether it has come to rest
        self.is_at_rest = False
        self._has_helped = False
        self._ender: threading.Thread | None = None
        self._trouble: BaseException | None = None
        self._holder: Holder | None = None

    def ask(self, *, kill: bool = False, revision: int | None = None) -> Accepted | Refusal:
        """Have the store accept it, or say why not. Raises ``StoreBusy`` where the ledger was not free in time."""
        until = time.monotonic() + BUSY_S
        while self.answer is None:
            try:
                self.answer = stop_turn(
                    self._store, self.turn_id, by=self._by, reason=self._reason, kill=kill, revision=revision
                )
            except StoreBusy as busy:
                self._free(busy.holder)
                if time.monotonic() >= until:
                    waited = str(busy).replace(f"within {LOOK_S:g}s", f"within {BUSY_S:g}s")
                    raise StoreBusy(waited, path=busy.path, holder=busy.holder) from busy
        return self.answer

    def _free(self, pid: int | None) -> None:
        """Continue the turn's own program if that is who stands in the way."""
        row = self._store.read(lambda books: books.turn(self.turn_id))
        if row is not None and row.holder.pid == pid and _stands_still(row.holder.pid):
            self._continue(row.holder)

    def look(self, began: float, until: float, *, grace_s: float, kill: bool) -> bool:
        """Look how it stands, and help where nobody answers; whether there is something to wait for."""
        if self._ender is not None and self._ender.is_alive():
            return True  # bounded by its grace, and not left alone in the middle
        if self._trouble is not None:
            raise self._trouble
        report, now = self.report(), time.monotonic()
        self.is_at_rest = _is_at_rest(report, self.turn_id)
        if self.is_at_rest or now >= until:
            return False
        row = _row(report, self.turn_id)
        holder = self._holder = None if row is None else row.holder
        death = None if holder is None else proof_of_death(holder)
        if death is None and holder is not None and not self._has_helped and _stands_still(holder.pid):
            self._has_helped = self._continue(holder)
        is_silent = report.acknowledged_at is None and now >= began + (FORCED_S if kill else PATIENCE_S)
        if self._ender is None and (death is not None or is_silent):
            self._end_aside(report, death, grace_s=0.0 if kill else grace_s)
            return True
        if self._ender is not None:
            self._note_deaths()
        if now >= began + _SAID_AFTER_S:
            self._say_who(report, row, until - now, kill=kill)
        return True

    def say_whose_grace(self, grace_s: float) -> None:
        """Where its own program goes on by another grace than was asked for, say so: it cannot be changed from here."""
        row = self._store.read(lambda books: books.turn(self.turn_id))
        if self._quiet or row is None or row.grace_s in (None, grace_s) or row.ended_at is not None:
            return
        if proof_of_death(row.holder) is None:
            own = format_duration(row.grace_s or 0.0)
            say(f"{self.prefix}its own program gives it {own}, and hears of no other grace; --force kills at once")

    @property
    def waits_for(self) -> Holder | None:
        """The program whose end is worth another look."""
        return self._holder

    def report(self) -> TaskReport:
        """What is on record of its task now."""
        return report_on(self._store, self.inc)

    # -- helping ------------------------------------------------------------------------------------------------------

    def _continue(self, holder: Holder) -> bool:
        if _send(holder, signal.SIGCONT):
            self._tell(
                f"process {holder.pid}, which runs the turn, stood still and was continued, so that it hears of this"
            )
            return True
        return False

    def _end_aside(self, report: TaskReport, death: str | None, *, grace_s: float) -> None:
        """On a thread, so that others are not kept waiting for the grace of this one."""

        def end() -> None:
            try:
                self._end_from_here(report, death, grace_s=grace_s)
            except BaseException as error:  # noqa: BLE001 - raised by the next look
                self._trouble = error

        self._ender = threading.Thread(target=end, name=f"turnctl-stop-{self.turn_id}", daemon=True)
        try:
            self._ender.start()
        except RuntimeError:  # no thread to be had
            end()

    def _end_from_here(self, report: TaskReport, death: str | None, *, grace_s: float) -> None:
        """End the processes on record, and put on record what was sent."""
        found = [one for one in report.activities if one.may_act and one.kind in PROCESSES and one.process is not None]
        targets = {one.ref: _members(one) for one in found}
        pids = sorted({one.pid for each in targets.values() for one in each})
        why = f"its program is gone ({death})" if death is not None else "its program does not answer"
        if pids:
            self._tell(f"{why}: ending what it started from here: {', '.join(map(str, pids))}")
            for ref, sent in self._end(targets, grace_s).items():
                self._record_sent(ref, sent)
        elif death is None and not self._said:
            self._tell(f"{why}, and nothing that it started is on record")
        self._note_deaths()

    def _end(self, targets: dict[str, list[Holder]], grace_s: float) -> dict[str, str]:
        """By a turn of our own, which asks, kills and sees that they are gone; by activity what was sent."""
        from turnctl.errors import BadArgument
        from turnctl.turns import Turn

        adopted: dict[str, list[Adopted]] = {}
        with Turn(grace=grace_s, inherit=False) as turn:
            for ref, ones in targets.items():
                for one in ones:
                    with suppress(BadArgument):  # it has ended meanwhile, or may not be ended by this user
                        taken = turn.adopt(one.pid)
                        if proof_of_death(one) is None:
                            adopted.setdefault(ref, []).append(taken)
                        else:
                            taken.release()  # somebody else has that number by now
            turn.cancel(reason=self._reason, by=self._by)
        sent = {}
        for ref, handles in adopted.items():
            outcomes = [one.outcome() for one in handles]
            words = dict.fromkeys(each.signal for one in outcomes for each in one.signals)
            sent[ref] = ", ".join(words) or "none"
        return sent

    def _record_sent(self, ref: str, sent: str) -> None:
        by = By(self._by, "canceller", wall())

        def note(books: Books) -> None:
            dealings.signalled(books, by, self.inc, ref, sent, "signal_queued")

        self._store.transact(note, point="escalate")

    def _note_deaths(self) -> None:
        deaths = deaths_in(self._store, self.inc)
        if deaths:
            self._store.transact(lambda books: deaths.into(books, wall()), point="reconcile")

    # -- telling ------------------------------------------------------------------------------------------------------

    def _tell(self, text: str) -> None:
        self.helped.append(text)
        if not self._quiet:
            say(f"{self.prefix}{text}")

    def _say_who(self, report: TaskReport, row: TurnRecord | None, left_s: float, *, kill: bool) -> None:
        whom = (
            ", ".join(one.title for one in report.activities if one.may_act)
            or ", ".join(report.missing)
            or "its program"
        )
        when = _kill_in(row, self.answer, kill=kill or self._ender is not None)
        if self.progress is not None and self.progress.moves:
            self.progress.state(f"{self.prefix}waiting for {whom}{when}")
        elif whom != self._said and not self._quiet:
            self._said = whom
            say(f"{self.prefix}waiting, for {format_duration(max(1.0, round(left_s)))} at most: {whom}{when}")


def see_through(stoppings: Sequence[Stopping], within_s: float, *, grace_s: float, kill: bool) -> None:
    """Wait until all have come to rest, together and for so long at most; see ``Stopping.is_at_rest``."""
    began = time.monotonic()
    until = began + within_s
    waiting = list(stoppings)
    for one in waiting:
        one.prefix = f"{one.turn_id}: " if len(waiting) > 1 else ""
    while True:
        waiting = [one for one in waiting if one.look(began, until, grace_s=grace_s, kill=kill)]
        if not waiting:
            return
        _wait_for([one.waits_for for one in waiting], _LOOK_S if time.monotonic() < began + 1.0 else _LOOK_S * 5)


def _kill_in(row: TurnRecord | None, answer: Accepted | Refusal | None, *, kill: bool) -> str:
    """When what is left is killed, by its own program: the first acceptance began the grace."""
    if kill or row is None or row.grace_s is None or not isinstance(answer, Accepted):
        return ""
    left_s = answer.cr.at + row.grace_s - wall()
    if left_s >= _LEAST_S:
        return f"; KILL in {format_duration(round(left_s, 1))}"
    return "; KILL now" if left_s > -_LATE_S else f"; KILL was due {format_duration(round(-left_s))} ago"


def _row(report: TaskReport, turn_id: str) -> TurnRecord | None:
    return next((one for one in report.turns if one.turn_id == turn_id), None)


def _is_at_rest(report: TaskReport, turn_id: str) -> bool:
    """Whether the turn has told its end, or is proven lost, and nothing of its task drains any more."""
    row = _row(report, turn_id)
    return (row is None or row.state != "running") and report.task.is_at_rest


def _stands_still(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except OSError:
        return False


def _send(holder: Holder, number: int) -> bool:
    """Signal that very process, and nobody who has its number now, or in this namespace; whether it was sent."""
    fd = open_pidfd(holder.pid)
    if fd is None:
        return False
    try:
        if not holder.started or identity_of(holder.pid) != holder:
            return False
        signal.pidfd_send_signal(fd, number)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _members(one: OwnedActivity) -> list[Holder]:
    """Who there is of a command on record: its main process if it is that one still, else its session and group."""
    process = one.process
    if process is None or not process.pid or not process.started:
        return []  # who it was is not known well enough to signal anybody
    if identity_of(process.pid) == process:
        return [process]
    if identity_of(process.pid).started or proof_of_death(process) is None:
        return []  # of another one, or of another place
    # a number is not given out again while somebody is in the session or group that it named
    return [found for pid in members_of(process.pid) or [] if (found := identity_of(pid)).started]


def _wait_for(holders: Sequence[Holder | None], seconds: float) -> None:
    """Wait so long, or until one of the programs has ended."""
    poll, fds = select.poll(), list[int]()
    try:
        for pid in {one.pid for one in holders if one is not None and proof_of_death(one) is None}:
            fd = open_pidfd(pid)
            if fd is not None:
                fds.append(fd)
                poll.register(fd, select.POLLIN)
        poll.poll(seconds * 1000)
    finally:
        for fd in fds:
            os.close(fd)
