"""MCP: what a request costs a server more than a bare loop, a call more than the SDK, and how soon stops act."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from table import Row

import turnctl
from turnctl.integrations.mcp import Server

TITLE = "MCP"

_REQUESTS, _ROUNDS, _STOPS = 200, 15, 50
_CALLS = 50

#: answers every tool but one, which it never does
_PLAIN_SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if number is None or message.get("params", {}).get("name") == "never":
        continue
    result = {"content": [{"type": "text", "text": "a"}], "isError": False}
    if method == "initialize":
        version = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}}
        result = {**version, "serverInfo": {"name": "plain", "version": "0"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}) + "\\n")
    sys.stdout.flush()
"""


def _call(number: int, tool: str) -> bytes:
    params = {"name": tool, "arguments": {}}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode() + b"\n"


#: the least that a server does, one request after another; the same with a thread for each; and ours
_BARE = """
import json, sys, threading, time
def echo(name):
    return str(time.process_time()) if name == "cpu" else "a"
def serve(message):
    result = {"content": [{"type": "text", "text": echo(message["params"]["name"])}], "isError": False}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\\n")
    sys.stdout.flush()
for line in sys.stdin:
    message = json.loads(line)
    if sys.argv[1] == "threads":
        threading.Thread(target=serve, args=(message,)).start()
    else:
        serve(message)
"""
_OURS = """
import time
from turnctl.integrations.mcp import Server
server = Server("bench")
@server.tool
def echo() -> str:
    return "a"
@server.tool
def cpu() -> str:
    return str(time.process_time())
server.run()
"""


class _Program:
    """A server that is a process of its own."""

    def __init__(self, code: str, *argv: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def __enter__(self) -> Self:
        self.ask("echo")
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def ask(self, tool: str, number: int = 0) -> str:
        """One call, and the text of its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(_call(number, tool))
        return str(json.loads(self.process.stdout.readline())["result"]["content"][0]["text"])

    def round(self) -> tuple[float, float]:
        """Microseconds of the server's work, and of the clock, for a request and its answer."""
        worked, begun = float(self.ask("cpu")), time.perf_counter()
        for number in range(_REQUESTS):
            self.ask("echo", number)
        took = time.perf_counter() - begun
        return (float(self.ask("cpu")) - worked) / _REQUESTS * 1e6, took / _REQUESTS * 1e6


def _server_costs() -> list[Row]:
    found: dict[str, list[tuple[float, float]]] = {"bare": [], "threads": [], "ours": []}
    with _Program(_BARE, "loop") as bare, _Program(_BARE, "threads") as threads, _Program(_OURS) as ours:
        for _ in range(_ROUNDS):
            for name, program in (("bare", bare), ("threads", threads), ("ours", ours)):
                found[name].append(program.round())
    # the least of many rounds: what else the machine has to do only adds to it
    cpu = {name: min(one[0] for one in rounds) for name, rounds in found.items()}
    clock = {name: min(one[1] for one in rounds) for name, rounds in found.items()}
    return [
        Row("a request, the server's work", cpu["ours"], "us", "a thread each", cpu["threads"]),
        Row("- more than a thread for each request", cpu["ours"] - cpu["threads"], "us", target=100),
        Row("- more than a loop that serves one at a time", cpu["ours"] - cpu["bare"], "us"),
        Row("a request and its answer", clock["ours"], "us", "a thread each", clock["threads"]),
        Row("- beside a loop that serves one at a time", clock["ours"], "us", "a loop", clock["bare"]),
    ]


class _Pipes:
    """A server that runs on a thread, and the client's end of it."""

    def __init__(self, serve: Callable[[int, int], object]) -> None:
        self.theirs, self.ours = os.pipe()
        self.back, self.forth = os.pipe()
        self.thread = threading.Thread(target=serve, args=(self.theirs, self.forth))

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.ours)
        self.thread.join()
        for fd in (self.theirs, self.back, self.forth):
            os.close(fd)

    def send(self, data: bytes) -> None:
        os.write(self.ours, data)


def _cancels() -> list[Row]:
    """From the notification's being written to the tool's being out of its sleep."""
    began = threading.Event()
    left: list[float] = []
    server = Server("bench")

    @server.tool
    def wait() -> None:
        began.set()
        try:
            turnctl.sleep(60)
        finally:
            left.append(time.perf_counter())

    took = []
    with _Pipes(server.serve) as pipes:
        for number in range(_STOPS):
            pipes.send(_call(number, "wait"))
            began.wait()
            began.clear()
            time.sleep(0.005)
            sent_at = time.perf_counter()
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
            pipes.send(json.dumps(note).encode() + b"\n")
            while len(left) <= number:
                time.sleep(0.0005)
            took.append((left[-1] - sent_at) * 1000)
    took.sort()
    return [
        Row("a cancel ends a sleeping tool, p50", statistics.median(took), "ms", target=100),
        Row("- p90", took[len(took) * 9 // 10], "ms"),
    ]


@contextlib.contextmanager
def _program() -> Iterator[list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "plain_server.py")
        path.write_text(_PLAIN_SERVER)
        yield [sys.executable, "-I", "-S", str(path)]


async def _sdk_alone(argv: list[str]) -> float:
    """Microseconds of work for one call of the SDK's session, in its own loop."""
    from mcp import ClientSession
    from mcp.client.stdio import StdioServerParameters, stdio_client

    parameters = StdioServerParameters(command=argv[0], args=argv[1:])
    async with stdio_client(parameters) as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        await session.call_tool("echo", {})
        least = float("inf")
        for _ in range(_ROUNDS):
            begun = time.process_time()
            for _ in range(_CALLS):
                await session.call_tool("echo", {})
            least = min(least, (time.process_time() - begun) / _CALLS * 1e6)
        return least


def _client_costs(client: Any, alone: float) -> list[Row]:
    def round_of() -> float:
        begun = time.process_time()
        for _ in range(_CALLS):
            client.call_tool("echo", {})
        return (time.process_time() - begun) / _CALLS * 1e6

    client.call_tool("echo", {})
    outside = min(round_of() for _ in range(_ROUNDS))
    with turnctl.turn():
        inside = min(round_of() for _ in range(_ROUNDS))
    return [
        Row("a call from plain code, in a turn", inside, "us", "the SDK in its loop", alone),
        Row("- outside of turns", outside, "us", "the SDK in its loop", alone),
        Row("- what the turn adds", inside - outside, "us", target=200),
    ]


def _stops(client: Any) -> list[Row]:
    """From the stop to the caller's being free, which is after the signal was handed over."""
    took = []
    for _ in range(_STOPS):
        stopped_at: list[float] = []
        with turnctl.turn() as turn:

            def stop(turn: Any = turn, at: list[float] = stopped_at) -> None:
                time.sleep(0.02)
                at.append(time.perf_counter())
                turn.token.cancel()

            stopper = threading.Thread(target=stop)
            stopper.start()
            try:
                client.call_tool("never", {})
            finally:
                took.append((time.perf_counter() - stopped_at[0]) * 1000)
                stopper.join()
    took.sort()
    return [
        Row("a stop frees the caller, signal sent, p50", statistics.median(took), "ms", target=100),
        Row("- p90", took[len(took) * 9 // 10], "ms"),
    ]


def rows() -> list[Row]:
    """The server's side, and where the SDK is installed the client's."""
    found = [*_server_costs(), *_cancels()]
    try:
        from turnctl.integrations.mcp import Client

        import_sdk()
    except ImportError:
        return found
    with _program() as argv:
        alone = asyncio.run(_sdk_alone(argv))
        with Client.stdio(argv) as client:
            found += [*_client_costs(client, alone), *_stops(client)]
    return found


def import_sdk() -> None:
    """Raise ``ImportError`` where it is not installed."""
    import mcp  # noqa: F401
