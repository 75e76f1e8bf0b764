"""``CancelSignal``: the Stop button of an agent loop, good for all its runs.

It names no run: what it stops is the run that is running, or, if none is, the next one. Whose a stop is stands in
``agent.slots``; this file delivers it.

Invariants
  G1  One stop, one run: a stop is answered by exactly one run, and none is carried over the end of it.
  G2  One that was fired while nothing ran is the stop of the next run, which then starts no work at all.
  G3  One that lands between the decision of a run and its end is told what that run came to: it is neither erased nor
      kept for the next run.
  G4  One that names a run reaches that run or nobody.
  G5  ``wait`` or ``notified`` begun before a stop sees that stop, also when its run is over by the time that the thread
      runs.

May block: ``wait``. All the rest may be called from any thread, observer, hook, tool, finalizer or signal handler.
"""

from __future__ import annotations

from _thread import LockType
from collections.abc import Callable
from typing import TYPE_CHECKING

from turnctl import points
from turnctl.agent.slots import Bound, Slot, place, read
from turnctl.clock import parse_duration
from turnctl.errors import BadArgument
from turnctl.records.stops import StopAnswer
from turnctl.tokens.entries import new_stop
from turnctl.tokens.event import park, release_all
from turnctl.tokens.ids import check_name

if TYPE_CHECKING:
    from turnctl.records.stops import Cause, Level
    from turnctl.tokens.asked import Stop
    from turnctl.tokens.turn import TurnCore

__all__ = ["CancelSignal"]


class CancelSignal:
    """The address of a loop's stops: the run that runs, or if none does, the next one. Made by ``AgentLoop``.

    A handle stays valid for all runs of its loop. Thread-safe.
    """

    def __init__(self, session_id: str | None = None) -> None:
        self._session_id = session_id
        self._slot = Slot()
        self._waiters: list[LockType] = []

    # -- asking -----------------------------------------------------------------------------------------------

    def cancel(
        self,
        reason: str | None = None,
        *,
        by: str | None = None,
        cause: Cause = "user",
        level: Level = "cancel",
        grace: float | str | None = None,
        run_id: str | None = None,
    ) -> StopAnswer:
        """Stop the run that is running, or the next one if none is; the answer says which it was.

        ``accepted`` and ``already_cancelled`` are of the run that is running, ``armed`` waits for the next one, which
        will be cancelled before it starts any work, and ``already_ended`` came too late for a run whose outcome is
        decided: it does not touch the next one. With ``run_id`` it is that run's or nobody's: ``refused`` once it is
        over. The rest is as in ``turn.cancel``. Never blocks. Not a checkpoint.
        """
        if run_id is not None and not check_name(run_id):
            raise BadArgument(f"run_id must be a non-empty str or None, not {run_id!r}")
        stop = new_stop(reason, by, cause, level, grace, None)
        if run_id is not None:
            turn = self._slot.turn
            if turn is None or turn.turn_id != run_id:
                return StopAnswer("refused", None, None, "retired", run_id, self._session_id)
            return turn.cancel(reason, by=by, cause=cause, level=level, grace=grace)
        return self._enter(stop)

    def _enter(self, stop: Stop) -> StopAnswer:
        slot = self._slot
        while True:
            points.reach("signal.entering")
            slot.log.append(stop)
            points.reach("signal.entered")
            where = place(slot.log, stop)
            if where != "next":
                break
            assert slot.next is not None  # W1
            slot = slot.next
        early, bound, _ = read(slot.log)
        if where == "armed" or bound is None:
            release_all(self._waiters)
            return StopAnswer("armed", early[0] if early else stop, None, None, None, self._session_id)
        turn = bound.turn
        answer = turn.token._enter(stop)
        if answer.kind in ("already_cancelled", "already_ended") and answer.record is stop.record:
            # the run that began has entered it first, and may be over by now
            answer = StopAnswer("accepted", stop, None, None, turn.turn_id, turn.session_id)
        release_all(self._waiters)
        return answer if answer.kind == "accepted" else turn._too_late(stop, answer)

    def is_cancelled(self) -> bool:
        """Whether a stop is there that has no answer yet: the run that runs was stopped, or one waits for the next.

        True for a soft stop too, and for one that came to the run by another path. Never blocks, not a checkpoint.
        """
        return self._current().is_stopping()

    def wait(self, timeout: float | str | None = None) -> bool:
        """Block until a stop is there, or ``timeout`` (seconds or "5s") has passed; whether there was one.

        Waits on through runs that are not stopped. Not a checkpoint: it returns the stop instead of raising it.
        """
        seconds = parse_duration(timeout, what="timeout", zero=True, none=True)
        return park(self._watched(), seconds, self._waiters)

    async def notified(self) -> None:
        """Return when a stop is there; ``wait`` for a coroutine of asyncio, whose loop goes on meanwhile.

        Cancelling it takes it back: nothing is left that waits. A thread of its own waits for it.
        """
        from turnctl.agent.notifying import notified

        await notified(self._watched(), self._waiters)

    def _watched(self) -> Callable[[], bool]:
        """Whether there is a stop, of this moment or later."""
        found = [self._current()]

        def is_there() -> bool:
            while found[0].next is not None and read(found[0].log)[2]:
                if found[0].was_stopped:
                    return True  # G5
                found[0] = found[0].next
            return found[0].is_stopping()

        return is_there

    def reset(self) -> bool:
        """Do nothing; whether there was nothing to do, which is False while a stop has no answer yet.

        For hosts that call it before a run: a run begins with a clear signal by itself, and a stop that was fired is
        never taken back.
        """
        return not self.is_cancelled()

    # -- the loop's side --------------------------------------------------------------------------------------

    def _current(self) -> Slot:
        slot = self._slot
        while slot.next is not None and read(slot.log)[2]:
            slot = slot.next
        return slot

    def _begin(self, turn: TurnCore) -> None:
        """``turn`` is the run that runs from here on; what was fired before stops it. No work may have begun."""
        slot = self._current()
        if slot.turn is not None:
            slot = self._close(slot)  # its end was struck by an exception
        slot.log.append(Bound(turn))
        points.reach("signal.bound")
        for stop in read(slot.log)[0]:  # W2
            turn.token._enter(stop)
        turn.token._grow().bells.append(self._ring)  # then read the flag: a stop may have come before the bell
        if turn.token.stopping:
            self._ring()

    def _ring(self) -> None:
        release_all(self._waiters)

    def _end(self, turn: TurnCore) -> None:
        """The run is over: what is fired from here on is for the next one."""
        slot = self._current()
        if slot.turn is turn:
            points.reach("signal.closing")
            self._close(slot)

    def _close(self, slot: Slot) -> Slot:
        turn = slot.turn
        stopped = turn is not None and turn.token.stopping
        following = slot.close(was_stopped=stopped)
        points.reach("signal.closed")
        self._slot = following
        release_all(self._waiters)
        return following

    def __repr__(self) -> str:
        turn = self._current().turn
        state = "a stop is there" if self.is_cancelled() else "clear"
        return f"<CancelSignal {state}, {'no run' if turn is None else f'run {turn.turn_id}'}>"
