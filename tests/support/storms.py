"""A web server on one thread that answers many at once, each late and in parts, with the name that it was asked by."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator


class Busy:
    """``GET /name`` is answered with that name, half of it after ``late(name)`` seconds and the rest as much later."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._listener.setblocking(False)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._due: list[tuple[float, int, socket.socket, list[bytes], float]] = []
        self._order = itertools.count()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def connections(self) -> int:
        return len(self._selector.get_map()) - 1

    def _run(self) -> None:
        while not self._is_over:
            now = time.monotonic()
            while self._due and self._due[0][0] <= now:
                _, _, sock, parts, late = heapq.heappop(self._due)
                self._say(sock, parts, late)
            wait = max(self._due[0][0] - now, 0) if self._due else 0.05
            for key, _ in self._selector.select(min(wait, 0.05)):
                if key.fileobj is self._listener:
                    sock, _ = self._listener.accept()
                    sock.setblocking(False)
                    self._selector.register(sock, selectors.EVENT_READ)
                else:
                    self._hear(key.fileobj)  # type: ignore[arg-type]
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def _hear(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._forget(sock)
            return
        name = data.split(b" ", 2)[1].decode().strip("/")
        self.seen[name] += 1
        half = len(name) // 2
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(name)}\r\n\r\n{name[:half]}"
        late = self.late(name)
        heapq.heappush(
            self._due, (time.monotonic() + late, next(self._order), sock, [head.encode(), name[half:].encode()], late)
        )

    @staticmethod
    def late(name: str) -> float:
        """Seconds, up to 6 ms, the same for each name."""
        return sum(name.encode()) % 7 / 1000

    def _say(self, sock: socket.socket, parts: list[bytes], late: float) -> None:
        try:
            sock.send(parts[0])
        except OSError:
            self._forget(sock)
            return
        if parts[1:]:
            heapq.heappush(self._due, (time.monotonic() + late, next(self._order), sock, parts[1:], late))

    def _forget(self, sock: socket.socket) -> None:
        if sock.fileno() >= 0:
            self._selector.unregister(sock)
            sock.close()

    def close(self) -> None:
        self._is_over = True
        self._thread.join(5)


@contextlib.contextmanager
def busy() -> Iterator[Busy]:
    server = Busy()
    try:
        yield server
    finally:
        server.close()
