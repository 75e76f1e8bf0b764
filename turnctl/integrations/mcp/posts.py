"""One connection of HTTP: what is posted is taken, answered, and its response stream watched (``http``).

Invariant Z4: the thread of a connection waits in one ``poll`` for the answer and for the end of the client; which of
the two it was is looked at once, the answer first. Now and then it says in a comment that the request is in work, and
never waits for room to say so.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from turnctl import points
from turnctl.integrations.mcp.incoming import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Bad,
    Call,
    Message,
    encode,
    error_message,
    parse,
)
from turnctl.integrations.mcp.protocol import STREAM_CLOSE, VERSIONS, with_stateless
from turnctl.integrations.mcp.revisions import version_of
from turnctl.integrations.mcp.serving import in_work_message
from turnctl.waiting.descriptors import READ, WRITE, wait_ready
from turnctl.waiting.parking import end_of
from turnctl.waiting.wakeup import Wakeup

if TYPE_CHECKING:
    from turnctl.integrations.mcp.http import HttpEdge
    from turnctl.integrations.mcp.serving import Peer
    from turnctl.records.mcp import RequestId

__all__ = ["PostConnection"]

_GONE = getattr(select, "POLLRDHUP", 0)  # where there is none, only a connection that is closed both ways is seen
_LARGEST = 64 << 20
_DIGITS = 15  # of a length
_BEAT_S = 15.0  # clients give up a stream on which nothing comes, the SDK's after five minutes
_HEADER_MISMATCH = -32020


class _Reply:
    """What is to be written to one POST; the thread that serves the request leaves it here (Z1)."""

    def __init__(self) -> None:
        self.message: dict[str, Any] | None = None
        self.is_over = False
        self._bell: Wakeup | None = None

    def answer(self, message: dict[str, Any]) -> None:
        self.message = message

    def over(self) -> None:
        self.is_over = True  # and *then* look whether somebody waits
        bell = self._bell
        if bell is not None:
            bell.ring()

    def wait(self, fd: int, beat: Callable[[], None]) -> bool:
        """Block until it is over (True), or the client is gone (False); ``beat`` is called now and then meanwhile."""
        bell = self._bell = Wakeup()
        try:
            while not self.is_over:  # then look again
                ready = wait_ready(None, {fd: _GONE, bell.fd: READ}, end_of(_BEAT_S))
                if fd in ready and not self.is_over:
                    return False
                if not ready and not self.is_over:
                    beat()
            return True
        finally:
            self._bell = None
            bell.close()


class PostConnection(BaseHTTPRequestHandler):
    """One connection, request after request."""

    protocol_version = "HTTP/1.1"
    server_version = "turnctl"

    def __init__(self, connection: socket.socket, address: Any, edge: HttpEdge) -> None:
        self.edge = edge
        super().__init__(connection, address, edge)  # type: ignore[arg-type]  # it only stores it

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""

    # -- the methods of HTTP ----------------------------------------------------------------------------------

    def do_GET(self) -> None:
        """There is no stream for messages of the server."""
        self._plain(405, "this server sends no messages of its own", allow="POST, DELETE")

    def do_DELETE(self) -> None:
        """The client ends its session."""
        name = self.headers.get("Mcp-Session-Id")
        self._plain(200 if name is not None and self.edge.end_session(name) else 404, "")

    def do_POST(self) -> None:
        """One message."""
        body = self._body()
        if body is None:
            return
        messages = parse(body)
        message = messages[0]
        if len(messages) > 1 or isinstance(message, Bad):
            self._refuse(message if isinstance(message, Bad) else Bad(INVALID_REQUEST, "one message per POST"))
        elif with_stateless(self._version(message)):
            self._take_alone(message)
        else:
            self._take_in_session(message)

    def _refuse(self, bad: Bad) -> None:
        peer = self.edge.session(self.headers.get("Mcp-Session-Id", ""))
        if peer is not None and bad.id is not None and peer.has_in_work(bad.id):
            self._json(400, in_work_message(bad.id))
        else:
            self._json(400, error_message(bad.id, bad.code, bad.message))

    def _body(self) -> bytes | None:
        """What was posted; None if it has been refused."""
        origin = self.headers.get("Origin")
        lengths = self.headers.get_all("Content-Length", [])
        length = lengths[0] if len(lengths) == 1 and "Transfer-Encoding" not in self.headers else ""
        if origin is not None and not self.edge.allows(origin):
            self._plain(403, f"no requests from {origin}")
        elif self.path.partition("?")[0] != self.edge.path:
            self._plain(404, f"the endpoint is {self.edge.path}")
        elif not length.isascii() or not length.isdigit():
            self._plain(411, "a POST needs one Content-Length, and no Transfer-Encoding")
        elif len(length) > _DIGITS or int(length) > _LARGEST:
            self._plain(413, f"at most {_LARGEST} bytes")
        else:
            body = self.rfile.read(int(length))
            if len(body) == int(length):
                return body  # else its client has left in the middle of it
        self.close_connection = True  # what was posted is still to be read
        return None

    def _version(self, message: Message) -> str | None:
        said = self.headers.get("MCP-Protocol-Version")
        return said or (version_of(message) if isinstance(message, Call) else None)

    # -- messages ---------------------------------------------------------------------------------------------

    def _take_alone(self, message: Message) -> None:
        """From 2026-07-28 on: no session, and the end of the stream is the cancel."""
        header = self.headers.get("MCP-Protocol-Version")
        if isinstance(message, Call) and header != version_of(message):
            text = f"the header MCP-Protocol-Version says {header}, the request {version_of(message)}"
            self._json(400, error_message(message.id, _HEADER_MISMATCH, text))
            return
        peer = self.edge.open_alone()
        peer.version = header
        self._take(peer, message, alone=True)

    def _take_in_session(self, message: Message) -> None:
        if isinstance(message, Call) and message.method == "initialize":
            name, peer = self.edge.open_session()
            self._take(peer, message, session=name)
            return
        named = self.headers.get("Mcp-Session-Id")
        found = None if named is None else self.edge.session(named)
        said = self.headers.get("MCP-Protocol-Version")
        if said is not None and said not in VERSIONS:
            self._plain(400, f"version {said} is not spoken here")
        elif found is not None:
            self._take(found, message)
        elif named is None:
            self._plain(400, "no Mcp-Session-Id; begin with initialize")
        else:
            self._plain(404, "this session has ended; begin with initialize")

    def _take(self, peer: Peer, message: Message, *, alone: bool = False, session: str | None = None) -> None:
        reply = _Reply()

        def over() -> None:
            self.edge.close_alone(peer)
            reply.over()

        self.edge.server.take(peer, message, reply.answer, over)
        if not isinstance(message, Call):
            self._plain(202, "")
        elif reply.is_over and reply.message is not None:
            self._json(_status(reply.message, alone=alone), reply.message, session)
        else:
            self._stream(peer, message.id, reply, alone=alone)

    def _stream(self, peer: Peer, request_id: RequestId, reply: _Reply, *, alone: bool) -> None:
        """Keep the response open until the request is over (Z2)."""
        try:
            self._head(200, "text/event-stream", None, ("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"))
            points.reach("mcp.http.streaming")
            is_there = reply.wait(self.connection.fileno(), self._beat)
        except OSError:
            is_there = False
        if not is_there:
            points.reach("mcp.http.gone")
            self.close_connection = True
            ignored = None if alone else "a disconnect is no cancel before 2026-07-28"
            peer.cancel(request_id, "the client closed the response stream", STREAM_CLOSE, ignored=ignored)
            return
        if reply.message is not None and not peer.is_closed:
            self._chunk(b"event: message\ndata: " + encode(reply.message) + b"\n\n")
        self._chunk(b"")

    def _beat(self) -> None:
        """Say that the request is in work still, if there is room for it: who does not read is not waited for."""
        fd = self.connection.fileno()
        if fd in wait_ready(None, {fd: WRITE}, end_of(0)):
            self._chunk(b": in work\n\n")

    # -- writing ----------------------------------------------------------------------------------------------

    def _head(self, status: int, kind: str | None, length: int | None, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        if kind is not None:
            self.send_header("Content-Type", kind)
        for name, value in headers:
            self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        elif self.request_version == "HTTP/1.1":
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.close_connection = True
        self.end_headers()
        self.wfile.flush()

    def _chunk(self, data: bytes) -> None:
        if self.request_version == "HTTP/1.1":
            data = f"{len(data):x}\r\n".encode() + data + b"\r\n"
        self.wfile.write(data)
        self.wfile.flush()

    def _json(self, status: int, message: dict[str, Any], session: str | None = None) -> None:
        body = encode(message)
        headers = () if session is None else (("Mcp-Session-Id", session),)
        self._head(status, "application/json", len(body), *headers)
        self.wfile.write(body)

    def _plain(self, status: int, text: str, *, allow: str | None = None) -> None:
        body = text.encode()
        headers = () if allow is None else (("Allow", allow),)
        self._head(status, "text/plain; charset=utf-8" if body else None, len(body), *headers)
        self.wfile.write(body)


def _status(message: dict[str, Any], *, alone: bool) -> int:
    code = message["error"]["code"] if "error" in message else None
    if code is None or not alone:
        return 200
    return 404 if code == METHOD_NOT_FOUND else 400
