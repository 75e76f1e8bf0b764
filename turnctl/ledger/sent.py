"""An effect once it is admitted: the bytes to send, and what is told of it, with the receipt that stands behind that.

Invariants
  X2  Leaving the body leaves a disposition: the one that was told with a receipt, else ``unknown``. An exception is no
      evidence that nothing got out.
  X3  Nothing is sent by this file, and nothing is sent again: not what is completed, nor what is unknown, but for a
      receiver that takes an id once (``Adapter.is_idempotent``), under that id, while the task runs.

Blocks for one transaction at each step. Telling what became of it is no checkpoint.
"""

from __future__ import annotations

import json
import reprlib
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from turnctl import log
from turnctl.clock import wall
from turnctl.errors import BadArgument, LedgerRefused
from turnctl.ledger import dealings
from turnctl.ledger.attachment import error_of, record_of
from turnctl.ledger.failpoints import reach
from turnctl.records.changes import By, Refusal
from turnctl.records.effects import Effect, Receipt
from turnctl.spelling import visible

if TYPE_CHECKING:
    from types import TracebackType

    from turnctl.ledger.store import Store
    from turnctl.records.effects import Disposition, EffectRecord

__all__ = ["SentEffect", "bytes_of", "receipt_of"]


def bytes_of(payload: Any) -> bytes:
    """The bytes that stand for a payload: bytes and text as they are, all else as JSON with sorted keys."""
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return bytes(payload)
    try:
        if isinstance(payload, str):
            return payload.encode()
        found = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return found.encode()
    except (TypeError, ValueError, RecursionError) as error:
        text = f"a payload is bytes, text or what JSON can hold, not {_written(payload)}: {error}"
        raise BadArgument(text) from None


def _in_json(given: Any) -> str:
    """A receipt as JSON, or else as Python writes it: what the receiver said is evidence in any form."""
    try:
        return json.dumps(given, sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError):
        return _written(given)


def _written(given: Any) -> str:
    """As Python writes it, at a readable length."""
    try:
        return reprlib.repr(given)
    except Exception:  # noqa: BLE001 - its own repr may do anything
        return f"a {type(given).__name__}"


def receipt_of(effect_id: str, source: str, given: Any, establishes: Disposition) -> Receipt:
    """``given`` as the evidence behind a disposition."""
    if given is None:
        raise BadArgument(
            f"effect {effect_id} cannot be called {establishes} without a receipt: what did the receiver say?"
        )
    if isinstance(given, str):
        body = given.encode(errors="backslashreplace").decode()
    elif isinstance(given, (bytes, bytearray, memoryview)):
        body = bytes(given).decode(errors="backslashreplace")
    else:
        body = _in_json(given)
    return Receipt(effect_id, source, sha256(body.encode()).hexdigest(), body, establishes, wall())


class SentEffect:
    """The side of an effect that tells what became of it; a turn's and a compensation share it."""

    _row: Effect | None = None
    _receipt: str | None = None

    def __init__(self, store: Store, wanted: Effect, payload: bytes) -> None:
        self._store = store
        self._wanted = wanted
        self._payload = payload

    def _by(self) -> By:
        raise NotImplementedError

    def _gen(self) -> int | None:
        raise NotImplementedError

    def _left(self, text: str) -> None:
        """It is unknown, and ``text`` says why."""

    # -- what it is -----------------------------------------------------------------------------------------------

    @property
    def effect_id(self) -> str:
        """Its id, the same for ever: what goes to the receiver as the idempotency key. Empty before the gate."""
        return "" if self._row is None else self._row.effect_id

    @property
    def payload(self) -> bytes:
        """The bytes that were admitted, and that are to be sent."""
        return self._payload

    @property
    def generation(self) -> int:
        """The generation of the lease that it is sent under, which only rises; 0 before the gate.

        For receivers that fence: one that remembers the highest of a task refuses a worker that was replaced.
        """
        return 0 if self._row is None else self._row.gen

    @property
    def is_reconcilable(self) -> bool:
        """Whether its adapter names a way to look it up, should nobody hear what became of it."""
        return self._wanted.reconcilable

    @property
    def disposition(self) -> Disposition | None:
        """What is known of it, as this process last knew; None before the gate."""
        return None if self._row is None else self._row.disposition

    @property
    def durable(self) -> bool:
        """Whether a ledger keeps it; else it is known to this process alone."""
        return self._store.durable

    @property
    def record(self) -> EffectRecord | None:
        """It as a report shows it; None before the gate."""
        return None if self._row is None else record_of(self._row, self._receipt, durable=self.durable)

    def __repr__(self) -> str:
        state = "not admitted" if self._row is None else f"{self._row.phase}, {self._row.disposition}"
        state += "" if self.is_reconcilable else ", unreconcilable"
        kept = "" if self.durable else ", not durable"
        return f"<{type(self).__name__} {visible(self._wanted.kind)} {self._wanted.key!r} {state}{kept}>"

    # -- how it is sent --------------------------------------------------------------------------------------------

    def requested(self, request_id: str | int) -> None:
        """Note the protocol's own id of the request that carries it, also of the next one after a reconnect.

        The effect keeps its id, which is what the receiver and every look-up know it by. Blocks for the store. Not a
        checkpoint. Raises ``LedgerRefused`` where it is not on the way, or another worker has taken the task over.
        """
        if isinstance(request_id, bool) or not isinstance(request_id, (str, int)):
            raise BadArgument(f"the id of a request is a str or an int, not {request_id!r}")
        if self._row is None:
            raise LedgerRefused(f"{self!r} was not admitted, so no request carries it", code="not_claimed")
        by, gen = self._by(), self._gen()
        found = self._store.transact(
            lambda books: dealings.requested(books, by, self.effect_id, str(request_id), gen=gen)
        )
        if isinstance(found, Refusal):
            raise error_of(found)
        self._row = found

    # -- what became of it ----------------------------------------------------------------------------------------

    def complete(self, receipt: Any) -> None:
        """It took place: ``receipt`` is what the receiver said, text or what JSON can hold. Blocks for the store.

        Not a checkpoint: what got out is told of a stopped turn too. Raises ``LedgerRefused`` where another worker
        has taken the task over, or another receipt said otherwise.
        """
        self._close("completed", receipt, self._wanted.adapter or "plain")

    def reject(self, receipt: Any) -> None:
        """The receiver refused it, and it did not take place. As ``complete``."""
        self._close("rejected", receipt, self._wanted.adapter or "plain")

    def provider_cancelled(self, receipt: Any) -> None:
        """The provider cancelled it before it took place, and says so. As ``complete``."""
        self._close("provider_cancelled", receipt, self._wanted.adapter or "plain")

    def _close(self, disposition: Disposition, given: Any, source: str) -> None:
        if self._row is None:
            raise LedgerRefused(f"{self!r} was not admitted, so nothing can have become of it", code="not_claimed")
        receipt = None if disposition == "unknown" else receipt_of(self._row.effect_id, source, given, disposition)
        reach("send.before_receipt")
        by, gen = self._by(), self._gen()
        found = self._store.transact(
            lambda books: dealings.close(books, by, self.effect_id, disposition, receipt=receipt, gen=gen),
            point="close",
        )
        if isinstance(found, Refusal):
            raise error_of(found)
        self._row = found
        self._receipt = self._receipt if receipt is None else receipt.body

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._row is None or self._row.disposition != "pending":
            return
        how = "without a word of what became of it" if error is None else f"by {type(error).__name__}"
        self._left(f"effect {self._wanted.kind} {self._wanted.key!r} is unknown: its body was left {how}")
        log.warning("effect.unknown", effect=self.effect_id, kind=self._wanted.kind, left=how)
        try:
            self._close("unknown", None, "")
        except LedgerRefused as refused:
            if refused.code != "stale_generation":  # who was fenced has left it unknown already
                raise
