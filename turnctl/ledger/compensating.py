"""Making an effect good by another one, which has its own identity, authorisation and outcome."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self

from turnctl.clock import wall
from turnctl.errors import LedgerRefused
from turnctl.ledger import dealings
from turnctl.ledger.attachment import error_of
from turnctl.ledger.compensators import claimant
from turnctl.ledger.names import new_id
from turnctl.ledger.sent import SentEffect, bytes_of
from turnctl.records.changes import By, Refusal
from turnctl.records.effects import Effect

if TYPE_CHECKING:
    from turnctl.ledger.adapters import Adapter
    from turnctl.ledger.store import Books, Store

__all__ = ["Compensation", "compensation"]


class Compensation(SentEffect):
    """An effect that makes another one good; made by ``ledger.compensate``, entered with ``with``."""

    def __init__(
        self, store: Store, wanted: Effect, payload: bytes, original: Effect, actor: str, auth_ref: str | None
    ) -> None:
        super().__init__(store, wanted, payload)
        self._original = original
        self._actor = actor
        self._auth_ref = auth_ref

    def __enter__(self) -> Self:
        if self._row is not None:
            raise LedgerRefused(f"{self!r} is entered once", code="closed")
        by, claimed_by = self._by(), claimant(self._actor)

        def commit(books: Books) -> Effect | Refusal:
            made = dealings.compensate(
                books, by, self._original.effect_id, self._wanted, self._payload, auth_ref=self._auth_ref
            )
            if isinstance(made, Refusal):
                return made
            return dealings.claim(books, by, made.effect_id, made.gen, claimed_by)

        found = self._store.transact(commit, point="compensate")
        if isinstance(found, Refusal):
            raise error_of(found)
        self._row = found
        return self

    def _by(self) -> By:
        return By(self._actor, "compensator", wall())

    def _gen(self) -> None:
        return None


def compensation(
    store: Store,
    original: Effect,
    kind: str,
    key: str,
    payload: Any,
    actor: str,
    auth_ref: str | None,
    adapter: Adapter | None,
) -> Compensation:
    """The compensation of ``original``, not admitted yet."""
    found = bytes_of(payload)
    wanted = Effect(
        effect_id=new_id("e"),
        inc=original.inc,
        intent_key=f"{kind} {key}",
        kind=kind,
        payload_sha=sha256(found).hexdigest(),
        admitted_rev=0,
        gen=0,
        adapter=None if adapter is None else adapter.name,
        reconcilable=adapter is not None and adapter.is_reconcilable,
        consequence=original.consequence,
    )
    return Compensation(store, wanted, found, original, actor, auth_ref)
