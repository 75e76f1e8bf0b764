"""The stream pair between a session of the SDK and its transport, with the stop of turns carried over it.

The session is given ``read`` and ``write`` instead of the transport's own. Each request that goes out is a flight of
the turn which its sender obeys. When that is stopped (``turn.bridge_asyncio``), one signal goes out for it, and a
response that comes all the same is taken off the wire and kept as evidence.

Invariants
  G1  Everything here happens on one thread, in the loop of the connection; the order there is the order of events.
  G2  One signal per flight: ``want_stop`` gives the phase ``signalling`` once, and who gets it sends. A cancel that the
      session sends by itself becomes that signal, or nothing. Only a task that is made for it all the same, which that
      signal does not reach, has a second one of its own.
  G3  The signal is sent when the write of its request is through, never for a request that was not written, nor for
      one whose response has arrived. By HTTP the two go on connections of their own, of which the second may be the
      faster: a signal waits until the response to its request has begun, or the request had ``_ARRIVE_S``.
  G4  A response goes to the session, or to the evidence: never both, never twice (``traffic``).
  G5  When the connection ends, every flight is settled.
  G6  The transport is opened and closed in a task of its own. A cancellation of who uses it never strikes it while it
      ends a server: what shields it there is anyio's, and does not hold off a ``task.cancel()``.
  G7  A message that JSON has no words for is its sender's error. It never comes to the transport, which it would end
      for all who use it.

May block the loop: nothing. Not promised: that a signal which the transport does not take is written; then the evidence
says so.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Self

from turnctl import points
from turnctl.clock import wall
from turnctl.errors import BadArgument
from turnctl.integrations.mcp import sdk
from turnctl.integrations.mcp.carrier import Carrier
from turnctl.integrations.mcp.flights import Flight, reason_of
from turnctl.integrations.mcp.protocol import (
    CANCELLED,
    TASK_CANCEL,
    begin_write,
    dialect_of,
    signal_failed,
    signal_sent,
    want_stop,
    with_stateless,
)
from turnctl.integrations.mcp.streams import Reader, Writer
from turnctl.integrations.mcp.traffic import Traffic
from turnctl.records.mcp import Outgoing, Transport
from turnctl.tokens import registry
from turnctl.tokens.current import current_token
from turnctl.waiting.parking import must_raise

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from turnctl.records.mcp import CancelSent

__all__ = ["CLOSED", "Wire"]

CLOSED = "the connection was closed"  # why it is lost, where it was not lost

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_INTERNAL = -32603
_CANCELLED_S = 0.2  # in which a task of a stopped turn is cancelled by whoever runs it
_ARRIVE_S = 0.2  # what a request by HTTP has to come to its server, where that does not say so by responding
_FLUSH_S = 1.0  # what signals have to go out when the connection is closed


class Wire:
    """``async with Wire(stdio_client(...), "stdio") as wire``, and inside ``ClientSession(wire.read, wire.write)``.

    ``opened`` is a transport of the SDK, which is entered and left here; ``transport`` is ``"stdio"`` or ``"http"``.
    Requests that are sent inside of a turn (``turn.run_coroutine``) obey it. For one asyncio loop, and one ``with``.
    """

    def __init__(self, opened: AbstractAsyncContextManager[Any], transport: Transport) -> None:
        self.transport: Transport = transport
        self.traffic = Traffic()
        self.traffic.on_task = self._signal_task
        self.closed = sdk.closed_errors()  # what the streams raise at their end
        self.read = Reader(self)
        self.write = Writer(self)
        #: why the connection is gone; None while it is there
        self.lost: str | None = None
        #: who is told of a new flight, of one that is stopped, and that the connection is gone
        self.on_flight: list[Callable[[Flight], object]] = []
        self.on_stop: list[Callable[[Flight], object]] = []
        self.on_lost: list[Callable[[str], object]] = []
        self._carrier = Carrier(opened)
        self._count = itertools.count(1)
        self._meta: dict[str, Any] = {}  # what each request has to say for itself, from 2026-07-28 on
        self._headers: dict[str, str] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def evidence(self) -> tuple[CancelSent, ...]:
        """Every stop that was wanted for a call on this connection, oldest first. Any thread may ask."""
        return self.traffic.sent()

    # -- life -------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self.loop = asyncio.get_running_loop()
        self.thread = threading.current_thread()
        self._in, self._out = await self._carrier.open(lambda: self.lose("the transport has failed"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with sdk.shielded(_FLUSH_S):
                await self._flush()
        finally:
            self.lose(CLOSED)
            for task in self._tasks:
                task.cancel()
            await self._carrier.close()

    @property
    def last_context(self) -> Any:
        """What the transport says of the context of the item that came last."""
        return getattr(self._in, "last_context", None)

    async def _flush(self) -> None:
        """Have signals go out for what is under way, before the connection is closed around it."""
        for flight in list(self.traffic.open.values()):
            if flight.token is not None and flight.token.cancelled:
                self.stop(flight, reason_of(flight.token))
            elif flight.call.phase != "task":
                self.stop(flight, "the connection is closed")
        signals = [one.signal for one in self.traffic.evidence if one.signal is not None and not one.is_settled]
        if signals:
            await asyncio.wait(signals)

    def post(self, fn: Callable[[], object]) -> bool:
        """Have ``fn`` called on the connection's thread; False if its loop is closed. From any thread."""
        try:
            self.loop.call_soon_threadsafe(fn)
        except RuntimeError:
            if not self.loop.is_closed():
                raise
            return False
        return True

    def _spawn(self, coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self.loop.create_task(coro)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits for it has it; nobody else is to be told

    def lose(self, why: str) -> None:
        """The connection is gone: settle what is under way (G5). May be called twice."""
        if self.lost is not None:
            return
        self.lost = why
        for flight in list(self.traffic.open.values()):
            self.traffic.lose(flight, why)
        for tell in self.on_lost:
            tell(why)

    # -- what goes out ----------------------------------------------------------------------------------------

    async def send(self, item: Any) -> None:
        """Send what the session wants sent."""
        message = sdk.payload(item)
        method = getattr(message, "method", None)
        request_id = getattr(message, "id", None)
        if method is not None and request_id is not None:
            await self._send_request(item, message)
        elif method == CANCELLED:
            await self._cancel_by_session(getattr(message, "params", None) or {})
        else:
            failure = sdk.unsendable(message)
            if failure is not None:
                item = self._instead(message, failure)
            await self._out.send(item)

    def _instead(self, message: Any, failure: Exception) -> Any:
        """What is sent for a response that no transport can write (G7); a notification is its sender's to mend."""
        request_id = getattr(message, "id", None)
        if request_id is None:
            raise _unsendable(message, failure)
        error = {"code": _INTERNAL, "message": f"the response is nothing that JSON has: {failure}"}
        return sdk.make({"jsonrpc": "2.0", "id": request_id, "error": error})

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of a request that the session does not know of, as it was on the wire.

        Raises ``Refused`` when it was answered with an error, and ``ConnectionLost``.
        """
        own = f"turnctl-{next(self._count)}"
        headers = None
        if self._meta:
            params = {**params, "_meta": self._meta}
            headers = self._headers_for(method, params)
        item = sdk.make({"jsonrpc": "2.0", "id": own, "method": method, "params": params}, headers)
        future = self.traffic.asked[own] = self.loop.create_future()
        try:
            await self._send_request(item, sdk.payload(item))
            result: dict[str, Any] = await future
            return result
        finally:
            self.traffic.asked.pop(own, None)

    def _headers_for(self, method: str, params: dict[str, Any]) -> dict[str, str]:
        headers = {**self._headers, "Mcp-Method": method}
        name = params.get("taskId", params.get("name"))
        if isinstance(name, str):
            headers["Mcp-Name"] = name
        return headers

    async def _send_request(self, item: Any, message: Any) -> None:
        token = current_token()
        if token is not None and must_raise(token):
            # what was stopped sends nothing. Whoever runs this task is about to cancel it; a second exception while it
            # cleans up would break what is shielded from one, such as the end of a server
            await asyncio.sleep(_CANCELLED_S)
            raise token._raised()
        failure = sdk.unsendable(message)
        if failure is not None:
            raise _unsendable(message, failure)
        flight = self._begin(item, message)
        writing = self._spawn(self._write(flight, item))
        await asyncio.shield(writing)  # who is cancelled meanwhile leaves a request behind that is whole
        if flight.call.phase == "withdrawn":
            raise asyncio.CancelledError(flight.call.not_sent)  # whoever withdrew it is about to cancel this task

    def _begin(self, item: Any, message: Any) -> Flight:
        """A flight of the turn that the sender obeys, before anything is written."""
        token = current_token()
        if token is not None and token.retired and not token.cancelled:
            token = None  # what a turn that ended well has left running obeys nothing
        turn = registry.enclosing(token)
        flight = Flight(self, self._outgoing(item, message), turn, token if turn is not None else None)
        if turn is not None:
            if message.method != "tasks/get":  # one of many, which tell nothing that the task does not
                flight.activity = turn.activities.admit("mcp", flight.name, flight)
            try:
                flight.follow()
            except BaseException as error:
                flight.settle("cancelled", f"nothing was sent: {error}")
                raise
        self.traffic.add(flight)
        for tell in self.on_flight:
            tell(flight)
        return flight

    def _outgoing(self, item: Any, message: Any) -> Outgoing:
        params = getattr(message, "params", None) or {}
        meta = params.get("_meta") or {}
        version = meta.get(_VERSION_KEY)
        if version is not None:
            headers = getattr(getattr(item, "metadata", None), "headers", None) or {}
            self._meta = {key: value for key, value in meta.items() if key != "progressToken"}
            self._headers = {key: value for key, value in headers.items() if key.lower() == "mcp-protocol-version"}
        name = params.get("taskId" if message.method.startswith("tasks/") else "name", params.get("uri"))
        return Outgoing(
            message.id,
            message.method,
            name if isinstance(name, str) else None,
            self.transport,
            version or self.traffic.version,
        )

    async def _write(self, flight: Flight, item: Any) -> None:
        try:
            points.reach("mcp.client.queued")
            flight.call = begin_write(flight.call)
            if flight.call.phase == "written":
                points.reach("mcp.client.writing")
                await self._out.send(item)
        except self.closed:
            self.lose("the transport takes no more")
            raise
        finally:
            flight.written_at = self.loop.time()
            flight.written.set()

    # -- the stop ---------------------------------------------------------------------------------------------

    def stop(self, flight: Flight, reason: str | None) -> None:
        """Stop ``flight``, once; later ones change nothing (G2)."""
        before = flight.call
        flight.call = call = want_stop(before, reason, wall())
        if call is before:
            return
        self.traffic.evidence.append(flight)
        points.reach("mcp.client.stopping")
        if call.phase == "signalling":
            flight.signal = self._spawn(self._signal(flight))
        else:
            self.traffic.settle(flight)
        for tell in self.on_stop:
            tell(flight)

    async def _signal(self, flight: Flight) -> None:
        try:
            await flight.written.wait()  # G3
            await self._arrive(flight)
            points.reach("mcp.client.signalling")
            while flight.call.phase == "signalling":
                task_id = flight.call.task_id
                await self._out.send(self._frame(flight))
                if flight.call.task_id == task_id:  # else it has become a task meanwhile, which is to be told as well
                    flight.call = signal_sent(flight.call, wall())
        except self.closed:
            flight.call = signal_failed(flight.call, "the transport takes no more")
        except asyncio.CancelledError:
            flight.call = signal_failed(flight.call, "the transport did not take it before the connection was closed")
            raise
        finally:
            self.traffic.settle(flight)

    async def _arrive(self, flight: Flight) -> None:
        """G3: by HTTP, wait until its server has the request, as far as that can be told."""
        call = flight.call
        if dialect_of(call.transport, call.version) != CANCELLED or call.transport != "http":
            return
        left = flight.written_at + _ARRIVE_S - self.loop.time()
        if left > 0 and not flight.arrived.is_set():
            waiting = self._spawn(flight.arrived.wait())
            try:
                await asyncio.wait((waiting,), timeout=left)
            finally:
                waiting.cancel()

    def _signal_task(self, flight: Flight) -> None:
        """A task was made for a flight that was stopped: it is not stopped by that."""
        if flight.signal is None or flight.signal.done():
            flight.signal = self._spawn(self._signal(flight))

    def _frame(self, flight: Flight) -> Any:
        call = flight.call
        if call.task_id is None:
            params: dict[str, Any] = {"requestId": call.request_id}
            if call.reason is not None:
                params["reason"] = call.reason
            return sdk.make({"jsonrpc": "2.0", "method": CANCELLED, "params": params})
        own = f"turnctl-cancel-{next(self._count)}"
        self.traffic.cancels[own] = flight
        params = {"taskId": call.task_id}
        headers = None
        if with_stateless(call.version):
            params["_meta"] = self._meta
            headers = self._headers_for(TASK_CANCEL, params)
        return sdk.make({"jsonrpc": "2.0", "id": own, "method": TASK_CANCEL, "params": params}, headers)

    async def _cancel_by_session(self, params: dict[str, Any]) -> None:
        """The session cancels a call, since whoever made it was cancelled, or its time has passed."""
        flight = self.traffic.find(params.get("requestId"))
        if flight is None:
            return  # it was signalled, or has its response
        token, reason = flight.token, params.get("reason")
        if token is not None and token.cancelled:
            reason = reason_of(token)
        self.stop(flight, reason if isinstance(reason, str) else None)
        if flight.signal is not None:
            await asyncio.shield(flight.signal)

    # -- what comes in ----------------------------------------------------------------------------------------

    async def receive(self) -> Any:
        """The next item for the session."""
        while True:
            try:
                item = await self._in.receive()
            except self.closed:
                self.lose("the server closed the connection, or is gone")
                raise
            if isinstance(item, Exception) or self.traffic.passes(sdk.payload(item)):
                return item


def _unsendable(message: Any, failure: Exception) -> BadArgument:
    return BadArgument(
        f"{message.method} was not sent, since it has what JSON has no words for ({failure}); give it plain values, "
        "and text that is Unicode"
    )
