"""An effect in the hands of a turn: the gate before it, the claim before it is sent, and what became of it after.

Invariants
  X1  The body of the ``with`` runs only when the effect was admitted and claimed by this call: committed to the store,
      with the turn not stopped as seen within that transaction; or admitted before, for a task whose policy is
      "deliver", which a stop of the turn takes nothing from while the turn is not over.
  X2, X3  see ``ledger.sent``.

Blocks for one transaction at each step. Entering is a checkpoint, but for what "deliver" lets through.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, NoReturn, Self

from turnctl.clock import wall
from turnctl.errors import BadArgument, LedgerRefused, TurnOver
from turnctl.ledger import dealings
from turnctl.ledger.adapters import PLAIN, Adapter, Answer
from turnctl.ledger.attachment import error_of
from turnctl.ledger.failpoints import reach
from turnctl.ledger.names import new_id
from turnctl.ledger.sent import SentEffect, bytes_of
from turnctl.records.changes import By, Refusal
from turnctl.records.effects import Effect
from turnctl.tokens.pausing import wait_while_paused

if TYPE_CHECKING:
    from types import TracebackType

    from turnctl.ledger.attachment import Attachment
    from turnctl.ledger.store import Books
    from turnctl.records.effects import Consequence
    from turnctl.tokens.callbacks import Registration

__all__ = ["TurnEffect"]

_STOPPED = ("cancelled", "drain_only")


class _Halted(Exception):
    """The turn had been stopped when the transaction came to its end: nothing of it is written."""


class TurnEffect(SentEffect):
    """One effect, made by ``turn.effect``: enter it with ``with``, send it in the body, and tell what became of it."""

    def __init__(
        self, of: Attachment, kind: str, key: str, payload: Any, *, adapter: Adapter | None, consequence: Consequence
    ) -> None:
        if adapter is not None and not isinstance(adapter, Adapter):
            raise BadArgument(f"the adapter of effect {kind} {key!r} is an Adapter or None, not {adapter!r}")
        found = bytes_of(payload)
        wanted = Effect(
            effect_id=new_id("e"),
            inc=of.inc,
            intent_key=f"{kind} {key}",
            kind=kind,
            payload_sha=sha256(found).hexdigest(),
            admitted_rev=0,
            gen=of.gen,
            adapter=None if adapter is None else adapter.name,
            reconcilable=adapter is not None and adapter.is_reconcilable,
            consequence=consequence,
        )
        super().__init__(of.store, wanted, found)
        self._of = of
        self._adapter = adapter or PLAIN
        self._asking: Registration | None = None
        self._is_listed = False

    # -- the gate and the claim -----------------------------------------------------------------------------------

    def admit(self) -> Self:
        """Have it admitted and not yet claimed; it may still be suppressed. A checkpoint; blocks for the store.

        Raises ``EffectCompleted`` with the receipt if it was done before, ``LedgerRefused`` if it stands open.
        """
        if self._row is None:
            self._row = self._commit(claims=False)
        return self

    def __enter__(self) -> Self:
        if self._row is not None and self._row.phase != "admitted":
            raise LedgerRefused(f"{self!r} is entered once; make another effect for another intent", code="closed")
        self._row = self._commit(claims=True)
        self._ask_on_stop()
        reach("send.after_claim")
        return self

    def _commit(self, *, claims: bool) -> Effect:
        of, row = self._of, self._row
        if row is not None and of.delivers():
            wait_while_paused(of.turn.token)
        else:
            of.turn.check()
        self._refuse_promise()
        by = of.by
        if row is not None:
            reach("send.before_claim")

        def commit(books: Books) -> Effect | Refusal:
            admitted: Effect | Refusal | None = row
            if admitted is None:
                admitted = dealings.admit(books, by, self._wanted, of.gen, self._payload)
            if claims and isinstance(admitted, Refusal) and (why := self._may_send_again(admitted)):
                admitted = dealings.claim_again(books, by, admitted.row.effect_id, of.gen, by.actor, why=why)  # type: ignore[union-attr]
            elif claims and isinstance(admitted, Effect):
                admitted = dealings.claim(books, by, admitted.effect_id, of.gen, by.actor)
            halts = of.turn.token.retired or (of.turn.token.cancelled and not (row is not None and of.delivers()))
            if isinstance(admitted, Effect) and halts:
                raise _Halted  # what was accepted here before this line stops it; what comes later finds it done (X1)
            return admitted

        try:
            found = of.store.transact(commit, point="gate" if row is None else "send")
        except _Halted:
            if of.turn.token.cancelled:
                raise of.turn.token._raised() from None
            text = f"turn {of.turn.turn_id} is over and admits no new effect ({self._wanted.kind}); begin a new turn"
            raise TurnOver(text, turn_id=of.turn.turn_id) from None
        if isinstance(found, Refusal):
            self._refused(found)
        if not self._is_listed:
            self._is_listed = True
            of.handles.append(self)
        return found

    def _may_send_again(self, refusal: Refusal) -> str | None:
        """How it is known that the receiver takes it once, where an unknown one stands in the way; else None."""
        found, adapter = refusal.row, self._adapter
        if refusal.code != "unresolved" or not isinstance(found, Effect) or not adapter.is_idempotent:
            return None
        if found.adapter != adapter.name or found.closed_by is not None:
            return None
        horizon = adapter.key_horizon_s
        if horizon is not None and wall() - found.at >= horizon:
            return None
        return f"{adapter.name} takes an id once{'' if horizon is None else f' within {horizon:g} s'}"

    def _refuse_promise(self) -> None:
        """Refuse what cannot keep the promise of the task."""
        if self._of.promise not in self._adapter.promises:
            text = (
                f"task {self._of.task_id} promises {self._of.promise}, which {self._wanted.kind} by adapter "
                f"{self._adapter.name} cannot keep ({', '.join(self._adapter.promises)}); give an adapter that can, or "
                "submit it with less"
            )
            raise LedgerRefused(text, code="incapable")

    def _refused(self, refusal: Refusal) -> NoReturn:
        of = self._of
        if self._row is not None and isinstance(refusal.row, Effect):
            self._row = refusal.row
        if of.heard() and (refusal.code in _STOPPED or refusal.code == "suppressed"):
            raise of.turn.token._raised()  # the store knew first
        found: Any = refusal.row
        receipt = None
        if isinstance(found, Effect) and refusal.code == "done":
            kept = of.store.read(lambda books: books.receipts(found.effect_id))
            receipt = next((one.body for one in kept if one.body_sha == found.receipt_sha), None)
        raise error_of(refusal, receipt)

    def _ask_on_stop(self) -> None:
        """Where that is promised, have the provider asked as soon as the turn is stopped, unless it was before."""
        of = self._of
        is_late = of.policy == "deliver" and of.turn.token.cancelled
        if self._adapter.cancel is not None and of.promise in ("ask-provider", "prevent-delivery") and not is_late:
            self._asking = of.turn.token.on_cancel(self._ask_provider)

    def _ask_provider(self) -> None:
        row, ask = self._row, self._adapter.cancel
        if row is None or ask is None or row.disposition != "pending":
            return
        answer = ask(row)
        evidence = self._adapter.evidence
        self._of.deal(dealings.note, row.inc, "effect.cancel_asked", row.effect_id, {"evidence": evidence})
        if isinstance(answer, Answer) and (answer.disposition == "completed" or evidence == "provider_confirmed"):
            self._close(answer.disposition, answer.receipt, answer.source)

    def suppress(self, why: str = "not wanted any more") -> None:
        """Have it not sent, if it was admitted and not claimed; ``LedgerRefused`` once it may have happened."""
        if self._row is None:
            raise LedgerRefused(f"{self!r} was not admitted, so there is nothing to suppress", code="not_claimed")
        of = self._of
        found = of.deal(dealings.suppress, self._row.effect_id, why=why, gen=of.gen)
        if isinstance(found, Refusal):
            raise error_of(found)
        self._row = found

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._asking is not None:
            self._asking.unregister()
        super().__exit__(kind, error, trace)

    def _by(self) -> By:
        return self._of.by

    def _gen(self) -> int:
        return self._of.gen

    def _left(self, text: str) -> None:
        self._of.turn.notes.append(text)
