"""redis under a turn, with the class of the page: a stop frees who waits for an answer, and nothing is sent again."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pages import examples
from peers import Loopback, Peer, loopback
from standins import BOUND, Background, until

import turnctl
from turnctl import CancelledError

redis = pytest.importorskip("redis", reason="redis is not installed: the clients extra has it")


def serve(peer: Peer) -> None:
    """As much of a server as it takes: each ECHO is answered, ``BLPOP`` and what follows it never is."""
    while True:
        count = int(peer.until(b"\r\n")[1:])
        words = []
        for _ in range(count):
            size = int(peer.until(b"\r\n")[1:])
            words.append(peer.exactly(size + 2)[:-2])
        peer.__dict__.setdefault("commands", []).append(words)
        name = words[0].upper()
        if name == b"BLPOP":
            peer.stall()
        elif name == b"SUBSCRIBE":
            peer.send(b"*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n" % (len(words[1]), words[1]))
            peer.send(b"*3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n$5\r\nhello\r\n" % (len(words[1]), words[1]))
            peer.stall()
        elif name == b"ECHO":
            peer.send(b"$%d\r\n%s\r\n" % (len(words[1]), words[1]))
        elif name == b"HELLO":
            peer.send(b"-ERR unknown command\r\n")
        else:
            peer.send(b"+OK\r\n")


def sent(server: Loopback, name: bytes) -> int:
    """How often the command was received, over all connections."""
    return sum(words[0].upper() == name for peer in server.peers for words in peer.__dict__.get("commands", []))


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback(serve) as server:
        yield server


@pytest.fixture
def client(server: Loopback) -> Iterator[Any]:
    """The client of the page, without RESP3: the server does not speak it, and old clients do not either."""
    scope = examples("sockets.md", "redis")
    version = int(re.match(r"\d+", redis.__version__)[0])  # type: ignore[index]
    client = scope["make_client"]("127.0.0.1", server.port, **({"protocol": 2} if version >= 5 else {}))
    yield client
    client.connection_pool.disconnect()


def under(turn: turnctl.Turn, fn: Any) -> Background[Any]:
    return Background(turn.bind(fn))


def stopped(turn: turnctl.Turn, thread: Background[Any]) -> float:
    """Stop the turn; the seconds until the thread has raised its stop."""
    at = time.monotonic()
    turn.stop("enough")
    error = thread.error()
    assert isinstance(error, CancelledError), error
    assert "enough" == error.reason
    assert thread.ended_at is not None
    return thread.ended_at - at


def where(server: Loopback, name: bytes) -> Peer:
    """The connection that stalls on the command."""
    for peer in server.peers:
        if peer.reached.is_set() and any(words[0].upper() == name for words in peer.__dict__.get("commands", [])):
            return peer
    raise AssertionError("nobody stalls")


def wait_for(server: Loopback, name: bytes) -> Peer:
    assert until(lambda: any(peer.reached.is_set() for peer in server.peers))
    return where(server, name)


def test_stop_frees_a_blocked_command(server: Loopback, client: Any) -> None:
    """It is sent once, in spite of the client's retries, and the server sees the end of that connection."""
    with turnctl.turn() as turn:
        waiting = under(turn, lambda: client.blpop("jobs"))
        peer = wait_for(server, b"BLPOP")
        took = stopped(turn, waiting)

        assert peer.ended.wait(BOUND)
    assert 1 == sent(server, b"BLPOP")
    assert took < 1


def test_other_connections_of_the_pool_live_on(server: Loopback, client: Any) -> None:
    """One that served somebody before and one that serves somebody now are not shut; the cut one is not reused."""
    assert b"a" == client.echo("a")
    with turnctl.turn() as turn:
        waiting = under(turn, lambda: client.blpop("jobs"))
        cut = wait_for(server, b"BLPOP")
        assert b"b" == client.echo("b")
        stopped(turn, waiting)
    assert cut.ended.wait(BOUND)

    assert b"c" == client.echo("c")
    other = next(peer for peer in server.peers if peer is not cut)
    assert not other.ended.is_set()


def test_pipeline_that_is_stopped_between_two_answers(server: Loopback, client: Any) -> None:
    """The answer that was not read is never given to the next one who asks."""
    pipe = client.pipeline(transaction=False)
    pipe.echo("mine 1")
    pipe.blpop("jobs")
    with turnctl.turn() as turn:
        waiting = under(turn, pipe.execute)
        wait_for(server, b"BLPOP")
        stopped(turn, waiting)

    assert b"mine 2" == client.echo("mine 2")


def test_stopped_turn_gets_no_answer_and_leaves_none(server: Loopback, client: Any) -> None:
    """A command in a turn that is stopped already raises, and the next one reads its own answer."""
    with turnctl.turn() as turn:
        turn.cancel()
        with pytest.raises(CancelledError):
            client.echo("a")

    assert b"b" == client.echo("b")


def test_listener_is_freed(server: Loopback, client: Any) -> None:
    """A subscription keeps what it has heard, and is not made anew."""
    heard = []
    subscriber = client.pubsub(ignore_subscribe_messages=True)
    subscriber.subscribe("news")

    def listen() -> None:
        for message in subscriber.listen():
            heard.append(message["data"])

    with turnctl.turn() as turn:
        listening = under(turn, listen)
        wait_for(server, b"SUBSCRIBE")
        assert until(lambda: heard)
        stopped(turn, listening)
    subscriber.close()

    assert ([b"hello"], 1) == (heard, sent(server, b"SUBSCRIBE"))
