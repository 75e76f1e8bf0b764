"""What a compensation was claimed by, and finding out that this process is dead: then it may have happened.

A compensation hangs on no lease, so the lease of its task says nothing of who sends it. Who claims it is told by what
its death can be proven by; once that is proven the compensation is unknown, as an effect of a dead worker is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from turnctl.clock import wall
from turnctl.ledger import dealings
from turnctl.ledger.identity import Whoever, proof_of_death, this_process
from turnctl.records.changes import By

if TYPE_CHECKING:
    from turnctl.ledger.store import Books, Store
    from turnctl.records.effects import Effect

__all__ = ["claimant", "observe_compensators"]

_WORDS = "{actor} in process {pid} (started {started} in {pid_ns} of boot {boot_id} on {host})"
_READ = re.compile(r".* in process (\d+) \(started (\d+) in (\S*) of boot (\S*) on (.*)\)", re.DOTALL)


def claimant(actor: str) -> str:
    """Who claims it: ``actor``, in this process."""
    me = this_process()
    return _WORDS.format(
        actor=actor, pid=me.pid, started=me.started, pid_ns=me.pid_ns, boot_id=me.boot_id, host=me.host
    )


def _process_of(claim: str | None) -> Whoever | None:
    found = _READ.fullmatch(claim or "")
    if found is None:
        return None
    pid, started, pid_ns, boot_id, host = found.groups()
    return Whoever(boot_id, pid_ns, int(pid), int(started), host)


def observe_compensators(store: Store, tenant: str | None = None) -> None:
    """Have each compensation become unknown whose sender is proven dead. Blocks for the store."""
    for effect in store.read(lambda books: _claimed(books, tenant)):
        process = _process_of(effect.claim)
        proof = None if process is None else proof_of_death(process)
        if proof is not None:
            store.transact(
                lambda books, effect=effect, proof=proof: _lost(books, effect, proof),  # type: ignore[misc]
                point="reconcile",
            )


def _claimed(books: Books, tenant: str | None) -> list[Effect]:
    tasks = list(books.incarnations(tenant=tenant))
    return [one for task in tasks for one in books.effects_of(task.inc) if one.compensates and one.phase == "claimed"]


def _lost(books: Books, effect: Effect, proof: str) -> None:
    now = books.effect(effect.effect_id)
    if now is not None and (now.phase, now.claim) == ("claimed", effect.claim):  # else it has told of it before it died
        by = By("the kernel", "system", wall())
        dealings.note(books, by, now.inc, "compensator.gone", now.effect_id, {"evidence": proof})
        dealings.close(books, by, now.effect_id, "unknown")
