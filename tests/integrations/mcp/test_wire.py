"""Asyncio code that uses the SDK itself, on the streams of a wire: run by ``turn.run_coroutine``, and stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcping import fake_server, lines_of, methods_of
from standins import Background, until

import turnctl
from turnctl.testing import pause_at

pytest.importorskip("mcp", reason="the official SDK of MCP is not installed: pip install mcp")

from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

from turnctl.integrations.mcp import ConnectionLost, Wire


class Talk:
    """A coroutine that opens a session on a wire and calls a tool, and what the server has read of it."""

    def __init__(self, folder: Path) -> None:
        argv, self.log = fake_server(folder)
        self.parameters = StdioServerParameters(command=argv[0], args=argv[1:])
        self.wire: Wire | None = None
        self.left: list[str] = []

    async def main(self, body: Callable[[Any], Awaitable[Any]]) -> Any:
        async with Wire(stdio_client(self.parameters), "stdio") as wire:
            self.wire = wire
            async with ClientSession(wire.read, wire.write) as session:
                await session.initialize()
                try:
                    return await body(session)
                except BaseException as error:
                    self.left.append(type(error).__name__)
                    raise

    def cancelled(self) -> list[dict[str, Any]]:
        return [line["params"] for line in lines_of(self.log) if line.get("method") == "notifications/cancelled"]

    def wait_called(self, count: int = 1) -> None:
        assert until(lambda: methods_of(self.log).count("tools/call") >= count)


async def never(session: Any) -> Any:
    return await session.call_tool("never", {})


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path)


def test_calls_go_through(talk: Talk) -> None:
    """Without a stop the wire is not to be noticed; the report has each request."""

    async def body(session: Any) -> str:
        result = await session.call_tool("echo", {"text": "a"})
        return str(result.content[0].text)

    with turnctl.turn() as turn:
        value = turn.run_coroutine(talk.main(body))

    assert "a" == value
    assert ["initialize", "tools/call echo"] == [a.name for a in turn.report.activities if a.kind == "mcp"][:2]
    assert {"completed"} == {a.state for a in turn.report.activities}


def test_stop_sends_one_notification(talk: Talk) -> None:
    """The coroutine is cancelled, and the server told once, with the reason of the turn, before the connection ends."""

    def body() -> turnctl.TurnReport:
        with turnctl.turn("s") as turn:
            turn.run_coroutine(talk.main(never))
        return turn.report

    running = Background(body)
    talk.wait_called()
    turnctl.stop("s", reason="user pressed Stop")
    report = running.result()

    assert "cancelled" == report.outcome
    assert ["CancelledError"] == talk.left
    assert ["user pressed Stop"] == [one["reason"] for one in talk.cancelled()]
    assert talk.wire is not None
    [evidence] = talk.wire.evidence
    assert ("signal_queued", "notifications/cancelled") == (evidence.evidence_class, evidence.dialect)
    assert ["unknown"] == [a.state for a in report.activities if a.name == "tools/call never"]


def test_loop_that_is_held_while_the_turn_stops(talk: Talk) -> None:
    """The loop is busy when the stop comes: the request that is under way is signalled when it goes on."""

    def run() -> Any:
        return turnctl.run_turn(lambda: turnctl.run_coroutine(talk.main(never)), options={"session_id": "s"})

    with pause_at("mcp.client.stopping") as held:
        running = Background(run)
        talk.wait_called()
        turnctl.stop("s", reason="enough")
        assert held.reached.wait(10)
        held.release()
        result = running.result()

    assert result.cancelled
    assert 1 == len(talk.cancelled())


def test_task_that_is_cancelled_without_a_stop(talk: Talk) -> None:
    """A timeout of asyncio's own: where the SDK sends a cancel, it is the one; there never are two."""

    async def body(session: Any) -> str:
        try:
            async with asyncio.timeout(0.05):
                await session.call_tool("never", {})
        except TimeoutError:
            pass
        result = await session.call_tool("echo", {"text": "a"})
        return str(result.content[0].text)

    with turnctl.turn() as turn:
        value = turn.run_coroutine(talk.main(body))

    assert "a" == value
    assert 1 >= len([one for one in talk.cancelled() if one["reason"] != "the connection is closed"])
    assert "completed" == turn.outcome


def test_without_a_turn_nothing_is_done(talk: Talk) -> None:
    """Outside of turns requests are passed on, and there is no evidence of anything."""

    async def body(session: Any) -> str:
        return str((await session.call_tool("echo", {"text": "a"})).content[0].text)

    assert "a" == asyncio.run(talk.main(body))
    assert talk.wire is not None
    assert () == talk.wire.evidence


def test_turn_that_was_stopped_sends_nothing(talk: Talk) -> None:
    """A request that is begun after the stop is not sent; what asyncio code swallowed comes out at the end."""
    told: list[str] = []

    async def body(session: Any) -> None:
        turnctl.stop("s")
        try:
            await session.call_tool("echo", {"text": "a"})
        except turnctl.CancelledError as error:
            told.append(str(error.cause))
            raise

    with turnctl.turn("s") as turn:
        turn.run_coroutine(talk.main(body))

    assert "cancelled" == turn.outcome
    assert "tools/call" not in methods_of(talk.log)


def test_server_that_is_killed(talk: Talk) -> None:
    """The session's own error comes out, a raw request has ``ConnectionLost``, and nothing hangs."""

    told: list[str] = []

    async def by_session(session: Any) -> None:
        try:
            await session.call_tool("die", {})
        except Exception as error:
            told.append(f"{type(error).__module__.partition('.')[0]}: {error}")

    async def raw(_: Any) -> None:
        assert talk.wire is not None
        try:
            await talk.wire.request("tools/call", {"name": "die"})
        except ConnectionLost:
            told.append("lost")

    with turnctl.turn() as turn:
        turn.run_coroutine(talk.main(by_session))
        turn.run_coroutine(talk.main(raw))

    assert ["mcp: Connection closed", "lost"] == told
    assert talk.wire is not None
    assert "the server closed the connection, or is gone" == talk.wire.lost


def test_shield_of_the_caller_holds_the_signal_back(talk: Talk) -> None:
    """Under a shield the request goes on after the stop."""

    async def body(session: Any) -> str:
        turnctl.stop("s")
        return str((await session.call_tool("echo", {"text": "a"})).content[0].text)

    with turnctl.turn("s") as turn:
        with pytest.raises(turnctl.CancelledError), turn.shield("5s"):
            value = turn.run_coroutine(talk.main(body))
        assert "a" == value

    assert [] == talk.cancelled()
