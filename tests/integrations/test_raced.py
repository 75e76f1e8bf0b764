"""A raced socket: stands for a real one, obeys its exchange, and is cut only while that holds it."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
from collections.abc import Iterator

import pytest
from standins import Background, until

import turnctl
from turnctl.integrations.exchanges import Exchange, begin
from turnctl.integrations.raced import RacedReader, RacedSocket, adopt


@contextlib.contextmanager
def pair() -> Iterator[tuple[RacedSocket, socket.socket]]:
    """A raced end of a connection, and the other one."""
    one, other = socket.socketpair()
    with adopt(one) as raced, other:
        yield raced, other


@contextlib.contextmanager
def bound_to_a_turn() -> Iterator[tuple[turnctl.Turn, Exchange, RacedSocket, socket.socket]]:
    with pair() as (raced, other), turnctl.turn() as turn:
        exchange = begin("GET http://x/")
        assert exchange is not None
        raced.bind(exchange)
        try:
            yield turn, exchange, raced, other
        except BaseException as error:
            exchange.over(error)
            raise
        exchange.over()


def test_outside_of_turns_it_is_a_socket() -> None:
    """Z1: what it can do, its time-outs and its errors are those of a socket."""
    with pair() as (raced, other):
        assert raced is adopt(raced)
        raced.sendall(b"abc")
        assert b"abc" == other.recv(10)
        other.sendall(b"defgh")
        buffer = bytearray(10)
        assert (b"d", 2) == (raced.recv(1), raced.recv_into(buffer, 2))
        assert (b"g", b"gh") == (raced.recv(1, socket.MSG_PEEK), raced.recv(10))
        raced.settimeout(0.01)
        with pytest.raises(TimeoutError, match="timed out"):
            raced.recv(1)
        with pytest.raises(TimeoutError):
            raced.sendall(b"x" * 10_000_000)
        raced.setblocking(False)
        with pytest.raises(BlockingIOError):
            raced.recv(1)
        with pytest.raises(ValueError, match="out of range"):
            raced.settimeout(-1)

        assert (0.0, False, other.family) == (raced.gettimeout(), raced.getblocking(), raced.family)
    assert -1 == raced.fileno()


def test_it_takes_over_the_timeout() -> None:
    """What the real socket was told holds on."""
    one, other = socket.socketpair()
    one.settimeout(7)
    with adopt(one) as raced, other:
        assert (7, 0.0) == (raced.gettimeout(), one.gettimeout())


def test_sendall_has_one_timeout_for_all() -> None:
    """A time-out is for the whole of it, as with a socket, however it comes through in parts."""
    with pair() as (raced, other):
        raced.settimeout(0.1)
        reader = Background(lambda: [other.recv(1000) for _ in range(5) if not threading.Event().wait(0.04)])
        with pytest.raises(TimeoutError):
            raced.sendall(b"x" * 5_000_000)
        reader.result()


def test_turn_of_who_uses_it_is_obeyed() -> None:
    """Z1: bound to nothing, it obeys the turn that is bound where it is used."""
    with pair() as (raced, _), turnctl.turn() as turn:
        stopper = threading.Timer(0.02, turn.token.cancel)
        stopper.start()
        with pytest.raises(turnctl.CancelledError):
            raced.recv(1)

    stopper.join()
    assert () == turn.report.activities


def test_exchange_is_obeyed_wherever_it_is_used() -> None:
    """Z1: bound to an exchange, it obeys that one, also on a thread that knows of no turn."""
    with bound_to_a_turn() as (turn, exchange, raced, _):
        reader = Background(raced.recv, 1)
        assert until(lambda: turn.token._grow().bells)
        turn.token.cancel()
        error = reader.error()
        exchange.over(error)

    assert isinstance(error, turnctl.CancelledError)


def test_end_that_was_cut_is_none() -> None:
    """An end of the stream that comes of the cut is told as the stop."""
    with bound_to_a_turn() as (turn, exchange, raced, other):
        turn.token.cancel()
        exchange.cut()
        with pytest.raises(turnctl.CancelledError):
            raced.recv(1)

        assert b"" == other.recv(1)


def test_let_go_is_never_cut() -> None:
    """Z2: what was let go goes on; what was cut before is told so each time."""
    with bound_to_a_turn() as (turn, exchange, raced, other):
        assert raced.let_go()
        turn.token.cancel()
        exchange.cut()
        raced.sendall(b"on")
        assert b"on" == other.recv(2)
        raced.bind(exchange)
        exchange.cut()

        assert (False, False) == (raced.let_go(), raced.let_go())


def test_closing_lets_go_first() -> None:
    """Z2: a number that was closed and given to another file is not shut down."""
    with bound_to_a_turn() as (_, exchange, raced, _other):
        number = raced.fileno()
        raced.close()
        one, other = socket.socketpair()
        with one, other:
            assert number == one.fileno()
            cut = exchange.cut()
            one.sendall(b"on")

            assert (False, b"on") == (cut, other.recv(2))


def test_close_waits_for_what_makefile_gave() -> None:
    """As a socket, it is closed when the last file on it is."""
    with pair() as (raced, other):
        other.sendall(b"line\nrest")
        with raced.makefile("rb") as file, raced.makefile("r") as text, raced.makefile("rb", 0) as raw:
            raced.close()
            assert b"line\n" == file.readline()
            assert (True, True) == (isinstance(text, io.TextIOWrapper), isinstance(raw, socket.SocketIO))
            assert raced.fileno() >= 0
        assert -1 == raced.fileno()


def test_reader_asks_the_stop_for_what_is_buffered() -> None:
    """Z3: a line that lies in the buffer is not given after a stop."""
    with bound_to_a_turn() as (turn, _, raced, other):
        other.sendall(b"one\ntwo\n")
        with raced.makefile("rb") as file:
            assert isinstance(file, RacedReader)
            assert b"one\n" == file.readline()
            turn.token.cancel()
            with pytest.raises(turnctl.CancelledError):
                file.readline()


@pytest.mark.parametrize(
    ("sent", "length", "chunked", "state"),
    [
        (b"abc", 3, False, "completed"),
        (b"ab", 3, False, "failed"),
        (b"abc", None, False, "completed"),
        (b"3\r\nabc\r\n0\r\n\r\n", None, True, "completed"),
        (b"3\r\nabc\r\n0\r\n", None, True, "completed"),
        (b"3\r\nabc\r\n", None, True, "failed"),
    ],
)
def test_reader_tells_how_a_body_ends(sent: bytes, length: int | None, chunked: bool, state: str) -> None:
    """Z3: whole, or broken off by the other side."""
    with bound_to_a_turn() as (turn, exchange, raced, other):
        other.sendall(sent)
        other.shutdown(socket.SHUT_WR)
        with raced.makefile("rb") as file:
            file.begin_body(length, chunked)
            while file.readline():
                if chunked and sent.endswith(b"0\r\n\r\n") and file.peek() == b"\r\n":
                    file.readline()
                    break
        ended = exchange.activity.end

    assert state == (ended or ("open",))[0]
    assert not turn.cancelled


def test_end_of_a_body_lets_go() -> None:
    """Z3: a connection whose response was read is not cut any more, whoever has it by then."""
    with bound_to_a_turn() as (_, exchange, raced, other):
        other.sendall(b"abc")
        with raced.makefile("rb") as file:
            file.begin_body(3, False)
            file.read(3)

        assert (False, None) == (exchange.cut(), raced.exchange)


def test_foreign_socket_is_cut_while_it_waits() -> None:
    """A kind of socket that cannot be raced is cut under who waits on it, and the stop is told."""

    class Foreign:
        def __init__(self, real: socket.socket) -> None:
            self._real = real

        def __getattr__(self, name: str) -> object:
            return getattr(self._real, name)

    one, other = socket.socketpair()
    with one, other, turnctl.turn() as turn:
        raced = adopt(Foreign(one))
        exchange = begin("GET http://x/")
        assert exchange is not None
        raced.bind(exchange)
        raced.settimeout(5)
        raced.sendall(b"abc")
        assert b"abc" == other.recv(3)
        reader = Background(raced.recv, 1)
        assert until(lambda: turn.bridge.is_running)
        turn.token.cancel()
        error = reader.error()
        exchange.over(error)

    assert isinstance(error, turnctl.CancelledError)
