"""Signals that nobody reads, and deadlines: what a warden finds to obey by itself."""

import os
import select
import signal
from _socket import socketpair
from collections.abc import Iterator

import pytest

from turnctl.processes.unheard import HOLD_OFF_S, Unheard

pytestmark = pytest.mark.usefixtures("wardens")

INT, TERM, CHLD = int(signal.SIGINT), int(signal.SIGTERM), int(signal.SIGCHLD)


class Host:
    """Both ends of a wake-up descriptor, and what a warden makes of it."""

    def __init__(self) -> None:
        self.reading, self.writing = socketpair()
        self.unheard = Unheard()

    def signals(self, *numbers: int) -> None:
        os.write(self.writing.fileno(), bytes(numbers))


@pytest.fixture
def host() -> Iterator[Host]:
    one = Host()
    yield one
    one.unheard.close()
    one.reading.close()
    one.writing.close()


def _is_ready(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def _look(unheard: Unheard, now: float) -> tuple[str, int]:
    """What is found when the loop is woken by the descriptor at ``now`` and looks when it is time to."""
    unheard.on_edge(now)
    at = unheard.next_at()
    return ("", 0) if at is None else unheard.found(at)


def test_unread_signal_is_found(host: Host) -> None:
    """A signal that is still unread after the hold-off is found, and stays for the host to read."""
    host.unheard.expect(None, (INT, TERM), host.reading.fileno(), 100.0)
    host.signals(TERM)

    assert ("", 0) == host.unheard.found(100.0)
    assert ("signal", 1) == _look(host.unheard, 100.0)
    assert bytes([TERM]) == os.read(host.reading.fileno(), 8)


def test_signal_that_the_host_reads_is_its_own(host: Host) -> None:
    """A signal that the host reads within the hold-off is not acted on."""
    host.unheard.expect(None, (INT,), host.reading.fileno(), 100.0)
    host.signals(INT)
    host.unheard.on_edge(100.0)
    os.read(host.reading.fileno(), 8)

    assert ("", 0) == host.unheard.found(100.0 + HOLD_OFF_S)
    assert host.unheard.next_at() is None


def test_each_press_counts(host: Host) -> None:
    """Two signals that wait are two presses; numbers that were not named are none."""
    host.unheard.expect(None, (INT, TERM), host.reading.fileno(), 100.0)
    host.signals(INT, CHLD, TERM, CHLD)

    assert ("signal", 2) == _look(host.unheard, 100.0)


def test_signal_that_was_there_before_is_found(host: Host) -> None:
    """A signal that came before the command was started is found as well."""
    host.signals(INT)
    host.unheard.expect(None, (INT,), host.reading.fileno(), 100.0)

    assert ("signal", 1) == host.unheard.found(100.0 + HOLD_OFF_S)


def test_unread_signals_do_not_have_the_loop_spin(host: Host) -> None:
    """What stays unread makes the descriptor ready once, and each signal after it once more."""
    host.unheard.expect(None, (INT,), host.reading.fileno(), 100.0)
    host.signals(INT)
    first = _is_ready(host.unheard.fd)
    host.unheard.on_edge(100.0)
    second = _is_ready(host.unheard.fd)
    host.signals(INT)

    assert (True, False, True) == (first, second, _is_ready(host.unheard.fd))


def test_deadline_is_found_once(host: Host) -> None:
    """A deadline is found when it has passed, once, and may be moved."""
    host.unheard.expect(105.0, (), -1, 100.0)
    host.unheard.expect(107.0, (), -1, 101.0)

    assert 107.0 == host.unheard.next_at()
    assert ("", 0) == host.unheard.found(106.0)
    assert ("deadline", 0) == host.unheard.found(107.0)
    assert ("", 0) == host.unheard.found(108.0)


def test_numbers_can_be_taken_back(host: Host) -> None:
    """After handlers are gone, what waits in the socket stops nothing."""
    host.unheard.expect(None, (INT,), host.reading.fileno(), 100.0)
    host.unheard.expect(None, (), -1, 100.0)
    host.signals(INT)

    assert ("", 0) == _look(host.unheard, 100.0)


def test_end_of_the_host_is_no_signal(host: Host) -> None:
    """A socket whose other end is closed holds no press."""
    host.unheard.expect(None, (INT,), host.reading.fileno(), 100.0)
    host.writing.close()

    assert ("", 0) == _look(host.unheard, 100.0)


def test_what_is_no_socket_is_refused(host: Host) -> None:
    """A descriptor that is none of a socket raises, and what was expected before still is."""
    host.unheard.expect(None, (INT,), host.reading.fileno(), 100.0)
    host.signals(INT)
    read, write = os.pipe()
    try:
        with pytest.raises(OSError, match="socket"):
            host.unheard.expect(None, (INT,), read, 100.0)
    finally:
        os.close(read)
        os.close(write)
    assert ("signal", 1) == _look(host.unheard, 100.0)
