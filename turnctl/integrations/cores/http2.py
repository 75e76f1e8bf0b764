"""The connection that requests share (HTTP/2): a stop resets one stream, and the connection and the others live on.

Invariants
  H1  A stop never closes the connection: it leaves no frame torn (``cores.shared``, U3), drops no event of another
      stream, and takes no part in setting the connection up.
  H2  A stream that is closed before its end is reset: what arrived for it is given back to the flow control of the
      connection first, and the library for HTTP/2 does so with what still arrives.
  H3  A reset is listed, *then* the write lock is tried. Who holds it lets go, *then* looks at the list. So it is sent
      by one of the two. What the connection does not take at once goes out before the next frame of anybody.
  H4  Places that a server takes back while they are in use are owed, and paid by who is done; nobody waits for them
      with the read lock held.

May block: nothing here. Not promised: that the server sees a reset while its end of the connection is full; thread-
safety that the library itself does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from turnctl.integrations.cores.library import Library, Replaced
from turnctl.integrations.cores.shared import shared_of
from turnctl.integrations.cores.waits import free, is_brief, owing, try_lock
from turnctl.integrations.exchanges import Exchange, served
from turnctl.waiting.installing import Change

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["changes"]

_STREAMS = "_turnctl_streams"
_CANCEL = 8  # the code of a reset that says that the answer is not wanted any more


class _Streams:
    """The streams of one connection that are served, and the resets that are to be sent."""

    def __init__(self, connection: Any, library: Library) -> None:
        self._connection = connection
        self._events = library.part("_sync.http2").h2.events
        self._protocol_error = library.part("_sync.http2").h2.exceptions.ProtocolError
        self._failures = (library.face.NetworkError, library.face.TimeoutException)
        self.exchanges: dict[int, Exchange] = {}
        self._resets: list[int] = []
        self._shared = shared_of(connection._network_stream)
        is_brief(connection._state_lock)

    def serve(self, stream_id: int, exchange: Exchange) -> None:
        self.exchanges[stream_id] = exchange
        exchange.hold(partial(self.reset, stream_id))

    def reset(self, stream_id: int) -> None:
        """Tell the server that the answer is not wanted; nothing if it has come to its end. Never blocks."""
        self._resets.append(stream_id)
        self.settle()

    def settle(self) -> None:
        """Send what is to be reset, if the connection takes it now (H3)."""
        lock = self._connection._write_lock
        while self._resets and try_lock(lock):
            try:
                self._send_resets()
            finally:
                free(lock)

    def _send_resets(self) -> None:
        h2 = self._connection._h2_state
        while self._resets:
            stream_id = self._resets.pop()
            try:
                self._give_back(h2, stream_id)
                h2.reset_stream(stream_id, error_code=_CANCEL)
            except self._protocol_error:
                pass  # it has ended, or the connection has
        with _serving_nobody():
            try:
                self._connection._network_stream.write(h2.data_to_send(), 0.0)
            except self._failures:
                pass  # the rest is kept (C3); a connection that is broken is found so by those who use it

    def _give_back(self, h2: Any, stream_id: int) -> None:
        for event in list(self._connection._events.get(stream_id, ())):
            if isinstance(event, self._events.DataReceived) and event.flow_controlled_length:
                h2.acknowledge_received_data(event.flow_controlled_length, stream_id)
        if stream_id in self._connection._events:
            self._connection._events[stream_id].clear()


@contextmanager
def _serving_nobody() -> Iterator[None]:
    mark = served.set(None)
    try:
        yield
    finally:
        served.reset(mark)


def _streams_of(connection: Any, library: Library) -> _Streams:
    found: _Streams | None = connection.__dict__.get(_STREAMS)
    if found is None:
        found = connection.__dict__.setdefault(_STREAMS, _Streams(connection, library))
    return found


def changes(library: Library) -> list[Change]:
    """What is replaced in the part that speaks HTTP/2; nothing where that is not installed."""
    if not library.speaks_http2:
        return []
    part = library.part("_sync.http2")

    def one() -> Any:
        return part.HTTP2Connection

    return [
        Replaced(one, "__init__", lambda change: _init(change, library)),
        Replaced(one, "_send_connection_init", _unserved),
        Replaced(one, "_send_request_headers", lambda change: _send_request_headers(change, library)),
        Replaced(one, "_response_closed", _response_closed),
        Replaced(one, "_write_outgoing_data", _write_outgoing_data),
        Replaced(one, "_receive_remote_settings_change", _settings_change),
    ]


def _init(change: Change, library: Library) -> Callable[..., Any]:
    original: Any = change.original

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        _streams_of(self, library)
        exchange = served.get()
        if exchange is not None:
            exchange.release()  # what it held was for itself: the way to a proxy
            exchange.opened.clear()
            exchange.sent = exchange.received = None

    return init


def _unserved(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    def send_connection_init(self: Any, request: Any) -> Any:
        with _serving_nobody():  # H1: others wait for it, and a new connection takes the few bytes at once
            return original(self, request)

    return send_connection_init


def _send_request_headers(change: Change, library: Library) -> Callable[..., Any]:
    original: Any = change.original

    def send_request_headers(self: Any, request: Any, stream_id: int) -> Any:
        exchange = served.get()
        if exchange is None:
            return original(self, request, stream_id)
        exchange.sent = exchange.received = None
        exchange.check()  # before there is a frame: one that was made has to be sent, or those after it mean nothing
        exchange.stage = "sending the request"
        _streams_of(self, library).serve(stream_id, exchange)
        return original(self, request, stream_id)

    return send_request_headers


def _response_closed(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    def response_closed(self: Any, stream_id: int) -> None:
        streams: _Streams | None = self.__dict__.get(_STREAMS)
        exchange = None if streams is None else streams.exchanges.pop(stream_id, None)
        if exchange is None and served.get() is None:
            original(self, stream_id)
            return
        with _serving_nobody():
            if exchange is not None and streams is not None:
                exchange.release()
                streams.reset(stream_id)  # H2
            original(self, stream_id)

    return response_closed


def _write_outgoing_data(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    def write_outgoing_data(self: Any, request: Any) -> Any:
        try:
            return original(self, request)
        finally:
            streams: _Streams | None = self.__dict__.get(_STREAMS)
            if streams is not None and streams._resets:
                streams.settle()  # H3

    return write_outgoing_data


def _settings_change(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    def receive_remote_settings_change(self: Any, event: Any) -> Any:
        mark = owing.set(True)  # H4
        try:
            return original(self, event)
        finally:
            owing.reset(mark)

    return receive_remote_settings_change
