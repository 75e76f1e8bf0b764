"""With the official SDK at the other end: its servers and its clients, over stdio and HTTP, in both directions."""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import alive, nap
from mcping import Stage, server_program
from standins import BOUND, Background, until

import turnctl
from turnctl.integrations.mcp import Server
from turnctl.testing import pause_at

mcp_package = pytest.importorskip("mcp", reason="the official SDK of MCP is not installed: pip install mcp")

from turnctl.integrations.mcp import Client, ConnectionLost, in_turn  # noqa: E402

IS_2 = hasattr(mcp_package, "Client")
knows_tasks = pytest.mark.skipif(
    importlib.import_module("mcp.types").LATEST_PROTOCOL_VERSION < "2025-11-25",
    reason="this version of the SDK does not speak the revision that has tasks",
)
PROTOCOLS = ["initialize", "discover"] if IS_2 else ["initialize"]
DIALECTS = {"initialize": "notifications/cancelled", "discover": "stream-close"}

HOSTED = """
import sys
import turnctl
from turnctl.integrations import mcp
port = int(sys.argv[1])
options = {}
try:
    from mcp.server.mcpserver import MCPServer
    made = MCPServer("hosted")
    options["port"] = port
except ImportError:
    from mcp.server.fastmcp import FastMCP
    made = FastMCP("hosted", port=port)

@made.tool()
@mcp.in_turn(grace="300ms")
def shell(command: str) -> str:
    '''Run a command.'''
    return turnctl.run(command, shell=True, text=True).stdout

@made.tool()
@mcp.in_turn(timeout="50ms")
def short() -> str:
    turnctl.sleep(60)
    return "slept"

if port:
    made.run("streamable-http", **options)
else:
    made.run("stdio")
"""


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("hosted") / "hosted.py"
    program.write_text(HOSTED)
    return program


@pytest.fixture(scope="module")
def address(hosted: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The SDK's own server at a port, with tools of ``in_turn``."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(hosted), str(port)], stderr=subprocess.DEVNULL)

    def answers() -> bool:
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", port)) == 0

    try:
        assert until(answers, within=30)
        yield f"http://127.0.0.1:{port}/mcp", process
    finally:
        process.kill()
        process.wait(BOUND)


def environment() -> dict[str, str]:
    """All of ours: the SDK gives its server a few variables only."""
    return dict(os.environ)


def stop_it(client: Client, command: str, tag: str) -> turnctl.TurnReport:
    """A command of the server's, stopped by its client when it runs."""

    def body() -> turnctl.TurnReport:
        with turnctl.turn("s") as turn:
            client.call_tool("shell", {"command": command})
        return turn.report

    calling = Background(body)
    assert until(lambda: alive(tag), within=20)
    turnctl.stop("s", reason="user pressed Stop")
    return calling.result()


@pytest.mark.slow
def test_hosted_tool_over_stdio(hosted: Path) -> None:
    """A plain function in the SDK's server: after the stop nothing of its command is left; the server goes on."""
    sleeper = nap()
    tag = sleeper.split()[1]
    with Client.stdio([sys.executable, str(hosted), "0"], env=environment()) as client:
        report = stop_it(client, f"setsid {sleeper} & {sleeper}", tag)

        assert until(lambda: not alive(tag))
        assert "cancelled" == report.outcome
        assert ["signal_queued"] == [one.evidence_class for one in client.evidence]
        assert "still here\n" == client.call_tool("shell", {"command": "echo still here"}).content[0].text
        refused = client.call_tool("short")
        assert "timeout" in refused.content[0].text


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_hosted_tool_over_http(address: tuple[str, subprocess.Popen[bytes]], protocol: str) -> None:
    """The same by HTTP: a notification in the one revision, the end of the stream in the other."""
    sleeper = nap()
    tag = sleeper.split()[1]
    with Client.http(address[0], protocol=protocol) as client:
        report = stop_it(client, f"setsid {sleeper} & {sleeper}", tag)

        assert until(lambda: not alive(tag))
        assert "cancelled" == report.outcome
        [evidence] = client.evidence
        assert (DIALECTS[protocol], "signal_queued", "http", client.protocol_version) == (
            evidence.dialect,
            evidence.evidence_class,
            evidence.transport,
            evidence.protocol_version,
        )
        assert "still here\n" == client.call_tool("shell", {"command": "echo still here"}).content[0].text


# -- our server, the SDK's client -------------------------------------------------------------------------------------


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def server(stage: Stage) -> Server:
    made = Server("tested")

    @made.tool
    def echo(text: str) -> str:
        """Say it again."""
        return text

    @made.tool
    def wait() -> str:
        stage.enter("wait")
        turnctl.sleep(60)
        return "slept"

    @made.tool(task=True)
    def hold() -> str:
        stage.enter("hold")
        turnctl.sleep(60)
        return "held"

    return made


def http_streams(url: str) -> Any:
    from mcp.client import streamable_http

    found = getattr(streamable_http, "streamable_http_client", None) or streamable_http.streamablehttp_client
    return found(url)


async def cancelled_call(streams: Any, stage: Stage, *, negotiate: str = "initialize") -> tuple[str, str]:
    """Call, cancel one in the SDK's own way, and call again; the tool's name and what the last call gave."""
    from mcp import ClientSession

    async with streams as found, ClientSession(found[0], found[1]) as session:
        await getattr(session, negotiate)()
        tools = (await session.list_tools()).tools
        task = asyncio.ensure_future(session.call_tool("wait", {}))
        await asyncio.to_thread(stage.wait_entered)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        result = await session.call_tool("echo", {"text": "a"})
        return tools[0].name, result.content[0].text


@pytest.mark.skipif(not IS_2, reason="version 1 of the SDK sends no cancel when a call is cancelled")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_client_of_the_sdk_over_http(server: Server, stage: Stage, protocol: str) -> None:
    """The SDK's client cancels in its own way: the request's turn is stopped, by the dialect of the revision."""
    reports: list[turnctl.TurnReport] = []
    server.on_report = reports.append
    with server.http() as edge:
        told = asyncio.run(cancelled_call(http_streams(edge.url), stage, negotiate=protocol))
        assert until(lambda: len(reports) == 2)

    assert ("echo", "a") == told
    assert {"completed", "cancelled"} == {report.outcome for report in reports}
    applied = [one for one in server.received if one.applied]
    assert [DIALECTS[protocol]] == [one.dialect for one in applied]


def test_client_of_the_sdk_over_stdio(tmp_path: Path) -> None:
    """The SDK starts our server, calls, cancels and goes on; nothing of the command is left."""
    from mcp import ClientSession
    from mcp.client.stdio import StdioServerParameters, stdio_client

    sleeper = nap()
    tag = sleeper.split()[1]
    argv = server_program(
        tmp_path,
        """
        @server.tool
        def shell(command: str) -> str:
            return turnctl.run(command, shell=True, text=True).stdout
        """,
    )

    async def main() -> str:
        parameters = StdioServerParameters(command=argv[0], args=argv[1:], env=environment())
        async with stdio_client(parameters) as streams, ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            task = asyncio.ensure_future(session.call_tool("shell", {"command": sleeper}))
            assert await asyncio.to_thread(until, lambda: alive(tag))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if not IS_2:
                await cancel_by_hand(session, 1)
            assert await asyncio.to_thread(until, lambda: not alive(tag))
            result = await session.call_tool("shell", {"command": "echo still here"})
            return str(result.content[0].text)

    async def bounded() -> str:
        async with asyncio.timeout(20):
            return await main()

    assert "still here\n" == asyncio.run(bounded())


async def cancel_by_hand(session: Any, request_id: int) -> None:
    """What version 1 leaves to its user."""
    from mcp import types

    params = types.CancelledNotificationParams(requestId=request_id)
    note = types.CancelledNotification(method="notifications/cancelled", params=params)
    await session.send_notification(types.ClientNotification(note))


# -- our client, our server, the SDK between them ---------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_stop_over_http(server: Server, stage: Stage, protocol: str) -> None:
    """From the stop of a turn here to the stop of a turn there, and the late end of the stream is no response."""
    reports: list[turnctl.TurnReport] = []
    server.on_report = reports.append
    with server.http() as edge, Client.http(edge.url, protocol=protocol) as client:

        def body() -> turnctl.TurnReport:
            with turnctl.turn("s") as turn:
                client.call_tool("wait")
            return turn.report

        calling = Background(body)
        stage.wait_entered()
        turnctl.stop("s", reason="user pressed Stop")
        calling.result()
        assert until(lambda: reports)
        assert "a" == client.call_tool("echo", {"text": "a"}).content[0].text
        [evidence] = client.evidence

    assert "cancelled" == reports[0].outcome
    assert (DIALECTS[protocol], None) == (evidence.dialect, evidence.late_response)
    assert [DIALECTS[protocol]] == [one.dialect for one in server.received if one.applied]


def phases(client: Client) -> list[str]:
    """How far the calls have come that are under way."""
    wire = client._connection.wire
    assert wire is not None
    return [flight.call.phase for flight in list(wire.traffic.open.values())]


@knows_tasks
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_task_is_cancelled_by_a_request(server: Server, stage: Stage, protocol: str) -> None:
    """A call that became a task: its stop is ``tasks/cancel``, and what the server answers is kept."""
    extension = {"extensions": {"io.modelcontextprotocol/tasks": {}}} if protocol == "discover" else {}
    with server.http() as edge:
        with Client.http(edge.url, protocol=protocol, session_options=extension) as client:

            def body() -> turnctl.TurnReport:
                with turnctl.turn("s") as turn:
                    client.run_task("hold")
                return turn.report

            calling = Background(body)
            assert until(lambda: "task" in phases(client))
            turnctl.stop("s", reason="user pressed Stop")
            report = calling.result()
            assert until(lambda: any(one.answer for one in client.evidence))
            found = [one for one in client.evidence if one.task_id is not None]

    assert [("tasks/cancel", "signal_queued")] == [(one.dialect, one.evidence_class) for one in found]
    assert found[0].answer is not None
    assert ["tasks/cancel"] == [one.dialect for one in server.received if one.applied]
    assert ["unknown"] == [a.state for a in report.activities if a.name == "tools/call hold"]


@knows_tasks
def test_task_that_is_made_after_the_stop(server: Server) -> None:
    """The request is signalled while the server makes a task of it: that has a ``tasks/cancel`` of its own."""
    with server.http() as edge, Client.http(edge.url) as client, pause_at("mcp.server.admitted") as held:

        def body() -> turnctl.TurnReport:
            with turnctl.turn("s") as turn:
                client.run_task("hold")
            return turn.report

        calling = Background(body)
        assert held.reached.wait(BOUND)
        turnctl.stop("s")
        report = calling.result()
        assert until(lambda: server.received)
        held.release()
        assert until(lambda: any(one.answer for one in client.evidence))
        [evidence] = client.evidence

    assert ("tasks/cancel", "signal_queued") == (evidence.dialect, evidence.evidence_class)
    assert [("notifications/cancelled", False), ("tasks/cancel", True)] == [
        (one.dialect, one.applied) for one in server.received
    ]
    assert "cancelled" == report.outcome


@knows_tasks
def test_task_that_completes(server: Server) -> None:
    """Its result is that of the tool, and a turn that ends well cancels nothing."""

    @server.tool(task=True)
    def quick(fails: bool = False) -> str:
        if fails:
            raise ValueError("no luck")
        return "done"

    with server.http() as edge, Client.http(edge.url) as client:
        with turnctl.turn() as turn:
            result = client.run_task("quick", ttl="1m")
            failed = client.run_task("quick", {"fails": True})

    assert "done" == result["content"][0]["text"]
    assert failed["isError"] is True
    assert () == client.evidence
    assert {"completed"} == {a.state for a in turn.report.activities}


@knows_tasks
def test_task_that_takes_too_long(server: Server) -> None:
    """The time of ``run_task`` passes: the task is cancelled."""
    with server.http() as edge, Client.http(edge.url) as client:
        with pytest.raises(TimeoutError):
            client.run_task("hold", timeout="500ms")
        assert until(lambda: any(one.applied for one in server.received))

    assert ["tasks/cancel"] == [one.dialect for one in server.received if one.applied]


@knows_tasks
def test_task_that_is_left_running(server: Server, stage: Stage) -> None:
    """A turn that ends without a stop leaves the task to the server, and says so."""
    with server.http() as edge, Client.http(edge.url) as client:
        with turnctl.turn() as turn:
            made = client.request("tools/call", {"name": "hold", "arguments": {}, "task": {}})
        client.stop_task(made["task"]["taskId"], "enough")
        assert until(lambda: [one.applied for one in server.received])

    [activity] = turn.report.activities
    assert "detached" == activity.state
    assert "goes on at the server" in str(activity.detail)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_stream_that_breaks(server: Server, stage: Stage, protocol: str) -> None:
    """The connection breaks under a call and the server lives: a clear error, where some versions wait for ever."""
    with server.http() as edge, Client.http(edge.url, protocol=protocol) as client, turnctl.turn() as turn:
        with pause_at("mcp.http.streaming") as held:
            calling = Background(client.call_tool, "wait")
            assert held.reached.wait(BOUND)
        stage.wait_entered()
        for sock in list(edge._connections.values()):
            sock.shutdown(socket.SHUT_RDWR)
        error = calling.error()
        with Client.http(edge.url, protocol=protocol) as other:
            assert "a" == other.call_tool("echo", {"text": "a"}).content[0].text
        server.shutdown()

    assert isinstance(error, ConnectionLost)
    assert "completed" == turn.outcome


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_http_server_that_is_killed(tmp_path: Path, protocol: str) -> None:
    """SIGKILL in the middle of a call: a clear error and no hang, also where the SDK waits on by itself."""
    argv = server_program(
        tmp_path,
        """
        @server.tool
        def die() -> None:
            import signal
            os.kill(os.getpid(), signal.SIGKILL)
        """,
        run="edge = server.http()\nprint(edge.url, flush=True)\nedge.serve()",
    )
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            with Client.http(url, protocol=protocol) as client, turnctl.turn() as turn:
                with pytest.raises(ConnectionLost):
                    client.call_tool("die")
                with pytest.raises(ConnectionLost):
                    client.call_tool("die")
        finally:
            process.kill()

    assert "unknown" == turn.report.activities[0].state


# -- tools in the SDK's server, without it ----------------------------------------------------------------------------


def test_hosted_function_keeps_its_face() -> None:
    """Its name, its words and its parameters are those of the plain one."""
    import inspect

    @in_turn
    def tool(a: int, b: str = "x") -> str:
        """Words."""
        return b * a

    assert inspect.iscoroutinefunction(tool)
    assert "(a: 'int', b: 'str' = 'x') -> 'str'" == str(inspect.signature(tool))
    assert ("tool", "Words.") == (tool.__name__, tool.__doc__)
    assert "xx" == asyncio.run(tool(2))


def test_hosted_function_that_was_cancelled_first() -> None:
    """A call that is cancelled before its turn has begun never runs the function (P6)."""
    ran: list[int] = []

    @in_turn
    def tool() -> None:
        ran.append(1)

    async def main() -> None:
        with pause_at("mcp.tool.begin") as held:
            task = asyncio.ensure_future(tool())
            assert await asyncio.to_thread(held.reached.wait, BOUND)
            task.cancel()
            await asyncio.sleep(0.01)
            held.release()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())

    assert [] == ran


def test_hosted_function_that_does_not_come_back(caplog: pytest.LogCaptureFixture) -> None:
    """The coroutine ends when the grace has passed, and the log names the turn."""
    began, go = threading.Event(), threading.Event()

    @in_turn(grace=0)
    def tool() -> None:
        began.set()
        go.wait(BOUND)

    async def main() -> None:
        task = asyncio.ensure_future(tool())
        assert await asyncio.to_thread(began.wait, BOUND)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("turnctl.integrations.mcp.hosted._REST_S", 0.05)
        asyncio.run(main())
    go.set()

    assert "its tool has not come back" in caplog.text


@pytest.mark.parametrize(
    ("raised", "error"),
    [(ValueError, ValueError("x")), (turnctl.TurnctlError, SystemExit(3)), (turnctl.TurnctlError, KeyboardInterrupt())],
)
def test_hosted_function_that_raises(raised: type[Exception], error: BaseException) -> None:
    """Exceptions are the SDK's to tell; what would end its loop is made one."""

    @in_turn
    def tool() -> None:
        raise error

    with pytest.raises(raised):
        asyncio.run(tool())


def test_hosted_program_is_valid() -> None:
    """The text of the program is Python, whichever version is installed."""
    compile(textwrap.dedent(HOSTED), "hosted.py", "exec")
