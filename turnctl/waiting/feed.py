"""The far side of a stream: the source, the thread that reads it, its one close and its account.

Invariants, by the numbers of ``waiting.stream``: F2, F3, F4, F5. In addition
  F6  Whether the source is ever asked is decided once, by the first entry of ``_begun``: a source that was closed
      before is never asked, and one that is asked is closed by who asks it.

May block: ``end``, up to the grace; ``close_soon``, for the time it is given. ``close`` of the user runs on a thread of
its own where somebody waits for it, so that one that blocks delays nothing further.
"""

from __future__ import annotations

import threading
from _thread import LockType
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turnctl import clock, points
from turnctl.errors import CancelledError
from turnctl.spelling import described
from turnctl.tokens import eras
from turnctl.tokens.activities import Activity
from turnctl.tokens.event import park, release_all
from turnctl.tokens.frames import calls_the_body
from turnctl.tokens.ruled import keeper_for
from turnctl.waiting import abandoned
from turnctl.waiting.aborting import unbound_context
from turnctl.waiting.sources import Source
from turnctl.waiting.threads import context_of
from turnctl.waiting.worker import Worker

if TYPE_CHECKING:
    from turnctl.records.report import ActivityState
    from turnctl.tokens.token import CancelToken
    from turnctl.tokens.turn import TurnCore

__all__ = ["Feed"]


class Feed:
    """What a turn owns of a stream (``tokens.activities.Owned``); knows nothing of the loop but how far it is."""

    kind = "stream"

    def __init__(
        self,
        turn: TurnCore | None,
        token: CancelToken | None,
        source: object,
        close: Callable[[], object] | None,
        name: str,
        ahead: int,
        *,
        is_ready: bool = False,
    ) -> None:
        self.turn = turn
        self.token = token
        self.name = name
        self.ahead = ahead
        self.low = ahead // 2
        self.received: list[Any] = []
        self.items: list[LockType] = []  # the loop, when it waits for an item
        self.space: list[LockType] = []  # the reader, when it is far enough ahead
        #: how the source came to its end: set before ``finished``, which never goes back
        self.error: BaseException | None = None
        self.is_exhausted = False
        self.is_whole = False  # exhausted before there was a stop
        self.finished = False
        self.closing = False
        self.was_stopped = False
        self.was_left = False  # the source came to its end after we had it asked no more, so that the end may be ours
        self.was_given_up = False  # the turn is over, and the source has not come back
        self.era = eras.era
        self.source = Source(source, close, name)
        self._begun: list[str] = []
        # gives a mark to the first who asks; nothing can strike between taking it and closing
        self._close_once = iter((True,))
        self._closers: list[Worker] = []
        self.worker: Worker | None = None
        self.thread: int | None = None  # who asks the source, where that is the loop itself
        self.in_next = False
        self.activity = Activity("stream", name) if turn is None else turn.activities.admit("stream", name, self)
        self.activity.received = self.received
        self.keeper = None if is_ready else keeper_for(turn, "stream", name)
        try:
            looks_again = self.source.look(turn, token)
        except BaseException as error:  # the turn is over
            self._begun.append("never")
            self.finish(error)
            raise
        self._limit = 1 if looks_again else ahead

    # -- asking the source ------------------------------------------------------------------------------------

    def begin(self, how: str) -> bool:
        """Enter how the source begins: read by a thread, by the loop, or never; whether that is how it does (F6)."""
        self._begun.append(how)
        return self._begun[0] == how

    def start(self) -> None:
        """Start the reader, unless the source was closed before."""
        if self.worker is None and self.begin("read"):
            assert self.turn is not None
            context = context_of(self.turn)
            worker = Worker(None, self._read, (), {}, kind="stream", name=self.name, context=context)
            worker.on_end = self._is_back
            self.worker = worker
            try:
                worker.start()
            except BaseException as error:
                self.finish(error)  # the machine has no thread to spare
                raise

    @calls_the_body
    def _read(self) -> None:
        """Ask the source until it is exhausted or nobody wants more; on the reader's thread."""
        if self.closing:
            return
        received, items = self.received, self.items
        append = received.append if self.keeper is None else self.take
        iterator: Any = None
        try:
            iterator = iter(self.source.enter())
            for item in iterator:
                append(item)
                if items:  # F4
                    release_all(items)
                if len(received) >= self._limit and not self._has_room():
                    break
            else:
                self.is_exhausted = not self.closing  # after a close an end may be a cut
        finally:
            self.end_generator(iterator)

    def take(self, item: object) -> None:
        """Keep what came in what outlives this process, *then* here: what the loop was given was kept before."""
        if self.keeper is not None:
            self.keeper.item(item)
        self.received.append(item)

    @property
    def is_elsewhere(self) -> bool:
        """Whether this is a forked child, in which nobody reads the source and nobody may close it."""
        return self.era is not eras.era

    def _has_room(self) -> bool:
        """Block until the loop has used enough; whether it wants more."""
        self.source.look_again()
        received, activity, low = self.received, self.activity, self.low
        if len(received) - activity.given >= self.ahead:
            points.reach("stream.ahead")
            park(lambda: self.closing or len(received) - activity.given <= low, None, self.space)
        self._limit = activity.given + self.ahead
        return not self.closing  # F4: read after the limit was stored, which the closer stores after this flag

    def end_generator(self, iterator: object) -> None:
        """Close a generator, on the thread that has asked it (F2); not the source itself, if ``close_here`` will."""
        try:
            self.source.end(iterator)
        except BaseException as error:  # noqa: BLE001 - an error of the clean-up is reported, not raised
            self._note("end", error)

    def _is_back(self) -> None:
        """The reader is out of the source: close it, account for it, and only then tell the loop."""
        worker = self.worker
        assert worker is not None
        self.finish(worker.error)

    def finish(self, error: BaseException | None) -> None:
        """The source has ended, or will not be asked any more; on the thread that has asked it."""
        self.error = error
        if self.source.let_go():
            self.is_exhausted = False  # it may look like an end
            self.was_stopped = self.token is not None and self.token.cancelled
        self.was_left = self.closing
        self.is_whole = self.is_exhausted and not (self.token is not None and self.token.cancelled)
        self.close_here()
        self._leave_source()
        if self.keeper is not None:
            self.keeper.finish()
        is_late = not self.activity.is_open
        self.finished = True  # *then* what the loop does, which does the two the other way round
        if is_late:
            self.activity.note_late(f"came back later; {self._counts()}")
        elif self.closing or self.activity.given == len(self.received):
            self.account()
        release_all(self.items)

    # -- closing it (F3) --------------------------------------------------------------------------------------

    @calls_the_body
    def close_here(self) -> None:
        """Close the source on this thread, unless that was done."""
        if self.is_elsewhere:
            return
        for _ in self._close_once:
            try:
                self.source.close()
            except BaseException as error:  # noqa: BLE001 - reported; the loop goes on as without
                self._note("close", error)

    @calls_the_body
    def _leave_source(self) -> None:
        try:
            self.source.leave(self.error)
        except BaseException as error:  # noqa: BLE001 - reported; the loop goes on as without
            if error is not self.error:
                self._note("close", error)

    def _close_elsewhere(self) -> None:
        """Have ``close`` called on a thread of its own; by another one if a strike kept the last from coming up."""
        if not self.source.has_close or any(one.is_begun for one in self._closers):
            return
        closer = Worker(
            None, self.close_here, (), {}, kind="close", name=f"close of {self.name}", context=unbound_context()
        )
        self._closers.append(closer)
        points.reach("stream.closing")
        closer.start()

    def hush(self) -> bool:
        """Have the source asked no more; whether the reader may be blocked in it. Never blocks."""
        is_parked = bool(self.space)
        self.closing = True
        self._limit = 0  # F4
        release_all(self.space)
        return not (is_parked or self.finished)

    def close_soon(self, within: float, *, if_blocked: bool = True) -> None:
        """Have the source closed: at once if ``close`` was given, else when it is out of ``next``.

        Waits at most ``within`` seconds for that; not for a blocked one that nothing unblocks, if so asked.
        """
        may_be_blocked = self.hush()
        if self.begin("never"):
            self._was_never_asked()
            return
        if self.finished:
            self.account()
        if self.worker is None and not self._is_asked_elsewhere():
            return  # the loop's own thread closes it
        is_unblocked = not may_be_blocked
        if may_be_blocked:
            self._close_elsewhere()
            is_unblocked = self.source.has_close or self.source.cut()
        if self.worker is None:
            return  # it is the loop that comes back
        if if_blocked or is_unblocked:
            ends_at = clock.monotonic() + within
            self._wait(lambda: ends_at)

    def _was_never_asked(self) -> None:
        if not self.finished:
            self.finish(None)

    def _is_asked_elsewhere(self) -> bool:
        """Whether the thread of a loop stands in ``next``, and it is not this one. Ask after ``hush`` (F4)."""
        return self.in_next and self.thread != threading.get_ident()

    def _wait(self, until: Callable[[], float]) -> None:
        """Wait for the close and the reader."""
        turn = self.turn
        hurry = [] if turn is None else [turn._hurry_waiters, turn.token._grow().waiters]
        for one in (*self._closers, self.worker):
            if one is not None and (one is self.worker or one.is_begun):
                worker = one
                self._wait_until(lambda: worker.has_ended, until, worker.waiters, *hurry)  # noqa: B023
        if self.worker is None and self._is_asked_elsewhere():
            self._wait_until(lambda: self.finished or not self.in_next, until, self.items, *hurry)

    def _wait_until(self, ready: Callable[[], bool], until: Callable[[], float], *lists: list[LockType]) -> None:
        while not ready():
            at = until()
            left = at - clock.monotonic()
            if left <= 0:
                return
            park(lambda: ready() or until() < at, left, *lists)  # noqa: B023

    def drop(self) -> None:
        """The loop has let go of the stream. From a finalizer: starts no thread, and blocks only as ``close`` does."""
        if self.is_elsewhere:
            return
        may_be_blocked = self.hush()
        if self.begin("never"):
            self._was_never_asked()
        elif self.finished:
            self.account()
        elif self.worker is None:
            if not self.in_next:
                self.finish(None)
        elif may_be_blocked and self.source.has_close:
            self.close_here()
        elif may_be_blocked:
            self.source.cut()

    # -- being owned ------------------------------------------------------------------------------------------

    def ask(self) -> None:
        """Have the source asked no more, and nothing wait for it where its connection is known."""
        if self.hush():
            self.source.cut()

    def end(self, kill_at: Callable[[], float], within: str = "the grace") -> None:
        """Close the source and wait for the reader within the grace; then it is left behind."""
        if self.token is not None and self.token.cancelled:
            self.was_stopped = True
        self.close_soon(0)
        worker = self.worker
        if worker is None:
            if self.thread == threading.get_ident() and not self.in_next and not self.finished:
                self.finish(None)
            self._wait(kill_at)
            if self._is_asked_elsewhere() and not self.finished:
                text = f"its source did not come back to the loop within {within}; {self._counts()}"
                self.activity.close("abandoned", text)
            return
        self._wait(kill_at)
        if not worker.has_ended:
            points.reach("stream.leaving")
            text = f"left behind{worker.where()}: its source did not come back within {within}; {self._counts()}"
            if self.source.why_not is not None:
                text = f"{text}; {self.source.why_not}"
            if self.activity.close("abandoned", text):
                abandoned.add(worker, None if self.turn is None else self.turn.turn_id)
            self.was_given_up = True
            release_all(self.items)

    def alive(self) -> tuple[str, ...]:
        """The reader, a close that has not come back, and a loop of its own that stands in the source."""
        found = (self.worker, *(one for one in self._closers if one.is_begun))
        names = tuple(name for one in found if one is not None for name in one.alive())
        if self.closing and not self.finished and self._is_asked_elsewhere():
            return (*names, f"thread {self.thread} in the source of stream {self.name}")
        return names

    def outcome(self) -> None:
        return None

    # -- the account ------------------------------------------------------------------------------------------

    def _counts(self) -> str:
        received, given = len(self.received), self.activity.given
        return f"{received} received" if received == given else f"{received} received, {given} given"

    def _note(self, what: str, error: BaseException) -> None:
        text = f"{what} of stream {self.name} failed: {described(error)}"
        if self.turn is not None:
            self.turn.notes.append(text)
        else:
            self.activity.note_late(text)

    def account(self) -> None:
        """Close the activity: the loop has all of it, or will take no more. Does nothing if it is closed."""
        error = self.error
        state: ActivityState = "completed"
        text: str | None = None
        if self.was_stopped or isinstance(error, CancelledError):
            state, text = "cancelled", f"stopped; {self._counts()}"
        elif self._begun[:1] == ["never"]:
            text = "never asked for an item"
        elif error is not None and self.was_left:
            # most likely because of our own close
            text = f"left before its end; {self._counts()}; the source then raised {described(error)}"
        elif error is not None:
            state, text = "failed", f"{described(error)}; {self._counts()}"
        elif not self.is_exhausted or self.activity.given < len(self.received):
            text = f"left before its end; {self._counts()}"
        self.activity.close(state, text)
