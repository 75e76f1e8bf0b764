"""Finding out that workers are dead, and what became of the things that they owned: by the kernel, for another process.

Invariants
  G1  What is proven is written in one transaction with the proof, by the kernel's authority; what cannot be proven is
      left as it is, and named by ``missing``.
  G2  A worker that is proven dead has taken with it what ran in its process. A process that it had started is proven
      gone by itself; without its number on record nothing is said of it, but after another boot of the machine.
  G3  The things are told of before the worker is, so that the task settles where nothing is left.

The looks at the process table are made outside of any transaction. Blocks for those and for the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.clock import wall
from turnctl.ledger import dealings
from turnctl.ledger.identity import proof_of_death, proof_of_end
from turnctl.records.changes import By
from turnctl.records.tasks import PROCESSES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turnctl.ledger.store import Books, Store
    from turnctl.records.changes import Incarnation
    from turnctl.records.tasks import OwnedActivity

__all__ = ["Deaths", "deaths_in", "observe_deaths"]


class Deaths:
    """What is proven of one incarnation: that its worker is dead, and which of its things are gone."""

    def __init__(self, inc: str, view: Incarnation | None, held_by: str | None, proofs: dict[str, str]) -> None:
        self.inc = inc
        self.gen = 0 if view is None or view.lease is None else view.lease.gen
        #: the proof that the holder of the lease is dead
        self.worker = held_by
        self.proofs = proofs

    def __bool__(self) -> bool:
        return self.worker is not None or bool(self.proofs)

    def into(self, books: Books, at: float) -> None:
        """Write it, within a transaction (G1, G3)."""
        by = By("the kernel", "system", at)
        if self.proofs:
            dealings.observe_activities(books, by, self.inc, self.proofs)
        if self.worker is not None:
            dealings.observe_gone(books, by, self.inc, self.gen, evidence=self.worker)


def deaths_in(store: Store, inc: str) -> Deaths:
    """Look, and say what is proven of ``inc``."""
    view = store.read(lambda books: books.incarnation(inc))
    lease = None if view is None else view.lease
    held_by = None if lease is None or not lease.live else proof_of_death(lease.holder)
    lives = lease.gen if lease is not None and lease.live and held_by is None else None
    things = () if view is None else view.activities
    # what a worker that lives still looks after is for it to tell of
    return Deaths(inc, view, held_by, _gone(one for one in things if one.gen != lives or one.ended_at is not None))


def _gone(activities: Iterable[OwnedActivity]) -> dict[str, str]:
    found = {}
    for one in activities:
        if one.may_act and one.process is not None:
            proof = (proof_of_end if one.kind in PROCESSES else proof_of_death)(one.process)
            if proof is not None:
                found[one.ref] = proof
    return found


def observe_deaths(store: Store, tenant: str | None = None) -> list[str]:
    """Note as gone each worker that is proven dead, and each thing of one; the incarnations of these workers."""
    found = []
    tasks, acting = store.read(lambda books: (list(books.incarnations(tenant=tenant)), books.acting()))
    for task in tasks:
        if task.is_over and task.execution != "active" and task.inc not in acting:
            continue
        deaths = deaths_in(store, task.inc)
        if deaths:
            store.transact(lambda books, deaths=deaths: deaths.into(books, wall()), point="reconcile")  # type: ignore[misc]
        if deaths.worker is not None:
            found.append(task.inc)
    return found
