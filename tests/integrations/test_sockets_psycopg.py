"""psycopg under a turn, with the functions of the page: the query is cancelled, or the connection ended."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pages import examples
from peers import Loopback, Peer, loopback
from standins import BOUND, Background, until

import turnctl
from turnctl import CancelledError

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: the clients extra has it")

KEY = 4711
_CANCEL, _SSL, _GSS = 80877102, 80877103, 80877104


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


READY = message(b"Z", b"I")
CANCELLED = message(b"E", b"SERROR\0VERROR\0C57014\0Mcanceling statement due to user request\0\0")


class Postgres:
    """As much of a server as it takes: whatever is asked stalls until it is cancelled, but for ``select 1``."""

    def __init__(self) -> None:
        self.queries: list[bytes] = []
        self.hears_cancels = True
        self.cancelled = threading.Event()

    def serve(self, peer: Peer) -> None:
        code = _CANCEL
        while True:
            (size,) = struct.unpack("!i", peer.exactly(4))
            head = peer.exactly(size - 4)
            (code,) = struct.unpack("!i", head[:4])
            if code not in (_SSL, _GSS):
                break
            peer.send(b"N")
        if code == _CANCEL:
            if not self.hears_cancels:
                peer.stall()
            self.cancelled.set()
            return
        values = {b"server_version": b"15.0", b"client_encoding": b"UTF8", b"standard_conforming_strings": b"on"}
        told = b"".join(message(b"S", name + b"\0" + value + b"\0") for name, value in values.items())
        key = message(b"K", struct.pack("!ii", KEY, KEY))
        peer.send(message(b"R", struct.pack("!i", 0)) + told + key + READY)
        while True:
            self.answer(peer)

    def answer(self, peer: Peer) -> None:
        kind, query = b"", b""
        while kind not in (b"S", b"Q"):
            kind = peer.exactly(1)
            (size,) = struct.unpack("!i", peer.exactly(4))
            body = peer.exactly(size - 4)
            if kind == b"P":
                query = body.split(b"\0")[1]
            elif kind == b"Q":
                query = body.rstrip(b"\0")
            elif kind == b"X":
                raise EOFError
        self.queries.append(query)
        if query != b"select 1":
            self.stall(peer)
            peer.send(CANCELLED + READY)
            return
        column = b"?column?\0" + struct.pack("!ihihih", 0, 0, 25, -1, -1, 0)
        row = message(b"T", struct.pack("!h", 1) + column) + message(b"D", struct.pack("!hi", 1, 1) + b"1")
        begin = message(b"1") + message(b"2") if kind == b"S" else b""
        peer.send(begin + row + message(b"C", b"SELECT 1\0") + READY)

    def stall(self, peer: Peer) -> None:
        def watch() -> None:
            self.cancelled.wait(BOUND)
            peer.go_on.set()

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        try:
            peer.stall()
        finally:
            self.cancelled.set()
            watching.join(BOUND)
            self.cancelled.clear()
            peer.go_on.clear()


@pytest.fixture
def postgres() -> Postgres:
    return Postgres()


@pytest.fixture
def server(postgres: Postgres) -> Iterator[Loopback]:
    with loopback(postgres.serve) as server:
        yield server


@pytest.fixture
def dsn(server: Loopback) -> str:
    return f"host=127.0.0.1 port={server.port} user=u dbname=d sslmode=disable connect_timeout=5"


@pytest.fixture
def page() -> dict[str, Any]:
    return examples("sockets.md", "psycopg")


def stopped(turn: turnctl.Turn, thread: Background[Any]) -> float:
    at = time.monotonic()
    turn.stop("enough")
    error = thread.error()
    assert isinstance(error, CancelledError), error
    assert "enough" == error.reason
    assert thread.ended_at is not None
    return thread.ended_at - at


def test_query_is_cancelled_and_the_connection_lives(postgres: Postgres, dsn: str, page: dict[str, Any]) -> None:
    """The server is asked to cancel; the caller gets the stop, and the connection serves the next query."""
    if not hasattr(psycopg.Connection, "cancel_safe"):
        pytest.skip("psycopg before 3.2 has no cancel_safe")
    with psycopg.connect(dsn, autocommit=True) as connection:
        with turnctl.turn() as turn:
            waiting = Background(page["rows"], turn, connection, "select pg_sleep(60)")
            assert until(lambda: postgres.queries)
            took = stopped(turn, waiting)

        assert isinstance(waiting.error().__cause__, psycopg.errors.QueryCanceled)  # type: ignore[union-attr]
        assert [("1",)] == connection.execute("select 1").fetchall()
    assert took < 1


def test_connection_is_ended_where_nobody_cancels(
    postgres: Postgres, server: Loopback, dsn: str, page: dict[str, Any]
) -> None:
    """The caller is free at once, the server sees the end, and the connection says that it is closed."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        with turnctl.turn() as turn:
            waiting = Background(page["rows_or_end"], turn, connection, "select pg_sleep(60)")
            peer = server.reached()
            took = stopped(turn, waiting)

            assert peer.ended.wait(BOUND)
        assert isinstance(waiting.error().__cause__, psycopg.OperationalError)  # type: ignore[union-attr]
        assert connection.closed
    assert [b"select pg_sleep(60)"] == postgres.queries
    assert took < 1


def test_pool_makes_a_new_connection(postgres: Postgres, server: Loopback, dsn: str, page: dict[str, Any]) -> None:
    """The one that was ended is not handed out again; the others of the pool live on."""
    psycopg_pool = pytest.importorskip("psycopg_pool", reason="psycopg_pool is not installed: the clients extra has it")

    def work(turn: turnctl.Turn, query: str) -> Any:
        with pool.connection() as connection:
            return page["rows_or_end"](turn, connection, query)

    with psycopg_pool.ConnectionPool(dsn, min_size=2, max_size=2, kwargs={"autocommit": True}) as pool:
        pool.wait(BOUND)
        with turnctl.turn() as turn:
            waiting = Background(work, turn, "select pg_sleep(60)")
            assert until(lambda: any(peer.reached.is_set() for peer in server.peers))
            cut = next(peer for peer in server.peers if peer.reached.is_set())
            assert [("1",)] == work(turn, "select 1")
            stopped(turn, waiting)
        assert cut.ended.wait(BOUND)
        with turnctl.turn() as turn:
            assert [[("1",)]] * 3 == [work(turn, "select 1") for _ in range(3)]
        other = next(peer for peer in server.peers[:2] if peer is not cut)
        assert not other.ended.is_set()


def test_select_waits_for_the_number(server: Loopback, dsn: str) -> None:
    """The number of the socket is enough to wait for an answer, or for the stop."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        with turnctl.turn() as turn:
            waiting = Background(turn.select, [connection.pgconn.socket])
            server.peer()
            stopped(turn, waiting)
