"""What must not hurt a server at a port: bodies cut short, two lengths, unknown versions, clients that hang."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from mcping import Stage, request
from standins import BOUND, Background, until

from turnctl import clock
from turnctl.integrations.mcp import HttpEdge, Server
from turnctl.waiting.parking import end_of


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def edge(stage: Stage) -> Iterator[HttpEdge]:
    server = Server("tested")

    @server.tool
    def enter() -> str:
        stage.enter("enter")
        return "entered"

    @server.tool
    def hold() -> str:
        stage.enter("hold")
        assert stage.go.wait(BOUND)
        return "held"

    @server.tool
    def much() -> str:
        stage.enter("much")
        return "x" * (16 << 20)

    with server.http() as made:
        yield made


def post(
    edge: HttpEdge, message: Any, *, length: int | str | None = None, session: str | None = None, **more: str
) -> Any:
    """A connection on which that was posted."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    headers = {"Content-Length": str(len(body) if length is None else length)}
    headers.update({name.replace("_", "-"): value for name, value in more.items()})
    if session is not None:
        headers["Mcp-Session-Id"] = session
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    sock = socket.create_connection(edge._listener.getsockname(), BOUND)
    sock.sendall(f"POST /mcp HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode() + body)
    return sock


def answer(sock: Any) -> tuple[int, bytes]:
    """The status and the body; reads until the server has closed, or said all of a body with a length."""
    with sock, sock.makefile("rb") as file:
        status = int(file.readline().split()[1])
        headers: dict[bytes, bytes] = {}
        while line := file.readline().strip():
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        return status, file.read(int(headers.get(b"content-length", b"0")))


def opened(edge: HttpEdge) -> str:
    """A session."""
    sock = post(edge, request(0, "initialize", protocolVersion="2025-06-18"))
    with sock, sock.makefile("rb") as file:
        [name] = [line.split()[1].decode() for line in iter(file.readline, b"\r\n") if line.startswith(b"Mcp-Session")]
    return name


def call(request_id: int, tool: str) -> dict[str, Any]:
    return request(request_id, "tools/call", name=tool, arguments={})


def test_body_that_is_cut_short_is_not_served(edge: HttpEdge, stage: Stage) -> None:
    """A client that leaves in the middle of its body has asked for nothing, even if what came is whole JSON."""
    session = opened(edge)
    body = json.dumps(call(1, "enter")).encode()
    sock = post(edge, body, length=len(body) + 9, session=session)
    sock.shutdown(socket.SHUT_WR)

    assert b"" == sock.recv(100)
    sock.close()
    assert until(lambda: not edge._connections)
    assert [] == stage.entered


@pytest.mark.parametrize(
    ("status", "options"),
    [
        (413, {"length": "9" * 5000}),
        (411, {"Transfer_Encoding": "chunked"}),
        (411, {"length": "2\r\nContent-Length: 3"}),
        (411, {"length": "+2"}),
    ],
)
def test_lengths_that_are_none(edge: HttpEdge, status: int, options: dict[str, Any]) -> None:
    """One length, written in digits, is what a body has; it is refused else, and the connection closed."""
    sock = post(edge, b"{}", **options)

    assert status == answer(sock)[0]


@pytest.mark.parametrize(
    ("status", "version"), [(400, "zz"), (400, "1999-01-01"), (200, "2025-06-18"), (200, "2025-03-26")]
)
def test_versions_in_the_header(edge: HttpEdge, status: int, version: str) -> None:
    """A version that is not known is refused."""
    sock = post(edge, request(1, "ping"), session=opened(edge), MCP_Protocol_Version=version)

    assert status == answer(sock)[0]


@pytest.mark.parametrize("second", [request(1, "ping"), {"id": 1}, {"id": 1, "method": "ping", "params": [1]}], ids=str)
def test_id_in_work_on_another_connection(edge: HttpEdge, stage: Stage, second: dict[str, Any]) -> None:
    """Nothing else is answered under that id, on whichever stream."""
    session = opened(edge)
    first = post(edge, call(1, "hold"), session=session)
    stage.wait_entered()
    said = json.loads(answer(post(edge, second, session=session))[1])
    stage.go.set()
    first.close()

    assert None is said["id"]
    assert "request 1 is in work" in said["error"]["message"]


def test_close_with_many_that_do_not_read(edge: HttpEdge, stage: Stage) -> None:
    """It takes as long as with one of them: they are given up together."""
    session = opened(edge)
    clients = [post(edge, call(number, "much"), session=session) for number in range(5)]
    stage.wait_entered(5)
    assert until(lambda: not edge.session(session).in_work)  # type: ignore[union-attr]
    began_at = clock.monotonic()
    edge.close()
    Background(edge.__exit__, None, None, None).result()
    took_s = clock.monotonic() - began_at
    for one in clients:
        one.close()

    assert took_s < 3.0


def test_long_silence_on_a_stream(edge: HttpEdge, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a tool is in work its stream says so now and then: clients give up one on which nothing comes."""
    monkeypatch.setattr("turnctl.integrations.mcp.posts._BEAT_S", 0.05)
    sock = post(edge, call(1, "hold"), session=opened(edge))
    with sock, sock.makefile("rb") as file:
        beats: list[bytes] = []
        while beats.count(b": in work\n") < 2:
            beats.append(file.readline())
        stage.go.set()
        while not (line := file.readline()).startswith(b"data: "):
            beats.append(line)

    assert "held" == json.loads(line.removeprefix(b"data: "))["result"]["content"][0]["text"]


def test_beat_for_a_client_that_does_not_read(edge: HttpEdge, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits in it: its request is stopped by its cancel as ever."""
    monkeypatch.setattr("turnctl.integrations.mcp.posts._BEAT_S", 0.01)
    written: list[bytes] = []
    tried: list[float] = []
    monkeypatch.setattr("turnctl.integrations.mcp.posts.PostConnection._chunk", lambda _, data: written.append(data))
    monkeypatch.setattr("turnctl.integrations.mcp.posts.WRITE", 0)  # as if there never were room
    monkeypatch.setattr("turnctl.integrations.mcp.posts.end_of", lambda limit: tried.append(limit) or end_of(limit))
    session = opened(edge)
    sock = post(edge, call(1, "hold"), session=session)
    stage.wait_entered()
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}

    assert 202 == answer(post(edge, cancel, session=session))[0]
    assert [True] == [one.applied for one in edge.server.received]
    assert until(lambda: 0 in tried)
    assert [] == written
    monkeypatch.undo()
    stage.go.set()
    sock.close()
