"""Loopback servers for whatever speaks over a socket: a function for each connection, and a record of what it saw."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from standins import BOUND, until


class Peer:
    """The server's side of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.reached = threading.Event()  # where the test waits for it to be
        self.ended = threading.Event()  # the client's end was seen
        self.go_on = threading.Event()
        self._left = b""

    @property
    def heard(self) -> bytes:
        """What has come and was not asked for."""
        return self._left

    def until(self, mark: bytes) -> bytes:
        """What comes up to ``mark`` and with it; raises ``EOFError`` at the end of the connection."""
        while mark not in self._left:
            self._left += self._more()
        found, self._left = self._left.split(mark, 1)
        return found + mark

    def exactly(self, count: int) -> bytes:
        while len(self._left) < count:
            self._left += self._more()
        found, self._left = self._left[:count], self._left[count:]
        return found

    def _more(self) -> bytes:
        try:
            data = self.sock.recv(65536)
        except OSError:
            data = b""
        if not data:
            self.ended.set()
            raise EOFError
        return data

    def send(self, data: bytes) -> None:
        try:
            self.sock.sendall(data)
        except OSError:
            self.ended.set()
            raise EOFError from None

    def stall(self) -> None:
        """Say nothing more until the client's end, or until told to go on."""
        self.reached.set()
        while not self.go_on.is_set():
            if select.select([self.sock], [], [], 0.005)[0]:
                self._left += self._more()


class Loopback:
    """A listening socket on this machine whose connections are each served by ``serve`` on a thread."""

    def __init__(self, serve: Callable[[Peer], None]) -> None:
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.peers: list[Peer] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def peer(self, n: int = 0) -> Peer:
        """The ``n``-th connection, waited for."""
        assert until(lambda: len(self.peers) > n), "nobody has connected"
        return self.peers[n]

    def reached(self, n: int = 0) -> Peer:
        """The same, where it stalls."""
        peer = self.peer(n)
        assert peer.reached.wait(BOUND), "it does not stall"
        return peer

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            peer = Peer(sock)
            self.peers.append(peer)
            thread = threading.Thread(target=self._run, args=(peer,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self, peer: Peer) -> None:
        with peer.sock:
            try:
                self._serve(peer)
            except EOFError:
                pass
            peer.ended.set()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join(BOUND)
        self._listener.close()
        for peer in self.peers:
            peer.go_on.set()
            try:
                peer.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended
        for thread in self._threads:
            thread.join(BOUND)


@contextmanager
def loopback(serve: Callable[[Peer], None]) -> Iterator[Loopback]:
    server = Loopback(serve)
    try:
        yield server
    finally:
        server.close()
