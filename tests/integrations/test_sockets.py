"""``stoppable``: a block around one connection is ended by a stop, and the connection is nobody's afterwards."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from peers import Peer, loopback
from standins import BOUND, Background, until

import turnctl
from turnctl import BadArgument, CancelledError, TurnOver
from turnctl.integrations.sockets import stoppable
from turnctl.testing import pause_at


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def blocked(turn: turnctl.Turn, sock: Any, read: Any, **options: Any) -> Background[Any]:
    """A thread that is blocked in ``read`` inside the block."""
    inside = threading.Event()

    def body() -> Any:
        with stoppable(turn, sock, **options):
            inside.set()
            return read()

    thread = Background(body)
    assert inside.wait(BOUND)
    return thread


@pytest.mark.parametrize("kind", ["socket", "number", "object"])
def test_stop_frees_who_reads(pair: tuple[socket.socket, socket.socket], kind: str) -> None:
    """The reader gets ``CancelledError`` with its reason, the other side the end, ``discard`` its call."""
    ours, theirs = pair
    discarded: list[int] = []

    class Wrapped:
        def fileno(self) -> int:
            return ours.fileno()

    sock: Any = {"socket": ours, "number": ours.fileno(), "object": Wrapped()}[kind]
    with turnctl.turn() as turn:
        reading = blocked(turn, sock, lambda: ours.recv(1), discard=lambda: discarded.append(1))
        turn.stop("enough")
        error = reading.error()

    assert isinstance(error, CancelledError)
    assert ("enough", [1]) == (error.reason, discarded)
    assert b"" == theirs.recv(1)


def test_without_a_stop_nothing_happens(pair: tuple[socket.socket, socket.socket]) -> None:
    """The block gives what it gives, and a stop after it does not reach the socket."""
    ours, theirs = pair
    discarded: list[int] = []
    theirs.send(b"ab")
    with turnctl.turn() as turn:
        with stoppable(turn, ours, discard=lambda: discarded.append(1)) as block:
            got = ours.recv(1)
        turn.stop()

    assert (b"a", b"b", []) == (got, ours.recv(1), discarded)
    assert not block.was_shut_down


def test_without_a_turn_the_block_is_left_alone(pair: tuple[socket.socket, socket.socket]) -> None:
    """Code that may run outside any turn needs no second way."""
    with stoppable(turnctl.current_turn(), pair[0]) as block:
        pair[1].send(b"a")

        assert b"a" == pair[0].recv(1)
    assert not block.was_shut_down


def test_stopped_turn_does_not_begin(pair: tuple[socket.socket, socket.socket]) -> None:
    """Stop, then the block: it is not entered and nothing shut down, but the connection may stand in an exchange."""
    entered: list[int] = []
    discarded: list[int] = []
    with turnctl.turn() as turn:
        turn.cancel()
        with pytest.raises(CancelledError):
            with stoppable(turn, pair[0], discard=lambda: discarded.append(1)):
                entered.append(1)

    pair[1].send(b"a")
    assert ([], [1], b"a") == (entered, discarded, pair[0].recv(1))


def test_clean_end_is_told_from_a_whole_answer(pair: tuple[socket.socket, socket.socket]) -> None:
    """A read that a shutdown has cut looks like an end: it is raised as the stop, not returned."""
    ours, theirs = pair
    theirs.send(b"half")

    def read() -> bytes:
        found = b""
        while part := ours.recv(4):
            found += part
        return found

    with turnctl.turn() as turn:
        reading = blocked(turn, ours, read)
        turn.stop()
        error = reading.error()

    assert isinstance(error, CancelledError)
    assert error.__cause__ is None


def test_error_of_the_client_is_the_cause(pair: tuple[socket.socket, socket.socket]) -> None:
    """What the client makes of the cut connection comes with the stop, as its cause."""

    def read() -> None:
        if not pair[0].recv(1):
            raise ConnectionError("lost")

    with turnctl.turn() as turn:
        reading = blocked(turn, pair[0], read)
        turn.stop()
        error = reading.error()

    assert isinstance(error, CancelledError)
    assert "ConnectionError('lost')" == repr(error.__cause__)


def test_error_without_a_stop_passes(pair: tuple[socket.socket, socket.socket]) -> None:
    """It is the caller's own."""
    with turnctl.turn() as turn, pytest.raises(ConnectionError):
        with stoppable(turn, pair[0]):
            raise ConnectionError

    assert "completed" == turn.outcome


def test_stop_as_the_block_is_left(pair: tuple[socket.socket, socket.socket]) -> None:
    """Released, then stopped: the stop comes out, and nothing is shut down that may be somebody else's (promise 2)."""
    discarded: list[int] = []
    with turnctl.turn() as turn:
        block = stoppable(turn, pair[0], discard=lambda: discarded.append(1))
        with pytest.raises(CancelledError):
            with block:
                pair[1].send(b"a")
                block._bridging.release()  # type: ignore[union-attr]
                turn.stop()

    assert (b"a", [1]) == (pair[0].recv(1), discarded)
    assert not block.was_shut_down


def test_leaving_waits_for_a_shutdown_under_way(pair: tuple[socket.socket, socket.socket]) -> None:
    """A stop that is being carried is waited for, so nobody else's connection is hit a moment later."""
    with turnctl.turn() as turn:
        block = stoppable(turn, pair[0])
        with pause_at("bridge.carrying") as held:
            inside, go = threading.Event(), threading.Event()

            def body() -> None:
                with block:
                    inside.set()
                    go.wait(BOUND)

            leaving = Background(body)
            assert inside.wait(BOUND)
            turn.stop()
            assert held.reached.wait(BOUND)
            go.set()
            assert until(lambda: block._bridging._done._waiters)  # type: ignore[union-attr]
            held.release()
            error = leaving.error()

    assert isinstance(error, CancelledError)
    assert block.was_shut_down


def test_child_with_a_timeout_frees_who_reads(pair: tuple[socket.socket, socket.socket]) -> None:
    """A child token that is bound around the block ends it, and the turn goes on."""
    with turnctl.turn() as turn:
        with turn.child(timeout=0.05) as child:
            with pytest.raises(CancelledError) as caught:
                with stoppable(turn, pair[0]):
                    pair[0].recv(1)
        turn.check()

    assert ("deadline", child) == (caught.value.cause, caught.value.token)
    assert "completed" == turn.outcome


def test_shield_around_the_block_holds_the_stop_back(pair: tuple[socket.socket, socket.socket]) -> None:
    """The connection is not touched, and the stop is raised when the shield is over."""
    with turnctl.turn() as turn:
        with pytest.raises(CancelledError):
            with turn.shield(), stoppable(turn, pair[0]) as block:
                turn.stop()
                pair[1].send(b"a")
                got = pair[0].recv(1)

    assert (b"a", False) == (got, block.was_shut_down)


def test_number_may_be_another_socket_by_then(pair: tuple[socket.socket, socket.socket]) -> None:
    """A client that closes its own descriptor in the block: whoever gets the number is not shut down."""
    ours, theirs = pair
    with turnctl.turn() as turn:
        with pytest.raises(CancelledError):
            with stoppable(turn, ours.fileno()) as block:
                number = ours.detach()
                other, far = socket.socketpair()
                os.dup2(other.fileno(), number)
                turn.stop()
                assert until(lambda: block.was_shut_down)
        far.send(b"a")
        got = other.recv(1)

    assert (b"a", b"") == (got, theirs.recv(1))
    os.close(number)
    other.close()
    far.close()


def test_discard_that_fails_is_in_the_report(pair: tuple[socket.socket, socket.socket]) -> None:
    """The caller hears of the stop, the report of the failure."""

    def discard() -> None:
        raise OSError("gone")

    with turnctl.turn() as turn:
        reading = blocked(turn, pair[0], lambda: pair[0].recv(1), discard=discard)
        turn.stop()
        error = reading.error()

    assert isinstance(error, CancelledError)
    assert any(note.endswith("failed: OSError: gone") for note in turn.report.notes)


def test_ctrl_c_frees_the_main_thread(pair: tuple[socket.socket, socket.socket]) -> None:
    """While it is blocked in the block: the turn is stopped by the signal, and the connection discarded.

    The handler may raise out of the read before anything is shut down.
    """
    ours, theirs = pair
    discarded: list[int] = []

    def discard() -> None:
        discarded.append(1)
        ours.close()

    def press() -> None:
        assert theirs.recv(1)
        time.sleep(0.01)  # it is blocked in its read by then, most likely
        os.kill(os.getpid(), signal.SIGINT)

    with turnctl.handle_signals(), turnctl.turn() as turn:
        pressing = Background(press)
        with stoppable(turn, ours, discard=discard):
            ours.send(b"x")
            ours.recv(1)
    pressing.result()

    assert ("cancelled", "signal", [1]) == (turn.outcome, turn.cause, discarded)
    assert b"" == theirs.recv(1)


@pytest.mark.parametrize(
    ("sock", "options", "words"),
    [
        (None, {}, "needs a connected socket or its descriptor's number, not None"),
        (-1, {}, "needs a connected socket or its descriptor's number, not -1"),
        ("x", {}, "needs a connected socket or its descriptor's number, not 'x'"),
        (99999, {}, "descriptor 99999 is no open socket (Bad file descriptor); give that of the connection"),
        (0, {"discard": 3}, "discard must be a function without arguments or None, not 3"),
    ],
)
def test_misuse_of_stoppable_is_refused(sock: Any, options: Any, words: str) -> None:
    """Before the block is entered."""
    with turnctl.turn() as turn:
        with pytest.raises(BadArgument) as caught:
            with stoppable(turn, sock, **options):
                raise AssertionError("entered")

    assert words in str(caught.value)


def test_pipe_is_no_socket() -> None:
    """A descriptor of another kind is told apart before the block."""
    read, write = os.pipe()
    with turnctl.turn() as turn, pytest.raises(BadArgument, match="is no open socket"):
        with stoppable(turn, read):
            raise AssertionError("entered")
    os.close(read)
    os.close(write)


def test_block_of_a_turn_that_is_over_is_refused(pair: tuple[socket.socket, socket.socket]) -> None:
    """Nothing would end it, and the copy of its descriptor is given back."""
    with turnctl.turn() as turn:
        pass
    with pytest.raises(TurnOver):
        with stoppable(turn, pair[0].fileno()):
            raise AssertionError("entered")


def test_block_is_for_one_with(pair: tuple[socket.socket, socket.socket]) -> None:
    """A second use is refused."""
    with turnctl.turn() as turn:
        with stoppable(turn, pair[0]) as block:
            pass
        with pytest.raises(BadArgument, match="one with block"):
            with block:
                raise AssertionError("entered")


# -- http.client ------------------------------------------------------------------------------------------------------


def get(turn: turnctl.Turn, connection: http.client.HTTPConnection) -> bytes:
    connection.connect()
    with stoppable(turn, connection.sock, discard=connection.close):
        connection.request("GET", "/")
        return connection.getresponse().read()


def test_http_client_is_freed() -> None:
    """A plain ``http.client`` that waits for the rest of a body; the next request goes over a connection of its own."""
    with loopback(_stalls_before_the_answer) as server, turnctl.turn() as turn:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=BOUND)
        getting = Background(get, turn, connection)
        peer = server.reached()
        turn.stop("enough")
        error = getting.error()

        assert isinstance(error, CancelledError)
        assert "enough" == error.reason
        assert isinstance(error.__cause__, http.client.RemoteDisconnected)
        assert peer.ended.wait(BOUND)
        assert connection.sock is None
        assert 1 == len(server.peers)


def _stalls_before_the_answer(peer: Peer) -> None:
    peer.until(b"\r\n\r\n")
    peer.stall()


@pytest.mark.parametrize("kind", ["length", "chunked", "no length"])
def test_http_client_that_has_half_a_body(kind: str) -> None:
    """Also where a cut looks like the end: without a length."""
    heads = {
        "length": b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf",
        "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        "no length": b"HTTP/1.0 200 OK\r\n\r\nhalf",
    }

    def serve(peer: Peer) -> None:
        peer.until(b"\r\n\r\n")
        peer.send(heads[kind])
        peer.stall()

    with loopback(serve) as server, turnctl.turn() as turn:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=BOUND)
        getting = Background(get, turn, connection)
        peer = server.reached()
        turn.stop()

        assert isinstance(getting.error(), CancelledError)
        assert peer.ended.wait(BOUND)
