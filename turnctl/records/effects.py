"""What a ledger keeps of an effect: something that gets out into the world and cannot be taken back by stopping."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from turnctl.errors import BadArgument

__all__ = [
    "DEFINITIVE",
    "DISPOSITIONS",
    "PHASES",
    "Answer",
    "Authority",
    "Consequence",
    "Disposition",
    "Effect",
    "EffectRecord",
    "LedgerEvent",
    "Phase",
    "Receipt",
]

Phase = Literal["admitted", "claimed", "suppressed", "closed"]
Disposition = Literal["pending", "suppressed", "rejected", "completed", "provider_cancelled", "unknown"]
Consequence = Literal["low", "medium", "high"]
#: on whose word a change was made. ``system`` is the store itself, as part of another transition.
Authority = Literal["worker", "canceller", "reconciler", "operator", "compensator", "system"]

PHASES: tuple[Phase, ...] = Phase.__args__  # type: ignore[attr-defined]
DISPOSITIONS: tuple[Disposition, ...] = Disposition.__args__  # type: ignore[attr-defined]
#: what is known for good, and has a receipt behind it
DEFINITIVE = frozenset({"rejected", "completed", "provider_cancelled"})


@attrs.frozen
class Effect:
    """One commitment to act: what exactly, under which revision it was admitted, and what became of it.

    ``effect_id`` is stable over restarts and reconnects; ``intent_key`` is the host's own name for the intent, of which
    at most one may be unknown. ``payload_sha`` is of the bytes as they were given. ``compensates`` names the effect
    that this one is to make good. ``request_ref`` is the protocol's own id of the request that carried it last: another
    request has another one, and the effect keeps its id. ``reconcilable`` says whether a way to look it up was named.
    """

    effect_id: str
    inc: str
    intent_key: str
    kind: str
    payload_sha: str
    admitted_rev: int
    gen: int
    phase: Phase = "admitted"
    disposition: Disposition = "pending"
    adapter: str | None = None
    request_ref: str | None = None
    reconcilable: bool = False
    consequence: Consequence = "medium"
    #: who sends it, from the claim on: the generation and a name for people
    claim: str | None = None
    #: sent, or to be sent, although a cancellation had been accepted (policy "deliver")
    after_cutoff: bool = False
    receipt_sha: str | None = None
    #: an unknown that an operator closed without a receipt: by whom. It stays unknown.
    closed_by: str | None = None
    compensates: str | None = None
    auth_ref: str | None = None
    at: float = 0.0

    @property
    def key(self) -> str:
        """The host's own key, without the kind that a turn puts before it."""
        return self.intent_key.removeprefix(f"{self.kind} ")

    @property
    def is_open(self) -> bool:
        """Whether its outcome is still to come, or unknown and not closed by an operator."""
        return self.disposition == "pending" or (self.disposition == "unknown" and self.closed_by is None)

    @property
    def is_unsent(self) -> bool:
        return self.phase == "admitted"

    def as_dict(self) -> dict[str, Any]:
        return attrs.asdict(self)


@attrs.frozen
class Receipt:
    """The evidence behind a definitive disposition: who said it, and what was said."""

    effect_id: str
    source: str
    body_sha: str
    body: str
    #: what it was taken to establish
    establishes: Disposition
    at: float = 0.0


@attrs.frozen
class EffectRecord:
    """What a report says of one effect. ``durable`` tells whether this outlives the process that says so.

    ``receipt`` is the evidence behind a definitive disposition. ``unknown`` means that it may have happened.
    ``admitted_rev`` is the task's revision that it was admitted under: below that of a cancellation means before it.
    """

    effect_id: str
    kind: str
    key: str
    phase: Phase
    disposition: Disposition
    receipt: str | None = None
    after_cutoff: bool = False
    closed_by: str | None = None
    compensates: str | None = None
    durable: bool = False
    admitted_rev: int = 0
    adapter: str | None = None
    request_ref: str | None = None
    reconcilable: bool = False
    consequence: Consequence = "medium"
    #: when its receiver told
    told_at: float | None = None

    @property
    def is_unresolved(self) -> bool:
        """Whether it may have happened, and nobody has told, nor closed it."""
        is_told = self.disposition not in ("unknown", "pending")
        return self.phase in ("claimed", "closed") and not is_told and self.closed_by is None

    def as_dict(self) -> dict[str, Any]:
        return attrs.asdict(self)


@attrs.frozen
class Answer:
    """What a receiver says of an effect, and the receipt that it gives for that: text, or what JSON can hold."""

    disposition: Disposition
    receipt: Any = None
    #: who said it
    source: str = "provider"

    def __attrs_post_init__(self) -> None:
        if self.disposition not in DEFINITIVE:
            raise BadArgument(
                f"an answer is {', '.join(sorted(DEFINITIVE))}, not {self.disposition!r}; who cannot tell answers None"
            )
        if self.receipt is None:
            raise BadArgument(f"an answer {self.disposition!r} needs the receipt that stands behind it")


@attrs.frozen
class LedgerEvent:
    """One line of an incarnation's log. ``body`` is what changed, as it was stored; the hash goes over those bytes."""

    inc: str
    n: int
    kind: str
    actor: str
    authority: Authority
    read_only: bool
    subject: str
    body: str
    at: float
    prev_hash: str
    hash: str
