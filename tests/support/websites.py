"""A web server on this machine that stalls where it is told to, plain or TLS, and a proxy in front of it."""

from __future__ import annotations

import contextlib
import functools
import re
import select
import socket
import ssl
from collections.abc import Iterator

import pytest
from peers import Loopback, Peer, loopback
from standins import BOUND

EVENT = b'data: {"n": %d}\n\n'

#: what is sent before the server says nothing more, by path
STALLS = {
    "/silence": b"",
    "/head": b"HTTP/1.1 200 OK\r\nContent-Ty",
    "/sized": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
    "/chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    "/close": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc",
    "/old": b"HTTP/1.0 200 OK\r\n\r\nabc",
    "/events": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"%x\r\n%s\r\n" % (len(EVENT % 1), EVENT % 1),
}


class Website:
    """What it saw: ``seen`` has the method and path of each request; one connection is ``peer(n)``."""

    def __init__(self, server: Loopback, scheme: str) -> None:
        self.server = server
        self.url = f"{scheme}://127.0.0.1:{server.port}"
        self.port = server.port
        self.seen: list[str] = []

    def stalled(self, n: int = -1) -> Peer:
        """The connection that stalls; by default the last one."""
        if n < 0:
            n += len(self.server.peers) or 1
        return self.server.reached(n)


@functools.cache
def authority() -> object:
    """What signs certificates here; skipped where it is not installed."""
    trustme = pytest.importorskip("trustme", reason="trustme makes the certificates of the TLS tests")
    return trustme.CA()


@functools.cache
def server_tls(protocols: tuple[str, ...] = ()) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().issue_cert("localhost", "127.0.0.1").configure_cert(context)  # type: ignore[attr-defined]
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


@functools.cache
def client_tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority().configure_trust(context)  # type: ignore[attr-defined]
    return context


@contextlib.contextmanager
def website(*, tls: bool = False) -> Iterator[Website]:
    """A server for as long as the block; with ``tls`` one that stalls in the handshake as the first if told so."""

    def serve(peer: Peer) -> None:
        if tls:
            try:
                peer.sock = server_tls().wrap_socket(peer.sock, server_side=True)
            except OSError:
                raise EOFError from None  # it gave up in the handshake
        with peer.sock:
            while True:
                _answer(site, peer)

    with loopback(serve) as server:
        site = Website(server, "https" if tls else "http")
        yield site


def _answer(site: Website, peer: Peer) -> None:
    head = peer.until(b"\r\n\r\n")
    method, target = head.split(b" ")[:2]
    path, _, query = target.decode().partition("?")
    site.seen.append(f"{method.decode()} {path}")
    if path == "/upload":
        peer.stall()
    size = re.search(rb"(?i)content-length: (\d+)", head)
    content = peer.exactly(int(size[1])) if size else b""
    if path in STALLS:
        peer.send(STALLS[path])
        peer.stall()
        peer.send(b"7\r\nit went\r\n")
    elif path == "/redirect":
        peer.send(b"HTTP/1.1 302 Found\r\nLocation: /%s\r\nContent-Length: 0\r\n\r\n" % query.encode())
    elif path == "/stream":
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for n in range(int(query)):
            peer.send(b"%x\r\n%s\r\n" % (len(EVENT % n), EVENT % n))
        peer.send(b"0\r\n\r\n")
    else:
        body = query.encode() or content or b"ok"
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


@contextlib.contextmanager
def mute() -> Iterator[Loopback]:
    """A server that says nothing, not even to shake hands."""
    with loopback(Peer.stall) as server:
        yield server


@contextlib.contextmanager
def full() -> Iterator[int]:
    """The port of a server whose backlog is full, so that a connect to it stalls."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(3):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(server.getsockname())
        yield server.getsockname()[1]


@contextlib.contextmanager
def proxy(*, stalls: bool = False, tls: bool = False) -> Iterator[Website]:
    """A proxy that connects through, or with ``stalls`` one that does not answer; with ``tls`` spoken to by TLS."""

    def serve(peer: Peer) -> None:
        if tls:
            peer.sock = server_tls().wrap_socket(peer.sock, server_side=True)
        with peer.sock:
            connect_through(peer)

    def connect_through(peer: Peer) -> None:
        head = peer.until(b"\r\n\r\n")
        method, target = head.split(b" ")[:2]
        site.seen.append(f"{method.decode()}")
        if stalls:
            peer.stall()
        host, _, port = target.decode().rpartition(":")
        with socket.create_connection((host, int(port)), BOUND) as other:
            peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            pump(peer.sock, other)

    with loopback(serve) as server:
        site = Website(server, "https" if tls else "http")
        yield site


def pump(one: socket.socket, other: socket.socket) -> None:
    """Hand on what comes from either side, until one of them ends or is reset."""
    while True:
        is_there = isinstance(one, ssl.SSLSocket) and one.pending()
        for sock in [one] if is_there else select.select([one, other], [], [], BOUND)[0]:
            try:
                data = sock.recv(65536)
                (other if sock is one else one).sendall(data)
            except OSError:
                return
            if not data:
                return
