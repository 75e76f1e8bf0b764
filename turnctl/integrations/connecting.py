"""How a connection of urllib3 connects in a turn: by ``integrations.wires``, and with a ``RacedSocket`` as its socket.

``Connection`` stands on top of the class of a connection, urllib3's own or somebody else's. What cannot be raced: the
TLS handshake, which is cut through a second descriptor of the same connection; SOCKS, and a ``connect`` or
``_new_conn`` of somebody else, which run on a thread that a stop leaves behind. Outside of turns a connection is made
as ever, and gets its ``RacedSocket`` when it is read from, since a turn may read on.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

import urllib3
from urllib3 import connection
from urllib3.exceptions import ConnectTimeoutError, LocationParseError, NewConnectionError
from urllib3.util import connection as addresses

from turnctl.integrations import wires
from turnctl.integrations.exchanges import Exchange, served
from turnctl.integrations.ontop import is_of_urllib3
from turnctl.integrations.raced import RacedSocket, adopt

__all__ = ["Connection"]

_NameResolutionError: Any = getattr(urllib3.exceptions, "NameResolutionError", None)  # since 2.0


class Connection:
    """What stands on top of the class of a connection."""

    _guard: _Guard | None = None

    def connect(self) -> None:
        conn: Any = self
        theirs: Any = super()
        exchange = served.get()
        if exchange is None:
            theirs.connect()
            return
        if not is_of_urllib3(Connection, type(self), "connect"):
            # not ours to race: left behind on a stop
            wires.apart(exchange, f"connect to {conn.host}", theirs.connect, drop=lambda _: conn.close())
        elif isinstance(self, connection.HTTPSConnection):
            self._guard = guard = _Guard(exchange)
            try:
                theirs.connect()
            except Exception:
                guard.close()
                exchange.look_back()
                raise
            finally:
                guard.close()
                self._guard = None
            if exchange.is_cut:
                exchange.look_back()
        else:
            theirs.connect()
        self.take_on(exchange)

    def take_on(self, exchange: Exchange | None) -> None:
        """Have the socket, if there is one yet, obey ``exchange``; with None whichever turn it is used in."""
        conn: Any = self
        if conn.sock is not None:
            conn.sock = adopt(conn.sock)
            conn.sock.bind(exchange)

    def _new_conn(self) -> Any:
        conn: Any = self
        exchange = served.get()
        if exchange is None:
            return super()._new_conn()  # type: ignore[misc]
        if is_of_urllib3(Connection, type(self), "_new_conn") and not _is_of_socks(type(self)):
            sock = _connected(conn, exchange)
        else:
            name = f"connect to {conn.host} by {type(self).__name__}"
            sock = wires.apart(exchange, name, super()._new_conn, drop=lambda late: late.close())  # type: ignore[misc]
        raced = adopt(sock)
        raced.settimeout(_seconds(conn.timeout))
        raced.bind(exchange)
        if self._guard is not None:
            self._guard.on(raced)
        return raced

    def _connect_tls_proxy(self, hostname: str, sock: Any) -> Any:
        secured = super()._connect_tls_proxy(hostname, sock)  # type: ignore[misc]
        exchange = served.get()
        if exchange is None:
            return secured
        raced = adopt(secured)  # what follows, TLS within this TLS included, is raced on it
        raced.bind(exchange)
        return raced

    def _tunnel(self) -> None:
        sock: Any = getattr(self, "sock", None)
        if not isinstance(sock, RacedSocket):
            super()._tunnel()  # type: ignore[misc]
            return
        sock.task = "asking the proxy for a tunnel"
        try:
            super()._tunnel()  # type: ignore[misc]
        finally:
            sock.task = None

    def getresponse(self, *args: Any, **options: Any) -> Any:
        self.take_on(served.get())  # a connection that was made outside of turns, or by a connect() of somebody else
        return super().getresponse(*args, **options)  # type: ignore[misc]


class _Guard:
    """Has the stop cut a connection while TLS is set up on it, which blocks where it cannot be raced.

    It holds a descriptor of its own for the connection. So what it shuts down is that connection for certain, whatever
    becomes of the other descriptor meanwhile.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._other: socket.socket | None = None

    def on(self, raced: RacedSocket) -> None:
        self._other = socket.socket(fileno=os.dup(raced.fileno()))
        self._exchange.hold(self._cut)
        self._exchange.watch()
        self._exchange.stage = "securing the connection"

    def _cut(self) -> None:
        if self._other is not None:
            self._other.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the connection. May be called twice."""
        other, self._other = self._other, None
        if other is not None:
            self._exchange.release()
            other.close()


def _connected(conn: Any, exchange: Exchange) -> socket.socket:
    host: str = getattr(conn, "_dns_host", conn.host)
    bare = host.strip("[]") if host.startswith("[") else host
    try:
        bare.encode("idna")
    except UnicodeError:
        raise LocationParseError(f"{bare!r}, label empty or too long") from None
    timeout = _seconds(conn.timeout)
    try:
        sock = wires.connect(
            exchange,
            bare,
            conn.port,
            timeout,
            conn.source_address,
            conn.socket_options or (),
            addresses.allowed_gai_family(),
        )
    except TimeoutError as error:
        text = f"Connection to {conn.host} timed out. (connect timeout={timeout})"
        raise ConnectTimeoutError(conn, text) from error
    except OSError as error:
        if isinstance(error, socket.gaierror) and _NameResolutionError is not None:
            raise _NameResolutionError(conn.host, conn, error) from error
        raise NewConnectionError(conn, f"Failed to establish a new connection: {error}") from error
    sys.audit("http.client.connect", conn, conn.host, conn.port)
    return sock


def _seconds(timeout: Any) -> float | None:
    """What a time-out of urllib3 comes to; its marker for "as the socket module says" is an object."""
    if timeout is None or isinstance(timeout, int | float):
        return timeout
    return socket.getdefaulttimeout()


def _is_of_socks(kind: type) -> bool:
    return any(one.__module__ == "urllib3.contrib.socks" for one in kind.__mro__)
