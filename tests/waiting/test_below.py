"""What is below a source: the response is told by its shape, and its connection is shut down while it is its own."""

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
from turnctl import CancelledError, Turn, TurnOver
from turnctl.testing import pause_at
from turnctl.waiting import abandoned


class Network:
    """As the network stream of httpcore."""

    def __init__(self, sock: object) -> None:
        self.sock = sock

    def get_extra_info(self, name: str) -> object:
        return self.sock if name == "socket" else None


class Body:
    """What httpx reads a body from; closing it is how the connection goes back to the pool."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class Response:
    """As a response of httpx: iterated here by itself, which real ones are not, for the sake of short tests."""

    def __init__(self, sock: object, **extensions: object) -> None:
        self.extensions = {"network_stream": Network(sock), "http_version": b"HTTP/1.1", **extensions}
        self.sock = sock
        self.stream = Body()
        self.is_closed = False
        self.closes: list[int] = []

    def lines(self) -> Iterator[bytes]:
        while part := self.sock.recv(1):  # type: ignore[attr-defined]
            yield part

    def close(self) -> None:
        self.closes.append(threading.get_ident())
        if not self.is_closed:
            self.is_closed = True
            self.stream.close()


class Events:
    """As a stream of an SDK: it reads a response that it holds, and has no way to be closed."""

    def __init__(self, **held: object) -> None:
        self.__dict__.update(held)
        self.asked = 0
        self.again = threading.Event()  # asked for a second item

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> bytes:
        self.asked += 1
        if self.asked == 2:
            self.again.set()
        part = OURS[-1].recv(1)
        if not part:
            raise ConnectionError("cut")
        return part


OURS: list[socket.socket] = []


@pytest.fixture(autouse=True)
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    OURS.append(ours)
    with ours, theirs:
        yield ours, theirs
    OURS.pop()


def reading(turn: Turn, source: Any, ahead: int = 256) -> Background[Any]:
    """A loop that is blocked in the source, whose other side has sent one byte."""
    items = turn.stream(source, ahead=ahead)
    loop = Background(list, items)
    assert until(lambda: items.received)
    return loop


@pytest.mark.parametrize("ahead", [256, 0])
@pytest.mark.parametrize("step", ["response", "_response", "_raw_stream", "completion_stream", "raw", "none"])
def test_stop_shuts_the_connection_below_down(pair: tuple[Any, Any], step: str, ahead: int) -> None:
    """The reader comes back from it, the other side sees the end, and the response is closed once."""
    ours, theirs = pair
    response = Response(ours)
    source = Events(**{step: Events(response=response) if step == "completion_stream" else response})
    theirs.send(b"a")
    with turnctl.turn(grace=60 if step != "none" else 0.01) as turn:
        loop = reading(turn, source, ahead)
        turn.stop("enough")
        if step != "none":
            assert b"" == theirs.recv(1)
        elif ahead == 0:
            theirs.close()  # nothing else would wake this one
        error = loop.error()

    assert isinstance(error, CancelledError)
    assert (b"a",) == turn.report.activities[0].received
    if step == "none":
        assert ahead == 0 or "abandoned" == turn.report.activities[0].state
        assert [] == response.closes
        theirs.close()
        assert until(lambda: abandoned.count() == 0)
    else:
        assert "cancelled" == turn.report.activities[0].state
        assert (1, 1) == (len(response.closes), response.stream.closed)


def test_stop_while_the_loop_is_busy_shuts_it_down(pair: tuple[Any, Any]) -> None:
    """The other side sees the end at once, not when the loop comes back."""
    ours, theirs = pair
    theirs.send(b"a")
    with turnctl.turn() as turn:
        for _ in turn.stream(Events(response=Response(ours))):
            turn.stop()

            assert b"" == theirs.recv(1)
    assert "cancelled" == turn.report.activities[0].state


@pytest.mark.parametrize("ahead", [256, 0])
def test_ctrl_c_in_the_main_thread_closes_it(pair: tuple[Any, Any], ahead: int) -> None:
    """The loop is over and the response closed, also where the handler raises out of the read itself."""
    ours, theirs = pair
    theirs.send(b"a")
    response = Response(ours)
    source = Events(response=response)

    def press() -> None:
        assert source.again.wait(BOUND)
        time.sleep(0.01)  # it is blocked by then, most likely
        os.kill(os.getpid(), signal.SIGINT)

    with turnctl.handle_signals(), turnctl.turn(grace=60) as turn:
        pressing = Background(press)
        for _ in turn.stream(source, ahead=ahead):
            pass
    pressing.result()

    assert ("cancelled", "signal", 1) == (turn.outcome, turn.cause, len(response.closes))
    assert ahead == 0 or b"" == theirs.recv(1)


def test_stop_before_the_first_item_shuts_it_down(pair: tuple[Any, Any]) -> None:
    """The response is there already, and its connection with it."""
    ours, theirs = pair
    response = Response(ours)
    with turnctl.turn() as turn:
        items = turn.stream(Events(response=response))
        turn.stop()
        assert b"" == theirs.recv(1)
        with pytest.raises(CancelledError):
            next(items)

    assert 1 == len(response.closes)


def test_descriptors_are_given_back(pair: tuple[Any, Any]) -> None:
    """Also where nothing was ever read; the response keeps no trace of us."""
    response = Response(pair[0])
    with turnctl.turn() as turn:
        items = turn.stream(Events(response=response))
        assert "close" in response.stream.__dict__
        items.close()

    assert {"closed": 1} == response.stream.__dict__


def test_connection_that_went_back_is_not_shut_down(pair: tuple[Any, Any]) -> None:
    """Closed by the client, then the stop: whoever has it by now goes on (promise 2)."""
    ours, theirs = pair
    response = Response(ours)
    with turnctl.turn() as turn:
        items = turn.stream(Events(response=response))
        response.close()
        later = threading.Event()
        turn.bridge_event(later)
        turn.stop()
        assert later.wait(BOUND)  # so whatever is carried before it was carried
        theirs.send(b"a")
        with pytest.raises(CancelledError):
            next(items)

    assert b"a" == ours.recv(1)


def test_going_back_waits_for_a_shutdown_under_way(pair: tuple[Any, Any]) -> None:
    """So that what comes back to the pool is dead already, which pools see, and not about to be."""
    ours, _ = pair
    response = Response(ours)
    with turnctl.turn() as turn:
        items = turn.stream(Events(response=response))
        bridging = items._feed.source._below._bridging  # type: ignore[union-attr]
        assert bridging is not None
        with pause_at("bridge.carrying") as held:
            turn.stop()
            assert held.reached.wait(BOUND)
            closing = Background(response.close)
            assert until(lambda: bridging._done._waiters)
            before = response.stream.closed
            held.release()
            closing.result()
        after = ours.recv(1)

    assert (0, 1, b"") == (before, response.stream.closed, after)


def test_number_of_the_client_may_be_another_by_then(pair: tuple[Any, Any]) -> None:
    """What is shut down is a copy: the number of the client's own may mean somebody else's connection."""
    ours, theirs = pair
    with turnctl.turn() as turn:
        items = turn.stream(Events(response=Response(ours)))
        number = ours.detach()
        other = socket.socket(fileno=number)
        copy = other.dup()
        other.close()
        mine, far = socket.socketpair()
        turn.stop()
        assert b"" == theirs.recv(1)
        far.send(b"b")
        assert b"b" == mine.recv(1)
        items.close()
    for one in (copy, mine, far):
        one.close()


@pytest.mark.parametrize("extensions", [{"http_version": b"HTTP/2"}, {"stream_id": 1}])
def test_shared_connection_is_left_alone_and_named(pair: tuple[Any, Any], extensions: dict[str, object]) -> None:
    """With HTTP/2 others are on it: the loop is free at once, and the report says why its reader is left behind."""
    ours, theirs = pair
    theirs.send(b"a")
    with turnctl.turn(grace=0.01) as turn:
        loop = reading(turn, Events(response=Response(ours, **extensions)))
        turn.stop()
        assert isinstance(loop.error(), CancelledError)

    record = turn.report.activities[0]
    assert "abandoned" == record.state
    assert str(record.detail).endswith("its connection serves other requests as well (HTTP/2), and was not shut down")
    theirs.close()
    assert until(lambda: abandoned.count() == 0)


@pytest.mark.parametrize("sock", [None, "a stand-in"])
def test_response_without_a_socket_is_named(pair: tuple[Any, Any], sock: object) -> None:
    """As over a transport that is no network."""
    _, theirs = pair
    theirs.send(b"a")
    with turnctl.turn(grace=0.01) as turn:
        loop = reading(turn, Events(response=Response(sock)))
        turn.stop()
        assert isinstance(loop.error(), CancelledError)

    assert str(turn.report.activities[0].detail).endswith("its connection was not found, and not shut down")
    theirs.close()
    assert until(lambda: abandoned.count() == 0)


def test_leaving_a_blocked_stream_shuts_it_down(pair: tuple[Any, Any]) -> None:
    """Without a stop too: ``close()`` from another thread ends the loop, and nothing waits for the next item."""
    ours, theirs = pair
    theirs.send(b"a")
    response = Response(ours)
    with turnctl.turn(grace=60) as turn:
        items = turn.stream(Events(response=response))
        loop = Background(list, items)
        assert until(lambda: items.given)
        items.close()
        assert [b"a"] == loop.result()

    assert b"" == theirs.recv(1)
    assert 1 == len(response.closes)
    assert "completed" == turn.report.activities[0].state


def test_dropped_stream_shuts_it_down(pair: tuple[Any, Any]) -> None:
    """A loop that is left by ``break`` while the reader is blocked."""
    ours, theirs = pair
    theirs.send(b"a")
    with turnctl.turn(grace=60) as turn:
        for _ in turn.stream(Events(response=Response(ours))):
            break

        assert b"" == theirs.recv(1)


def test_clean_end_of_a_cut_is_no_completion(pair: tuple[Any, Any]) -> None:
    """A body without a length ends when it is cut: the loop gets the stop, and the account says so."""
    ours, theirs = pair
    theirs.send(b"a")

    class Ends(Events):
        def __next__(self) -> bytes:
            part = ours.recv(1)
            if not part:
                raise StopIteration
            return bytes(part)

    for _ in range(20):
        with turnctl.turn() as turn:
            loop = reading(turn, Ends(response=Response(ours)))
            turn.stop()
            assert isinstance(loop.error(), CancelledError)

        assert "cancelled" == turn.report.activities[0].state
        ours.close()
        theirs.close()
        ours, theirs = socket.socketpair()
        theirs.send(b"a")
    ours.close()
    theirs.close()


def test_request_that_is_sent_with_the_first_item(pair: tuple[Any, Any]) -> None:
    """The response is looked for once more when there is one."""
    ours, theirs = pair
    theirs.send(b"a")

    class Lazy(Events):
        completion_stream: Response | None

        def __next__(self) -> bytes:
            if self.completion_stream is None:
                self.completion_stream = Response(ours)
            return super().__next__()

    with turnctl.turn(grace=60) as turn:
        loop = reading(turn, Lazy(completion_stream=None))
        assert until(lambda: "close" in source_stream(turn).__dict__)
        turn.stop()

        assert isinstance(loop.error(), CancelledError)
    assert b"" == theirs.recv(1)


def source_stream(turn: Turn) -> Body:
    feed: Any = turn.activities.all()[0].owned
    below = feed.source._below._response
    return Body() if below is None else below.stream  # type: ignore[no-any-return]


def test_generator_of_the_host_is_not_looked_into(pair: tuple[Any, Any]) -> None:
    """It may hold responses that it does not read: whose they are is for the host to say, with ``close``."""
    ours, theirs = pair
    response = Response(ours)

    def mine(response: Response) -> Iterator[int]:
        yield 1

    with turnctl.turn() as turn:
        assert [1] == list(turn.stream(mine(response)))

    assert [] == response.closes
    theirs.send(b"a")
    assert b"a" == ours.recv(1)


def test_properties_are_not_read() -> None:
    """One may do anything, such as send a request."""

    class Odd(Events):
        @property
        def response(self) -> object:
            raise AssertionError("read")

        def __next__(self) -> bytes:
            raise StopIteration

    with turnctl.turn() as turn:
        assert [] == list(turn.stream(Odd()))


def test_given_close_is_all_that_is_done(pair: tuple[Any, Any]) -> None:
    """The caller has said how the source is ended: nothing is shut down or closed beside that."""
    ours, theirs = pair
    response = Response(ours)
    closed: list[int] = []
    with turnctl.turn() as turn:
        items = turn.stream(Events(response=response), lambda: closed.append(1))
        turn.stop()
        items.close()
    theirs.send(b"a")

    assert (b"a", [1], []) == (ours.recv(1), closed, response.closes)


def test_shield_around_the_stream_holds_the_stop_back(pair: tuple[Any, Any]) -> None:
    """The stream is read to its end, and the stop raised at the end of the shield."""
    ours, theirs = pair

    class Ends(Events):
        def __next__(self) -> bytes:
            part = ours.recv(1)
            if not part:
                raise StopIteration
            return bytes(part)

    with turnctl.turn() as turn:
        with pytest.raises(CancelledError), turn.shield():
            items = turn.stream(Ends(response=Response(ours)))
            turn.stop()
            theirs.sendall(b"ab")
            theirs.close()
            found = list(items)

    assert [b"a", b"b"] == found


def test_stream_of_a_turn_that_is_over_holds_nothing(pair: tuple[Any, Any]) -> None:
    """It is refused, and neither a descriptor nor a trace on the response is left."""
    response = Response(pair[0])
    with turnctl.turn() as turn:
        pass
    with pytest.raises(TurnOver):
        turn.stream(Events(response=response))

    assert {"closed": 0} == response.stream.__dict__


def test_response_of_http_client_is_freed() -> None:
    """The standard library's own response is iterated by lines."""

    def serve(peer: Peer) -> None:
        peer.until(b"\r\n\r\n")
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\none\n")
        peer.stall()

    with loopback(serve) as server, turnctl.turn(grace=60) as turn:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=BOUND)
        connection.request("GET", "/")
        loop = reading(turn, connection.getresponse())
        turn.stop()

        assert isinstance(loop.error(), CancelledError)
        assert server.peers[0].ended.wait(BOUND)
        connection.close()
