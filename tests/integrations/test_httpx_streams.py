"""A response of httpx that lies open between two reads: a stop cuts its connection, and the turn's end closes it."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from httpclients import NAMES, assert_stopped, face, stop_at
from peers import Peer, loopback
from standins import Background, until
from websites import Website, client_tls, website

import turnctl


@pytest.fixture(params=NAMES)
def http(request: pytest.FixtureRequest) -> Any:
    return face(request.param)


@pytest.fixture(params=["plain", "tls"])
def site(request: pytest.FixtureRequest) -> Iterator[Website]:
    with website(tls=request.param == "tls") as site:
        yield site


@contextlib.contextmanager
def client(http: Any, **options: Any) -> Iterator[Any]:
    with http.Client(**{"timeout": 20, "trust_env": False, "verify": client_tls(), **options}) as one:
        yield one


def test_half_a_stream_of_events(http: Any, site: Website) -> None:
    """Who waits for the next event is free at once, and keeps what came."""
    kept: list[str] = []

    def read(one: Any) -> None:
        with one.stream("GET", f"{site.url}/events") as response:
            kept.extend(response.iter_lines())

    with client(http) as one:
        stopped = stop_at(lambda _: read(one), lambda: until(lambda: kept), stage="reading the response")
        ended = site.server.peer().ended.wait(5)

    assert_stopped(stopped)
    assert ended
    assert 'data: {"n": 1}' == kept[0]


def test_stop_between_two_reads_cuts_at_once(http: Any, site: Website) -> None:
    """The server sees the end though nobody reads, and the next read is the stop."""
    with client(http) as one, turnctl.turn() as turn:
        with one.stream("GET", f"{site.url}/events") as response:
            parts = response.iter_raw()
            part = next(parts)
            turn.stop("enough")
            ended = site.server.peer().ended.wait(5)
            with pytest.raises(turnctl.CancelledError, match="enough"):
                next(parts)

    assert part.startswith(b"data: ")
    assert ended
    assert ["cancelled"] == [one.state for one in turn.report.activities]


def test_response_left_open_is_closed_with_the_turn(http: Any, site: Website) -> None:
    """It is named, its connection ends, its place in the pool is free, and a late read says why."""
    with client(http) as one:
        with turnctl.turn() as turn:
            response = one.send(one.build_request("GET", f"{site.url}/events"), stream=True)
            parts = response.iter_raw()
            next(parts)
        ended = site.server.peer().ended.wait(5)
        left = one._transport._pool.connections
        with pytest.raises(turnctl.TurnOver, match="ended while GET"):
            next(parts)

    assert ended
    assert [] == left
    assert ["cancelled"] == [one.state for one in turn.report.activities]
    assert str(turn.report.activities[0].detail).startswith("the turn ended while reading the response; ")


def test_reader_is_woken_by_the_end_of_the_turn(http: Any, site: Website) -> None:
    """A thread that reads on when the turn is over is told so."""
    with client(http) as one:
        with turnctl.turn() as turn:
            response = one.send(one.build_request("GET", f"{site.url}/events"), stream=True)
            parts = response.iter_raw()
            next(parts)
            reader = Background(turnctl.bind(lambda: next(parts)))
            assert site.stalled()
        error = reader.error()

    assert isinstance(error, turnctl.TurnOver | turnctl.CancelledError), repr(error)
    assert ["cancelled"] == [one.state for one in turn.report.activities if one.kind == "http"]


def test_response_that_the_host_closes(http: Any, site: Website) -> None:
    """Closed before its end: the report says so."""
    with client(http) as one, turnctl.turn() as turn:
        response = one.send(one.build_request("GET", f"{site.url}/events"), stream=True)
        parts = response.iter_raw()
        next(parts)
        response.close()
        ended = site.server.peer().ended.wait(5)

    assert ended
    assert ["completed"] == [one.state for one in turn.report.activities]
    assert str(turn.report.activities[0].detail).startswith("closed while reading the response; ")


def test_response_that_is_forgotten(http: Any, site: Website) -> None:
    """It is gone with the turn at the latest, and its place in the pool is free."""
    with client(http) as one:
        with turnctl.turn() as turn:
            parts = one.send(one.build_request("GET", f"{site.url}/events"), stream=True).iter_raw()
            next(parts)
            del parts
            gc.collect()
        ended = site.server.peer().ended.wait(5)
        left = one._transport._pool.connections

    assert ended
    assert [] == left
    assert "while reading the response; " in str(turn.report.activities[0].detail)


def test_long_stream_comes_whole(http: Any, site: Website) -> None:
    """Many parts, each once and in order; the connection goes back to the pool and serves again."""
    with client(http) as one, turnctl.turn() as turn:
        with one.stream("GET", f"{site.url}/stream?300") as response:
            lines = [line for line in response.iter_lines() if line]
        again = one.get(f"{site.url}/ok").text

    assert [f'data: {{"n": {n}}}' for n in range(300)] == lines
    assert "ok" == again
    assert 1 == len(site.server.peers)
    assert ["completed"] * 2 == [one.state for one in turn.report.activities]


def test_shield_lets_the_read_go_on(http: Any, site: Website) -> None:
    """Under a shield the stop is held back: the response comes, and the next checkpoint raises."""
    with client(http) as one, turnctl.turn() as turn:
        with turnctl.shield(max="5s"):
            with one.stream("GET", f"{site.url}/stream?3") as response:
                turn.stop("enough")
                lines = [line for line in response.iter_lines() if line]
        with pytest.raises(turnctl.CancelledError, match="enough"):
            turnctl.check()

    assert 3 == len(lines)


def test_upgraded_connection_is_cut(http: Any) -> None:
    """What goes on in another protocol is cut by the stop, whoever waits there."""

    def serve(peer: Peer) -> None:
        peer.until(b"\r\n\r\n")
        peer.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
        peer.stall()

    with loopback(serve) as server, client(http) as one, turnctl.turn() as turn:
        headers = {"Connection": "upgrade", "Upgrade": "x"}
        with one.stream("GET", f"http://127.0.0.1:{server.port}/", headers=headers) as response:
            stream = response.extensions["network_stream"]
            reader = Background(lambda: stream.read(100, timeout=10))
            server.reached()
            turn.stop()
            data = reader.result()
            ended = server.peer().ended.wait(5)

    assert b"" == data
    assert ended
    assert ["cancelled"] == [one.state for one in turn.report.activities]


@pytest.mark.parametrize("way", ["read", "closed", "failed"])
def test_turn_keeps_nothing_of_what_is_over(http: Any, site: Website, way: str) -> None:
    """A turn of a thousand requests has their accounts, and not what they sent and got."""

    class Content:
        def __iter__(self) -> Iterator[bytes]:
            yield b"hello"

    content = Content()
    kept = weakref.ref(content)
    with client(http) as one, turnctl.turn() as turn:
        length = {"Content-Length": "5" if way != "failed" else "6"}
        try:
            with one.stream("POST", f"{site.url}/ok?{'x' * 99}", content=content, headers=length) as response:
                if way == "read":
                    response.read()
        except Exception:
            assert "failed" == way
        response = content = None
        gc.collect()
        is_kept = kept() is not None

    assert not is_kept
    assert 1 == len(turn.report.activities)
