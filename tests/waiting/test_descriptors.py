"""Descriptors are waited for under a stop, with one wake-up descriptor that is gone when the wait is over."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from standins import Background, until

import turnctl
from turnctl import BadArgument, CancelledError
from turnctl.tokens.token import TurnToken
from turnctl.waiting.descriptors import select
from turnctl.waiting.wakeup import Wakeup


@pytest.fixture
def token() -> TurnToken:
    return TurnToken("t1")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_ready_ones_come_in_the_order_given(token: TurnToken, pair: tuple[socket.socket, socket.socket]) -> None:
    """Readers first, then writers, as the objects that were given; one that stands in both comes once."""
    one, other = pair
    before = select(token, [one, other], timeout=0)
    one.send(b"x")
    found = select(token, [one, other.fileno()], write=[one])
    both = select(token, [other], write=[other])

    assert [] == before
    assert [one, other.fileno()] == found
    assert [other] == both


def test_writer_waits_for_room(token: TurnToken, pair: tuple[socket.socket, socket.socket]) -> None:
    """A full socket is not ready to be written until its other end reads."""
    one, other = pair
    one.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            one.send(b"x" * 65536)
    early = select(token, [], [one], 0)
    waiter = Background(lambda: select(token, [], [one]))
    assert until(lambda: token._grow().bells)
    other.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            other.recv(1 << 20)

    assert [] == early
    assert [one] == waiter.result()


def test_other_end_has_gone(token: TurnToken, pair: tuple[socket.socket, socket.socket]) -> None:
    """What was closed by its other end is ready: the next read tells."""
    one, other = pair
    waiter = Background(lambda: select(token, [one]))
    assert until(lambda: token._grow().bells)
    other.close()

    assert [one] == waiter.result()


def test_nothing_is_read(token: TurnToken, pair: tuple[socket.socket, socket.socket]) -> None:
    """Ready and stopped: it raises, and what came is still there to be read."""
    one, other = pair
    other.send(b"abc")
    token.cancel()
    with pytest.raises(CancelledError):
        select(token, [one])

    assert b"abc" == one.recv(10)


def test_no_descriptor_for_what_is_ready(token: TurnToken, pair: tuple[socket.socket, socket.socket]) -> None:
    """A wait that does not block makes no wake-up descriptor, and one that does leaves none."""
    one, _ = pair
    before = descriptors()
    select(token, [], [one])
    ready = descriptors()
    select(token, [one], timeout=0.001)
    waiter = Background(lambda: select(token, [one]))
    assert until(lambda: token._grow().bells)
    during = descriptors()
    token.cancel()
    waiter.error()

    assert (before, before + 1) == (ready, during)
    assert before == descriptors()


def test_nudge_is_no_end(token: TurnToken, pair: tuple[socket.socket, socket.socket]) -> None:
    """Rung for nothing it goes on, and does not spin on the bell."""
    one, other = pair
    waiter = Background(lambda: (select(token, [one]), time.thread_time()))
    assert until(lambda: token._grow().bells)
    for _ in range(5):
        token._nudge()
    ended = until(lambda: not waiter.is_running, within=0.05)
    other.send(b"x")
    found, cpu = waiter.result()

    assert not ended
    assert [one] == found
    assert cpu < 0.03


def test_stop_at_any_moment_of_going_to_wait(pair: tuple[socket.socket, socket.socket]) -> None:
    """No stop is lost between the look at the token and the block."""
    one, _ = pair
    for _ in range(100):
        token = TurnToken("t")
        waiter = Background(lambda token=token: select(token, [one]))
        token.cancel()

        assert isinstance(waiter.error(), CancelledError)


def test_signal_handler_stops_the_wait_of_its_own_thread(pair: tuple[socket.socket, socket.socket]) -> None:
    """A handler that interrupts the wait and stops the turn ends it: the bell neither blocks nor raises."""
    one, _ = pair
    with turnctl.turn() as turn:

        def poke() -> None:
            assert until(lambda: turn.token._grow().bells)
            signal.pthread_kill(main, signal.SIGUSR1)

        main = threading.get_ident()
        before = signal.signal(signal.SIGUSR1, lambda *_: turn.cancel())
        try:
            poker = Background(poke)
            begun = time.monotonic()
            with pytest.raises(CancelledError):
                turn.select([one], timeout=10)
            took = time.monotonic() - begun
            poker.result()
        finally:
            signal.signal(signal.SIGUSR1, before)

    assert took < 5


def test_nothing_to_wait_for(token: TurnToken) -> None:
    """With a time it is a sleep; without one it would never end, and is refused."""
    begun = time.monotonic()
    found = select(token, [], timeout="30ms")
    with pytest.raises(BadArgument, match=r"nothing to wait for"):
        select(token, [])

    assert [] == found
    assert 0.03 <= time.monotonic() - begun < 1.5


@pytest.mark.parametrize("thing", ["x", None, True, object(), 1.5])
def test_what_is_no_descriptor_is_refused(token: TurnToken, thing: object) -> None:
    """The message names what it is."""
    with pytest.raises(BadArgument, match=r"takes descriptors and objects with a fileno\(\), not"):
        select(token, [thing], timeout=1)


def test_closed_descriptor_is_refused(token: TurnToken, pair: tuple[socket.socket, socket.socket]) -> None:
    """A closed socket, and a number that is not open, can never become ready."""
    one, other = pair
    number = one.fileno()
    one.close()
    for at in (token, None):
        with pytest.raises(BadArgument, match="is closed"):
            select(at, [one, other])
        with pytest.raises(BadArgument, match=f"descriptor {number} is not open"):
            select(at, [number, other])


@pytest.mark.parametrize(
    ("fds", "write", "words"),
    [
        (None, (), "takes lists of descriptors, not NoneType"),
        (3, (), "takes lists of descriptors, not int"),
        ((), None, "takes lists of descriptors, not NoneType"),
        ([2**31], (), "2147483648 is no descriptor"),
        ([10**400], (), "is no descriptor"),
        ((), [9999], "descriptor 9999 is not open and can never become ready"),
        ([9999], (), "descriptor 9999 is not open and can never become ready"),
    ],
)
def test_wrong_lists_are_refused(token: TurnToken, fds: Any, write: Any, words: str) -> None:
    """Before anything is waited for."""
    for at in (token, None):
        with pytest.raises(BadArgument, match=words):
            select(at, fds, write, 1)


# -- the wake-up descriptor ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("bytewise", [False, True])
def test_ring_makes_it_readable_and_clear_takes_it_back(bytewise: bool) -> None:
    """However often it was rung, one clear is enough; once closed a ring does nothing."""
    wakeup = Wakeup(bytewise=bytewise)
    for _ in range(3):
        wakeup.ring()
    rung = select(None, [wakeup.fd], timeout=0)
    wakeup.clear()
    wakeup.clear()
    cleared = select(None, [wakeup.fd], timeout=0)
    fd = wakeup.fd
    wakeup.close()
    wakeup.close()
    wakeup.ring()

    assert [fd] == rung
    assert [] == cleared
    assert -1 == wakeup.fd


def test_ring_never_blocks_nor_raises_when_full() -> None:
    """A pipe that is full is readable already."""
    wakeup = Wakeup(bytewise=True)
    for _ in range(20_000):
        wakeup.ring()
    found = select(None, [wakeup.fd], timeout=0)
    wakeup.close()

    assert 1 == len(found)


def test_ring_writes_to_no_other_file() -> None:
    """A number that was closed while somebody is about to ring is kept from others until the ring is over."""
    wakeup = Wakeup()
    fd = wakeup.fd
    held = wakeup._ends  # what a ring holds while it writes
    wakeup.close()
    other = os.open("/dev/null", os.O_RDONLY)
    os.close(other)
    still_open = os.path.exists(f"/proc/self/fd/{fd}")
    del held

    assert other != fd
    assert still_open
    assert not os.path.exists(f"/proc/self/fd/{fd}")


def test_ring_in_a_forked_child_does_not_wake_the_parent() -> None:
    """The file is shared with the child, the loop is not."""
    wakeup = Wakeup()
    pid = os.fork()
    if pid == 0:
        wakeup.ring()
        os._exit(0)
    os.waitpid(pid, 0)
    found = select(None, [wakeup.fd], timeout=0)
    wakeup.close()

    assert [] == found


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # beside a thread, which is what is tested
def test_fork_during_a_wait_leaves_the_child_free(pair: tuple[socket.socket, socket.socket]) -> None:
    """A child forked while another thread waits can end and stop its copy of the turn without a hang."""
    one, _ = pair
    with turnctl.turn() as turn:
        waiter = Background(lambda: turn.select([one]))
        assert until(lambda: turn.token._grow().bells)
        pid = os.fork()
        if pid == 0:
            os.closerange(3, 100)
            turn.cancel()
            os._exit(0)
        ended = until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid)
        still = waiter.is_running
        turn.cancel()
        error = waiter.error()

    assert ended
    assert still
    assert isinstance(error, CancelledError)
