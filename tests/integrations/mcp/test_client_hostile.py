"""What must not hurt a client: arguments that are no JSON, a server that writes other things, calls without number."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from mcping import Stage, server_program
from standins import BOUND, Background, until

import turnctl
from turnctl import BadArgument, clock
from turnctl.integrations.mcp import Server, tasked
from turnctl.integrations.mcp.posts import PostConnection
from turnctl.testing import call_at

mcp_package = pytest.importorskip("mcp", reason="the official SDK of MCP is not installed: pip install mcp")

from turnctl.integrations.mcp import Client  # noqa: E402

PROTOCOLS = ["initialize", "discover"] if hasattr(mcp_package, "Client") else ["initialize"]

ODD_SERVER = r"""
import json, sys

def say(**message):
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()

def text(value):
    return {"content": [{"type": "text", "text": value}], "isError": False}

asking = None
for line in sys.stdin.buffer:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        version = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "odd", "version": "0"}}
        say(id=number, result={**version, "capabilities": {"tools": {}}})
    elif method == "tools/list":
        say(id=number, result={"tools": []})
    elif method == "tools/call" and message["params"]["name"] == "ask":
        asking = number
        say(id=77, method="roots/list")
    elif method == "tools/call":
        for one in message["params"].get("arguments", {}).get("messages", []):
            sys.stdout.buffer.write(json.dumps(one).encode() + b"\n")
        sys.stdout.buffer.write({"noise": b"\xff\xfe\n{{{\n[]\nnull\n"}.get(message["params"]["name"], b""))
        say(id=number, result=text("said"))
    elif method == "x/any":
        say(id=number, result={})
    elif number == 77:
        say(id=asking, result=text(json.dumps(message)))
"""


@pytest.fixture
def odd(tmp_path: Path) -> list[str]:
    program = tmp_path / "odd.py"
    program.write_text(ODD_SERVER)
    return [sys.executable, "-I", "-S", str(program)]


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def server(stage: Stage) -> Server:
    made = Server("tested")

    @made.tool
    def wait() -> str:
        stage.enter("wait")
        turnctl.sleep(60)
        return "slept"

    @made.tool
    def echo(text: str) -> str:
        return text

    return made


def said(client: Client, tool: str) -> str:
    return str(client.call_tool(tool, {}, timeout=BOUND).content[0].text)


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.call_tool("echo", {"text": "\udc80"}, timeout=BOUND),
        lambda client: client.request("x/any", {"a": object()}, timeout=BOUND),
        lambda client: client.request("x/any", {"a": "\ud800"}, timeout=BOUND),
        lambda client: client.request("x/any", {"a": b"\xff"}, timeout=BOUND),
    ],
    ids=["text", "object", "half", "bytes"],
)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_arguments_that_are_no_json(
    odd: list[str], server: Server, transport: str, ask: Callable[[Client], object]
) -> None:
    """They are the caller's error: nothing is sent, and the connection serves the others on."""
    with server.http() as edge, Client.stdio(odd) if transport == "stdio" else Client.http(edge.url) as client:
        with turnctl.turn() as turn, pytest.raises(BadArgument, match="was not sent"):
            ask(client)
        after = client.call_tool("echo", {"text": "said"}, timeout=BOUND).content[0].text

        assert "said" == after
        assert ((), ()) == (client.evidence, turn.report.activities)


def test_server_that_writes_other_things(odd: list[str]) -> None:
    """Bytes that are no UTF-8, and lines that are no message, are not the end of the connection."""
    with Client.stdio(odd) as client:
        assert ["said", "said"] == [said(client, tool) for tool in ("noise", "plain")]


ODD: list[Any] = [None, True, -1, 1.5, 1e300, 10**30, "", "x", "working", "completed", [], [1], {}, {"status": []}]
KEYS = ("taskId", "status", "task", "requestId", "progressToken", "progress", "level", "_meta", "result", "error", "id")


def test_messages_that_nobody_expects(odd: list[str]) -> None:
    """Notifications, requests and responses with anything in them: the connection takes note of none, and lives on."""
    chance = random.Random(7)

    def params() -> dict[str, Any]:
        return {key: chance.choice([*ODD, {key: chance.choice(ODD)}]) for key in chance.sample(KEYS, 4)}

    messages: list[dict[str, Any]] = [{"method": "notifications/x", "params": {"status": ["a"]}}]
    for _ in range(60):
        method = chance.choice(("notifications/progress", "notifications/tasks/status", "notifications/x"))
        messages.append({"method": method, "params": params()})
        messages.append({"method": "roots/list", "id": chance.choice((1, "a")), "params": params()})
        messages.append({"id": chance.choice((9999, "turnctl-1", "turnctl-cancel-1", None, [])), "result": params()})
        messages.append({"id": chance.choice((9999, "x", None)), "error": chance.choice(ODD)})
    given = {"messages": [{"jsonrpc": "2.0", **one} for one in messages]}
    with Client.stdio(odd) as client:
        first = client.call_tool("say", given, timeout=BOUND).content[0].text

        assert ["said", "said"] == [first, said(client, "plain")]


@pytest.mark.parametrize("interval", [None, True, -1, 0, 1e308, float("inf"), float("nan"), "x", [1]])
def test_pauses_that_are_none(monkeypatch: pytest.MonkeyPatch, interval: Any) -> None:
    """A task that names no time to wait until the next question is asked about in the usual time."""
    monkeypatch.setattr("turnctl.integrations.mcp.tasked._PAUSE_S", 0.001)
    began_at = clock.monotonic()
    tasked._pause({"status": "working", "pollInterval": interval}, None)

    assert clock.monotonic() - began_at < 1.0


def test_response_of_ours_that_is_no_json(odd: list[str]) -> None:
    """A callback of the session's that gives what cannot be written answers with an error, and ends nothing."""
    from mcp import types

    async def roots(_: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///tmp", name="\udc80")])  # type: ignore[arg-type]

    with Client.stdio(odd, session_options={"list_roots_callback": roots}) as client:
        answer = json.loads(said(client, "ask"))
        after = said(client, "plain")

    assert -32603 == answer["error"]["code"]
    assert "said" == after


def test_names_of_files_reach_the_client(tmp_path: Path) -> None:
    """What a server of ours makes of half a pair of surrogates is something that the SDK reads."""
    argv = server_program(tmp_path, "@server.tool\ndef names() -> list:\n    return ['\\udc80.txt']\n")
    with Client.stdio(argv, env=dict(os.environ)) as client:
        assert '["\ufffd.txt"]' == said(client, "names")


def test_more_calls_than_a_pool_has(server: Server, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many calls are under way by HTTP, a stop reaches the server for each of them, and a new call does."""
    count = 6
    usual = import_module("mcp.shared._httpx_utils").create_mcp_http_client
    httpx = import_module(type(usual()).__module__.partition(".")[0])

    def scarce(**options: Any) -> Any:  # 100 in truth, which takes long to exhaust
        return httpx.AsyncClient(**options, limits=httpx.Limits(max_connections=3))

    monkeypatch.setattr("mcp.shared._httpx_utils.create_mcp_http_client", scarce)

    async def all_of(session: Any) -> None:
        await asyncio.gather(*(session.call_tool("wait", {}) for _ in range(count)))

    def stop_all(client: Client) -> None:
        with turnctl.turn("many", grace=BOUND):
            client.call(all_of)

    with server.http() as edge, Client.http(edge.url) as client:
        calling = Background(stop_all, client)
        stage.wait_entered(count)
        turnctl.stop("many")
        calling.result()

        assert {"signal_queued": count} == Counter(one.evidence_class for one in client.evidence)
        assert until(lambda: count == sum(one.applied for one in server.received))
        assert "a" == client.call_tool("echo", {"text": "a"}, timeout=BOUND).content[0].text


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_tool_that_takes_long(server: Server, monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    """The SDK gives up a stream on which nothing comes, after minutes; a server of ours lets that not come about."""
    name = "mcp.shared._httpx_utils"
    if not hasattr(import_module(name), "MCP_DEFAULT_SSE_READ_TIMEOUT"):
        pytest.skip("this version of the SDK has no such time to shorten")
    monkeypatch.setattr(f"{name}.MCP_DEFAULT_SSE_READ_TIMEOUT", 0.5)
    monkeypatch.setattr("turnctl.integrations.mcp.posts._BEAT_S", 0.05)

    @server.tool
    def work() -> str:
        turnctl.sleep(1.2)
        return "done"

    with server.http() as edge, Client.http(edge.url, protocol=protocol) as client:
        assert "done" == said(client, "work")


@pytest.mark.parametrize(("arrives", "limit_s"), [(True, BOUND), (False, 0.05)])
def test_signal_does_not_overtake_its_request(
    server: Server, monkeypatch: pytest.MonkeyPatch, arrives: bool, limit_s: float
) -> None:
    """By HTTP it waits until the server has begun to respond; for one that does not, only for a moment."""
    monkeypatch.setattr("turnctl.integrations.mcp.wire._ARRIVE_S", limit_s)
    signalled = threading.Event()
    usual = PostConnection._take_in_session

    def slow(post: PostConnection, message: Any) -> None:
        if message.method == "notifications/cancelled":
            signalled.set()
        if message.method == "tools/call":
            signalled.wait(0.2 if arrives else BOUND)
        usual(post, message)

    monkeypatch.setattr(PostConnection, "_take_in_session", slow)
    with server.http() as edge, Client.http(edge.url) as client:
        with turnctl.turn("s", grace=BOUND), call_at("mcp.client.writing", lambda: turnctl.stop("s")):
            client.call_tool("wait")

        assert ["signal_queued"] == [one.evidence_class for one in client.evidence]
        assert until(lambda: [arrives] == [one.applied for one in server.received])
        server.shutdown()
