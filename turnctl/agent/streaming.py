"""A run event by event: a thread makes the run, in step with whoever iterates.

Invariants
  M1  After each event the run waits until the next one is asked for, so a consumer that leaves has had no step run
      behind its back. The end of the run waits for nobody.
  M2  Leaving, closing and forgetting are a stop, cause ``closed``; no event follows it. A Ctrl-C that strikes who waits
      for an event, or who is in the ``with``, is one of cause ``signal``, and passes out when all is recorded; a second
      one ends the grace, as for ``run``.
  M3  The thread of the run never refers to the ``RunStream``: one that is dropped is collected, and then closed.
  M4  Who collects it waits for the end of the run if it is the thread that has asked for the events. Another one, such
      as a thread of that very run in which the garbage collector finds it, waits for nothing.

May block: ``next``, as the run does: a checkpoint of the consumer's turn; ``close``, until the run is over, which the
grace bounds. The turn of the run is not bound in the consumer's code.
"""

from __future__ import annotations

import itertools
import threading
from _thread import LockType
from collections.abc import Callable
from contextvars import copy_context
from types import TracebackType
from typing import TYPE_CHECKING, Self

from turnctl.errors import CancelledError
from turnctl.records.runs import Event
from turnctl.tokens import eras
from turnctl.tokens.current import current_token
from turnctl.tokens.event import park, release_all
from turnctl.tokens.threads import needing_threads
from turnctl.waiting.parking import wait_until

if TYPE_CHECKING:
    from turnctl.agent.result import RunResult
    from turnctl.agent.running import Run
    from turnctl.records.stops import Cause, Level

__all__ = ["RunStream"]

#: reason, cause and level of the stop by which a consumer leaves
_LEFT: tuple[str, Cause, Level] = ("its events are not wanted any more", "closed", "cancel")


class _Feed:
    """What the run and its consumer share."""

    def __init__(
        self, make: Callable[[Callable[[Event], object]], Run], look: Callable[[], object] | None = None
    ) -> None:
        self._look = look
        self.events: list[Event] = []
        self.wanted = 0  # how many events the consumer has asked for
        self._count = itertools.count(1)  # several threads of a wave may tell at once
        self.is_left = False
        self.why = _LEFT
        self.is_over = False
        self.result: RunResult | None = None
        self.error: BaseException | None = None
        self.waiters: list[LockType] = []
        self.run = make(self.tell)

    def tell(self, event: Event) -> None:
        """Give it to the consumer, and wait until more is wanted, or the run is stopped (M1)."""
        self.events.append(event)
        at = next(self._count)
        release_all(self.waiters)
        token = self.run.turn.token
        if event.kind == "run_ended" or token.retired:
            return
        if self.is_left:  # then read the flag: who left may have come before the turn had begun
            reason, cause, level = self.why
            token.cancel(reason, cause=cause, level=level)
        park(lambda: self.wanted > at or self.is_left or token.cancelled, None, self.waiters, token._grow().waiters)

    def go(self) -> None:
        try:
            if self._look is not None:
                self._look()
            self.result = self.run.go()
        except BaseException as error:  # noqa: BLE001 - raised where the events are asked for
            self.error = error
        finally:
            self.is_over = True
            release_all(self.waiters)

    def leave(self, struck: BaseException | None = None) -> None:
        """Nobody wants more of it, perhaps since a Ctrl-C struck. Never blocks; may come from a finalizer."""
        if isinstance(struck, KeyboardInterrupt):
            is_second = self.why[1] == "signal"
            self.why = (type(struck).__name__, "signal", "kill" if is_second else "cancel")
            if is_second:
                self.run.is_hurried = True
                release_all(self.run.hurry_waiters)
        self.is_left = True  # after why it is so
        turn = self.run.__dict__.get("turn")
        token = None if turn is None else turn._token
        if token is not None and not self.is_over:
            reason, cause, level = self.why
            token.cancel(reason, cause=cause, level=level)
        release_all(self.waiters)


class RunStream:
    """The events of one run; for one loop, on one thread at a time. Made by ``AgentLoop.stream`` and ``resume_stream``.

    The run begins with the first event that is asked for.
    """

    def __init__(
        self, make: Callable[[Callable[[Event], object]], Run], look: Callable[[], object] | None = None
    ) -> None:
        self._feed = _Feed(make, look)
        self._thread: threading.Thread | None = None
        self._asker: threading.Thread | None = None
        self._is_closed = False
        self._era: object = None  # of its thread

    @property
    def result(self) -> RunResult | None:
        """How the run ended; None until it has."""
        return self._feed.result

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._feed.run.run_id

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        """The next event. Blocks until there is one; raises what ``run`` or ``resume`` would raise.

        In a forked child, which does not have the run, it raises ``RuntimeError``.
        """
        try:
            return self._next()
        except KeyboardInterrupt as struck:
            self._close(struck)
            raise

    def _next(self) -> Event:
        feed = self._feed
        if self._is_closed:
            raise StopIteration
        if self._thread is None:
            self._start()
        elif self._era is not eras.era:
            eras.refuse(f"run {self.run_id}")
        self._asker = threading.current_thread()
        feed.wanted += 1
        release_all(feed.waiters)
        wait_until(current_token(), lambda: bool(feed.events) or feed.is_over, None, feed.waiters)
        if feed.events:
            return feed.events.pop(0)
        self._join()
        self._is_closed = True
        error, feed.error = feed.error, None
        if error is not None:
            raise error
        raise StopIteration

    def _start(self) -> None:
        feed, context = self._feed, copy_context()
        name = f"turnctl-stream-{self.run_id}"  # the work itself is on a thread of the run
        thread = threading.Thread(target=context.run, args=(feed.go,), name=name, daemon=True)
        with needing_threads(f"run {self.run_id}"):
            thread.start()
        self._era, self._thread = eras.era, thread

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """End the run, if it is not over, and wait until it is. May be called twice. Not a checkpoint."""
        self._close()
        feed = self._feed
        if feed.error is not None and not isinstance(feed.error, CancelledError):
            error, feed.error = feed.error, None
            raise error

    def _close(self, struck: BaseException | None = None) -> None:
        """End the run and see it through, also where a Ctrl-C strikes meanwhile (M2)."""
        if self._is_closed:
            return
        strikes: list[KeyboardInterrupt] = []
        while True:
            try:
                self._is_closed = True  # where a strike goes on with the rest
                self._feed.leave(strikes[-1] if strikes else struck)
                self._join()  # no thread: it never began, or was struck while it did; then its first event ends it
                break
            except KeyboardInterrupt as again:
                strikes.append(again)
        self._feed.events.clear()
        if strikes and struck is None:
            raise strikes[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if isinstance(error, KeyboardInterrupt):
            self._close(error)
        else:
            self.close()

    def __del__(self) -> None:
        feed = self.__dict__.get("_feed")
        if feed is None or self._is_closed or self._thread is None:
            return
        feed.leave()
        if self._asker is threading.current_thread():  # not one that the end of the run waits for (M4)
            self._thread.join()

    def __repr__(self) -> str:
        state = "over" if self._feed.is_over else "not begun" if self._thread is None else "running"
        return f"<RunStream of {self.run_id}: {state}>"
