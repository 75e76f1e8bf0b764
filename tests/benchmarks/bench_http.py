"""HTTP clients: what a request costs under a turn against the plain client, and how soon a stop frees it."""

from __future__ import annotations

import contextlib
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any

from table import Row, median_of

import turnctl

TITLE = "HTTP"

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ROUNDS = 50
BATCH = 100


def _serve(sock: socket.socket) -> None:
    with sock, contextlib.suppress(OSError):
        while data := sock.recv(65536):
            if b"/silence" not in data:
                sock.sendall(ANSWER)


@contextlib.contextmanager
def _server() -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_serve, args=(sock,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _batch(client: Any, url: str, in_turn: bool) -> float:
    """Microseconds for one of many requests."""
    with turnctl.turn() if in_turn else contextlib.nullcontext():
        begun = time.perf_counter()
        for _ in range(BATCH):
            client.get(url)
        return (time.perf_counter() - begun) / BATCH * 1e6


def _time_to_free(client: Any, url: str) -> list[float]:
    """Milliseconds from the stop to the caller's being free, of each round."""
    found = []
    for _ in range(ROUNDS):
        stopped_at = 0.0
        with turnctl.turn() as turn:

            def stop(turn: turnctl.Turn = turn) -> None:
                nonlocal stopped_at
                time.sleep(0.02)  # it waits for its answer by then
                stopped_at = time.perf_counter()
                turn.stop()

            stopper = threading.Thread(target=stop)
            stopper.start()
            with contextlib.suppress(turnctl.CancelledError):
                client.get(f"{url}/silence")
            free_at = time.perf_counter()
            stopper.join()
        found.append((free_at - stopped_at) * 1e3)
    return found


def _httpx(url: str) -> list[Row]:
    try:
        import httpx

        from turnctl.integrations.httpx import Client
    except ImportError:
        return []
    options = {"trust_env": False, "verify": False, "timeout": 30}
    with httpx.Client(**options) as plain, Client(**options) as ours:
        for client in (plain, ours):
            client.get(url)
        found = median_of(
            {
                "plain": lambda: _batch(plain, url, True),
                "ours": lambda: _batch(ours, url, True),
                "ours without": lambda: _batch(ours, url, False),
            }
        )
        freed = _time_to_free(ours, url)
    more = found["ours"] - found["plain"]
    return [
        Row("httpx request in a turn", found["ours"], "us", "plain client", found["plain"]),
        Row("httpx request with no turn", found["ours without"], "us", "plain client", found["plain"]),
        Row("what a turn adds to a request of httpx", more, "us", target=100),
        Row(f"stop to the caller's being free, httpx, median of {ROUNDS}", statistics.median(freed), "ms", target=100),
        Row(f"the same, the worst of {ROUNDS}", max(freed), "ms"),
    ]


def rows() -> list[Row]:
    with _server() as url:
        return _httpx(url)
