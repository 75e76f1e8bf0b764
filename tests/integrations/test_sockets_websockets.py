"""The threaded client of websockets, with the function of the page: a stop frees who waits for a message."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pages import examples
from standins import BOUND, Background

import turnctl
from turnctl import CancelledError

pytest.importorskip("websockets.sync.client", reason="websockets is not installed: the clients extra has it")

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import serve


class Server:
    """Greets each client, then says nothing; knows when a connection has ended."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.server = serve(self._greet, "127.0.0.1", 0)
        self.port = self.server.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def _greet(self, websocket: Any) -> None:
        websocket.send("hello")
        try:
            for message in websocket:
                websocket.send(message)
        except ConnectionClosed:
            pass
        self.ended.set()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.server.shutdown()
    server.thread.join(BOUND)


@pytest.fixture
def receive() -> Any:
    return examples("sockets.md", "websockets")["receive"]


def test_stop_frees_who_waits_for_a_message(server: Server, receive: Any) -> None:
    """What had come is kept, the cut is the cause, and the server sees the end."""
    with turnctl.turn() as turn, connect(f"ws://127.0.0.1:{server.port}") as websocket:
        greeting = receive(turn, websocket)
        waiting = Background(receive, turn, websocket)
        time.sleep(0.01)  # most likely it is blocked by then; it has to be raised anyhow
        at = time.monotonic()
        turn.stop("enough")
        error = waiting.error()

        assert "hello" == greeting
        assert isinstance(error, CancelledError)
        assert "enough" == error.reason
        assert waiting.ended_at is not None
        assert waiting.ended_at - at < 1
        assert server.ended.wait(BOUND)


def test_connection_outlives_a_turn_without_a_stop(server: Server, receive: Any) -> None:
    """The next turn goes on with it, and a stop of the first one is nothing to it (promise 2)."""
    with connect(f"ws://127.0.0.1:{server.port}") as websocket:
        with turnctl.turn() as turn:
            receive(turn, websocket)
        turn.stop()
        websocket.send("again")
        with turnctl.turn() as turn:
            assert "again" == receive(turn, websocket)
