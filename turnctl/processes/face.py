"""What a turn can do with processes: the methods of ``Turn`` that belong to this room, each loaded on first use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from turnctl.waiting.face import WaitingTurn

if TYPE_CHECKING:
    import os

    from turnctl.processes.adopted import Adopted
    from turnctl.processes.options import PopenOptions, RunOptions
    from turnctl.processes.process import Process
    from turnctl.processes.spared import Scope
    from turnctl.records.diagnosis import Diagnosis
    from turnctl.records.process import Completed
    from turnctl.tokens.activities import Activity
    from turnctl.tokens.ruled import TaskLike
    from turnctl.tokens.token import TurnToken
    from turnctl.tokens.turn import TurnCore

__all__ = ["CommandingTurn"]

Argv = Sequence["str | bytes | os.PathLike[str]"] | str


class CommandingTurn(WaitingTurn):
    """The side of ``turnctl.Turn`` that starts, takes over and gives away processes."""

    def run(self, args: Argv, **options: Unpack[RunOptions]) -> Completed:
        """Run a command to its end inside this turn, with its whole process tree; see ``turnctl.run``."""
        from turnctl.processes.command import run

        return run(self, args, **options)

    def popen(self, args: Argv, **options: Unpack[PopenOptions]) -> Process:
        """Start a command inside this turn and return a handle; it ends with the turn at the latest."""
        from turnctl.processes.command import popen

        return popen(self, args, **options)

    def adopt(
        self, process: int | Any, *, grace: float | str | None = None, stop_signal: int | str = "TERM"
    ) -> Adopted:
        """Make a process that turnctl did not start this turn's: ended with it, with what belongs to it, and reported.

        ``process`` is a pid, a ``subprocess.Popen``, a ``psutil.Process`` or any object with a ``pid``; a ``Popen``
        keeps its status for its own ``wait``. Containment is ``best-effort``. Raises ``BadArgument`` for a process that
        has ended or may not be ended here, ``TurnOver`` once the turn is decided. A checkpoint; does not block.
        """
        from turnctl.processes.adopted import adopt

        return adopt(self, process, grace=grace, stop_signal=stop_signal)

    def scope(
        self,
        leader: int | Any,
        spare: Iterable[int | Any] = (),
        *,
        only_new: bool = True,
        grace: float | str | None = None,
        stop_signal: int | str = "TERM",
    ) -> Scope:
        """A stretch of work below ``leader``, such as a shell that goes on: use it with ``with``.

        When it is left, or the turn is stopped or ends, everything below the leader is ended: never the leader, nor
        ``spare`` and what is below those, nor with ``only_new`` what was there before. Where the leader is a command of
        turnctl with a warden that is complete and proved, else ``best-effort``; see ``docs/processes.md``. A
        checkpoint. Raises ``BadArgument`` for processes that have ended.
        """
        from turnctl.processes.spared import open_scope

        return open_scope(self, leader, spare, only_new=only_new, grace=grace, stop_signal=stop_signal)

    def detach(
        self,
        what: Process | Completed | Activity | TaskLike,
        *,
        owner: TurnCore | TurnToken | str,
        contract: str | None = None,
    ) -> None:
        """Hand ``what`` over to ``owner``, another running turn, which ends it with itself and reports it.

        ``what`` is the handle of a running command or of an adopted process, the result of ``run`` with leftovers, or
        an activity. This turn's report says to whom it went. Raises ``TurnOver``, and it stays here, if either turn was
        stopped or ended before; ``BadArgument`` for what cannot be handed over or no longer is this turn's. Blocks for
        a moment at most; not a checkpoint; from any thread.

        A turn that works on a task has that allowed by its ledger first, and put on record; ``LedgerRefused`` or the
        stop where the task was cancelled. It may also name an ``owner`` outside of this program, as text, with the
        ``contract`` under which that one has it, and then ``what`` is an adopted process, an activity, or a task that
        was submitted below its own. Then it blocks for the store as well.
        """
        from turnctl.processes.detached import detach

        detach(self, what, owner, contract)

    def diagnose(self) -> Diagnosis:
        """Why the turn has not stopped yet: who asked, who swallowed the stop, where its threads stand.

        It names as ``not_ours`` the children that the program started by itself. Never blocks for long, not a
        checkpoint; may be called from any thread, also once the turn is over.
        """
        from turnctl.processes.stranger import not_ours
        from turnctl.waiting.diagnosis import diagnose

        return diagnose(self, not_ours())
