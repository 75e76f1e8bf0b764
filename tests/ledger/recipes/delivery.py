"""A queue as a process of its own: it delivers a message again until it is acknowledged, and ignores its deletion.

Run as a program: ``delivery.py FOLDER``, with orders on stdin (``put TEXT``). It speaks lines on a loopback port:
``take`` gives the oldest message that nobody has acknowledged, also one that was delivered before, ``ack TEXT`` and
``delete TEXT``. ``FOLDER/delivered`` and ``FOLDER/acked`` have a line for each. Of turnctl it knows nothing.
"""

from __future__ import annotations

import socket
import sys
import threading
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

__all__ = ["ask"]


def ask(port: int, order: str) -> str:
    """What the queue says."""
    with socket.create_connection(("127.0.0.1", port), 30) as connection, connection.makefile("rw") as words:
        words.write(f"{order}\n")
        words.flush()
        return words.readline().strip()


class Server(ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.lock = threading.Lock()
        self.waiting: list[str] = []

    def note(self, name: str, text: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(f"{text}\n")

    def answer(self, order: str, text: str) -> str:
        with self.lock:
            if order == "take":
                if self.waiting:
                    self.note("delivered", self.waiting[0])
                return self.waiting[0] if self.waiting else ""
            if order == "put":
                self.waiting.append(text)
            elif order == "ack" and text in self.waiting:
                self.waiting.remove(text)
                self.note("acked", text)
            return "ok"  # and so to a deletion, which it forgets at once


class Handler(StreamRequestHandler):
    server: Server

    def handle(self) -> None:
        order, _, text = self.rfile.readline().decode().strip().partition(" ")
        self.wfile.write(f"{self.server.answer(order, text)}\n".encode())


def main() -> None:
    with Server(Path(sys.argv[1])) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        print(server.server_address[1], flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
