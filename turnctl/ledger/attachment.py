"""A turn at work on a task: its lease, how a cancellation reaches its token, and how its end is told to the store.

Invariants
  W1  The store is watched before the lease is taken, and read after: an acceptance is seen by one of the two (P14).
  W2  The store decides the outcome of the task. The token knows what it accepted before it decides, or is overruled.
  W3  A stop of this process that the store does not know is told to it on the bridge thread, at the latest when the
      turn ends; but one by which only this worker goes away (``shutdown``) leaves the task to the next.
  W4  What the store cannot be told is in the report and raised when the turn is over, never kept quiet.

May block: ``begin``, ``decided`` and ``leaving``, for one transaction of the store each. ``heard`` reads only.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from turnctl import log
from turnctl.clock import wall
from turnctl.errors import EffectCompleted, LedgerRefused
from turnctl.ledger import dealings, stacks, turnrows
from turnctl.ledger.deaths import deaths_in
from turnctl.ledger.identity import this_process
from turnctl.ledger.moves import whole
from turnctl.ledger.names import new_id
from turnctl.ledger.owning import Owning, Taken
from turnctl.ledger.spooling import closed, spool_of
from turnctl.records.changes import By, Refusal
from turnctl.records.effects import EffectRecord
from turnctl.tokens.entries import new_stop

if TYPE_CHECKING:
    from turnctl.ledger.acting import TurnEffect
    from turnctl.ledger.spool import Kept, Spool
    from turnctl.ledger.store import Books, Store
    from turnctl.records.effects import Effect
    from turnctl.records.stops import Cause, Level, Outcome
    from turnctl.records.tasks import Cancellation, Lease, Policy, PromiseLevel, Task
    from turnctl.tokens.turn import TurnCore

__all__ = ["Attachment", "error_of"]

R = TypeVar("R")
_KEEPS_THE_TASK: frozenset[str] = frozenset({"shutdown"})


def error_of(refusal: Refusal, receipt: str | None = None) -> LedgerRefused:
    """The error that says a refusal to whoever asked for more than an answer."""
    if refusal.code == "done":
        effect_id = getattr(refusal.row, "effect_id", "")
        return EffectCompleted(refusal.text, effect_id=effect_id, receipt=receipt)
    return LedgerRefused(refusal.text, code=refusal.code)


class Attachment:
    """What a turn holds of its task (``tokens.ruled.Ruling``)."""

    def __init__(
        self,
        turn: TurnCore,
        store: Store,
        inc: str,
        task_id: str,
        *,
        force: bool = False,
        parent: Attachment | None = None,
        is_private: bool = False,
    ) -> None:
        self.turn = turn
        self.store = store
        self.durable = store.durable
        self.inc = inc
        self.task_id = task_id
        self.gen = 0
        self.cr: Cancellation | None = None
        #: what the task promises, and what a stop does to what was admitted; they never change
        self.promise: PromiseLevel = "no-new-actions"
        self.policy: Policy = "suppress"
        self.handles: list[TurnEffect] = []
        self._name = f"turn {turn.turn_id} of process {os.getpid()}"
        self._force = force
        self._parent = parent
        self._is_private = is_private  # of this turn alone: nobody else cancels there
        self._unwatch: Callable[[], None] | None = None
        self._holds = False
        self._is_decided = False
        self._has_left = False
        self._known: dict[str, EffectRecord] = {}
        self.owning = Owning(self)
        self._spool: Spool | None = None

    @property
    def by(self) -> By:
        return By(self._name, "worker", wall())

    def deal(self, fn: Callable[..., R], *args: Any, point: str = "store", urgent: bool = False, **more: Any) -> R:
        """One dealing in one transaction, by this worker."""
        by = self.by
        return self.store.transact(lambda books: fn(books, by, *args, **more), urgent=urgent, point=point)

    # -- begin ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._unwatch = self.store.watch(self.inc, self._rung)  # W1
        stacks.begins(self.inc, self.turn)
        try:
            self._take()
        except BaseException:
            self._stop_listening()
            raise
        if not self._is_private and not self._has_left:
            self.owning.begin()
            self.turn.token.on_cancel(self.tell)
        self.heard()

    def _take(self) -> None:
        deaths = None if self._parent is not None else deaths_in(self.store, self.inc)
        by, holder = self.by, this_process()
        row = None if self._is_private else turnrows.row_of(self.turn)

        def take(books: Books) -> Lease | Refusal:
            if self._parent is not None:
                made = self._parent.register(books, by, self.inc, self.task_id)
                if isinstance(made, Refusal):
                    return made
            if deaths:
                deaths.into(books, by.at)
            lease = dealings.take_lease(books, by, self.inc, holder, force=self._force)
            if row is not None and not isinstance(lease, Refusal):
                begun = turnrows.begin(books, by, row, self.inc, lease.gen)
                if isinstance(begun, Refusal):
                    raise error_of(begun)  # which takes the lease back
            return lease

        answer = self.store.transact(take, point="child" if self._parent is not None else "lease")
        if not isinstance(answer, Refusal):
            self.gen = answer.gen
            self._holds = True
            task = self.store.read(lambda books: books.task(self.inc))
            if task is not None:
                self.promise, self.policy = task.promise, task.policy
        elif answer.code == "cancelled" and self._parent is not None:
            self._parent.heard()  # the stop comes down by the token
            self._has_left = self._is_decided = True
            self._stop_listening()
        elif not (answer.code == "ended" and self.heard()):
            raise error_of(answer)

    def register(self, books: Books, by: By, inc: str, task_id: str) -> Task | Refusal:
        """Register a child that is about to run."""
        if self._parent is not None and not self.gen:  # begun when its own parent had gone: it has no row
            return self._parent.register(books, by, inc, task_id)
        return dealings.register_child(books, by, self.inc, self.gen, inc, task_id)

    def under(self, turn: TurnCore) -> Attachment | None:
        if self._is_private:
            return None
        return Attachment(turn, self.store, new_id("i"), f"{self.task_id}/{turn.turn_id}", parent=self)

    def undo(self) -> None:
        self._stop_listening()
        self.owning.close()
        if self._holds:
            self._holds = False
            self.store.transact(lambda books: self._let_go(books, self.by, "failed"))

    def _stop_listening(self) -> None:
        unwatch, self._unwatch = self._unwatch, None
        if unwatch is not None:
            stacks.ends(self.inc)
            unwatch()

    # -- a cancellation ---------------------------------------------------------------------------------------------

    def heard(self) -> bool:
        """Read whether the store has accepted a cancellation, and trip the token if so; whether it has."""
        view = self.store.read(lambda books: books.at_gate(self.inc))
        cr = None if view is None else view.cr
        if cr is None:
            return False
        if self.cr is None or self.cr.level != cr.level:
            self.turn.cancel(cr.reason, by=cr.requester, cause=_cause_of(cr), level=_level_of(cr))
            self.cr = cr  # last: who finds it finds the token tripped
        return True

    def lets_go(self, what: object, owner: str, contract: str) -> bool:
        return self.owning.lets_go(what, owner, contract)

    def _rung(self) -> None:
        if not self.turn.is_over:
            self._quietly(self.heard)  # on a thread of the store, which has others to tell

    def tell(self) -> bool:
        """Tell the store of a stop that it may not know (W3), and that this worker begins nothing more, with what was
        sent to whom; whether there was something to tell."""
        self.owning.stop_sent()
        stop = self.turn.token.record
        if stop is None or not self._holds or self._keeps_the_task():
            return False
        by, taken = self.by, Taken()
        asked = By(stop.by or stop.cause, "canceller", by.at)

        def tell(books: Books) -> Cancellation | None:
            view = books.at_gate(self.inc)
            if view is None or view.lease is None or not view.lease.live or view.task.lease_gen != self.gen:
                return None
            self.owning.into(books, by, taken, is_first=True)
            level: Literal["cancel", "kill"] = "kill" if self.turn.token.level == "kill" else "cancel"
            if view.task.is_running or (view.cr is not None and view.cr.level != level == "kill"):
                dealings.cancel(books, asked, self.inc, lambda: new_id("cr"), reason=stop.reason, level=level)
            dealings.acknowledge(books, by, self.inc, self.gen)
            self.owning.into(books, by, taken)
            now = books.at_gate(self.inc)
            return None if now is None else now.cr

        self.cr = self.store.transact(tell, urgent=True, point="cancel") or self.cr
        self.owning.cleared(taken)
        return True

    def _keeps_the_task(self) -> bool:
        """Whether the turn was stopped by what leaves its task to the next worker."""
        first = self.turn.token.record
        while first is not None and first.origin is not None:
            first = first.origin
        return first is not None and first.cause in _KEEPS_THE_TASK

    def delivers(self) -> bool:
        """Whether what was admitted may be sent here, though the turn be stopped: the policy "deliver"."""
        return self.policy == "deliver" and not self._keeps_the_task()

    # -- the end ----------------------------------------------------------------------------------------------------

    def deciding(self) -> None:
        if self._holds and not self.turn.token.stopping:
            self._quietly(self.heard)

    def decided(self) -> BaseException | None:
        if self._is_decided or not self._holds:
            return None
        outcome = self.turn.token.outcome
        trouble: BaseException | None = None
        if outcome == "cancelled":
            trouble = self._quietly(self.tell)
        elif outcome in ("completed", "failed"):
            trouble = self._quietly(lambda: self._complete(outcome))
        self._is_decided = trouble is None
        return trouble

    def _complete(self, outcome: str) -> None:
        by, taken = self.by, Taken()

        def complete(books: Books) -> Task | Refusal:
            self.owning.into(books, by, taken)
            view = whole(books, self.inc)
            is_its_end = view is not None and view.task.is_running and view.task.lease_gen == self.gen
            for child, its in view.children if view is not None and is_its_end else ():
                if its.is_running and child.status != "detached":
                    dealings.cancel(books, by, its.inc, lambda: new_id("cr"), reason="its parent has ended")
            return dealings.complete(books, by, self.inc, self.gen, cast("Any", outcome))

        answer = self.store.transact(complete, point="complete")
        self.owning.cleared(taken)
        if not isinstance(answer, Refusal):
            self._holds = answer.execution == "active"
            return
        if answer.code == "already_cancelled":
            self._overrule()
        elif answer.code == "already_completed":  # by this generation, which was interrupted before it knew
            self._holds = answer.row.execution == "active"  # type: ignore[union-attr]
        elif answer.code in ("stale_generation", "no_lease"):
            self._holds = False
            self.turn.notes.append(
                f"another worker has taken the task over; its outcome is not this turn's: {answer.text}"
            )
            self.turn.token._overrule("superseded")
        else:
            raise error_of(answer)

    def _overrule(self) -> None:
        """The store had accepted a cancellation that had not been heard of here (W2)."""
        view = self.store.read(lambda books: books.at_gate(self.inc))
        cr = self.cr = None if view is None else view.cr
        if cr is not None:
            stop = new_stop(cr.reason, cr.requester, _cause_of(cr), _level_of(cr), None, self.turn.turn_id)
            self.turn.token._overrule(cast("Any", self.turn.token.outcome), stop)
            self.tell()

    def leaving(self) -> BaseException | None:
        if self._has_left:
            return None
        self._stop_listening()
        self.owning.close()
        trouble = self._quietly(self._depart) if self.gen else None
        self._has_left = trouble is None
        return trouble

    def _depart(self) -> None:
        """Give back what is held, and tell how the turn ended, in one transaction."""
        account = None if self._is_private else turnrows.Account(self.turn)
        by, taken, output = self.by, Taken(), closed(self._spool)

        def depart(books: Books) -> dict[str, EffectRecord]:
            self.owning.into(books, by, taken)
            if self._holds:
                self._give_back(books, by)
            known = self._learn(books)
            if account is not None:
                report = account.text(self._records(known))
                turnrows.end(books, by, self.turn.turn_id, account.outcome, report=report, output=output)
            return known

        self._known = self.store.transact(depart)
        self.owning.cleared(taken)
        self._holds = False

    def _give_back(self, books: Books, by: By) -> None:
        found = [name for a in self.turn.activities.all() if a.owned is not None for name in a.owned.alive()]
        if found:  # it may still act: the task drains until somebody proves that it does not
            dealings.cannot_prove(books, by, self.inc, self.gen, why=f"still alive: {', '.join(found)}")
        else:
            dealings.give_back(books, by, self.inc, self.gen)

    def _let_go(self, books: Books, by: By, outcome: Outcome) -> None:
        dealings.give_back(books, by, self.inc, self.gen)
        if not self._is_private:
            turnrows.end(books, by, self.turn.turn_id, outcome)

    def _quietly(self, fn: Callable[[], object]) -> BaseException | None:
        """Do it; an error of the store is in the report, and is raised when the turn is over (W4)."""
        try:
            fn()
        except Exception as error:  # noqa: BLE001 - whatever the store raises, the turn has to come to its end
            text = f"the ledger could not be asked or told: {type(error).__name__}: {error}"
            if text not in self.turn.notes:
                self.turn.notes.append(text)
            log.warning("ledger.untold", turn=self.turn.turn_id, task=self.task_id, error=str(error))
            return error
        return None

    # -- what it says -----------------------------------------------------------------------------------------------

    def keep(self, name: str, of: str) -> Kept | None:
        if self._spool is None and self._holds:
            self._spool = spool_of(self.store, self.turn.turn_id)
        return None if self._spool is None or self._has_left else self._spool.stream(f"{of}.{name}")

    # -- effects ----------------------------------------------------------------------------------------------------

    def _learn(self, books: Books) -> dict[str, EffectRecord]:
        """What became of the effects of this turn, also by others' doing."""
        mine = {handle.effect_id for handle in self.handles if handle.effect_id}
        found = [one for one in books.effects_of(self.inc) if one.effect_id in mine] if mine else []
        return {one.effect_id: self._record(one, books) for one in found}

    def _record(self, effect: Effect, books: Books) -> EffectRecord:
        receipts = [one for one in books.receipts(effect.effect_id) if one.body_sha == effect.receipt_sha]
        return record_of(effect, receipts[-1].body if receipts else None, durable=self.durable)

    def records(self) -> tuple[EffectRecord, ...]:
        return self._records(self._known)

    def _records(self, known: dict[str, EffectRecord]) -> tuple[EffectRecord, ...]:
        found = {}
        for handle in list(self.handles):
            record = handle.record
            if record is not None:
                found[record.effect_id] = known.get(record.effect_id, record)
        return tuple(found.values())


def record_of(effect: Effect, receipt: str | None, *, durable: bool) -> EffectRecord:
    """What a report says of it."""
    return EffectRecord(
        effect_id=effect.effect_id,
        kind=effect.kind,
        key=effect.key,
        phase=effect.phase,
        disposition=effect.disposition,
        receipt=receipt,
        after_cutoff=effect.after_cutoff,
        closed_by=effect.closed_by,
        compensates=effect.compensates,
        durable=durable,
        admitted_rev=effect.admitted_rev,
        adapter=effect.adapter,
        request_ref=effect.request_ref,
        reconcilable=effect.reconcilable,
        consequence=effect.consequence,
    )


def _cause_of(cr: Cancellation) -> Cause:
    """Whoever came with an authorisation of the host is an operator, whoever else may stop it its user."""
    return "parent" if cr.covered_by is not None else "operator" if cr.auth_ref is not None else "user"


def _level_of(cr: Cancellation) -> Level:
    return "kill" if cr.level == "kill" else "cancel"
