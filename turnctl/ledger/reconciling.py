"""Finding out what became of effects whose outcome is unknown: asks, keeps what is told, and sends nothing.

Invariants
  Q1  A receiver is asked under the effect's own id, and about nothing that a worker may still be sending.
  Q2  An answer is kept with its receipt; no answer, and a probe that fails, leave ``unknown``. Each question is in the
      log as one that only reads.
  Q3  It runs on an authority of its own, which admits and sends nothing (``ledger.gate``, E5).

No lock is held while a probe runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from turnctl import log
from turnctl.clock import wall
from turnctl.errors import BadArgument, LedgerRefused
from turnctl.ledger import dealings
from turnctl.ledger.adapters import Adapter, Answer
from turnctl.ledger.compensators import observe_compensators
from turnctl.ledger.deaths import observe_deaths
from turnctl.ledger.failpoints import reach
from turnctl.ledger.sent import receipt_of
from turnctl.records.account_words import ESCALATIONS
from turnctl.records.accounts import Reconciled
from turnctl.records.changes import By, Refusal
from turnctl.tokens.current import check

if TYPE_CHECKING:
    from turnctl.ledger.adapters import Asked
    from turnctl.ledger.face import Ledger
    from turnctl.ledger.store import Books, Store
    from turnctl.records.effects import Effect

__all__ = ["reconcile", "tell"]


def reconcile(
    ledger: Ledger,
    probes: Mapping[str, Asked] | Iterable[Adapter],
    *,
    by: str,
    tenant: str | None,
    effects: Iterable[str] | None = None,
) -> list[Reconciled]:
    """See ``Ledger.reconcile``."""
    if isinstance(effects, str):
        raise BadArgument(f"effects is a list of ids, not {effects!r}; write [{effects!r}]")
    wanted = None if effects is None else frozenset(effects)
    store, asked = ledger.store, _by_name(probes)
    observe_deaths(store, tenant)
    observe_compensators(store, tenant)
    found: list[Reconciled] = []
    for effect in store.read(lambda books: _unknown(books, tenant)):
        if wanted is not None and effect.effect_id not in wanted:
            continue
        probe = asked.get(effect.adapter or "") or asked.get(effect.kind)
        on_behalf = tenant or store.read(lambda books, inc=effect.inc: _tenant_of(books, inc))  # type: ignore[misc]
        if isinstance(ledger._allowed("reconcile", effect.inc, by, on_behalf), Refusal):
            continue
        check()
        found.append(_ask(store, effect, probe, By(by, "reconciler", wall())))
    return found


def tell(store: Store, effect_id: str, answer: Answer, *, by: str) -> Reconciled:
    """Keep what a person has found out about an effect, as the word of a receiver that was asked.

    Raises ``LedgerRefused`` where there is no such effect; a refusal, such as that it may still be on its way, is in
    the result.
    """
    effect = store.read(lambda books: books.effect(effect_id))
    if effect is None:
        raise LedgerRefused(f"there is no effect {effect_id} in this ledger, or not for you", code="no_such_task")
    return _keep(store, effect, answer, By(by, "reconciler", wall()))


def _by_name(probes: Mapping[str, Asked] | Iterable[Adapter]) -> dict[str, Asked]:
    if isinstance(probes, Mapping):
        for name, probe in probes.items():
            if not callable(probe):
                raise BadArgument(f"the probe for {name} is a function of one effect, not {probe!r}")
        return dict(probes)
    if not isinstance(probes, Iterable):
        raise BadArgument(f"probes are adapters, or functions by name, not {probes!r}")
    found: dict[str, Asked] = {}
    for adapter in probes:
        if not isinstance(adapter, Adapter):
            raise BadArgument(f"probes are adapters, or functions by name, not {adapter!r}")
        if adapter.lookup is not None:
            found[adapter.name] = adapter.lookup
    return found


def _tenant_of(books: Books, inc: str) -> str | None:
    task = books.task(inc)
    return None if task is None else task.tenant


def _unknown(books: Books, tenant: str | None) -> list[Effect]:
    tasks = list(books.incarnations(tenant=tenant))
    return [one for task in tasks for one in books.effects_of(task.inc) if one.disposition == "unknown" and one.is_open]


def _ask(store: Store, effect: Effect, probe: Asked | None, by: By) -> Reconciled:
    answer: Any = None
    problem = None if probe is not None else f"nobody was given to ask about {effect.adapter or effect.kind}"
    if probe is not None:
        try:
            answer = probe(effect)
        except Exception as error:  # noqa: BLE001 - it is told in the result: one receiver that fails hides no other
            problem = f"{type(error).__name__}: {error}"
        if answer is not None and not isinstance(answer, Answer):
            problem, answer = f"the probe answers with turnctl.ledger.Answer or None, not {answer!r}", None
    reach("reconcile.before_write")
    if answer is None:
        escalation = ESCALATIONS[effect.consequence]
        more = {"request": effect.effect_id, "answer": None, "escalation": escalation, "problem": problem}
        store.transact(
            lambda books: dealings.note(books, by, effect.inc, "reconcile.asked", effect.effect_id, more),
            point="reconcile",
        )
        log.warning("effect.unresolved", effect=effect.effect_id, kind=effect.kind, escalation=escalation)
        return Reconciled(effect, escalation, problem)
    return _keep(store, effect, answer, by)


def _keep(store: Store, effect: Effect, answer: Answer, by: By) -> Reconciled:
    receipt = receipt_of(effect.effect_id, answer.source, answer.receipt, answer.disposition)

    def keep(books: Books) -> Effect | Refusal:
        more = {"request": effect.effect_id, "answer": answer.disposition}
        dealings.note(books, by, effect.inc, "reconcile.asked", effect.effect_id, more)
        return dealings.close(books, by, effect.effect_id, answer.disposition, receipt=receipt)

    found = store.transact(keep, point="reconcile")
    if isinstance(found, Refusal):
        return Reconciled(effect, ESCALATIONS[effect.consequence], found.text)
    return Reconciled(found)
