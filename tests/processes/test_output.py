"""The pump: bytes in and out of pipes without ever blocking, bounded where nobody reads."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import monotonic

import pytest

from turnctl.processes.capture import Capture, Cut
from turnctl.processes.output import CHUNK, Pump, Source


@pytest.fixture
def pipe(leak_check: object) -> Iterator[Callable[[], tuple[int, int]]]:
    """Makes pipes; what a test has not closed itself is closed at its end."""
    made: list[int] = []

    def make() -> tuple[int, int]:
        ends = os.pipe()
        made.extend(ends)
        return ends

    yield make
    for fd in made:
        with suppress(OSError):
            os.close(fd)


@pytest.fixture
def pump(pipe: object) -> Iterator[Pump]:
    made = Pump()
    yield made
    made.close()


class Small:
    """A sink that is full after a few bytes."""

    cut: Cut | None = None
    is_gone = False

    def __init__(self, limit: int) -> None:
        self.data, self.limit, self.ended = b"", limit, 0

    @property
    def is_full(self) -> bool:
        return len(self.data) >= self.limit

    def feed(self, data: bytes) -> None:
        self.data += data

    def finish(self) -> None:
        self.ended += 1


def soon() -> float:
    return monotonic() + 0.05


def test_reads_until_the_end(pump: Pump, pipe: Callable[[], tuple[int, int]]) -> None:
    """What was written is kept, and the end of the stream is noticed."""
    read, write = pipe()
    capture = Capture()
    pump.read_from(read, capture)
    os.write(write, b"one")
    pump.wait(None)
    os.write(write, b"two")
    os.close(write)
    while pump.is_reading:
        pump.wait(None)

    assert (b"onetwo", 6) == (capture.value(), pump.taken)


def test_wait_ends_at_its_time(pump: Pump, pipe: Callable[[], tuple[int, int]]) -> None:
    """Silence ends at the given time; a time that has passed, or never comes, is no error."""
    read, _ = pipe()
    pump.read_from(read, Capture())
    began = monotonic()

    assert [] == pump.wait(began + 0.03)
    assert 0.03 <= monotonic() - began < 5
    assert [] == pump.wait(began - 100)


def test_never_is_a_time(pump: Pump, pipe: Callable[[], tuple[int, int]]) -> None:
    """A time at infinity waits for what comes."""
    read, write = pipe()
    pump.watch(read)
    os.write(write, b"x")

    assert [read] == pump.wait(float("inf"))


def test_watched_descriptor_is_told_and_not_read(pump: Pump, pipe: Callable[[], tuple[int, int]]) -> None:
    """A watched descriptor stays the caller's; unwatched it is told of no more."""
    read, write = pipe()
    pump.watch(read)
    os.write(write, b"x")
    told = pump.wait(None)
    pump.unwatch(read)

    assert [read] == told
    assert [] == pump.wait(soon())
    assert b"x" == os.read(read, 1)


def test_full_sink_is_not_read_from(pump: Pump, pipe: Callable[[], tuple[int, int]]) -> None:
    """A full sink lets the pipe fill up; with room, or at the end, reading goes on."""
    read, write = pipe()
    sink = Small(1)
    pump.read_from(read, sink)
    os.write(write, b"a")
    pump.wait(None)
    os.write(write, b"b")
    pump.wait(soon())
    held_back = sink.data
    pump.wait(soon(), full_too=True)

    assert (b"a", b"ab") == (held_back, sink.data)


def test_closed_pipe_of_a_full_sink_does_not_spin(pump: Pump, pipe: Callable[[], tuple[int, int]]) -> None:
    """A hang-up on a stream that is not read from does not wake the loop again and again."""
    read, write = pipe()
    sink = Small(0)
    pump.read_from(read, sink)
    os.close(write)
    began = monotonic()
    pump.wait(began + 0.05)

    assert monotonic() - began >= 0.05
    assert 0 == sink.ended


def test_drain_takes_what_is_there(pump: Pump, pipe: Callable[[], tuple[int, int]]) -> None:
    """Draining takes what lies in the pipe, full or not, and waits for nothing."""
    read, write = pipe()
    sink = Small(1)
    pump.read_from(read, sink)
    os.write(write, b"x" * 50_000)
    pump.drain()

    assert 50_000 == len(sink.data)
    assert pump.is_reading


def test_source_is_written_piece_by_piece(pump: Pump, pipe: Callable[[], tuple[int, int]]) -> None:
    """A source of any size goes through a pipe of 64 KiB in order, and the pipe is closed after it."""
    read, write = pipe()
    data = os.urandom(300_000)
    pump.write_to(write, Source(data, closing=True))
    found = b""
    while part := _read_some(pump, read):
        found += part

    assert data == found


def _read_some(pump: Pump, read: int) -> bytes:
    pump.wait(soon())
    return os.read(read, CHUNK)


def test_reader_that_is_gone_breaks_the_source(pump: Pump, pipe: Callable[[], tuple[int, int]]) -> None:
    """A command that reads no more is no error: the rest is dropped and the pipe closed."""
    read, write = pipe()
    source = Source(b"x", closing=False)
    pump.write_to(write, source)
    os.close(read)
    pump.wait(soon())
    pump.wait(soon())

    assert source.is_broken
    assert source.is_done
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(write)


def test_idle_source_notices_that_the_reader_is_gone(pump: Pump, pipe: Callable[[], tuple[int, int]]) -> None:
    """With nothing to write the loop still learns that the command has closed its stdin."""
    read, write = pipe()
    source = Source(closing=False)
    pump.write_to(write, source)
    pump.wait(soon())
    before = source.is_broken
    os.close(read)
    pump.wait(soon())

    assert (False, True) == (before, source.is_broken)


def test_terminal_that_closes_is_an_end(pump: Pump, leak_check: object) -> None:
    """A terminal answers a read after its other side has closed by an error, which is the end of the stream."""
    ours, theirs = pty.openpty()
    capture = Capture()
    pump.read_from(ours, capture)
    os.write(theirs, b"x")
    os.close(theirs)
    while pump.is_reading:
        pump.wait(None)

    assert b"x" == capture.value()


def test_closing_ends_every_sink_once_more(pipe: Callable[[], tuple[int, int]]) -> None:
    """Closing the pump closes its pipes and tells the sinks."""
    read, _ = pipe()
    sink, pump = Small(9), Pump()
    pump.read_from(read, sink)
    pump.close()

    assert (1, False) == (sink.ended, pump.is_reading)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(read)


def test_host_that_dies_of_sigpipe_lives() -> None:
    """A command that closes its stdin kills no host that has SIGPIPE at its default."""
    program = """
import signal, turnctl
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
with turnctl.turn() as turn:
    for _ in range(5):
        turn.run("exec <&-; sleep 0.05", shell=True, input=b"x" * 1_000_000)
print("lives", signal.SIGPIPE in signal.sigpending())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)

    assert (0, "lives False\n") == (done.returncode, done.stdout)
