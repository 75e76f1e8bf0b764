"""One call of plain code, run in the loop of its connection: its result, its flights, and what comes of it late."""

from __future__ import annotations

import asyncio
from _thread import LockType
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from turnctl.integrations.mcp.faults import Refused
from turnctl.integrations.mcp.flights import Flight
from turnctl.integrations.mcp.wire import Wire
from turnctl.tokens.event import park, release_all

__all__ = ["Asked"]

T = TypeVar("T")


class Asked(Generic[T]):
    """A call and what came of it. All but ``wait`` and the properties is used on the connection's thread.

    Once ``has_ended`` is set ``value`` and ``failure`` stay as they are; ``is_left`` means that after it was abandoned
    nothing more will be sent for it.
    """

    def __init__(self, fn: Callable[[Any], Coroutine[Any, Any, T]], name: str) -> None:
        self.fn = fn
        self.name = name
        self.value: T | None = None
        self.failure: BaseException | None = None
        self.has_come = False
        self.is_abandoned = False
        self.is_left = False
        self.waiters: list[LockType] = []
        self.flights: list[Flight] = []
        self._task: asyncio.Task[T] | None = None

    # -- on the connection's thread ---------------------------------------------------------------------------

    def start(self, session: Any) -> None:
        """Begin it, in the context of the caller."""
        if self.is_abandoned or self.has_come:
            return
        try:
            self._task = asyncio.get_running_loop().create_task(self.fn(session))
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            self.fail(error)
            return
        self._task.add_done_callback(self._take)

    def _take(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.fail(asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self.fail(error)
        elif not self.has_come:
            self.value = task.result()
            self._come()

    def fail(self, error: BaseException) -> None:
        """It comes to ``error``, unless it has come to something."""
        if not self.has_come:
            self.failure = error
            self._come()

    def _come(self) -> None:
        self.has_come = True
        release_all(self.waiters)

    def lose(self, error: BaseException) -> None:
        """Its connection is gone."""
        self.fail(error)
        if self._task is not None:
            self._task.cancel()

    def abandon(self, wire: Wire | None, reason: str | None) -> None:
        """Nobody waits for it any more: stop its flights, and then what is left of it. May be called twice."""
        if self.is_abandoned:
            return
        self.is_abandoned = True
        for flight in self.flights:
            if wire is not None and flight.call.phase != "task":
                wire.stop(flight, reason)
        task = self._task
        if task is not None:
            task.cancel()
        rest = [
            one for one in (task, *(flight.signal for flight in self.flights)) if one is not None and not one.done()
        ]
        if rest:
            asyncio.get_running_loop().create_task(self._leave(rest))
        else:
            self._left()

    async def _leave(self, rest: list[asyncio.Task[Any]]) -> None:
        await asyncio.wait(rest)
        self._left()

    def _left(self) -> None:
        self.is_left = True
        release_all(self.waiters)

    @property
    def is_unanswered(self) -> bool:
        """Whether its last request has had no response, or it has sent none."""
        return not self.flights or self.flights[-1].call.phase != "answered"

    # -- what comes late (waiting.late) -----------------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        """Whether there is a response, given or not."""
        return self._response() is not None or (self.has_come and not self._was_cut)

    @property
    def _was_cut(self) -> bool:
        return self.is_abandoned and isinstance(self.failure, asyncio.CancelledError)

    @property
    def result(self) -> Any:
        """The value; of a response that came after the stop, its ``result`` as it was on the wire."""
        response = self._response()
        return self.value if response is None else response.get("result")

    @property
    def error(self) -> BaseException | None:
        """The exception; of a response that came after the stop, the error in it."""
        response = self._response()
        if response is None:
            return None if self._was_cut else self.failure
        error = response.get("error")
        if error is None:
            return None
        return Refused(str(error.get("message")), code=error.get("code", 0), data=error.get("data"))

    def _response(self) -> dict[str, Any] | None:
        return self.flights[-1].call.late_response if self.flights else None

    def wait(self, timeout: float | None = None) -> bool:
        """Block until there is one; whether there is. Not a checkpoint."""
        lists = [flight.waiters for flight in self.flights]
        return park(lambda: self.has_ended, timeout, self.waiters, *lists)
