"""A provider of effects on a thread: does each thing once by its key, keeps a journal, and loses answers as it is told.

POST /KEY performs; GET /KEY tells. ``mode`` is what becomes of the answer to a POST: ``ok``, or it is lost after the
thing was done, by a reset, a close, in the middle of it, with garbage, by no end (``stall``), or as an error (``500``).
A POST whose ``Fence`` is below the highest one that was seen is refused, and nothing is done.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from standins import BOUND

__all__ = ["LOSSES", "Provider", "provider"]

LOSSES = ("reset", "close", "half", "garbage", "stall", "500")


class Provider:
    """Its journal: a line for each POST that was performed, and for each question the key that was asked by."""

    def __init__(self) -> None:
        self.mode = "ok"
        self.journal: list[tuple[str, bytes]] = []
        self.asked: list[str] = []
        self.fence = 0
        self.refused: list[int] = []
        self.kept = threading.Event()
        self._stalled: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join(BOUND)
        self._server.close()
        for one in self._stalled:
            one.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            connection.settimeout(BOUND)
            with suppress(OSError):
                self._answer(connection)
            if connection not in self._stalled:
                connection.close()

    def _answer(self, connection: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536) or b"\r\n\r\n"
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        method, path, *_ = (*lines[0].split(), "", "")
        while len(body) < int(headers.get("content-length", 0)):
            body += connection.recv(65536)
        key = path.lstrip("/")
        if method == "GET":
            self.asked.append(key)
            known = any(one == key for one, _ in self.journal)
            self._say(connection, 200 if known else 404, {"receipt": f"kept {key}"} if known else {})
        elif method == "POST":
            self._perform(connection, key, body, int(headers.get("fence", 0)))

    def _perform(self, connection: socket.socket, key: str, body: bytes, fence: int) -> None:
        if fence < self.fence:
            self.refused.append(fence)
            self._say(connection, 409, {"error": f"fenced by {self.fence}"})
            return
        self.fence = fence
        if not any(one == key for one, _ in self.journal):
            self.journal.append((key, body))
        self.kept.set()
        if self.mode == "ok":
            self._say(connection, 200, {"receipt": f"kept {key}"})
        elif self.mode == "500":
            self._say(connection, 500, {})
        elif self.mode == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif self.mode == "half":
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"receipt": "kept')
        elif self.mode == "garbage":
            connection.sendall(b"\0\1\2 what\r\n\r\n")
        elif self.mode == "stall":
            self._stalled.append(connection)

    def _say(self, connection: socket.socket, status: int, body: dict[str, str]) -> None:
        text = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} {status}\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode() + text)


@contextmanager
def provider() -> Iterator[Provider]:
    """One, for the length of the block."""
    made = Provider()
    try:
        yield made
    finally:
        made.close()
