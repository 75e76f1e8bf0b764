"""Built-in bridges carry a stop to a descriptor, a socket or an event, once, and are let go when the turn is over."""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from standins import BOUND, Background, until

import turnctl
from turnctl import BadArgument, Turn, TurnOver
from turnctl.testing import call_at, pause_at


def is_readable(fd: int, within: float = 0.0) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(within * 1000))


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


class Kind:
    """One kind of bridge: how it is made, and whether the stop has come to the other end of it."""

    def __init__(self, turn: Turn, name: str, sock: socket.socket) -> None:
        self.turn, self.name, self.sock = turn, name, sock
        self.event = threading.Event()
        self.fd = -1
        self.bridging: Any = None

    def make(self) -> None:
        if self.name == "event":
            self.bridging = self.turn.bridge_event(self.event)
        elif self.name == "socket":
            self.bridging = self.turn.bridge_socket(self.sock)
        else:
            self.fd = self.turn.bridge_fd()

    def has_come(self, within: float = BOUND) -> bool:
        if self.name == "event":
            return self.event.wait(within)
        return is_readable(self.fd if self.name == "fd" else self.sock.fileno(), within)


KINDS = ["event", "fd", "socket"]


@pytest.mark.parametrize("name", KINDS)
def test_bridge_then_stop(name: str, pair: tuple[socket.socket, socket.socket]) -> None:
    """The stop comes to it, by the bridge thread."""
    with turnctl.turn() as turn:
        kind = Kind(turn, name, pair[0])
        kind.make()
        before = kind.has_come(0)
        turn.stop()

        assert not before
        assert kind.has_come()


@pytest.mark.parametrize("name", KINDS)
def test_stop_then_bridge(name: str, pair: tuple[socket.socket, socket.socket]) -> None:
    """A bridge that is made late is signalled when the call returns."""
    with turnctl.turn() as turn:
        turn.stop()
        kind = Kind(turn, name, pair[0])
        kind.make()

        assert kind.has_come(0)


@pytest.mark.parametrize("name", KINDS)
def test_stop_while_the_bridge_is_listed(name: str, pair: tuple[socket.socket, socket.socket]) -> None:
    """A stop between listing and reading the token is carried, once."""
    with turnctl.turn() as turn:
        kind = Kind(turn, name, pair[0])
        with call_at("bridge.listed", turn.stop):
            kind.make()

        assert kind.has_come()


@pytest.mark.parametrize("name", ["event", "socket"])
def test_end_without_a_stop_releases(name: str, pair: tuple[socket.socket, socket.socket]) -> None:
    """The event stays unset and the socket untouched when the turn completes, also afterwards (promise 2)."""
    with turnctl.turn() as turn:
        kind = Kind(turn, name, pair[0])
        kind.make()
    turn.stop()

    assert not kind.has_come(0.02)
    assert not kind.bridging.signalled


@pytest.mark.parametrize("stop", [False, True])
def test_descriptor_is_closed_with_the_turn(stop: bool) -> None:
    """It belongs to the turn, stopped or not."""
    with turnctl.turn() as turn:
        fd = turn.bridge_fd()
        if stop:
            turn.stop()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


@pytest.mark.parametrize("stop", [False, True])
def test_descriptor_is_closed_though_a_callback_blocks(stop: bool) -> None:
    """A user's callback that holds the bridge thread up does not keep what belongs to the turn (promise 5)."""
    inside, go = threading.Event(), threading.Event()
    event = threading.Event()

    def blocks() -> None:
        inside.set()
        go.wait(BOUND)

    with turnctl.turn() as turn:
        child = turn.child()
        child.on_cancel(blocks)
        child.cancel()
        assert inside.wait(BOUND)
        fd = turn.bridge_fd()
        turn.bridge_event(event)
        if stop:
            turn.stop()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)
    go.set()

    assert stop is event.is_set()
    assert any("bridge" in name for name in turn.report.alive) or until(lambda: not turn.bridge.is_running)
    assert until(lambda: not turn.bridge.is_running)


@pytest.mark.parametrize("stop", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_bridge_of_a_turn_that_is_over(name: str, stop: bool, pair: tuple[socket.socket, socket.socket]) -> None:
    """Nothing would carry it, so it is refused, and nothing is touched."""
    with turnctl.turn() as turn:
        if stop:
            turn.stop()
    kind = Kind(turn, name, pair[0])
    with pytest.raises(TurnOver):
        kind.make()

    assert name == "fd" or not kind.has_come(0)


@pytest.mark.parametrize("name", KINDS)
def test_bridge_made_while_the_turn_leaves(name: str, pair: tuple[socket.socket, socket.socket]) -> None:
    """One that comes when the bridge thread has been let go is refused, and leaves nothing behind (promise 5)."""
    refused: list[bool] = []

    def late() -> None:
        try:
            Kind(turn, name, pair[0]).make()
        except TurnOver:
            refused.append(True)

    with call_at("turn.end.leaving", late), turnctl.turn() as turn:
        turn.on_cancel(int)

    assert [True] == refused


@pytest.mark.parametrize("point", ["bridge.listing", "bridge.listed"])
def test_bridge_listed_while_the_turn_ends(point: str) -> None:
    """The end comes around listing it: it is refused, never kept and forgotten."""
    event = threading.Event()
    turn = turnctl.turn()
    turn.begin()
    with pause_at(point) as held:
        making = Background(turn.bridge_event, event)
        assert held.reached.wait(BOUND)
        turn.end()
        held.release()
        error = making.error()

    assert isinstance(error, TurnOver)
    assert not event.is_set()
    assert until(lambda: not turn.bridge.is_running)


def test_released_bridge_is_not_signalled() -> None:
    """``release`` before the stop says True, and the stop does not come."""
    event = threading.Event()
    with turnctl.turn() as turn:
        bridging = turn.bridge_event(event)
        with turn.bridge_event(event):
            pass
        released = (bridging.release(), bridging.release())
        turn.stop()

    assert (True, False) == released
    assert not event.is_set()


def test_release_waits_for_a_signal_under_way(pair: tuple[socket.socket, socket.socket]) -> None:
    """A socket that was released is not shut down any more, so it may go back to its pool."""
    with turnctl.turn() as turn:
        bridging = turn.bridge_socket(pair[0])
        with pause_at("bridge.carrying") as held:
            turn.stop()
            assert held.reached.wait(BOUND)
            releasing = Background(bridging.release)
            waits = until(lambda: bridging._done._waiters)
            held.release()
            late = releasing.result()

        assert waits
        assert not late
        assert is_readable(pair[0].fileno())


def test_release_of_one_under_way_on_its_own_thread() -> None:
    """An event whose ``set`` releases its bridge does not wait for itself."""
    took: list[float] = []

    class Odd(threading.Event):
        def set(self) -> None:
            began = time.monotonic()
            bridging.release()
            took.append(time.monotonic() - began)
            super().set()

    event = Odd()
    with turnctl.turn() as turn:
        bridging = turn.bridge_event(event)
        turn.stop()
        assert event.wait(BOUND)

    assert took[0] < 0.5


def test_built_in_bridges_come_before_callbacks() -> None:
    """They are signalled first, each in the order of registration, then callbacks are run in theirs."""
    order: list[str] = []

    class Told(threading.Event):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def set(self) -> None:
            order.append(self.name)

    with turnctl.turn() as turn:
        turn.on_cancel(lambda: order.append("callback 1"))
        turn.bridge_event(Told("bridge 1"))
        turn.on_cancel(lambda: order.append("callback 2"))
        turn.bridge_event(Told("bridge 2"))
        turn.stop()

    assert ["bridge 1", "bridge 2", "callback 1", "callback 2"] == order


def test_bridge_that_fails_is_in_the_report() -> None:
    """What ``set`` of a host's event raises reaches nobody else, and the next bridge is signalled."""

    class Broken(threading.Event):
        def set(self) -> None:
            raise ValueError("no bell")

    event = threading.Event()
    with turnctl.turn() as turn:
        turn.bridge_event(Broken())
        turn.bridge_event(event)
        turn.stop()

    assert event.is_set()
    notes = [note for note in turn.report.notes if "bridge failed" in note]
    assert 1 == len(notes)
    assert notes[0].endswith("ValueError: no bell")


def test_cancel_does_no_system_call(pair: tuple[socket.socket, socket.socket]) -> None:
    """The canceller's stack signals nothing by itself: it may be a signal handler's (promise 7)."""
    here: list[bool] = []

    class Told(threading.Event):
        def set(self) -> None:
            here.append(threading.current_thread() is threading.main_thread())

    with turnctl.turn() as turn:
        turn.bridge_event(Told())
        turn.stop()
        assert until(lambda: here)

    assert [False] == here


# -- the descriptor -------------------------------------------------------------------------------------------------


def test_descriptor_is_one_for_a_turn() -> None:
    """A loop that asks for it each time does not run out of descriptors, from several threads either."""
    with turnctl.turn() as turn:
        gate = threading.Barrier(4)

        def ask() -> int:
            gate.wait(BOUND)
            return turn.bridge_fd()

        found = {one.result() for one in [Background(ask) for _ in range(4)]}

    assert 1 == len(found)


def test_descriptor_wakes_a_select_loop(pair: tuple[socket.socket, socket.socket]) -> None:
    """A loop that is blocked on its own socket and the descriptor wakes within bounds, and it stays readable."""
    with turnctl.turn() as turn:
        fd = turn.bridge_fd()
        ready = Background(select.select, [pair[0], fd], [], [], BOUND)
        began = time.monotonic()
        turn.stop()
        found = ready.result()[0]
        took = time.monotonic() - began
        again = is_readable(fd)

    assert [fd] == found
    assert again
    assert took < 1


# -- sockets --------------------------------------------------------------------------------------------------------


def test_blocked_reader_wakes_and_the_peer_sees_the_end(pair: tuple[socket.socket, socket.socket]) -> None:
    """A read ends as at a clean end, the socket stays open, and the other side is told."""
    with turnctl.turn() as turn:
        turn.bridge_socket(pair[0])
        reader = Background(pair[0].recv, 1)
        turn.stop()
        got = reader.result()
        still = pair[0].fileno()

    assert b"" == got
    assert still >= 0
    assert b"" == pair[1].recv(1)


def test_blocked_accept_wakes() -> None:
    """A listening socket ends its accept with an error."""
    with socket.create_server(("127.0.0.1", 0)) as server, turnctl.turn() as turn:
        turn.bridge_socket(server)
        accepting = Background(server.accept)
        assert until(lambda: accepting.is_running)
        turn.stop()
        error = accepting.error()

    assert isinstance(error, OSError)


def test_socket_that_is_closed_by_then_is_harmless(pair: tuple[socket.socket, socket.socket]) -> None:
    """Closed or not connected: nobody is blocked on it, and nothing is reported."""
    with turnctl.turn() as turn, socket.socket(socket.AF_INET, socket.SOCK_STREAM) as unconnected:
        turn.bridge_socket(pair[0])
        turn.bridge_socket(unconnected)
        pair[0].close()
        turn.stop()

    assert () == turn.report.notes


def test_forgotten_socket_is_not_kept() -> None:
    """A bridge keeps no connection open that the host has let go of."""
    ours, theirs = socket.socketpair()
    with theirs, turnctl.turn() as turn:
        turn.bridge_socket(ours)
        watchers = len(turn.bridge._watchers)
        with pytest.warns(ResourceWarning):
            del ours
        left = len(turn.bridge._watchers)
        end = theirs.recv(1)

    assert (1, 0) == (watchers, left)
    assert b"" == end


def test_tls_socket_is_shut_down_below_its_tls(pair: tuple[socket.socket, socket.socket]) -> None:
    """A TLS socket keeps its TLS object: a reader sees the end of the connection, never what is under it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        turnctl.turn() as turn,
        context.wrap_socket(pair[0], do_handshake_on_connect=False) as wrapped,
    ):
        turn.bridge_socket(wrapped)
        shaking = Background(wrapped.do_handshake)
        assert pair[1].recv(1)  # its hello is there, so it waits for ours
        turn.stop()
        error = shaking.error()
        inside = wrapped._sslobj  # type: ignore[attr-defined]

    assert isinstance(error, OSError)
    assert inside is not None


def test_socket_without_a_descriptor_is_refused(pair: tuple[socket.socket, socket.socket]) -> None:
    """A wrapped or closed one could be shut down by nobody, which is told when there is still time."""
    pair[0].close()
    with turnctl.turn() as turn, pytest.raises(BadArgument, match="no descriptor"):
        turn.bridge_socket(pair[0])


@pytest.mark.parametrize("thing", [None, 3, "socket", object()])
def test_what_is_no_socket_or_event_is_refused(thing: Any) -> None:
    """A misuse is told, with what to use."""
    with turnctl.turn() as turn:
        with pytest.raises(BadArgument, match="on_cancel"):
            turn.bridge_socket(thing)
        with pytest.raises(BadArgument, match="on_cancel"):
            turn.bridge_event(thing)


# -- many -----------------------------------------------------------------------------------------------------------


def cycle(times: int, make: Callable[[Turn], object]) -> None:
    for n in range(times):
        with turnctl.turn("slot") as turn:
            make(turn)
            if n % 2:
                turn.stop()


@pytest.mark.parametrize("times", [100, pytest.param(10_000, marks=pytest.mark.stress)])
def test_count_of_threads_is_back_after_many_turns(times: int, pair: tuple[socket.socket, socket.socket]) -> None:
    """Turns with every built-in bridge leave threads and descriptors as they were (promise 5)."""
    before = (threading.active_count(), len(os.listdir("/proc/self/fd")))

    def make(turn: Turn) -> None:
        turn.bridge_fd()
        turn.bridge_event(threading.Event())
        turn.bridge_socket(pair[1])

    cycle(times, make)

    assert before == (threading.active_count(), len(os.listdir("/proc/self/fd")))


def wake_ups(idents: set[int]) -> int:
    """How often the threads have gone to sleep so far."""
    found = 0
    for ident in idents:
        with open(f"/proc/self/task/{ident}/status") as file:
            found += sum(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))
    return found


def test_nothing_polls(pair: tuple[socket.socket, socket.socket]) -> None:
    """Ten bridges, a thread asleep in the turn and an idle pool run not once while nothing happens (promise 8)."""
    with turnctl.turn() as turn:
        turn.bridge_fd()
        turn.bridge_socket(pair[0])
        for _ in range(8):
            turn.bridge_event(threading.Event())
        turn.thread(turnctl.sleep, 60)
        turn.executor(1).submit(int).result()
        ours = {t.native_id for t in threading.enumerate() if t.name.startswith("turnctl-") and t.native_id is not None}

        def moved() -> int:
            before = wake_ups(ours)
            time.sleep(0.3)  # the time that is watched
            return wake_ups(ours) - before

        quiet = until(lambda: moved() == 0)  # they may still be on their way to sleep
        turn.stop()

    assert 3 == len(ours)
    assert quiet


def test_repr_names_the_turn_and_the_thing() -> None:
    """What is printed of a bridge says whose it is and where it leads."""
    with turnctl.turn() as turn:
        text = repr(turn.bridge_event(threading.Event()))

    assert turn.turn_id in text
    assert "Event at" in text
