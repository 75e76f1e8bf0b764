"""The task of a run in the ledger: one of its own, or, below a turn that works on a task there, a child of that one.

Invariants
  K1  A child is registered with its lease, in the transaction by which its turn begins. So it is in the inventory of a
      cancellation, or refused; and of a run that could not begin, such as in a busy session, nothing is left.
  K2  The parent is the nearest turn around the run, of any session, that works on a task of the same ledger. The child
      has its tenant, its promise and its policy.
  K3  No task is below itself: a run that goes round in a circle, to a loop or a task that a turn around it has, is
      refused before anything is registered.

May block: ``task_of``, for the store. Not loaded where a loop has no ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.ledger.attachment import Attachment
from turnctl.ledger.names import new_id
from turnctl.ledger.task import LedgerTask
from turnctl.tokens.slot import find_outer

if TYPE_CHECKING:
    from turnctl.agent.running import Run
    from turnctl.ledger.face import Ledger
    from turnctl.records.tasks import Task
    from turnctl.tokens.turn import TurnCore

__all__ = ["TENANT", "task_of"]

TENANT = "agent"


def task_of(run: Run, ledger: Ledger) -> tuple[LedgerTask, bool]:
    """The task that the turn of ``run`` is to work on, and whether it waits for a worker from here on.

    A child does not (K1): it is on record once the turn has begun.
    """
    tenant, of = run.loop.tenant, _around(run.loop.session_id, ledger)
    above = None if of is None else _task_at(of)
    if above is not None and tenant not in (None, above[1].tenant):
        its = above[1]
        run.note(
            f"its task is of tenant {tenant}, so it is no child of task {its.task_id}, which is of tenant {its.tenant}"
        )
    elif above is not None:
        return _Below(ledger, above[1].tenant, run.run_id, new_id("i"), above[0]), False
    return ledger.submit(tenant or TENANT, run.run_id), True


def _around(session_id: str, ledger: Ledger) -> Attachment | None:
    """What the nearest turn around this frame holds of a task of ``ledger`` (K2)."""
    turn: TurnCore | None = find_outer(session_id)
    while turn is not None:
        of = turn._ruling
        if isinstance(of, Attachment) and _is_same(of, ledger):
            return of
        turn = turn._outer if turn._inherit else None
    return None


def _is_same(of: Attachment, ledger: Ledger) -> bool:
    mine, its = ledger.store, of.store
    return its is mine or (its.durable and mine.durable and its.authority == mine.authority)  # opened twice


def _task_at(of: Attachment) -> tuple[Attachment, Task] | None:
    """Who registers the child, and its task. A turn that began when its own parent had gone has none: that is above."""
    found: Attachment | None = of
    while found is not None:
        inc = found.inc
        row = found.store.read(lambda books: books.task(inc))  # noqa: B023 - called at once
        if row is not None:
            return found, row
        found = found._parent
    return None


class _Below(LedgerTask):
    """The task of a run below another task; nobody else can have it before the run's turn has begun."""

    __slots__ = ("_of",)

    def __init__(self, ledger: Ledger, tenant: str, task_id: str, inc: str, of: Attachment) -> None:
        super().__init__(ledger, tenant, task_id, inc)
        self._of = of

    def _attach(self, turn: TurnCore) -> Attachment:
        return Attachment(turn, self._of.store, self.inc, self.task_id, parent=self._of)
