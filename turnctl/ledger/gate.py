"""The dispatch gate: what may be done, who sends it, and what became of it. Pure, as ``ledger.model`` is.

An effect goes two ways only: admitted, claimed, closed; or admitted, suppressed. Suppression and the claim compete in
one transition, so exactly one of them wins.

Invariants
  E1  Nothing is admitted but for a running task, by the holder of its present generation, with one exact payload.
  E2  Of one intent at most one effect is unknown, and nothing new is admitted for it meanwhile: unknown is no leave to
      try again under another name.
  E3  What was claimed is never suppressed, and never called failed: it is answered for with a receipt, or unknown.
  E4  A definitive disposition has a receipt behind it. The first one stands; another one is noted as a conflict.
  E5  A worker writes a disposition only while its generation is the present one; who reconciles only by evidence, and
      admits and sends nothing. A cancellation is no authority over what became of an effect.
  E6  An attempt that only drains sends nothing, whatever the policy.
  E7  What is unknown is sent again under its own id only, for a running task, to a receiver that takes an id once.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnctl.ledger.model import and_advance, closed_to, refuse
from turnctl.records.changes import By, Change, Incarnation, Note, Refusal, evolve
from turnctl.records.effects import DEFINITIVE, Disposition, Effect, Receipt

__all__ = ["admit", "claim", "claim_again", "close", "close_unknown", "compensate", "requested", "suppress"]

#: whose word on what became of an effect is heard
_TELLERS = frozenset({"worker", "reconciler", "operator", "compensator", "system"})


def admit(view: Incarnation, wanted: Effect, gen: int, known: Sequence[Effect], by: By) -> Change:
    """Admit ``wanted``, or tell why not. ``known`` are the effects of the same incarnation with its intent key.

    One that was admitted before and not sent, with the same payload, is given again: a worker that takes over sends
    that one, under its own identity.
    """
    task = view.task
    refusal = _no_worker(by)
    if refusal is None:  # and not "or": a refusal is false
        refusal = closed_to(view, gen, f"effect {wanted.kind}")
    if refusal is not None:
        return refuse(task.inc, "gate.rejected", refusal, by)
    for one in known:
        if one.kind != wanted.kind:
            text = f"key {one.intent_key!r} stands for effect {one.kind} ({one.effect_id}), not {wanted.kind}"
            return refuse(task.inc, "gate.rejected", Refusal("payload_conflict", text, row=one), by)
        if one.payload_sha != wanted.payload_sha and one.disposition not in ("suppressed", "rejected"):
            text = (
                f"effect {one.kind} {one.key!r} was admitted with another payload ({one.effect_id}); "
                "use another key for another intent"
            )
            return refuse(task.inc, "gate.rejected", Refusal("payload_conflict", text, row=one), by)
        if one.phase == "admitted":
            taken = one if one.gen == gen else evolve(one, gen=gen)
            return Change((Note(task.inc, "effect.readmitted", one.effect_id, taken),), taken)
        found = _stands_in_the_way(one)
        if found is not None:
            return refuse(task.inc, "gate.rejected", found, by)
    made = evolve(
        wanted, inc=task.inc, admitted_rev=task.revision, gen=gen, phase="admitted", disposition="pending", at=by.at
    )
    return Change((Note(task.inc, "effect.admitted", made.effect_id, made),), made)


def _no_worker(by: By) -> Refusal | None:
    if by.authority == "worker":
        return None
    return Refusal("not_authorised", f"a {by.authority} admits and sends nothing: that is for the task's worker")


def _stands_in_the_way(one: Effect) -> Refusal | None:
    name = f"effect {one.kind} {one.key!r} ({one.effect_id})"
    if one.phase == "claimed":
        return Refusal("in_flight", f"{name} is being sent; wait for what becomes of it", row=one)
    if one.disposition == "unknown":
        text = f"{name} may have happened: it is unknown; look it up, or let reconcile() do so, before trying again"
        return Refusal("unresolved", text, row=one)
    if one.disposition == "completed":
        return Refusal("done", f"{name} is completed; its receipt is in the ledger", row=one)
    return None


def claim(view: Incarnation, effect: Effect, gen: int, claimant: str, by: By) -> Change:
    """Claim the right to send it. From here on it may have happened. Loses to a suppression that came first.

    After the cut-off it is only to be had under the policy "deliver", and says so. A compensation is claimed on its
    own authority, and needs no lease.
    """
    task = view.task
    refusal: Refusal | None = None
    if effect.phase == "suppressed":
        cr = None if view.cr is None else view.cr.cr
        refusal = Refusal("suppressed", f"effect {effect.effect_id} was suppressed before it was sent", cr, effect)
    elif effect.phase == "claimed":
        refusal = Refusal("in_flight", f"effect {effect.effect_id} is being sent by {effect.claim}", row=effect)
    elif effect.phase == "closed":
        refusal = Refusal("closed", f"effect {effect.effect_id} is closed as {effect.disposition}", row=effect)
    elif effect.compensates is not None:
        if by.authority != "compensator":
            text = f"effect {effect.effect_id} is a compensation: only who is authorised for it sends it"
            refusal = Refusal("not_authorised", text, row=effect)
    elif (found := _no_worker(by)) is not None:
        refusal = found
    elif view.lease is None or not view.lease.live:
        refusal = Refusal("no_lease", f"nobody holds task {task.task_id}, so nothing of it is sent", row=task)
    elif gen != task.lease_gen:
        text = f"generation {gen} of task {task.task_id} was fenced by {task.lease_gen}: it sends nothing any more"
        refusal = Refusal("stale_generation", text, row=view.lease)
    elif view.lease.drain_only:
        text = f"generation {gen} of task {task.task_id} came after its cancellation: it drains, and sends nothing"
        refusal = Refusal("drain_only", text, row=view.lease)
    if refusal is not None:
        return refuse(task.inc, "claim.rejected", refusal, by)
    after = view.cr is not None and effect.compensates is None
    taken = evolve(effect, phase="claimed", gen=gen, claim=claimant, after_cutoff=after)
    return Change((Note(task.inc, "effect.claimed", effect.effect_id, taken),), taken)


def claim_again(view: Incarnation, effect: Effect, gen: int, claimant: str, by: By, *, why: str) -> Change:
    """Claim an unknown one for another try under its own id, which the receiver takes once: ``why`` says how that is
    known. Only for a running task: after the cut-off nothing is sent that may have been sent before."""
    task = view.task
    refusal = _no_worker(by)
    if refusal is None:
        refusal = closed_to(view, gen, f"effect {effect.kind}")
    if refusal is None and (effect.disposition != "unknown" or effect.closed_by is not None or effect.compensates):
        text = f"effect {effect.effect_id} is {effect.disposition}: only an unknown one is tried again under its id"
        refusal = Refusal("closed", text, row=effect)
    if refusal is not None:
        return refuse(task.inc, "claim.rejected", refusal, by)
    taken = evolve(effect, phase="claimed", disposition="pending", gen=gen, claim=claimant)
    return Change((Note(task.inc, "effect.claimed_again", effect.effect_id, taken, {"why": why}),), taken)


def requested(view: Incarnation, effect: Effect, request_ref: str, by: By, *, gen: int | None) -> Change:
    """Which request of the protocol carries it. Another request has another id; the effect keeps its own."""
    task = view.task
    refusal: Refusal | None = None
    if by.authority == "worker" and gen != task.lease_gen:
        text = f"generation {gen} of task {task.task_id} was fenced by {task.lease_gen}: it sends nothing any more"
        refusal = Refusal("stale_generation", text, row=effect)
    elif effect.phase != "claimed":
        text = f"effect {effect.effect_id} is {effect.phase}: a request is noted of what is claimed, and not told yet"
        refusal = Refusal("not_claimed" if effect.phase == "admitted" else "closed", text, row=effect)
    if refusal is not None:
        return refuse(task.inc, "request.refused", refusal, by)
    row = evolve(effect, request_ref=request_ref)
    return Change((Note(task.inc, "effect.requested", effect.effect_id, row),), row)


def suppress(view: Incarnation, effect: Effect, by: By, *, why: str, gen: int | None = None) -> Change:
    """Have it not sent. Only what was not claimed; a queue entry that is gone is no reason to believe it.

    ``gen`` is the worker's generation, None for who is no worker.
    """
    if effect.phase == "suppressed":
        return Change((), effect)
    if by.authority == "worker" and gen != view.task.lease_gen:
        text = (
            f"generation {gen} of task {view.task.task_id} was fenced by {view.task.lease_gen}: it suppresses nothing"
        )
        return refuse(view.task.inc, "suppress.refused", Refusal("stale_generation", text, row=effect), by)
    if effect.phase != "admitted":
        text = f"effect {effect.effect_id} was claimed before: it may have happened, and cannot be suppressed any more"
        return refuse(view.task.inc, "suppress.refused", Refusal("closed", text, row=effect), by)
    gone = evolve(effect, phase="suppressed", disposition="suppressed")
    note = Note(view.task.inc, "effect.suppressed", effect.effect_id, gone, {"why": why})
    return and_advance(view, [note], gone, by)


def close(
    view: Incarnation, effect: Effect, disposition: Disposition, by: By, *, receipt: Receipt | None, gen: int | None
) -> Change:
    """What became of it. A definitive disposition needs its receipt (E4); ``unknown`` is claimed by nobody's word.

    ``gen`` is the worker's generation, None for who is no worker. Evidence that comes late is taken as well: it
    changes what is known of the effect, and never the state that the task has come to.
    """
    task = view.task
    refusal: Refusal | None = None
    if by.authority not in _TELLERS or (by.authority == "compensator" and effect.compensates is None):
        text = f"what became of effect {effect.effect_id} is not for a {by.authority} to say"
        refusal = Refusal("not_authorised", text, row=effect)
    elif by.authority == "worker" and gen != task.lease_gen:
        text = f"generation {gen} of task {task.task_id} was fenced by {task.lease_gen}: its word is not taken"
        refusal = Refusal("stale_generation", text, row=effect)
    elif effect.phase in ("admitted", "suppressed"):
        text = f"effect {effect.effect_id} is {effect.phase}: it was never sent, so nothing can have become of it"
        refusal = Refusal("not_claimed", text, row=effect)
    elif disposition in DEFINITIVE and receipt is None:
        text = f"effect {effect.effect_id} cannot be called {disposition} without a receipt"
        refusal = Refusal("no_receipt", text, row=effect)
    elif disposition not in DEFINITIVE and disposition != "unknown":
        text = (
            f"an effect that was claimed becomes completed, rejected, provider_cancelled or unknown, not {disposition}"
        )
        refusal = Refusal("closed", text, row=effect)
    elif disposition != "completed" and by.authority == "reconciler" and _may_be_sending(view, effect):
        text = f"effect {effect.effect_id} may be on its way ({effect.claim}): that nobody has it yet settles nothing"
        refusal = Refusal("in_flight", text, row=effect)
    if refusal is not None:
        return refuse(task.inc, "close.refused", refusal, by)
    if effect.disposition == disposition:
        return Change((), effect)
    if effect.disposition in DEFINITIVE:
        return _conflict(view, effect, disposition, by, receipt)
    if disposition == "unknown":
        gone = evolve(effect, phase="closed", disposition="unknown")
        return and_advance(view, [Note(task.inc, "effect.unknown", effect.effect_id, gone)], gone, by)
    assert receipt is not None
    known = evolve(effect, phase="closed", disposition=disposition, receipt_sha=receipt.body_sha)
    kept = Note(task.inc, "receipt.kept", effect.effect_id, receipt)
    return and_advance(view, [kept, Note(task.inc, f"effect.{disposition}", effect.effect_id, known)], known, by)


def _may_be_sending(view: Incarnation, effect: Effect) -> bool:
    if effect.phase != "claimed":
        return False
    return effect.compensates is not None or (view.lease is not None and view.lease.live)


def _conflict(view: Incarnation, effect: Effect, said: Disposition, by: By, receipt: Receipt | None) -> Change:
    text = f"effect {effect.effect_id} is {effect.disposition} by its first receipt; another one says {said}"
    more = {"said": said, "receipt": None if receipt is None else receipt.body_sha, "by": by.actor}
    note = Note(view.task.inc, "effect.conflict", effect.effect_id, None, more)
    return Change((note,), Refusal("conflict", text, row=effect))


def close_unknown(view: Incarnation, effect: Effect, by: By, *, reason: str) -> Change:
    """An operator decides that nobody will ever know. It stays unknown; the ledger says by whom it was closed."""
    if effect.disposition != "unknown" or by.authority != "operator":
        text = (
            f"only an operator closes an effect without a receipt, and only an unknown one; it is {effect.disposition}"
        )
        return refuse(view.task.inc, "close.refused", Refusal("not_authorised", text, row=effect), by)
    closed = evolve(effect, closed_by=by.actor)
    note = Note(view.task.inc, "effect.closed_by_operator", effect.effect_id, closed, {"reason": reason})
    return and_advance(view, [note], closed, by)


def compensate(
    view: Incarnation, original: Effect, wanted: Effect, known: Sequence[Effect], by: By, *, auth_ref: str | None
) -> Change:
    """Admit a new effect that makes ``original`` good. A stop authorises none: it needs a decision of its own.

    It has its own identity and outcome, and changes nothing of the original.
    """
    task = view.task
    refusal: Refusal | None = None
    if by.authority != "compensator" or not auth_ref:
        text = "compensation needs an authorisation of its own, and a stop is none: name the decision with auth_ref="
        refusal = Refusal("not_authorised", text, row=original)
    elif original.disposition in ("pending", "suppressed", "rejected", "provider_cancelled"):
        text = f"effect {original.effect_id} is {original.disposition}: there is nothing to make good"
        refusal = Refusal("closed", text, row=original)
    elif any(one.compensates == original.effect_id and one.kind == wanted.kind for one in known):
        refusal = Refusal("done", f"effect {original.effect_id} has a {wanted.kind} compensation already", row=original)
    else:
        same = [one for one in known if one.intent_key == wanted.intent_key]
        refusal = next((found for one in same if (found := _stands_in_the_way(one)) is not None), None)
    if refusal is not None:
        return refuse(task.inc, "compensate.refused", refusal, by)
    more = {"relies_on": original.receipt_sha, "disposition": original.disposition}
    made = evolve(
        wanted,
        inc=task.inc,
        admitted_rev=task.revision,
        gen=task.lease_gen,
        phase="admitted",
        disposition="pending",
        compensates=original.effect_id,
        auth_ref=auth_ref,
        at=by.at,
    )
    return Change((Note(task.inc, "effect.compensation_admitted", made.effect_id, made, more),), made)
