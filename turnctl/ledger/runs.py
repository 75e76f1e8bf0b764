"""One command as a turn of its own on record, for the command line: two small transactions, and never in its way.

The task is the turn's own: it is submitted, leased and recorded with the process that is about to start in one
transaction, and ended in one. A third, beside, has the number of a process that is still there after a moment. Its
tenant is ``TENANT``, which no host has by accident; its id is that of the turn.

Invariants
  R1  Before the command may start its turn is on record; where that cannot be, nothing is, and why is in ``trouble``,
      or it is raised where the record was required.
  R2  Nothing of this raises afterwards. A store that breaks leaves a record that is incomplete, and ``trouble``.
  R3  A stop of this process never waits for the store: it is told on a thread beside. A cancellation that the store
      has accepted stops the command, as any turn on a task.
  R4  Once something has gone wrong the store is not asked again, so that the end waits for it once at the most.

May block: ``begin`` and ``leaving``, each for the store's patience.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from turnctl import log
from turnctl.ledger import dealings, stacks, turnrows
from turnctl.ledger.attachment import Attachment, error_of
from turnctl.ledger.identity import identity_of, this_process
from turnctl.ledger.names import keepable, new_id
from turnctl.ledger.owned import Seen, Step, keep
from turnctl.ledger.spooling import spool_of
from turnctl.records.changes import Refusal, evolve
from turnctl.records.tasks import OwnedActivity

if TYPE_CHECKING:
    from turnctl.ledger.spool import Kept
    from turnctl.ledger.store import Books, Store
    from turnctl.records.changes import By
    from turnctl.tokens.turn import TurnCore

__all__ = ["TENANT", "Recorded", "Run"]

TENANT = "turnctl-run"
#: by what the process is known among what the task owns
PROCESS = "command"
_TELL_S = 11.0
_LEAVE_S = 0.5
#: how long a process is there before it gets its number: most are through by then
_SETTLE_S = 0.05


class Run:
    """What the command line gives its turn as a task."""

    def __init__(
        self,
        store: Store,
        command: Sequence[str],
        *,
        folder: str | None,
        label: str | None = None,
        output: dict[str, str] | None,
        limit: int | None,
        is_required: bool,
    ) -> None:
        self.store = store
        self.command = command
        self.folder = folder
        #: what people call it; None for the name of its program
        self.label = label
        #: what becomes of each stream: the name it is kept by, or why it is not kept; None for no stream at all
        self.output = output
        self.limit = limit
        self.is_required = is_required
        self.recorded: Recorded | None = None

    def _attach(self, turn: TurnCore) -> Recorded:
        self.recorded = Recorded(turn, self)
        return self.recorded


class Recorded(Attachment):
    """The turn of one command (``tokens.ruled.Ruling``)."""

    def __init__(self, turn: TurnCore, run: Run) -> None:
        super().__init__(turn, run.store, new_id("i"), turn.turn_id)
        self._run = run
        #: what went wrong, the first of it
        self.trouble: Exception | None = None
        self._teller: threading.Thread | None = None
        self._steps: list[Step] = []
        self._identifying: threading.Timer | None = None
        if run.output is not None:
            self._spool = spool_of(run.store, turn.turn_id, run.limit)

    @property
    def is_on_record(self) -> bool:
        """Whether there is a row of it, which may be incomplete."""
        return self.gen > 0

    # -- begin ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        try:
            self._unwatch = self.store.watch(self.inc, self._rung)
            stacks.begins(self.inc, self.turn)
            self._register()
        except Exception as error:
            self._stop_listening()
            if self._run.is_required:
                raise
            self.trouble = error
            self.durable = False
            return
        self.turn.token.on_cancel(self._tell_aside)

    def _register(self) -> None:
        run = self._run
        output = None if run.output is None else {"streams": run.output}
        name = os.path.basename(run.command[0])
        row = turnrows.row_of(self.turn, name=run.label or name, command=run.command, folder=run.folder, output=output)
        by, holder = self.by, this_process()

        def register(books: Books) -> int:
            _sure(dealings.submit(books, by, self.inc, TENANT, self.turn.turn_id))
            lease = _sure(dealings.take_lease(books, by, self.inc, holder))
            _sure(turnrows.begin(books, by, row, self.inc, lease.gen))
            process = OwnedActivity(self.inc, PROCESS, "process", keepable(name), lease.gen, begun_at=by.at)
            self._steps = [Step("registered", _sure(dealings.own(books, by, process, lease.gen)))]
            gen: int = lease.gen
            return gen

        self.gen = self.store.transact(register, point="run")
        self._holds = True

    def undo(self) -> None:
        """The turn could not begin after all; the row says so."""
        self._stop_listening()
        if self._holds:
            self._holds = False
            self._quietly(lambda: self.store.transact(lambda books: self._never_began(books, self.by)))

    def _never_began(self, books: Books, by: By) -> None:
        self._observed(books, by, Step("stopped", evolve(self._process, stopped=True, detail="never started")))
        dealings.complete(books, by, self.inc, self.gen, "failed")
        turnrows.end(books, by, self.turn.turn_id, "failed")

    # -- while it runs --------------------------------------------------------------------------------------------

    def keep(self, name: str, of: str) -> Kept | None:  # noqa: ARG002 - there is one command
        if self._spool is None or not self._holds or self._has_left:
            return None
        return self._spool.stream(name)

    @property
    def _process(self) -> OwnedActivity:
        return self._steps[-1].row

    def _observed(self, books: Books, by: By, *steps: Step) -> None:
        """Put on record what is known of the process up to now, and this."""
        keep(books, by, self.inc, self.gen, [Seen(PROCESS, (*self._steps, *steps))])

    def started(self, pid: int) -> None:
        """The process has that number. It is put on record if it is still there in a moment, so that its end can be
        proven where nobody told of it; one that is through by then costs nothing."""
        holder = identity_of(pid) if self._holds else None
        if holder is None:
            return
        self._steps.append(Step("identified", evolve(self._process, process=holder)))
        timer = threading.Timer(_SETTLE_S, lambda: self._quietly(self._identify))
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError:  # no thread to be had
            return
        self._identifying = timer

    def _identify(self) -> None:
        by = self.by
        self.store.transact(lambda books: self._observed(books, by), point="run_identify")

    def _tell_aside(self) -> None:
        teller = threading.Thread(target=lambda: self._quietly(self.tell), name="turnctl-record", daemon=True)
        try:
            teller.start()
        except RuntimeError:  # no thread to be had: it is told at the end
            return
        self._teller = teller

    # -- the end --------------------------------------------------------------------------------------------------

    def decided(self) -> BaseException | None:
        return None  # it is told with the rest, in one transaction

    def leaving(self) -> BaseException | None:
        if not self._has_left:
            self._stop_listening()
            if self._identifying is not None:
                self._identifying.cancel()
            for one in (self._identifying, self._teller):
                if one is not None:
                    one.join(_TELL_S)
            if self._holds:
                self._quietly(self._finish)
            if self._spool is not None:
                self._spool.close()
            self._has_left = True
        return None

    def _finish(self) -> None:
        if self.turn.token.outcome == "cancelled" and self.cr is None:
            self.tell()
        if not self._end():
            self._overrule()  # the store had accepted a cancellation that was not heard of here
            self._end()

    def _end(self) -> bool:
        """Tell all of the end in one transaction; False, and nothing written, where the store knows of a stop that the
        token does not."""
        account, output = turnrows.Account(self.turn), self._output()
        alive = [name for a in self.turn.activities.all() if a.owned is not None for name in a.owned.alive()]
        by, outcome = self.by, self.turn.token.outcome

        def end(books: Books) -> bool:
            view = books.at_gate(self.inc)
            if view is not None and view.cr is not None and outcome != "cancelled":
                return False
            self._tell_of_process(books, by, alive)
            if outcome in ("completed", "failed"):
                dealings.complete(books, by, self.inc, self.gen, outcome)
            if alive:
                dealings.cannot_prove(books, by, self.inc, self.gen, why=f"still alive: {', '.join(alive)}")
            elif outcome not in ("completed", "failed"):
                dealings.give_back(books, by, self.inc, self.gen)
            turnrows.end(books, by, self.turn.turn_id, account.outcome, report=account.text(()), output=output)
            return True

        is_told = self.store.transact(end, point="run_end")
        if is_told:
            self._holds = False
        return is_told

    def _tell_of_process(self, books: Books, by: By, alive: Sequence[str]) -> None:
        row, steps = self._process, []
        if self.turn.token.cancelled:
            row = evolve(row, signal="stop", signalled_at=by.at, evidence="signal_queued")
            steps.append(Step("signalled", row))
        if not alive:
            steps.append(Step("stopped", evolve(row, stopped=True, ended_at=by.at, evidence="handler_stopped")))
        self._observed(books, by, *steps)

    def _output(self) -> str | None:
        if self._spool is None:
            return None
        self._spool.close()
        return json.dumps({"streams": self._run.output, "kept": self._spool.account()})

    def not_kept(self) -> list[tuple[str, int, str]]:
        """Of which stream how many bytes found no place, and why."""
        kept = {} if self._spool is None else self._spool.account()
        found = [(name, one) for name, one in kept.items() if isinstance(one, dict) and "not_kept" in one]
        return [(name, one["not_kept"], one["problem"]) for name, one in found]

    def leave(self, alive: Sequence[str]) -> None:
        """Nobody waits for it any more: put on record what is known, if that can be done at once. From a handler."""

        def end(books: Books) -> None:
            by = self.by
            self._tell_of_process(books, by, alive or ["what could not be found"])
            dealings.cannot_prove(books, by, self.inc, self.gen, why=f"no longer waited for: {', '.join(alive)}")
            report = turnrows.Account(self.turn).text(())
            turnrows.end(books, by, self.turn.turn_id, "cancelled", report=report, output=self._output())

        if self._holds:
            # the frame below may be in the middle of a transaction, so never on this thread
            thread = threading.Thread(target=lambda: self._quietly(lambda: self.store.transact(end)), daemon=True)
            thread.start()
            thread.join(_LEAVE_S)

    def _quietly(self, fn: Callable[[], object]) -> BaseException | None:
        if self.trouble is None:  # R4
            try:
                fn()
            except Exception as error:  # noqa: BLE001 - the command and its end do not depend on its record (R2)
                self.trouble = error
                log.warning("run.not_recorded", turn=self.turn.turn_id, error=str(error))
        return None


def _sure(answer: Any) -> Any:
    """What a dealing gave; a refusal takes all of the transaction back."""
    if isinstance(answer, Refusal):
        raise error_of(answer)
    return answer
