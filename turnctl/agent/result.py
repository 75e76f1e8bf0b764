"""What a run gives back: how it ended, what it came to, and what is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.records.messages import Message
from turnctl.records.runs import RunRecord, StopReason
from turnctl.turns import Turn

if TYPE_CHECKING:
    from turnctl.records.checkpoints import RunCheckpoint
    from turnctl.records.replies import ReplyStop
    from turnctl.records.report import TurnReport

__all__ = ["RunResult"]


class RunResult:
    """How a run ended; ``unwrap()`` gives its text, or raises what did not succeed.

    ``text`` is that of the last whole reply, also of a run that was stopped; ``record`` is the audit record.
    """

    def __init__(
        self,
        turn: Turn,
        record: RunRecord,
        error: BaseException | None,
        message: Message | None,
        checkpoint: RunCheckpoint | None = None,
    ) -> None:
        self._turn = turn
        self.record = record
        self.error = error
        self._trace = None if error is None else error.__traceback__
        self.message = message
        #: where it ended, for ``AgentLoop.resume``; None for a resumed run that ended before it had begun
        self.checkpoint = checkpoint

    @property
    def run_id(self) -> str:
        """The id of the run, which is that of its turn."""
        return self.record.run_id

    @property
    def stop_reason(self) -> StopReason:
        """``completed``, ``failed`` or ``cancelled``."""
        return self.record.stop_reason

    @property
    def cancelled(self) -> bool:
        """Whether the run was stopped, by whatever path: ``cause`` says which."""
        return self.stop_reason == "cancelled"

    @property
    def cause(self) -> str | None:
        """Why a cancelled run was stopped: ``user``, ``deadline``, ``budget``, ``parent`` and so on."""
        return self.record.cause

    @property
    def text(self) -> str:
        """The text of the last whole reply; empty if there was none."""
        return self.record.output

    @property
    def reply_stop(self) -> ReplyStop | None:
        """Why the model stopped writing its last reply; ``length`` and ``refusal`` are completed runs too."""
        return self.record.steps[-1].reply_stop if self.record.steps else None

    @property
    def partial(self) -> str | None:
        """What had come of a reply that was cut."""
        return self.record.partial

    @property
    def report(self) -> TurnReport:
        """The report of the run's turn: what is known of everything that it owned."""
        return self._turn.report

    def unwrap(self) -> str:
        """Its text; raises the error of a run that failed, or ``CancelledError`` for one that was stopped.

        The traceback of the error leads on to where it was raised, with the variables of your own functions.
        """
        error = self.error
        if error is not None:
            try:
                raise error.with_traceback(self._trace)  # the lines of an earlier call are not its own
            finally:
                del self, error  # the traceback holds this frame
        if self.stop_reason != "completed":
            raise self._turn.token._error()
        return self.text

    def __repr__(self) -> str:
        return f"<RunResult {self.stop_reason} of {self.run_id}, {len(self.record.steps)} steps>"
