"""A turn in each request of a threaded web server: a client that goes away stops its own turn and no other."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from standins import BOUND, until

import turnctl
from turnctl import Turn
from turnctl.processes import shutdown
from turnctl.waiting.descriptors import select

POOL = 4


class Handler(BaseHTTPRequestHandler):
    """``/slow/NAME`` works until it is stopped or let go; each request is a turn."""

    server: Server

    def do_GET(self) -> None:
        name = self.path.rsplit("/", 1)[-1]
        with turnctl.turn(grace="5s") as turn, turn.child() as watching:
            turn.thread(self.watch, turn)
            self.server.begun(name, turn)
            try:
                if name.startswith("child"):
                    turn.run(["sleep", "60"])
                else:
                    turn.wait(self.server.finish)
            finally:
                watching.cancel("the request is done")  # a turn that completes does not stop its threads
            self.send_response(200)
            self.end_headers()
            self.wfile.write(name.encode())

    def watch(self, turn: Turn) -> None:
        """Stop the turn when its client goes away."""
        select(turnctl.current_token(), [self.connection], (), None)
        if not self.connection.recv(1, socket.MSG_PEEK):
            turn.stop("client went away")

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server(HTTPServer):
    """As small as a threaded server gets: a fixed pool of plain threads."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.pool = ThreadPoolExecutor(POOL)
        self.finish = threading.Event()
        self.turns: dict[str, Turn] = {}
        self.serving = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self.serving.start()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.pool.submit(self.serve, request, client_address)

    def serve(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        finally:
            self.shutdown_request(request)

    def begun(self, name: str, turn: Turn) -> None:
        self.turns[name] = turn

    def turn_of(self, name: str) -> Turn:
        assert until(lambda: name in self.turns)
        return self.turns[name]

    def ask(self, name: str) -> socket.socket:
        client = socket.create_connection(self.server_address, timeout=BOUND)  # type: ignore[arg-type]
        client.sendall(f"GET /slow/{name} HTTP/1.0\r\n\r\n".encode())
        return client

    def end(self) -> None:
        self.finish.set()
        self.shutdown()
        self.serving.join(BOUND)
        self.pool.shutdown()
        self.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.end()


def answer(client: socket.socket) -> bytes:
    with client:
        found = b""
        while part := client.recv(4096):
            found += part
    return found


def test_client_that_goes_away_stops_its_own_turn(server: Server) -> None:
    """Of four requests at once the one whose client left is stopped; the other three are answered (promise 2)."""
    clients = {name: server.ask(name) for name in ("a", "b", "c", "d")}
    turns = {name: server.turn_of(name) for name in clients}
    clients["b"].close()
    over = turns["b"].wait_over(BOUND)
    others = [turns[name].outcome for name in "acd"]
    server.finish.set()
    answers = {name: answer(clients[name])[-1:] for name in "acd"}

    assert over
    assert ("cancelled", "client went away") == (turns["b"].outcome, turns["b"].token.reason)
    assert [None] * 3 == others
    assert {"a": b"a", "c": b"c", "d": b"d"} == answers
    assert ["completed"] * 3 == [turns[name].outcome for name in "acd"]


@pytest.mark.parametrize("kind", ["wait", "child"])
def test_fifty_starts_and_stops_leave_nothing(server: Server, kind: str) -> None:
    """Fifty requests that are given up over four pool threads leave no thread, descriptor or child (promise 5)."""
    clients = [server.ask(f"warm-{n}") for n in range(POOL)]
    for n in range(POOL):
        server.turn_of(f"warm-{n}")
    for client in clients:
        client.close()
    assert until(lambda: all(turn.is_over for turn in server.turns.values()))

    def now() -> tuple[int, int]:
        shutdown()  # its helper processes are kept for the next command
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    settled = [now()]
    assert until(lambda: settled.append(now()) is None and settled[-1] == settled[-2])
    before = settled[-1]
    for n in range(50):
        client = server.ask(f"{kind}-{n}")
        turn = server.turn_of(f"{kind}-{n}")
        client.close()
        assert turn.wait_over(BOUND)

        assert "cancelled" == turn.outcome
        assert () == turn.report.alive

    assert until(lambda: now() <= before), (before, now())
    assert 54 == len(server.turns)
