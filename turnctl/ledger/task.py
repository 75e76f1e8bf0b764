"""A task of a ledger as the host holds it: one incarnation, by its id, to be given to a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.ledger.attachment import Attachment
from turnctl.spelling import visible

if TYPE_CHECKING:
    from turnctl.ledger.face import Ledger
    from turnctl.records.changes import Refusal
    from turnctl.records.tasks import Cancellation, Scope, TaskState
    from turnctl.tokens.turn import TurnCore

__all__ = ["LedgerTask"]


class LedgerTask:
    """One incarnation of a task; made by ``ledger.submit`` and ``ledger.task``, never directly."""

    __slots__ = ("_takes_over", "inc", "ledger", "task_id", "tenant")

    def __init__(self, ledger: Ledger, tenant: str, task_id: str, inc: str, *, takes_over: bool = False) -> None:
        self.ledger = ledger
        self.tenant = tenant
        self.task_id = task_id
        #: the incarnation's id: what another process, or a late request, finds exactly this one by
        self.inc = inc
        self._takes_over = takes_over

    @property
    def state(self) -> TaskState:
        """The state on record now; ``ledger.report`` says it in words. Reads the store."""
        return self.ledger.row_of(self).state

    def cancel(
        self, *, by: str, reason: str | None = None, scope: Scope = "subtree", kill: bool = False
    ) -> Cancellation | Refusal:
        """Cancel it; see ``Ledger.cancel``."""
        return self.ledger.cancel(self, by=by, reason=reason, scope=scope, kill=kill)

    def take_over(self) -> LedgerTask:
        """The same task, for a turn that takes it from a worker that lives: that one is fenced, and what it had begun
        to send is unknown. For a worker that hangs and cannot be ended; one that is dead needs no force."""
        return LedgerTask(self.ledger, self.tenant, self.task_id, self.inc, takes_over=True)

    def _attach(self, turn: TurnCore) -> Attachment:
        return Attachment(turn, self.ledger.store, self.inc, self.task_id, force=self._takes_over)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LedgerTask) and (self.inc, self.ledger) == (other.inc, other.ledger)

    def __hash__(self) -> int:
        return hash(self.inc)

    def __repr__(self) -> str:
        return f"<LedgerTask {visible(f'{self.tenant}/{self.task_id}')} {self.inc}>"
