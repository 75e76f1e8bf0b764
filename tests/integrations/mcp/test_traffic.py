"""A wire over a transport that a test plays: what goes out, in which order, and what the session is given."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import copy_context
from typing import Any

import pytest
from standins import Background, until

import turnctl

pytest.importorskip("mcp", reason="the official SDK of MCP is not installed: pip install mcp")

import anyio

from turnctl.integrations.mcp import Wire, sdk

DONE = {"content": [], "isError": False}


class Played:
    """A transport: ``out`` has what was written, ``come`` puts what a server says, ``gate`` holds writes back."""

    def __init__(self, transport: Any = "stdio") -> None:
        self.transport = transport
        self.out: list[dict[str, Any]] = []
        self.given: list[Any] = []
        self.tried: list[str] = []
        self.left = False
        self.loop: asyncio.AbstractEventLoop | None = None

    # -- the two streams --------------------------------------------------------------------------------------

    async def send(self, item: Any) -> None:
        message = sdk.plain(sdk.payload(item))
        self.tried.append(message["method"])
        await self.gate.wait()
        self.out.append(message)

    async def receive(self) -> Any:
        item = await self.come_in.get()
        if item is None:
            raise anyio.EndOfStream
        return item

    def close(self) -> None: ...

    # -- what a test does -------------------------------------------------------------------------------------

    def come(self, message: Any) -> None:
        """Have the server say this; None is the end, an exception is one of the transport's own."""
        item = sdk.make({"jsonrpc": "2.0", **message}) if isinstance(message, dict) else message
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self.come_in.put_nowait, item)

    def let_go(self) -> None:
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self.gate.set)

    def methods(self) -> list[str]:
        return [message["method"] for message in self.out]

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[Any, Any]]:
        try:
            yield self, self
        finally:
            self.left = True

    async def run(self, body: Callable[[Wire], Awaitable[Any]], *, held: bool = False) -> Any:
        """``body`` on a wire, whose session passes on what it is given."""
        self.loop = asyncio.get_running_loop()
        self.come_in: asyncio.Queue[Any] = asyncio.Queue()
        self.gate = asyncio.Event()
        if not held:
            self.gate.set()
        async with Wire(self.opened(), self.transport) as wire:
            self.wire = wire
            reading = asyncio.ensure_future(self._read(wire))
            try:
                return await body(wire)
            finally:
                reading.cancel()

    async def _read(self, wire: Wire) -> None:
        async for item in wire.read:
            self.given.append(item)


def ask(request_id: Any, method: str = "tools/call", **params: Any) -> Any:
    return sdk.make({"jsonrpc": "2.0", "id": request_id, "method": method, "params": {"name": "t", **params}})


def in_a_turn(played: Played, body: Callable[[Wire], Awaitable[Any]], *, held: bool = False) -> Background[Any]:
    """A loop that runs by itself in a turn, as a host's may: nobody cancels its tasks when the turn is stopped."""

    def run() -> turnctl.TurnReport:
        with turnctl.turn("s", grace="200ms") as turn:
            asyncio.run(played.run(body, held=held))
        return turn.report

    return Background(run)


@pytest.fixture
def played() -> Played:
    return Played()


def test_stop_is_carried_though_nobody_is_cancelled(played: Played) -> None:
    """The bridge of the turn reaches the loop: the signal goes out while the sender waits on."""

    async def body(wire: Wire) -> None:
        await wire.write.send(ask(1))
        await asyncio.to_thread(until, lambda: len(played.out) == 2)

    running = in_a_turn(played, body)
    assert until(lambda: played.methods() == ["tools/call"])
    turnctl.stop("s", reason="enough")
    report = running.result()

    assert ["tools/call", "notifications/cancelled"] == played.methods()
    assert {"requestId": 1, "reason": "enough"} == played.out[1]["params"]
    assert "signal_queued" in str(report.activities[0].detail)


def test_signal_waits_for_the_write(played: Played) -> None:
    """While the transport has not taken the request, nothing is said of it."""

    async def body(wire: Wire) -> None:
        await wire.write.send(ask(1))
        await asyncio.to_thread(until, lambda: len(played.out) == 2)

    running = in_a_turn(played, body, held=True)
    assert until(lambda: played.tried == ["tools/call"])
    turnctl.stop("s")
    assert until(lambda: played.wire.traffic.evidence)
    before = list(played.tried)
    played.let_go()
    running.result()

    assert ["tools/call"] == before
    assert ["tools/call", "notifications/cancelled"] == played.tried


def test_request_that_is_withdrawn(played: Played) -> None:
    """Stopped after it was begun and before it is written: nothing goes out, and the evidence says so."""

    async def body(wire: Wire) -> None:
        wire.on_flight.append(lambda flight: wire.stop(flight, "enough"))
        with pytest.raises(asyncio.CancelledError):
            await wire.write.send(ask(1))

    report = in_a_turn(played, body).result()

    assert [] == played.tried
    [evidence] = played.wire.evidence
    assert ("none", "it was stopped before it was sent") == (evidence.evidence_class, evidence.not_sent)
    assert ["cancelled"] == [activity.state for activity in report.activities]


def test_evidence_keeps_no_turn(played: Played) -> None:
    """What is known of a stop outlives its turn, and does not hold it."""
    turns: list[weakref.ref[turnctl.Turn]] = []

    async def body(wire: Wire) -> None:
        def ask_in_a_turn() -> None:
            with turnctl.turn("inner") as turn:
                turns.append(weakref.ref(turn))
                asyncio.run_coroutine_threadsafe(wire.write.send(ask(1)), wire.loop).result()

        def call() -> None:
            copy_context().run(ask_in_a_turn)

        await asyncio.to_thread(call)

    asyncio.run(played.run(body))
    gc.collect()

    assert [None] == [one() for one in turns]


def test_late_response_is_not_given_to_the_session(played: Played) -> None:
    """It is taken off the wire, once; one that nobody is known to have asked for passes."""

    async def body(wire: Wire) -> None:
        await wire.write.send(ask(1))
        await asyncio.to_thread(until, lambda: len(played.out) == 2)
        played.come({"id": 1, "result": DONE})
        played.come({"id": 77, "result": DONE})
        await asyncio.to_thread(until, lambda: played.given)

    running = in_a_turn(played, body)
    assert until(lambda: played.methods() == ["tools/call"])
    turnctl.stop("s")
    running.result()

    assert [77] == [sdk.payload(item).id for item in played.given]
    [evidence] = played.wire.evidence
    assert evidence.late_response is not None
    assert DONE == evidence.late_response["result"]


def test_what_the_session_is_given(played: Played) -> None:
    """Responses in time, also with the number as a text, requests and notifications of the server, and errors."""
    trouble = ValueError("a line that is no message")

    async def body(wire: Wire) -> None:
        await wire.write.send(ask(1))
        await wire.write.send(ask("two"))
        for message in (
            {"id": "1", "result": DONE},
            {"id": "two", "error": {"code": -1, "message": "no"}},
            {"id": 5, "method": "ping"},
            {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}},
        ):
            played.come(message)
        played.come(trouble)
        await asyncio.to_thread(until, lambda: len(played.given) == 5)

    report = in_a_turn(played, body).result()

    assert trouble is played.given[4]
    assert ["completed", "failed"] == [activity.state for activity in report.activities]


def test_cancel_of_the_sessions_own(played: Played) -> None:
    """It becomes the signal, with its own reason where no turn was stopped; after the response it is nothing."""

    async def body(wire: Wire) -> None:
        await wire.write.send(ask(1))
        await wire.write.send(ask(2))
        played.come({"id": 2, "result": DONE})
        await asyncio.to_thread(until, lambda: played.given)
        for request_id in (1, 1, 2, 3):
            params = {"requestId": request_id, "reason": "timed out"}
            await wire.write.send(sdk.make({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))

    in_a_turn(played, body).result()

    assert [{"requestId": 1, "reason": "timed out"}] == [
        message["params"] for message in played.out if message["method"] == "notifications/cancelled"
    ]


def test_other_notifications_and_replies_pass(played: Played) -> None:
    """What the session says that is no request goes out as it is."""

    async def body(wire: Wire) -> None:
        await wire.write.send(sdk.make({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    in_a_turn(played, body).result()

    assert ["notifications/initialized"] == played.methods()


def test_task_that_the_server_ends(played: Played) -> None:
    """What says that a task has ended, in any of its ways, ends the call: a stop sends nothing for it."""
    handles = [{"task": {"taskId": f"t{n}", "status": "working"}} for n in range(3)]

    async def body(wire: Wire) -> None:
        for number, handle in enumerate(handles):
            await wire.write.send(ask(number))
            played.come({"id": number, "result": handle})
        await asyncio.to_thread(until, lambda: len(played.given) == 3)
        played.come({"method": "notifications/tasks/status", "params": {"taskId": "t0", "status": "failed"}})
        await wire.write.send(ask("r", "tasks/result", taskId="t1"))
        played.come({"id": "r", "result": DONE})
        await asyncio.to_thread(until, lambda: len(played.given) == 5)
        turnctl.stop("s")
        await asyncio.to_thread(until, lambda: "tasks/cancel" in played.methods())

    report = in_a_turn(played, body).result()

    assert ["t2"] == [one["params"]["taskId"] for one in played.out if one["method"] == "tasks/cancel"]
    assert ["completed", "completed", "unknown"] == [a.state for a in report.activities if a.name == "tools/call t"]


def test_request_that_speaks_for_itself(played: Played) -> None:
    """From 2026-07-28 on the request says its version, and a raw one says what that one did."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "progressToken": 1}
    played.transport = "http"

    async def body(wire: Wire) -> None:
        await wire.write.send(ask(1, _meta=meta))
        asking = asyncio.ensure_future(wire.request("tasks/get", {"taskId": "t"}))
        await asyncio.to_thread(until, lambda: len(played.out) == 2)
        played.come({"id": played.out[1]["id"], "result": {"status": "working"}})
        played.out.append(await asking)

    in_a_turn(played, body).result()

    assert {"taskId": "t", "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}} == played.out[1][
        "params"
    ]
    assert {"status": "working"} == played.out[2]
    [evidence] = played.wire.evidence
    assert ("stream-close", "2026-07-28", "the connection is closed") == (
        evidence.dialect,
        evidence.protocol_version,
        evidence.reason,
    )


def test_end_of_the_transport(played: Played) -> None:
    """Calls under way are lost, what is sent afterwards fails, and the transport is left."""

    async def body(wire: Wire) -> None:
        await wire.write.send(ask(1))
        played.come(None)
        await asyncio.to_thread(until, lambda: wire.lost)

    report = in_a_turn(played, body).result()

    assert "the server closed the connection, or is gone" == played.wire.lost
    assert ["unknown"] == [activity.state for activity in report.activities]
    assert played.left


def test_transport_that_cannot_be_opened() -> None:
    """What it raises comes out of the ``with``, and nothing is left."""

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        raise OSError("no such server")
        yield

    async def main() -> None:
        async with Wire(opened(), "stdio"):
            raise AssertionError

    with pytest.raises(OSError, match="no such server"):
        asyncio.run(main())


def test_cancellation_while_the_transport_is_left() -> None:
    """It is put off until the transport has been left to its end: no server stays behind."""
    told: list[str] = []

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        played = Played()
        played.come_in = asyncio.Queue()
        yield played, played
        told.append("leaving")
        await asyncio.sleep(0.05)
        told.append("left")

    async def main() -> None:
        async def use() -> None:
            async with Wire(opened(), "stdio"):
                pass

        using = asyncio.ensure_future(use())
        await asyncio.to_thread(until, lambda: told)
        for _ in range(3):
            using.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await using

    asyncio.run(main())

    assert ["leaving", "left"] == told


def test_scope_of_anyio_that_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is put off as well, without a busy loop that takes one cancellation after another."""
    told: list[str] = []
    waits: list[int] = []
    wait = asyncio.wait

    def counted(*args: Any, **kwargs: Any) -> Any:
        waits.append(1)
        return wait(*args, **kwargs)

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        played = Played()
        played.come_in = asyncio.Queue()
        yield played, played
        await asyncio.sleep(0.1)
        told.append("left")

    async def main() -> bool:
        with anyio.move_on_after(0.01) as scope:
            async with Wire(opened(), "stdio"):
                await asyncio.sleep(60)
        return scope.cancelled_caught

    monkeypatch.setattr(asyncio, "wait", counted)

    assert asyncio.run(main())
    assert ["left"] == told
    assert 5 > len(waits)
