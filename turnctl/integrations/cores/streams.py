"""What a connection of httpcore blocks in: connect, secure, read and write, raced with the stop.

Invariants
  C1  Without an exchange that is served the original runs, with its arguments as they are. The one exception: a
      connection that requests share (HTTP/2) is never put into another mode by one of them while another reads, so it
      is read and written the same way by all.
  C2  What an exchange opens it closes when a stop ends it before its response has begun (``cores.pool``): not every
      way through a proxy sees to that. A connection that becomes a shared one is no more its own (``cores.http2``).
  C3  A shared connection is worked on by one thread at a time, and nothing of it is torn (``cores.shared``).
  C4  What a stop raises is never made a connection error of: it is no ``OSError``, and only those are translated.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from turnctl.integrations import wires
from turnctl.integrations.cores.library import Library, Replaced
from turnctl.integrations.cores.shared import NOBODY, Shared, mark_of
from turnctl.integrations.exchanges import Exchange, served
from turnctl.waiting.descriptors import WRITE
from turnctl.waiting.installing import Change

__all__ = ["changes"]

_REST = "_turnctl_rest"


@contextmanager
def _told_as(timeout: type[Exception], failure: type[Exception]) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise timeout(error) from error
    except OSError as error:
        raise failure(error) from error


def changes(library: Library) -> list[Change]:
    """What is replaced in the part that talks to sockets."""
    part = library.part("_backends.sync")

    def stream() -> Any:
        return part.SyncStream

    def nested() -> Any:
        return part.TLSinTLSStream

    def backend() -> Any:
        return part.SyncBackend

    return [
        Replaced(stream, "read", lambda change: _read(change, library)),
        Replaced(stream, "write", lambda change: _write(change, library)),
        Replaced(stream, "start_tls", lambda change: _start_tls(change, library)),
        Replaced(nested, "_perform_io", _perform_io),
        Replaced(backend, "connect_tcp", lambda change: _connect_tcp(change, library)),
        Replaced(backend, "connect_unix_socket", lambda change: _connect_unix(change, library)),
    ]


def _read(change: Change, library: Library) -> Callable[..., Any]:
    original: Any = change.original
    timed_out, failed = library.face.ReadTimeout, library.face.ReadError

    def read(self: Any, max_bytes: int, timeout: float | None = None) -> bytes:
        exchange = served.get()
        shared = mark_of(self)
        if exchange is None:
            if shared is None:
                return original(self, max_bytes, timeout)  # type: ignore[no-any-return]
            exchange = NOBODY
        elif exchange.stage == "sending the request":
            exchange.stage = "waiting for the response"
        try:
            return wires.receive(exchange, self._sock if shared is None else shared.sock, max_bytes, timeout)
        except TimeoutError as error:
            raise timed_out(error) from error
        except OSError as error:
            raise failed(error) from error

    return read


def _write(change: Change, library: Library) -> Callable[..., Any]:
    original: Any = change.original
    timed_out, failed = library.face.WriteTimeout, library.face.WriteError

    def write(self: Any, buffer: bytes, timeout: float | None = None) -> None:
        exchange = served.get()
        shared = mark_of(self)
        if exchange is None and shared is None:
            original(self, buffer, timeout)
            return
        if shared is not None and shared.rest:
            buffer = shared.rest + bytes(buffer)
        if not buffer:
            return
        try:
            if shared is None:
                assert exchange is not None
                wires.send(exchange, self._sock, buffer, timeout)
            else:
                wires.send(NOBODY if exchange is None else exchange, shared.sock, buffer, timeout, shared.keep)
                shared.rest = b""
        except TimeoutError as error:
            raise timed_out(error) from error
        except OSError as error:
            raise failed(error) from error

    return write


def _start_tls(change: Change, library: Library) -> Callable[..., Any]:
    original: Any = change.original
    part = library.part("_backends.sync")

    def start_tls(
        self: Any, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> Any:
        exchange = served.get()
        if exchange is None:
            return original(self, ssl_context, server_hostname, timeout)
        with _told_as(library.face.ConnectTimeout, library.face.ConnectError):
            try:
                if isinstance(self._sock, ssl.SSLSocket):
                    exchange.stage = "securing the connection"
                    return part.TLSinTLSStream(self._sock, ssl_context, server_hostname, timeout)
                return part.SyncStream(
                    _kept(exchange, wires.secure(exchange, self._sock, ssl_context, server_hostname, timeout))
                )
            except BaseException:  # C2
                self.close()
                raise

    return start_tls


def _perform_io(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    def perform_io(self: Any, func: Callable[..., Any]) -> Any:
        exchange = served.get()
        shared = mark_of(self)
        if shared is not None:
            return _perform_shared(self, shared, NOBODY if exchange is None else exchange, func)
        if exchange is None:
            return original(self, func)
        timeout = self._sock.gettimeout()
        while True:
            wants_more = False
            result = None
            try:
                result = func()
            except ssl.SSLWantReadError:
                wants_more = True
            except ssl.SSLWantWriteError:
                pass  # what it wants to write is sent below, and then it is asked again
            else:
                _send_out(self, exchange, timeout)
                return result
            _send_out(self, exchange, timeout)
            if wants_more:
                data = wires.receive(exchange, self._sock, self.TLS_RECORD_SIZE, timeout)
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()

    return perform_io


def _perform_shared(stream: Any, shared: Shared, exchange: Any, func: Callable[..., Any]) -> Any:
    timeout = stream._sock.gettimeout()
    while True:
        given, wants = shared.carry_out(stream, func)
        if shared.rest:
            wires.raced(exchange, shared.sock, WRITE, timeout, shared.send_rest)
        if wants is None:
            return given
        if wants is ssl.SSLWantReadError:
            shared.take_in(stream, wires.receive(exchange, shared.sock, stream.TLS_RECORD_SIZE, timeout))


def _send_out(stream: Any, exchange: Any, timeout: float | None) -> None:
    data = stream.__dict__.pop(_REST, b"") + stream._outgoing.read()
    if data:
        wires.send(exchange, stream._sock, data, timeout, lambda rest: stream.__dict__.__setitem__(_REST, rest))  # C3


def _kept(exchange: Exchange, sock: socket.socket) -> socket.socket:
    exchange.opened.append(sock)  # C2
    return sock


def _connect_tcp(change: Change, library: Library) -> Callable[..., Any]:
    original: Any = change.original
    part = library.part("_backends.sync")

    def connect_tcp(
        self: Any,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> Any:
        exchange = served.get()
        if exchange is None:
            return original(self, host, port, timeout, local_address, socket_options)
        options = [*(socket_options or ()), (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
        source = None if local_address is None else (local_address, 0)
        with _told_as(library.face.ConnectTimeout, library.face.ConnectError):
            return part.SyncStream(_kept(exchange, wires.connect(exchange, host, port, timeout, source, options)))

    return connect_tcp


def _connect_unix(change: Change, library: Library) -> Callable[..., Any]:
    original: Any = change.original
    part = library.part("_backends.sync")

    def connect_unix_socket(self: Any, path: str, timeout: float | None = None, socket_options: Any = None) -> Any:
        exchange = served.get()
        if exchange is None:
            return original(self, path, timeout, socket_options)
        with _told_as(library.face.ConnectTimeout, library.face.ConnectError):
            return part.SyncStream(_kept(exchange, wires.connect_unix(exchange, path, timeout, socket_options or ())))

    return connect_unix_socket
