"""requests and urllib3: what a stoppable request costs more than a plain one, and how soon a stop frees its caller."""

from __future__ import annotations

import contextlib
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from table import Row

import turnctl

TITLE = "requests and urllib3"

#: answers whatever it is asked, on each connection, and says nothing more where the path is told to stall
_SERVER = """
import socket, sys, threading
BODY = b"x" * 200
OK = b"HTTP/1.1 200 OK\\r\\nContent-Length: 200\\r\\n\\r\\n" + BODY
BIG = b"HTTP/1.1 200 OK\\r\\nContent-Length: 1000000\\r\\n\\r\\n" + b"x" * 1000000
HALF = {b"/silence": b"", b"/head": b"HTTP/1.1 200 OK\\r\\nConte", b"/body": OK[:-50]}
def serve(sock):
    try:
        answer(sock)
    except ConnectionError:
        pass
def answer(sock):
    while data := sock.recv(65536):
        path = data.split(b" ", 2)[1]
        sock.sendall(HALF[path] if path in HALF else BIG if path == b"/big" else OK)
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    sock, _ = listener.accept()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=serve, args=(sock,), daemon=True).start()
"""
_REQUESTS, _ROUNDS = 5, 100
_STOPS = 50


@contextlib.contextmanager
def _server() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _each(ask: Callable[[], object]) -> Callable[[], float]:
    """Microseconds of this thread's work for one of many requests: what it waits for the server is no cost of ours."""

    def run() -> float:
        begun = time.thread_time()
        for _ in range(_REQUESTS):
            ask()
        return (time.thread_time() - begun) / _REQUESTS * 1e6

    return run


def _in_a_turn(run: Callable[[], float]) -> Callable[[], float]:
    def inside() -> float:
        with turnctl.turn():
            return run()

    return inside


def _least_of(work: dict[str, Callable[[], float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for _ in range(_ROUNDS):
        for name, run in work.items():
            found[name] = min(run(), found.get(name, float("inf")))
    return found


def _costs(url: str) -> list[Row]:
    import requests
    import urllib3

    from turnctl.integrations.requests import PoolManager, Session

    # the least of many short rounds: what else the machine has to do only adds to it, and not to all alike
    with requests.Session() as plain, Session() as ours, urllib3.PoolManager() as bare, PoolManager() as pools:
        plain.trust_env = ours.trust_env = False
        found = _least_of(
            {
                "requests": _each(lambda: plain.get(f"{url}/ok").content),
                "ours": _in_a_turn(_each(lambda: ours.get(f"{url}/ok").content)),
                "ours outside": _each(lambda: ours.get(f"{url}/ok").content),
                "urllib3": _each(lambda: bare.request("GET", f"{url}/ok").data),
                "pools": _in_a_turn(_each(lambda: pools.request("GET", f"{url}/ok").data)),
                "big": _each(lambda: plain.get(f"{url}/big").content),
                "ours big": _in_a_turn(_each(lambda: ours.get(f"{url}/big").content)),
                "new": _each(lambda: _once(requests.Session, url)),
                "ours new": _in_a_turn(_each(lambda: _once(Session, url))),
            },
        )
    return [
        Row("requests.get in a turn", found["ours"], "us", "plain", found["requests"]),
        Row("- more than plain", found["ours"] - found["requests"], "us", target=100),
        Row("- outside of turns, more than plain", found["ours outside"] - found["requests"], "us", target=100),
        Row("urllib3 in a turn, more than plain", found["pools"] - found["urllib3"], "us", target=100),
        Row("requests.get of 1 MB in a turn", found["ours big"], "us", "plain", found["big"]),
        Row("- on a new session and connection", found["ours new"], "us", "plain", found["new"]),
    ]


def _once(made: Callable[[], Any], url: str) -> object:
    with made() as session:
        session.trust_env = False
        return session.get(f"{url}/ok").content


def _free_after(ask: Callable[[], object], is_blocked: Callable[[], object]) -> float:
    """Milliseconds from the stop on another thread to the caller's being out of the request."""
    stopped_at: list[float] = []
    free_at = 0.0
    with turnctl.turn() as turn:

        def stop() -> None:
            is_blocked()
            time.sleep(0.02)
            stopped_at.append(time.perf_counter())
            turn.token.cancel()

        stopper = threading.Thread(target=stop)
        stopper.start()
        try:
            ask()
        finally:
            free_at = time.perf_counter()
            stopper.join()
    return (free_at - stopped_at[0]) * 1000


def _frees(url: str) -> list[Row]:
    from turnctl.integrations.requests import Session

    rows = []
    with Session() as ours, _mute() as (port, greeted):
        ours.trust_env = False
        places = {
            "before the first byte": f"{url}/silence",
            "in the head": f"{url}/head",
            "in the body": f"{url}/body",
            "in the TLS handshake": f"https://127.0.0.1:{port}/",
        }
        for name, where in places.items():
            is_blocked = greeted if where.startswith("https") else lambda: None
            took = sorted(_stopped(lambda: ours.get(where), is_blocked) for _ in range(_STOPS))  # noqa: B023
            rows.append(Row(f"a stop {name} frees, p50", statistics.median(took), "ms", target=100))
            rows.append(Row("- p90", took[len(took) * 9 // 10], "ms"))
    return rows


@contextlib.contextmanager
def _mute() -> Iterator[tuple[int, Callable[[], object]]]:
    """The port of a server that does not shake hands, and what waits until it was asked to."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        open_: list[socket.socket] = []

        def greeted() -> None:
            sock, _ = listener.accept()
            open_.append(sock)
            sock.recv(1)

        yield listener.getsockname()[1], greeted
        for sock in open_:
            sock.close()


def _stopped(ask: Callable[[], object], is_blocked: Callable[[], object]) -> float:
    took: list[float] = []
    with contextlib.suppress(turnctl.CancelledError):
        took.append(_free_after(ask, is_blocked))
    return took[0]


def rows() -> list[Row]:
    """The costs of a request, and the times to free."""
    with _server() as url:
        return [*_costs(url), *_frees(url)]
