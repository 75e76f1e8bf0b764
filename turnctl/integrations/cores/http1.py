"""The connection that one request has to itself (HTTP/1): which exchange holds it, and when it is let go.

Invariants
  G1  An exchange holds the connection from the moment it has been given to it, right before the first byte is sent,
      until the response is closed. It is let go *before* the connection is idle, so a cut never meets another request.
  G2  What was cut is closed, also where the response had come whole.
  G3  Clean-up is served by nobody: it is never broken off by the stop that it cleans up after.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from turnctl.integrations.cores.library import Library, Replaced
from turnctl.integrations.exchanges import served
from turnctl.waiting.installing import Change

__all__ = ["changes", "cutting"]

_EXCHANGE = "_turnctl_exchange"


def changes(library: Library) -> list[Change]:
    """What is replaced in the part that speaks HTTP/1, and in the part that connects."""
    http1 = library.part("_sync.http11")
    connecting = library.part("_sync.connection")

    def one() -> Any:
        return http1.HTTP11Connection

    def connection() -> Any:
        return connecting.HTTPConnection

    return [
        Replaced(one, "_send_request_headers", _send_request_headers),
        Replaced(one, "_response_closed", _response_closed),
        Replaced(connection, "handle_request", _connect_and_handle),
    ]


def cutting(stream: Any) -> Callable[[], object] | None:
    """What cuts the connection below ``stream`` without closing it; None if it has no socket."""
    sock = stream.get_extra_info("socket")
    if not isinstance(sock, socket.socket):
        return None

    def cut() -> None:
        # not its own: a socket with TLS on it would forget that it has
        socket.socket.shutdown(sock, socket.SHUT_RDWR)

    return cut


def _send_request_headers(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    def send_request_headers(self: Any, request: Any) -> Any:
        exchange = served.get()
        if exchange is None:
            return original(self, request)
        is_for_the_way = request.method == b"CONNECT"
        exchange.stage = "asking the proxy for a tunnel" if is_for_the_way else "sending the request"
        cut = cutting(self._network_stream)
        if cut is not None:  # G1
            self.__dict__[_EXCHANGE] = exchange
            exchange.hold(cut)
        return original(self, request)

    return send_request_headers


def _response_closed(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    def response_closed(self: Any) -> None:
        exchange = self.__dict__.pop(_EXCHANGE, None)
        if exchange is None and served.get() is None:
            original(self)
            return
        is_whole = exchange is None or exchange.release()  # G1
        mark = served.set(None)  # G3
        try:
            original(self)
            if not is_whole:
                self.close()  # G2
        finally:
            served.reset(mark)

    return response_closed


def _connect_and_handle(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    def handle_request(self: Any, request: Any) -> Any:
        if served.get() is None:
            return original(self, request)
        try:
            return original(self, request)
        except Exception:
            raise
        except BaseException:
            if self._connection is None:
                # who was stopped while it connected, or waited for another one that does, has not failed: requests
                # that share what is to be an HTTP/2 connection go on
                self._connect_failed = False
            raise

    return handle_request
