"""A receiver of effects as a process of its own, with a journal that it alone writes: what really got out.

Run as a program: ``receiver.py FOLDER``. It speaks HTTP on a loopback port and takes orders on stdin; tests use it by
``stage.Receiver``. Of turnctl it knows nothing.

POST /effects/ID   performs it: into the journal, flushed to the disk, then answers with a receipt. The same id and
                   payload again is answered with the same receipt and performed no second time; another payload is 409.
GET /effects/ID    what became of it: 200 with the receipt, 404 not seen, 503 cannot tell.

Each request needs one of two credentials: ``write`` may do both, ``read`` may ask, and is refused a POST (403).
``FOLDER/journal`` has a line for each effect that was performed, ``FOLDER/asked`` one for each request that came.

Modes: ``normal``; ``hold`` waits before it performs; ``slow`` performs, and waits before it answers;
``commit-then-reset`` performs, and resets the connection; ``cannot-tell`` performs, and answers no question. Orders:
``mode NAME``, which also lets go of whatever waits. It says ``holding ID`` and ``kept ID`` where it does not answer.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MODES = ("normal", "hold", "slow", "commit-then-reset", "cannot-tell")
CREDENTIALS = ("write", "read")


def say(*what: object) -> None:
    print(*what, flush=True)


class Server(ThreadingHTTPServer):
    """The journal, and the mode that requests are answered in."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.performed: dict[str, str] = {}
        self.files = {
            name: os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for name in ("journal", "asked")
        }
        self.set_mode("normal")

    def set_mode(self, mode: str) -> None:
        if mode not in MODES:
            raise ValueError(f"{mode!r} is none of {', '.join(MODES)}")
        before = getattr(self, "let_go", None)
        self.mode, self.let_go = mode, threading.Event()
        if before is not None:
            before.set()

    def write(self, name: str, **line: object) -> None:
        os.write(self.files[name], json.dumps(line).encode() + b"\n")
        os.fsync(self.files[name])

    def perform(self, effect_id: str, payload: bytes) -> str | None:
        """Do it once; its receipt, None where the id stands for something else."""
        sha = sha256(payload).hexdigest()
        with self.lock:
            known = self.performed.get(effect_id)
            if known is None:
                self.write("journal", effect_id=effect_id, sha=sha)
                known = self.performed[effect_id] = sha
        return f"kept {effect_id}" if known == sha else None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who asked has gone: that is what these tests are about."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        """Quiet."""

    def admit(self) -> str | None:
        """The effect's id, if who asks may; each request is written down, with what came of that."""
        who = (self.headers["Authorization"] or "").removeprefix("Bearer ")
        may = who == "write" or (who == "read" and self.command == "GET")
        effect_id = self.path.removeprefix("/effects/")
        with self.server.lock:
            self.server.write("asked", method=self.command, id=effect_id, who=who, refused=not may)
        if not may:
            self.answer(403, {"error": f"{self.command} is not for {who or 'nobody'}"})
        return effect_id if may else None

    def answer(self, status: int, body: dict[str, object]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self) -> None:
        server = self.server
        payload = self.rfile.read(int(self.headers["Content-Length"]))
        effect_id = self.admit()
        if effect_id is None:
            return
        mode, let_go = server.mode, server.let_go
        if mode == "hold":
            say("holding", effect_id)
            let_go.wait()
        receipt = server.perform(effect_id, payload)
        if mode in ("slow", "commit-then-reset"):
            say("kept", effect_id)
        if mode == "slow":
            let_go.wait()
        if mode == "commit-then-reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
        elif receipt is None:
            self.answer(409, {"error": f"{effect_id} stands for another payload"})
        else:
            self.answer(200, {"receipt": receipt})

    def do_GET(self) -> None:
        effect_id = self.admit()
        if effect_id is None:
            return
        if self.server.mode == "cannot-tell":
            self.answer(503, {"error": "cannot tell"})
        elif effect_id in self.server.performed:
            self.answer(200, {"receipt": f"kept {effect_id}"})
        else:
            self.answer(404, {"error": f"{effect_id} was not seen"})


def main() -> None:
    server = Server(Path(sys.argv[1]))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    say(server.server_address[1])
    for line in sys.stdin:
        _, _, mode = line.strip().partition(" ")
        server.set_mode(mode)
        say("ok")


if __name__ == "__main__":
    main()
