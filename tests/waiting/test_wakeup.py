"""A loop is woken by a descriptor, and nobody who rings late comes to harm or does any."""

from __future__ import annotations

import os
import select
import signal

import pytest
from standins import BOUND, Background

from turnctl.testing import pause_at
from turnctl.waiting.wakeup import Wakeup


@pytest.mark.parametrize("bytewise", [False, True])
def test_ring_makes_it_readable_until_cleared(bytewise: bool) -> None:
    """Rings before a look are one wake-up, and ``clear`` takes them back."""
    wakeup = Wakeup(bytewise=bytewise)
    try:
        seen = [bool(select.select([wakeup.fd], [], [], 0)[0])]
        wakeup.ring()
        wakeup.ring()
        seen.append(bool(select.select([wakeup.fd], [], [], 0)[0]))
        wakeup.clear()
        seen.append(bool(select.select([wakeup.fd], [], [], 0)[0]))
    finally:
        wakeup.close()

    assert [False, True, False] == seen


@pytest.mark.parametrize("bytewise", [False, True])
def test_ring_that_is_late_writes_to_no_pipe_without_a_reader(bytewise: bool) -> None:
    """Held between its look and its write, while the loop closes: no SIGPIPE, which would kill some hosts (V3)."""
    pipes: list[int] = []
    before = signal.signal(signal.SIGPIPE, lambda number, _: pipes.append(number))
    try:
        wakeup = Wakeup(bytewise=bytewise)
        fds = {wakeup.fd, wakeup._ends.write if wakeup._ends is not None else -1}
        with pause_at("wakeup.ringing") as held:
            ringer = Background(wakeup.ring)
            assert held.reached.wait(BOUND)
            wakeup.close()
            for fd in fds:
                os.fstat(fd)  # still open: who rings holds both ends
            held.release()
            ringer.result()
    finally:
        signal.signal(signal.SIGPIPE, before)

    assert [] == pipes
    assert not any(_is_open(fd) for fd in fds)


def test_closed_one_is_silent() -> None:
    """Ringing, and closing again, do nothing."""
    wakeup = Wakeup(bytewise=True)
    wakeup.close()
    wakeup.close()
    wakeup.ring()

    assert -1 == wakeup.fd


def test_finalizer_of_a_pipe_closes_the_writing_end_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """What still holds a number of ours, as the interpreter's own handler may, never writes to half a pipe (V3)."""
    wakeup = Wakeup(bytewise=True)
    ends = wakeup._ends
    assert ends is not None
    closed: list[int] = []

    def close(fd: int) -> None:
        closed.append(fd)
        os.close(fd)

    ends.__del__(close=close)
    expected = [ends.write, ends.read]
    monkeypatch.setattr(type(ends), "__del__", lambda _: None)
    del ends
    wakeup.close()

    assert expected == closed


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
