"""The thread that holds a connection to a server: opened, used and closed there, owned by the turn it was opened in.

Invariants: K1, K4 and K5 of ``client``. A call is listed in ``_asked`` and *then* the end is looked at; the thread
marks its end and *then* fails what is listed. So no call waits on a connection that is gone.

May block: ``open`` (a checkpoint), ``close`` and ``end``, both within bounds.
"""

from __future__ import annotations

import asyncio
import threading
from _thread import LockType
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any

from turnctl import clock
from turnctl.errors import TurnctlError
from turnctl.integrations.mcp import sdk
from turnctl.integrations.mcp.calls import Asked
from turnctl.integrations.mcp.faults import ConnectionLost
from turnctl.integrations.mcp.flights import Flight
from turnctl.integrations.mcp.wire import CLOSED, Wire
from turnctl.tokens import registry
from turnctl.tokens.current import current_token
from turnctl.tokens.event import park, release_all
from turnctl.tokens.threads import needing_threads
from turnctl.waiting.parking import wait_until

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from turnctl.records.mcp import Transport
    from turnctl.tokens.activities import Activity

__all__ = ["Connection", "Opener"]

#: opens the transport, given what is to be done when a response stream of HTTP has ended, and when one has begun
Opener = Callable[[Callable[[Any], object], Callable[[Any], object]], "AbstractAsyncContextManager[tuple[Any, ...]]"]

_CLOSE_S = 10.0  # more than the SDK takes to end a server that does not want to
_asking: ContextVar[Asked[Any] | None] = ContextVar("turnctl_mcp_asked", default=None)


class Connection:
    """One connection, and the thread it lives on (``tokens.activities.Owned``)."""

    kind = "mcp connection"

    def __init__(self, opener: Opener, transport: Transport, name: str, protocol: str, options: Mapping[str, Any]):
        self.name = name
        self.transport: Transport = transport
        self.wire: Wire | None = None
        self.session: Any = None
        self.version: str | None = None
        self.is_ready = False
        self.has_ended = False
        self.error: BaseException | None = None
        self.waiters: list[LockType] = []
        self.thread: threading.Thread | None = None
        self._opener = opener
        self._protocol = protocol
        self._options = dict(options)
        self._activity: Activity | None = None
        self._asked: dict[int, Asked[Any]] = {}
        self._of_flight: dict[Flight, Asked[Any]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._closing: asyncio.Event | None = None
        self._is_closing = False

    # -- opening ----------------------------------------------------------------------------------------------

    def open(self, ends_at: float | None) -> None:
        """Open it and agree on a version. A checkpoint. Blocks until ``ends_at``; then ``TimeoutError``."""
        token = current_token()
        if token is not None:
            token.check()
        turn = registry.enclosing(token)
        if turn is not None:
            self._activity = turn.activities.admit(self.kind, self.name, self)
        context = copy_context()
        self.thread = threading.Thread(target=self._run, args=(context,), name=f"turnctl-mcp-{self.name}", daemon=True)
        try:
            with needing_threads(self.thread.name):
                self.thread.start()
            is_done = wait_until(token, lambda: self.is_ready or self.has_ended, ends_at, self.waiters)
        except BaseException:
            self.close(0.0)
            if self.thread.ident is None:
                self._over()  # it was never started
            raise
        if not is_done:
            self.close(0.0)
            raise TimeoutError(f"{self.name} had not answered in time; give open() longer, or look why it does not")
        if not self.is_ready:
            raise self._why_not()

    def _why_not(self) -> BaseException:
        error = self.error
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        wire = self.wire
        was_closed = wire is not None and wire.lost not in (None, CLOSED)
        if was_closed or error is None or isinstance(error, (asyncio.CancelledError, *sdk.closed_errors())):
            lost = ConnectionLost(f"{self.name} closed the connection before it was open; run it by hand to see why")
            lost.__cause__ = error
            return lost
        return error

    # -- on its thread ----------------------------------------------------------------------------------------

    def _run(self, context: Context) -> None:
        try:
            with asyncio.Runner() as runner:
                self._loop = runner.get_loop()
                if not self._is_closing:  # then read the wish
                    runner.run(self._live(context))
        except BaseException as error:  # noqa: BLE001 - whoever opened it, or calls, is told
            self.error = self.error or error
        finally:
            self._over()

    def _over(self) -> None:
        self.has_ended = True
        if self._activity is not None:
            self._activity.close("completed" if self.is_ready else "failed")
        for asked in list(self._asked.values()):
            asked.fail(self.lost_error())
            asked.is_left = True
            release_all(asked.waiters)
        release_all(self.waiters)

    async def _live(self, context: Context) -> None:
        self._main = asyncio.current_task()
        self._closing = asyncio.Event()
        try:
            await self._hold(self._closing, context)
        finally:
            self._is_closing = True  # from now on no call begins

    async def _hold(self, closed: asyncio.Event, context: Context) -> None:
        async with AsyncExitStack() as stack:
            wire = await stack.enter_async_context(
                Wire(self._opener(self._stream_ended, self._stream_begun), self.transport)
            )
            self.wire = wire
            wire.on_flight.append(self._list)
            wire.on_stop.append(self._stopped)
            wire.traffic.on_gone.append(self._gone)
            wire.on_lost.append(lambda _: self._close_here())
            session = await stack.enter_async_context(sdk.session_class()(wire.read, wire.write, **self._options))
            negotiating = asyncio.get_running_loop().create_task(
                sdk.negotiate(session, self._protocol), context=context
            )
            negotiating.add_done_callback(_see)
            closing = asyncio.get_running_loop().create_task(closed.wait())
            await asyncio.wait((negotiating, closing), return_when=asyncio.FIRST_COMPLETED)
            closing.cancel()
            if not negotiating.done():
                negotiating.cancel()
                return
            self.version = wire.traffic.version = negotiating.result()
            self.session = session
            self.is_ready = True
            release_all(self.waiters)
            await closed.wait()

    def _close_here(self) -> None:
        self._is_closing = True
        if self._closing is not None:
            self._closing.set()

    def _list(self, flight: Flight) -> None:
        asked = _asking.get()
        if asked is not None:
            asked.flights.append(flight)
            self._of_flight[flight] = asked

    def _stopped(self, flight: Flight) -> None:
        """Somebody has stopped a flight: what waits for its response ends with it."""
        asked = self._of_flight.pop(flight, None)
        if asked is not None:
            asked.abandon(self.wire, flight.call.reason)

    def _gone(self, flight: Flight, why: str) -> None:
        asked = self._of_flight.pop(flight, None)
        if asked is not None:
            asked.lose(self.lost_error(why))

    def _stream_begun(self, request_id: Any) -> None:
        flight = None if self.wire is None else self.wire.traffic.find(request_id)
        if flight is not None:
            flight.arrived.set()

    def _stream_ended(self, request_id: Any) -> None:
        if self.wire is not None:
            self.wire.traffic.stream_ended(request_id)

    def lost_error(self, why: str | None = None) -> ConnectionLost:
        """What a call raises that can have no response any more."""
        if why is None:
            lost = None if self.wire is None else self.wire.lost
            why = f"{lost or 'the connection was closed'}; open a new one"
        error = ConnectionLost(f"no response can come from {self.name}, and what it did is not known: {why}")
        error.__cause__ = self.error
        return error

    @property
    def is_closing(self) -> bool:
        """Whether it has ended, or is about to."""
        return self._is_closing or self.has_ended

    # -- calls, from any thread -------------------------------------------------------------------------------

    def post(self, fn: Callable[[], object], context: Context | None = None) -> bool:
        """Have ``fn`` called on its thread; False if that is not to be any more."""
        loop = self._loop
        if loop is None:
            return False
        try:
            loop.call_soon_threadsafe(fn, context=context)
        except RuntimeError:
            if not loop.is_closed():
                raise
            return False
        return True

    def begin(self, asked: Asked[Any]) -> None:
        """Have it run there, in a copy of the caller's context."""
        if not self.is_ready:
            raise TurnctlError(f"the connection to {self.name} is not open; use it inside `with`") from self.error
        context = copy_context()
        context.run(_asking.set, asked)
        self._asked[id(asked)] = asked
        if not self.post(lambda: self._start(asked), context) or self.has_ended:
            asked.fail(self.lost_error())

    def _start(self, asked: Asked[Any]) -> None:
        if self._is_closing:
            asked.fail(self.lost_error())
        else:
            asked.start(self.session)

    def leave(self, asked: Asked[Any], reason: str | None, until: Callable[[], float], *lists: list[LockType]) -> bool:
        """Abandon it, and block until nothing more will be sent for it, or that time; whether that is so."""
        if asked.has_come and not asked.is_abandoned:
            return True
        if not self.post(lambda: asked.abandon(self.wire, reason)):
            return True
        while not (asked.is_left or self.has_ended):
            at = until()
            left = at - clock.monotonic()
            if left <= 0:
                return False
            park(lambda: asked.is_left or self.has_ended or until() < at, left, asked.waiters, *lists)  # noqa: B023
        return True

    def forget(self, asked: Asked[Any]) -> None:
        """Its caller has what it wanted, or has left."""
        self._asked.pop(id(asked), None)
        for flight in asked.flights:
            self._of_flight.pop(flight, None)

    # -- closing, and being owned (tokens.activities.Owned) ---------------------------------------------------

    def ask(self) -> None:
        """Have it closed; signals that are under way go out first. Never blocks."""
        self._is_closing = True
        closing = self._closing
        if closing is not None:
            self.post(closing.set)

    def close(self, seconds: float = _CLOSE_S) -> bool:
        """Close it and wait for its thread; whether that has ended. May be called twice."""
        self.ask()
        thread = self.thread
        if thread is None or thread is threading.current_thread() or thread.ident is None:
            return True
        if seconds > 0:
            thread.join(seconds)
        if thread.is_alive():
            main = self._main
            if main is not None:
                self.post(main.cancel)
            thread.join(_CLOSE_S)
        return not thread.is_alive()

    def end(self, kill_at: Callable[[], float]) -> None:
        """Close it within the grace, and not much beyond: the SDK kills a server that does not go."""
        self.close(max(kill_at() - clock.monotonic(), 0.0))

    def alive(self) -> tuple[str, ...]:
        """Its thread, while it is there."""
        thread = self.thread
        return () if self.has_ended or thread is None or not thread.is_alive() else (f"thread {thread.name}",)

    def outcome(self) -> None:
        return None


def _see(task: asyncio.Task[Any]) -> None:
    """Its exception is known: whoever waited for it may have left."""
    if not task.cancelled():
        task.exception()
