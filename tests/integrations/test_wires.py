"""Socket operations raced with the stop: each wakes at once, and nothing that was received is lost."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from standins import Background, until
from websites import authority, server_tls

import turnctl
from turnctl.integrations import wires
from turnctl.integrations.exchanges import Exchange, begin
from turnctl.testing import call_at, pause_at
from turnctl.waiting import abandoned


@contextlib.contextmanager
def exchanging() -> Iterator[tuple[turnctl.Turn, Exchange]]:
    """A turn with an exchange in it."""
    with turnctl.turn() as turn:
        exchange = begin("GET http://x/")
        assert exchange is not None
        try:
            yield turn, exchange
        except BaseException as error:
            exchange.over(error)
            raise
        exchange.over()


@contextlib.contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of one connection."""
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def stopped_while_blocked(turn: turnctl.Turn, blocks: Callable[[], object]) -> float:
    """Stop ``turn`` from another thread once ``blocks`` blocks; how many seconds the caller needed to be free."""
    stopped_at: list[float] = []
    with pause_at("wires.blocking") as pause:

        def stop() -> None:
            pause.reached.wait(5)
            stopped_at.append(time.monotonic())
            pause.release()
            turn.stop("enough")

        stopper = threading.Thread(target=stop)
        stopper.start()
        with pytest.raises(turnctl.CancelledError, match="enough"):
            blocks()
        free_at = time.monotonic()
        stopper.join(5)
    return free_at - stopped_at[0]


def test_receive_wakes() -> None:
    """A stop wakes who waits for data; the socket is left as it is."""
    with pair() as (one, other), exchanging() as (turn, exchange):
        took = stopped_while_blocked(turn, lambda: wires.receive(exchange, one, 10))
        other.sendall(b"later")

        assert b"later" == one.recv(10)
    assert took < 1


def test_send_wakes_and_tells_what_is_unsent() -> None:
    """A stop wakes who sends to a full connection; the rest is handed over, so that nothing is torn."""
    rest: list[bytes] = []
    data = bytes(range(256)) * 40_000
    with pair() as (one, other), exchanging() as (turn, exchange):
        stopped_while_blocked(turn, lambda: wires.send(exchange, one, data, unsent=rest.append))
        sent = exchange.sent
        assert sent is not None
        one.setblocking(True)
        sender = threading.Thread(target=one.sendall, args=(rest[0],))
        sender.start()
        came = b""
        while len(came) < len(data):
            came += other.recv(1 << 20)
        sender.join(5)

    assert data == came
    assert len(data) - len(rest[0]) == sent


def test_stop_is_looked_at_first() -> None:
    """Y1: what was stopped takes nothing, though it is there."""
    with pair() as (one, other), exchanging() as (turn, exchange):
        other.sendall(b"here")
        turn.stop()
        with pytest.raises(turnctl.CancelledError):
            wires.receive(exchange, one, 10)

        assert b"here" == one.recv(10)


def test_received_is_returned() -> None:
    """Y1: what was taken is given, whatever comes in between."""
    with pair() as (one, other), exchanging() as (_, exchange):
        other.sendall(b"here")
        buffer = bytearray(10)
        got = wires.receive_into(exchange, one, buffer)
        other.shutdown(socket.SHUT_WR)
        end = wires.receive(exchange, one, 10)

    assert (b"here", b"") == (bytes(buffer[:got]), end)
    assert 4 == exchange.received


def test_times_out_as_a_socket_does() -> None:
    """A limit that has passed is a TimeoutError."""
    with pair() as (one, _), exchanging() as (_, exchange), pytest.raises(TimeoutError, match="timed out"):
        wires.receive(exchange, one, 10, 0.01)


@contextlib.contextmanager
def full_server() -> Iterator[int]:
    """The port of a server whose backlog is full, so that a connect to it stalls."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(3):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(server.getsockname())
        yield server.getsockname()[1]


def test_connect_wakes() -> None:
    """A stop wakes who waits to be connected; nothing was sent."""
    with full_server() as port:
        with exchanging() as (turn, exchange):
            stopper: list[threading.Thread] = []
            with pause_at("wires.connecting") as pause:

                def stop() -> None:
                    pause.reached.wait(5)
                    pause.release()
                    turn.stop("enough")

                stopper.append(threading.Thread(target=stop))
                stopper[0].start()
                with pytest.raises(turnctl.CancelledError, match="enough"):
                    wires.connect(exchange, "127.0.0.1", port)
                stopper[0].join(5)

        assert f"connecting to 127.0.0.1:{port}; nothing was sent" == exchange.account()


def test_connect_times_out() -> None:
    """A connect that takes too long is a TimeoutError."""
    with full_server() as port, exchanging() as (_, exchange), pytest.raises(TimeoutError):
        wires.connect(exchange, "127.0.0.1", port, 0.05)


def test_connect_tries_each_address() -> None:
    """As the library does: the next address where one refuses, and the error of the last one."""
    with socket.create_server(("127.0.0.1", 0)) as server, exchanging() as (_, exchange):
        port = server.getsockname()[1]
        sock = wires.connect(exchange, "localhost", port)
        sock.close()
        server.close()
        with pytest.raises(ConnectionRefusedError):
            wires.connect(exchange, "localhost", port)


def test_unix_socket() -> None:
    """A Unix socket is connected to on a thread of its own."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(folder + "/s")
        server.listen()
        with exchanging() as (_, exchange):
            sock = wires.connect_unix(exchange, folder + "/s", 5)
            sock.close()
        with exchanging() as (_, exchange), pytest.raises(FileNotFoundError):
            wires.connect_unix(exchange, folder + "/none", 5)


def test_look_up_is_left_behind_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Y3: a look-up that does not come back is named, and delays neither the caller nor the end of the turn."""
    gate = threading.Event()
    asked = threading.Event()
    real = socket.getaddrinfo

    def slow(host: str, *args: object) -> object:
        if host != "slow.example":
            return real(host, *args)  # type: ignore[arg-type]
        if args[-1] == socket.AI_NUMERICHOST:
            raise socket.gaierror
        asked.set()
        gate.wait(10)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    begun = time.monotonic()
    with exchanging() as (turn, exchange):
        stopper = threading.Thread(target=lambda: (asked.wait(5), turn.stop("enough")))
        stopper.start()
        with pytest.raises(turnctl.CancelledError, match="enough"):
            wires.connect(exchange, "slow.example", 80)
        stopper.join(5)
    took = time.monotonic() - begun
    left = abandoned.count()
    gate.set()

    states = {record.name: record.state for record in turn.report.activities}
    assert "abandoned" == states["look-up of slow.example"]
    assert (1, True) == (left, took < 3)


def test_result_that_comes_too_late_is_dropped() -> None:
    """Y3: what nobody waits for any more is handed to ``drop`` by the thread that brings it."""
    dropped: list[str] = []
    begun, gate, came = threading.Event(), threading.Event(), threading.Event()

    def late() -> str:
        begun.set()
        gate.wait(5)
        return "late"

    def drop(result: str) -> None:
        dropped.append(result)
        came.set()

    with exchanging() as (turn, exchange):
        stopper = threading.Thread(target=lambda: (begun.wait(5), turn.stop()))
        stopper.start()
        with pytest.raises(turnctl.CancelledError):
            wires.apart(exchange, "late", late, drop=drop)
        gate.set()
        stopper.join(5)
        came.wait(5)

    assert ["late"] == dropped


def test_result_that_comes_with_the_stop_is_dropped() -> None:
    """Y3: a result that was there when the stop was seen is not given, and handed to ``drop``."""
    dropped: list[str] = []
    with exchanging() as (turn, exchange), call_at("wires.apart.looking", lambda: turn.stop("enough")):
        with pytest.raises(turnctl.CancelledError, match="enough"):
            wires.apart(exchange, "late", lambda: "late", drop=dropped.append)

    assert ["late"] == dropped


def test_socket_closed_by_somebody_else_is_told() -> None:
    """A socket that was closed meanwhile is an error of that socket, and no endless wait."""
    with pair() as (one, _), exchanging() as (_, exchange):
        one.close()
        with pytest.raises(OSError, match="closed|Bad file"):
            wires.receive(exchange, one, 10)


class Eager(ssl.SSLContext):
    """A context as others make them: it shakes hands while it wraps, and looks at the result."""

    def wrap_socket(self, sock: socket.socket, **options: Any) -> ssl.SSLSocket:  # type: ignore[override]
        options.pop("do_handshake_on_connect", None)
        made = super().wrap_socket(sock, do_handshake_on_connect=True, **options)
        assert made.version() is not None
        return made


@pytest.mark.parametrize("kind", [ssl.SSLContext, Eager], ids=["plain", "eager"])
def test_secured_by_any_context(kind: type[ssl.SSLContext]) -> None:
    """The handshake is raced, or has a thread of its own; either way it comes to a socket that does not block."""
    context = kind(ssl.PROTOCOL_TLS_CLIENT)
    authority().configure_trust(context)  # type: ignore[attr-defined]
    with pair() as (one, other), exchanging() as (_, exchange):
        server = Background(server_tls().wrap_socket, other, True)
        with wires.secure(exchange, one, context, "localhost", 5) as secured:
            server.result().sendall(b"hello")
            got = wires.receive(exchange, secured, 10, 5)
        server.result().close()

    assert b"hello" == got


@pytest.mark.parametrize("kind", [ssl.SSLContext, Eager], ids=["plain", "eager"])
def test_handshake_of_any_context_wakes(kind: type[ssl.SSLContext]) -> None:
    """A server that does not shake hands holds nobody, and no thread stays."""
    context = kind(ssl.PROTOCOL_TLS_CLIENT)
    with pair() as (one, _), exchanging() as (turn, exchange):
        stopper = Background(lambda: (until(lambda: "securing" in exchange.stage), turn.stop("enough")))
        begun = time.monotonic()
        with pytest.raises(turnctl.CancelledError, match="enough"):
            wires.secure(exchange, one, context, "localhost")
        took = time.monotonic() - begun
        stopper.result()
        assert until(lambda: not any("handshake" in thread.name for thread in threading.enumerate()))

    assert took < 2
