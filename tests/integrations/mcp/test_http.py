"""A server at a port: sessions, requests that stand for themselves, and what the end of a stream means in each."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from mcping import Stage, request
from standins import BOUND, Background, until

import turnctl
from turnctl.integrations.mcp import HttpEdge, Server
from turnctl.testing import pause_at

LOCAL = "http://localhost:99"
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def server(stage: Stage) -> Server:
    made = Server("tested")

    @made.tool
    def echo(text: str) -> str:
        return text

    @made.tool
    def wait(what: str = "it") -> str:
        stage.enter(what)
        turnctl.sleep(60)
        return "slept"

    @made.tool
    def hold() -> str:
        stage.enter("hold")
        assert stage.go.wait(BOUND)
        return "held"

    return made


@pytest.fixture
def edge(server: Server) -> Iterator[HttpEdge]:
    with server.http() as made:
        yield made


class Browser:
    """A client that posts what a test wants; ``alone`` speaks 2026-07-28."""

    def __init__(self, edge: HttpEdge, *, alone: bool = False) -> None:
        self.place = urlsplit(edge.url)
        self.headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        self.alone = alone
        self.connections: list[http.client.HTTPConnection] = []
        self.connection = self.connect()
        if alone:
            self.headers["MCP-Protocol-Version"] = "2026-07-28"
        else:
            answer = self.post(request(0, "initialize", protocolVersion="2025-06-18"))
            self.headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
            self.headers["MCP-Protocol-Version"] = "2025-06-18"
            answer.read()

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(self.place.hostname or "", self.place.port or 0, timeout=BOUND)
        connection.connect()
        self.connections.append(connection)
        return connection

    def post(
        self,
        message: Any,
        on: http.client.HTTPConnection | None = None,
        *,
        method: str = "POST",
        path: str | None = None,
        **headers: str,
    ) -> http.client.HTTPResponse:
        connection = on or self.connection
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path or self.place.path, body, {**self.headers, **more})
        return connection.getresponse()

    def call(self, request_id: Any, tool: str, on: Any = None, /, **arguments: Any) -> http.client.HTTPResponse:
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if self.alone:
            params["_meta"] = META
        return self.post({"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}, on)

    def cancel(self, request_id: Any) -> int:
        params = {"requestId": request_id, "reason": "enough"}
        return self.post(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}, self.connect()
        ).status

    def close(self) -> None:
        for connection in self.connections:
            connection.close()


def message_in(response: http.client.HTTPResponse) -> Any:
    """The one message of a response, by whichever way it came; None if its stream had none."""
    text = response.read().decode()
    if response.headers["Content-Type"] == "application/json":
        return json.loads(text)
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert len(lines) <= 1
    return json.loads(lines[0]) if lines else None


@pytest.fixture
def legacy(edge: HttpEdge) -> Iterator[Browser]:
    made = Browser(edge)
    yield made
    made.close()


@pytest.fixture
def modern(edge: HttpEdge) -> Iterator[Browser]:
    made = Browser(edge, alone=True)
    yield made
    made.close()


@pytest.mark.parametrize("kind", ["legacy", "modern"])
def test_requests_one_after_another_on_one_connection(kind: str, request: pytest.FixtureRequest) -> None:
    """Each is answered in a stream of its own, and the connection is kept."""
    browser: Browser = request.getfixturevalue(kind)
    sock = browser.connection.sock
    answers = [message_in(browser.call(number, "echo", text=str(number))) for number in range(3)]

    assert ["0", "1", "2"] == [answer["result"]["content"][0]["text"] for answer in answers]
    assert sock is browser.connection.sock
    assert (kind == "modern") is ("resultType" in answers[0]["result"])


def test_cancel_by_notification(edge: HttpEdge, legacy: Browser, stage: Stage) -> None:
    """Up to 2025-11-25 a notification stops the request; its stream ends without a message."""
    response = legacy.call(1, "wait")
    stage.wait_entered()

    assert 202 == legacy.cancel(1)
    assert message_in(response) is None
    [received] = edge.server.received
    assert (True, "notifications/cancelled", "enough") == (received.applied, received.dialect, received.reason)


def test_disconnect_is_no_cancel_before(edge: HttpEdge, legacy: Browser, stage: Stage) -> None:
    """Up to 2025-11-25 a request goes on when its stream is closed, and what it comes to is dropped."""
    reports: list[turnctl.TurnReport] = []
    edge.server.on_report = reports.append
    connection = legacy.connect()
    legacy.call(1, "hold", connection).close()
    stage.wait_entered()
    connection.close()
    assert until(lambda: edge.server.received)
    stage.go.set()

    assert until(lambda: reports)
    assert "completed" == reports[0].outcome
    [received] = edge.server.received
    assert (False, "stream-close", "a disconnect is no cancel before 2026-07-28") == (
        received.applied,
        received.dialect,
        received.why,
    )


def test_disconnect_is_the_cancel_since(edge: HttpEdge, modern: Browser, stage: Stage) -> None:
    """From 2026-07-28 on the end of the stream stops the request."""
    reports: list[turnctl.TurnReport] = []
    edge.server.on_report = reports.append
    connection = modern.connect()
    modern.call(1, "wait", connection).close()
    stage.wait_entered()
    connection.close()

    assert until(lambda: reports)
    assert "cancelled" == reports[0].outcome
    [received] = edge.server.received
    assert (True, "stream-close", 1) == (received.applied, received.dialect, received.request_id)


def test_notification_is_no_cancel_since(edge: HttpEdge, modern: Browser, stage: Stage) -> None:
    """From 2026-07-28 on nobody's id stops anybody's request: the notification is taken, and does nothing."""
    response = modern.call(1, "hold")
    stage.wait_entered()

    assert 202 == modern.cancel(1)
    stage.go.set()
    assert "held" == message_in(response)["result"]["content"][0]["text"]
    [received] = edge.server.received
    assert (False, "wrong dialect: there the response stream is closed instead") == (received.applied, received.why)


def test_two_clients_with_one_id(edge: HttpEdge, legacy: Browser, stage: Stage) -> None:
    """Sessions are apart: a cancel in one leaves the request of the same id in the other alone (P2)."""
    other = Browser(edge)
    response = legacy.call(1, "hold")
    stage.wait_entered()
    other.cancel(1)
    stage.go.set()

    assert "held" == message_in(response)["result"]["content"][0]["text"]
    assert ["unknown"] == [one.why for one in edge.server.received]
    other.close()


def test_answer_and_disconnect_at_once(edge: HttpEdge, modern: Browser, stage: Stage) -> None:
    """The request completes as its client goes: the turn has decided, and the cancel is too late."""
    connection = modern.connect()
    with pause_at("mcp.http.gone") as held:
        modern.call(1, "hold", connection).close()
        stage.wait_entered()
        connection.close()
        assert held.reached.wait(BOUND)
        stage.go.set()
        assert until(lambda: not any(peer.in_work for peer in edge._alone))
        held.release()
        assert until(lambda: edge.server.received)

    assert [(False, "finished")] == [(one.applied, one.why) for one in edge.server.received]


@pytest.mark.parametrize("ending", ["session", "server", "shutdown"])
def test_end_stops_what_is_in_work(edge: HttpEdge, legacy: Browser, modern: Browser, stage: Stage, ending: str) -> None:
    """The end of a session, or of the server: requests are stopped, and streams end without a message."""
    reports: list[turnctl.TurnReport] = []
    edge.server.on_report = reports.append
    responses = [legacy.call(1, "wait")]
    if ending != "session":
        responses.append(modern.call(1, "wait"))
    stage.wait_entered(len(responses))
    if ending == "session":
        assert 200 == legacy.post(b"", legacy.connect(), method="DELETE").status
    elif ending == "server":
        edge.close()
    else:
        edge.server.shutdown("maintenance")

    assert [None] * len(responses) == [message_in(response) for response in responses]
    assert until(lambda: len(reports) == len(responses))
    assert {"cancelled"} == {report.outcome for report in reports}


@pytest.mark.parametrize(
    ("status", "options"),
    [
        (404, {"path": "/other"}),
        (403, {"Origin": "https://evil.example"}),
        (405, {"method": "GET"}),
        (404, {"method": "DELETE"}),
        (400, {"message": b"nonsense"}),
        (400, {"message": b'[{"id": 1, "method": "ping"}, {"id": 2, "method": "ping"}]'}),
        (400, {"message": {"id": 1, "method": "ping"}}),
        (404, {"message": {"id": 1, "method": "ping"}, "Mcp_Session_Id": "x"}),
        (400, {"message": request(1, "ping", _meta={}), "MCP_Protocol_Version": "2026-07-28"}),
        (404, {"message": request(1, "no/such", _meta=META), "MCP_Protocol_Version": "2026-07-28"}),
        (400, {"message": request(1, "tools/call", _meta=META), "MCP_Protocol_Version": "2026-07-28"}),
        (200, {"message": request(1, "ping", _meta=META), "MCP_Protocol_Version": "2026-07-28"}),
        (200, {"message": request(1, "ping", _meta=META), "MCP_Protocol_Version": "2026-07-28", "Origin": LOCAL}),
        (400, {"message": request(1, "server/discover", _meta=META)}),
    ],
)
def test_what_is_refused(edge: HttpEdge, status: int, options: dict[str, Any]) -> None:
    """Foreign pages, other paths and methods, bodies that are no message, and sessions that are none."""
    browser = Browser(edge)
    browser.headers = {}
    message = options.pop("message", b"")
    response = browser.post(message, browser.connect(), **options)
    text = response.read()

    assert status == response.status
    assert (status >= 400 and b"error" in text) or text or status == 404
    browser.close()


@pytest.mark.parametrize("length", ["", "-1", "x", "9" * 12])
def test_body_without_a_usable_length(edge: HttpEdge, length: str) -> None:
    """A body is not read on trust."""
    with socket.create_connection(edge._listener.getsockname()) as sock:
        header = f"Content-Length: {length}\r\n" if length else ""
        sock.sendall(f"POST /mcp HTTP/1.1\r\nHost: x\r\n{header}\r\n".encode())
        status = sock.makefile().readline().split()[1]

    assert ("413" if len(length) == 12 else "411") == status


def test_client_of_http_1_0(edge: HttpEdge, server: Server) -> None:
    """A stream to an old client ends with its connection."""
    body = json.dumps(request(1, "tools/call", name="echo", arguments={"text": "a"}, _meta=META))
    with socket.create_connection(edge._listener.getsockname()) as sock:
        head = f"POST /mcp HTTP/1.0\r\nMCP-Protocol-Version: 2026-07-28\r\nContent-Length: {len(body)}\r\n\r\n"
        sock.sendall((head + body).encode())
        text = sock.makefile().read()

    assert '"text":"a"' in text
    assert "chunked" not in text


def test_many_clients_come_and_go(edge: HttpEdge, stage: Stage) -> None:
    """Eight clients, some of which leave in the middle: nothing of them stays behind."""

    def visit(number: int) -> None:
        browser = Browser(edge, alone=True)
        for _ in range(3):
            if number % 2:
                browser.call(1, "echo", text="a").read()
            else:
                connection = browser.connect()
                browser.call(2, "wait", connection).close()
                connection.close()
        browser.close()

    visitors = [Background(visit, number) for number in range(8)]
    for visitor in visitors:
        visitor.result()

    assert until(lambda: not edge._alone and not edge._connections)
    assert {True} == {one.applied for one in edge.server.received}


def test_idle_sessions_make_room(edge: HttpEdge, monkeypatch: pytest.MonkeyPatch, stage: Stage) -> None:
    """Beyond the limit the oldest session that has nothing in work is forgotten."""
    monkeypatch.setattr("turnctl.integrations.mcp.http._SESSIONS", 2)
    busy, idle = Browser(edge), Browser(edge)
    response = busy.call(1, "hold")
    stage.wait_entered()
    third = Browser(edge)
    stage.go.set()

    assert message_in(response) is not None
    assert 404 == idle.post(request(1, "ping")).status
    for browser in (busy, idle, third):
        browser.close()


def test_serving_on_the_callers_thread_is_a_checkpoint(server: Server) -> None:
    """A stop of the turn around ``serve`` ends it."""
    edge = server.http()

    def serve() -> None:
        with turnctl.turn("web"):
            edge.serve()

    serving = threading.Thread(target=serve)
    serving.start()
    assert until(lambda: server.serving)
    turnctl.stop("web")
    serving.join(BOUND)

    assert not serving.is_alive()
    assert [] == server.serving


def test_address_of_the_newer_kind(server: Server) -> None:
    """A host with colons is one of IPv6, and stands in brackets in the address."""
    try:
        edge = server.http("::1")
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    with edge:
        browser = Browser(edge, alone=True)
        answer = message_in(browser.call(1, "echo", text="a"))
        browser.close()

    assert edge.url.startswith("http://[::1]:")
    assert "a" == answer["result"]["content"][0]["text"]


def test_no_descriptor_for_a_connection(edge: HttpEdge, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again a little later; the server goes on."""
    accept = socket.socket.accept
    failures: list[OSError] = [OSError(24, "Too many open files")]

    def scarce(sock: socket.socket) -> Any:
        if failures:
            raise failures.pop()
        return accept(sock)

    monkeypatch.setattr(socket.socket, "accept", scarce)
    browser = Browser(edge, alone=True)
    answer = message_in(browser.call(1, "echo", text="a"))
    browser.close()

    assert [] == failures
    assert "a" == answer["result"]["content"][0]["text"]
