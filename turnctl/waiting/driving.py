"""One thread that does the work of a turn, the host's functions in it included, while whoever began it waits for it.

A call that is raced with a stop costs a thread, or two changes of threads. Work that makes many of them one after the
other has a thread of its own instead, on which each of these functions is simply called; the one who waits sees to the
stop, and goes on alone where a function does not come back.

Invariants
  V1  The thread leaves a function of the host, or it is left behind in it, never both: the first entry of the call's
      ``fate`` decides. One that was left behind does nothing of the work any more, whenever the function comes back.
  V2  It is left behind in a function of the host alone (``call``). Anything else that it does is ours and ends
      soon after a stop, so it is waited for.
  V3  In a process that a function forked, the thread that waits does not exist: the work does not go on there, and the
      process ends as a program does whose last line the function was.
  V4  The end of the turn, by whoever ended it, is seen to as a stop is: who waits goes on when that is through.
  V5  An exception that strikes the one who waits (a Ctrl-C) is a stop of the turn: the work ends as it does by any
      other, and the exception is in ``struck``, for whoever called ``drive`` to raise. A second strike ends the grace.

May block: ``drive``, as the work does; after a stop as long as each call in it is given to come back. ``call``, as the
function does. Not promised: that a function which was left behind has had no effect.
"""

from __future__ import annotations

import sys
import threading
from _thread import LockType
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from turnctl import points
from turnctl.errors import TurnOver
from turnctl.tokens import eras
from turnctl.tokens.entries import new_stop
from turnctl.tokens.event import park, release_all
from turnctl.tokens.sites import continues, ends
from turnctl.tokens.threads import needing_threads
from turnctl.waiting import abandoned
from turnctl.waiting.call import Patience, RacedCall
from turnctl.waiting.forks import end_the_fork
from turnctl.waiting.parking import grace_end, must_raise, pend, token_in
from turnctl.waiting.threads import context_of

if TYPE_CHECKING:
    from turnctl.tokens.turn import TurnCore

__all__ = ["Driver"]

T = TypeVar("T")


class Driver:
    """The thread of one piece of work of ``turn``; used once. ``drive`` is for the thread that began the turn."""

    def __init__(self, turn: TurnCore, name: str) -> None:
        self._turn = turn
        self._name = name
        self._waiters: list[LockType] = []  # for the end of the work
        self._watchers: list[LockType] = []  # for each call that begins or ends: only once there is a stop
        self._begun: list[str] = []
        self._call: RacedCall | None = None
        self._ident = 0
        self._era = eras.era
        self._began_at: FrameType | None = None
        self._frame: FrameType | None = None
        self._has_ended = False
        self._result: Any = None
        self._error: BaseException | None = None
        #: whether the thread was left behind in a function of the host
        self.is_left = False
        #: the first exception that struck the one who waits
        self.struck: BaseException | None = None

    @property
    def is_here(self) -> bool:
        """Whether the caller is the thread itself."""
        return threading.get_ident() == self._ident and not self._has_ended  # a later thread may get its ident

    # -- the one who waits --------------------------------------------------------------------------------------------

    def drive(self, work: Callable[[], T]) -> T:
        """What ``work`` comes to, on the thread. Raises what it raises, and the turn's stop where it was left behind.

        Not a checkpoint by itself: that is the work's to be.
        """
        context = context_of(self._turn)
        self._began_at = sys._getframe(1)
        thread = threading.Thread(target=self._go, args=(context.run, work), name=f"turnctl-{self._name}", daemon=True)
        struck: BaseException | None = None
        try:
            try:
                with needing_threads(self._name):
                    thread.start()
            except BaseException as error:
                self._begun.append("never")
                if self._begun[0] == "never":
                    raise
                struck = error  # it came up all the same
            try:
                self._see_through(thread, struck)
            except BaseException as error:  # noqa: BLE001 - struck once more, between two lines of that
                self._see_through(thread, error)
        finally:
            self._began_at = None
            if not self._has_ended:
                self.is_left = True
                self._forget_where()  # or the caller's variables would live as long as that function
        if self.is_left:
            raise self._why_left()
        came, self._error = self._error, None
        if came is None:
            return cast("T", self._result)
        try:
            raise came
        finally:
            del came  # its traceback holds this frame

    def _see_through(self, thread: threading.Thread, struck: BaseException | None) -> None:
        """See to the thread until it is through or left behind, whatever strikes meanwhile."""
        while True:
            try:
                if struck is not None:
                    self._strike(struck)
                    struck = None
                self._see_to(thread)
                return
            except BaseException as error:  # noqa: BLE001 - V5
                struck = error

    def _why_left(self) -> BaseException:
        turn = self._turn
        if turn.token.cancelled:
            return turn.token._raised()
        text = f"turn {turn.turn_id} ended while its {self._name} ran; end a turn when its work is through"
        return TurnOver(text, turn_id=turn.turn_id)

    def _see_to(self, thread: threading.Thread) -> None:
        """Wait until the thread is through, or left behind."""
        turn = self._turn
        is_over, over = turn._over.is_set, turn._over._waiters
        while not self._has_ended:
            if not (must_raise(turn.token) or is_over()):  # V4
                pend(turn.token, lambda: self._has_ended or is_over(), None, self._waiters, over)
                continue
            call = self._call
            if call is None:
                park(lambda: self._has_ended or self._call is not None, None, self._watchers)
                continue
            call._go_through(lambda: grace_end(turn, turn.token))
            if self._leaves(call):
                return
            park(lambda: self._has_ended or self._call is not call, None, self._watchers)  # noqa: B023
        thread.join()  # it has nothing left to do

    def _leaves(self, call: RacedCall) -> bool:
        """Whether the thread is left behind in ``call``; may be asked again after a strike."""
        if not call.has_ended:
            points.reach("driver.leaving")
            call.fate.append("left")
        self.is_left = call.fate[:1] == ["left"]  # V1
        return self.is_left

    def _strike(self, error: BaseException) -> None:
        turn, is_first = self._turn, self.struck is None
        if is_first:
            self.struck = error
        name, cause = type(error).__name__, "signal" if isinstance(error, KeyboardInterrupt) else "closed"
        reason = name if isinstance(error, KeyboardInterrupt) else f"{name} struck the thread that waited for it"
        level = "cancel" if is_first else "kill"
        turn.token._enter(new_stop(reason, None, cause, level, None, turn.turn_id))  # type: ignore[arg-type]

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _go(self, run: Callable[[Callable[[], Any]], Any], work: Callable[[], Any]) -> None:
        self._begun.append("run")
        if self._begun[0] != "run":
            return
        self._ident = threading.get_ident()
        self._frame, began_at = sys._getframe(), self._began_at
        if began_at is not None:
            continues(self._frame, began_at)
            del began_at
        try:
            self._result = run(work)
        except Left:
            self.is_left = True  # who left it may have been struck before it came to this; nobody waits
        except BaseException as error:  # noqa: BLE001 - raised by ``drive``
            self._error = error
        finally:
            self._forget_where()
            self._has_ended = True
            release_all(self._waiters)
            release_all(self._watchers)

    def _forget_where(self) -> None:
        frame, self._frame = self._frame, None
        if frame is not None:
            ends(frame)

    def call(
        self,
        fn: Callable[..., T],
        args: tuple[Any, ...],
        *,
        abort: Callable[[], object] | None = None,
        patience: Patience | None = None,
        name: str | None = None,
    ) -> T:
        """Call a function of the host, on this thread, which is the driver's. A checkpoint before and after it.

        As ``waiting.call.call``: what it came to when it was stopped is in ``late``.
        """
        if self.is_left:
            raise Left
        token = token_in(self._turn)
        token.check()
        call = RacedCall(self._turn, token, fn, args, {}, abort=abort, interrupt=False, patience=patience, name=name)
        abandoned.admit(call.name)
        result: T = call.come_to_here(self._enter, self._leave)
        return result

    def _enter(self, call: RacedCall) -> None:
        self._call = call
        if self._watchers:
            release_all(self._watchers)

    def _leave(self, call: RacedCall) -> None:
        if eras.era is not self._era:
            end_the_fork(call.error)  # V3
        points.reach("driver.back")
        call.fate.append("back")
        if call.fate[0] != "back" or self.is_left:
            raise Left  # V1
        self._call = None
        if self._watchers:
            release_all(self._watchers)


class Left(BaseException):
    """Unwinds a thread that was left behind; all frames that it passes are ours."""
