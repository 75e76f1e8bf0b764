"""A server for HTTP/2 on this machine, that stalls where it is told to and keeps what it saw of each stream."""

from __future__ import annotations

import contextlib
import select
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from peers import Loopback, Peer, loopback
from standins import until
from websites import server_tls

WIDE = 2**30


class Http2Site:
    """``seen`` has the path of each request, ``resets`` the stream and code of each reset."""

    def __init__(self, server: Loopback, scheme: str) -> None:
        self.server = server
        self.url = f"{scheme}://127.0.0.1:{server.port}"
        self.seen: list[str] = []
        self.resets: list[tuple[int, int]] = []
        self.errors: list[BaseException] = []
        #: clear it to have the server read nothing for a while
        self.reads = threading.Event()
        self.reads.set()
        #: clear it to have the server begin nothing for a while, not even to shake hands
        self.begins = threading.Event()
        self.begins.set()
        self.places = 100
        self.connections: list[_Connection] = []

    def finish(self, path: str) -> None:
        """Answer what was not answered, or not to its end; only while the server waits for more."""
        for connection in self.connections:
            for stream_id, one in connection.paths.items():
                if one == path:
                    if path == "/silence":
                        connection.h2.send_headers(stream_id, [(":status", "200")])
                    connection.h2.send_data(stream_id, b"late", end_stream=True)
            connection.flush()

    def has_seen(self, path: str, times: int = 1) -> bool:
        return until(lambda: self.seen.count(path) >= times)


@contextlib.contextmanager
def http2_site(*, tls: bool = False, places: int = 100, wide: bool = False) -> Iterator[Http2Site]:
    """``places`` is how many streams there may be at once; ``wide`` has no flow control hold an upload up."""
    pytest.importorskip("h2", reason="h2 is what the clients speak HTTP/2 with, and the server here as well")

    def serve(peer: Peer) -> None:
        site.begins.wait(20)
        if tls:
            try:
                peer.sock = server_tls(("h2",)).wrap_socket(peer.sock, server_side=True)
            except OSError:
                raise EOFError from None
        with peer.sock:
            try:
                connection = _Connection(site, peer, wide)
                site.connections.append(connection)
                connection.run()
            except (EOFError, OSError):
                raise EOFError from None
            except BaseException as error:
                site.errors.append(error)
                raise EOFError from None

    with loopback(serve) as server:
        site = Http2Site(server, "https" if tls else "http")
        site.places = places
        try:
            yield site
        finally:
            site.reads.set()
            site.begins.set()
        assert [] == site.errors


class _Connection:
    def __init__(self, site: Http2Site, peer: Peer, wide: bool) -> None:
        import h2.config
        import h2.connection
        import h2.events
        import h2.settings

        self.events = h2.events
        self.site = site
        self.peer = peer
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        codes = h2.settings.SettingCodes
        values = {codes.MAX_CONCURRENT_STREAMS: site.places}
        if wide:
            values[codes.INITIAL_WINDOW_SIZE] = WIDE
        self.h2.local_settings = h2.settings.Settings(client=False, initial_values=values)
        self.h2.initiate_connection()
        if wide:
            self.h2.increment_flow_control_window(WIDE)
        self.bodies: dict[int, bytes] = {}
        self.paths: dict[int, str] = {}

    def run(self) -> None:
        self.flush()
        while True:
            self.site.reads.wait(20)
            if not select.select([self.peer.sock], [], [], 20)[0]:
                raise EOFError
            for event in self.h2.receive_data(self.peer._more()):
                self.handle(event)
            self.flush()

    def handle(self, event: Any) -> None:
        if isinstance(event, self.events.RequestReceived):
            path = dict(event.headers)[":path"]
            self.paths[event.stream_id] = path
            self.bodies[event.stream_id] = b""
            if path.startswith("/deaf"):
                self.site.reads.clear()
            self.site.seen.append(path)
        elif isinstance(event, self.events.DataReceived):
            self.bodies[event.stream_id] += event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, self.events.StreamEnded):
            self.answer(event.stream_id, self.paths[event.stream_id])
        elif isinstance(event, self.events.StreamReset):
            self.site.resets.append((event.stream_id, int(event.error_code)))

    def answer(self, stream_id: int, path: str) -> None:
        path, _, query = path.partition("?")
        if path == "/silence":
            return
        self.h2.send_headers(stream_id, [(":status", "200")])
        body = query.encode() or self.bodies[stream_id] or b"ok"
        if path == "/part":
            self.h2.send_data(stream_id, b"abc")
        elif path == "/flood":
            for _ in range(int(query)):
                if self.h2.local_flow_control_window(stream_id) >= 16_000:
                    self.h2.send_data(stream_id, b"x" * 16_000)
        else:
            for at in range(0, len(body), 16_000):
                self.h2.send_data(stream_id, body[at : at + 16_000])
            self.h2.end_stream(stream_id)
        if path == "/fewer":
            import h2.settings

            self.h2.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 1})

    def flush(self) -> None:
        data = self.h2.data_to_send()
        if data:
            self.peer.send(data)
