"""Streams, connections and retries of clients: how soon a stop frees the caller, and what looking below costs."""

from __future__ import annotations

import os
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from table import Row

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import turnctl
from turnctl.integrations.sockets import stoppable
from turnctl.waiting.below import Below

TITLE = "Streams, connections and retries of clients"

_ROUNDS = 50


def _freed_after(work: Callable[[turnctl.Turn, threading.Event], object]) -> float:
    """Milliseconds from the stop until a thread that is blocked in ``work`` has its ``CancelledError``, the median."""
    found = []
    for _ in range(_ROUNDS):
        with turnctl.turn(grace=10) as turn:
            ready, ended = threading.Event(), []

            def run() -> None:
                try:
                    work(turn, ready)  # noqa: B023 - it has ended before the next round
                except turnctl.CancelledError:
                    ended.append(time.perf_counter())  # noqa: B023

            thread = threading.Thread(target=turn.bind(run))
            thread.start()
            ready.wait(10)
            time.sleep(0.005)  # it is blocked by then
            at = time.perf_counter()
            turn.cancel()
            thread.join()
            found.append((ended[0] - at) * 1e3)
    return statistics.median(found)


def _streams() -> Iterator[Row]:
    from models import models

    with models() as server:
        server.mode = "half"
        openers: dict[str, Callable[[Any], Any]] = {}
        try:
            import httpx

            openers["httpx"] = lambda client: client.send(
                client.build_request("GET", server.url), stream=True
            ).iter_lines()
            clients: dict[str, Callable[[], Any]] = {"httpx": httpx.Client}
            import requests

            openers["requests"] = lambda client: client.get(server.url, stream=True).iter_lines(chunk_size=1)
            clients["requests"] = requests.Session
        except ImportError as error:
            print(f"{error.name} is not installed: left out", file=sys.stderr)
            return
        for name, make in clients.items():
            with make() as client:

                def work(turn: turnctl.Turn, ready: threading.Event) -> None:
                    for _ in turn.stream(openers[name](client)):  # noqa: B023
                        ready.set()

                yield Row(f"stop to free: a stream of {name} that stalls", _freed_after(work), "ms", target=100)


def _blocks() -> Iterator[Row]:
    def work(turn: turnctl.Turn, ready: threading.Event) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs, stoppable(turn, ours):
            ready.set()
            ours.recv(1)

    yield Row("stop to free: recv in a stoppable block", _freed_after(work), "ms", target=100)
    ours, theirs = socket.socketpair()
    with ours, theirs, turnctl.turn() as turn:
        yield Row("a stoppable block around nothing", _each(lambda: stoppable(turn, ours)), "us", target=100)


def _each(make: Callable[[], Any]) -> float:
    found = []
    for _ in range(2000):
        at = time.perf_counter_ns()
        with make():
            pass
        found.append((time.perf_counter_ns() - at) / 1e3)
    return statistics.median(found)


class _Response:
    """The shape of a response of httpx."""

    def __init__(self, sock: socket.socket) -> None:
        self.extensions = {"network_stream": self, "http_version": b"HTTP/1.1"}
        self.sock = sock
        self.stream = self
        self.is_closed = False

    def get_extra_info(self, _: str) -> socket.socket:
        return self.sock

    def close(self) -> None:
        """As a response is closed."""


def _looking() -> Iterator[Row]:
    ours, theirs = socket.socketpair()
    found = []
    with ours, theirs, turnctl.turn() as turn:
        for _ in range(2000):
            source = type("Stream", (), {})()
            source.response = _Response(ours)
            below = Below(turn, turn.token)
            at = time.perf_counter_ns()
            below.look(source)
            below.let_go()
            found.append((time.perf_counter_ns() - at) / 1e3)
    yield Row("finding the connection below a stream, and letting go", statistics.median(found), "us", target=100)


def _retries() -> Iterator[Row]:
    try:
        import tenacity
    except ImportError as error:
        print(f"{error.name} is not installed: left out", file=sys.stderr)
        return
    from turnctl.integrations.retries import stoppable_retrying

    def work(turn: turnctl.Turn, ready: threading.Event) -> None:
        def fails() -> None:
            ready.set()
            raise ConnectionError

        stoppable_retrying(tenacity.Retrying(wait=tenacity.wait_fixed(60)))(fails)

    yield Row("stop to free: a retry that sleeps", _freed_after(work), "ms", target=100)


def rows() -> list[Row]:
    return [*_streams(), *_blocks(), *_looking(), *_retries()]
