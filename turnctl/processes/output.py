"""The pump: moves bytes between a command's pipes and memory, as part of the one loop that supervises it.

Invariants
  O1  No read or write here ever blocks; the only wait is ``Pump.wait``, and that has an end or a descriptor
      that will become ready.
  O2  At most ``CHUNK`` bytes are moved per descriptor and turn of the loop, so that no stream starves
      another, the stop included.
  O3  What was read is kept, whatever happens to the command afterwards.
  O4  A sink that is full is not read from: the command waits, memory does not grow. Only ``drain`` ignores
      it, for what is in the pipe already.
"""

from __future__ import annotations

import math
import os
import select
import signal
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from turnctl.processes.capture import Cut

__all__ = ["CHUNK", "Pump", "Sink", "Source", "write_some"]

CHUNK = 65536
#: what is still taken from pipes at the end; a pipe holds 1 MiB unless the administrator allows more
DRAIN_LIMIT = 8 * 1024 * 1024
_LONGEST_MS = 1_000_000_000
_NEWLINE = 10


class LastWords(Protocol):
    """Gives what ends the input; ``in_line`` if the last byte was no newline."""

    def __call__(self, *, in_line: bool) -> bytes: ...


class Sink(Protocol):
    """Where the bytes of a stream go."""

    @property
    def is_full(self) -> bool:
        """Whether nothing should be read for it now."""

    @property
    def is_gone(self) -> bool:
        """Whether nobody will ever want more: the pipe is then closed, and who writes to it is told by the system."""

    @property
    def cut(self) -> Cut | None:
        """What was left out, if anything was."""

    def feed(self, data: bytes) -> None: ...

    def finish(self) -> None:
        """Nothing more will come."""


class Source:
    """What is still to be written to a command's stdin, for one writer at a time besides the loop that takes
    it.
    """

    __slots__ = ("_changed", "_fed", "_is_in_line", "_parts", "_taken", "closing", "is_broken", "last_words")

    def __init__(
        self, data: bytes | memoryview = b"", *, closing: bool, changed: Callable[[], None] | None = None
    ) -> None:
        self._parts: deque[memoryview] = deque()
        # two counts with one writer each: a sum that both sides change would need a lock
        self._fed = 0
        self._taken = 0
        self._changed = changed
        self._is_in_line = False
        #: what is still to be written at the end, where to close a descriptor does not say it: on a terminal
        self.last_words: LastWords | None = None
        #: nothing more will be fed
        self.closing = closing
        #: the command has closed its stdin, or is gone
        self.is_broken = False
        if data:
            self.feed(data)

    def feed(self, data: bytes | memoryview) -> None:
        view = memoryview(data).cast("B")
        if len(view):
            self._fed += len(view)
            self._parts.append(view)

    @property
    def size(self) -> int:
        """Bytes that wait to be taken by the command."""
        return self._fed - self._taken

    @property
    def is_done(self) -> bool:
        return self.is_broken or (self.closing and not self._parts)

    def say_last_words(self) -> None:
        """Put them to what is to be written, if nothing else will be."""
        if self.last_words is not None and self.closing and not self._parts and not self.is_broken:
            words, self.last_words = self.last_words(in_line=self._is_in_line), None
            self.feed(words)

    def next(self) -> memoryview | None:
        return self._parts[0][:CHUNK] if self._parts else None

    def took(self, count: int) -> None:
        self._taken += count
        if count:
            self._is_in_line = self._parts[0][count - 1] != _NEWLINE
        rest = self._parts[0][count:]
        if len(rest):
            self._parts[0] = rest
        else:
            self._parts.popleft()
        self._tell()

    def give_up(self) -> None:
        self.is_broken = True
        self._tell()

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed()


class Pump:
    """The pipes of one command and the ``poll`` that waits for them and for whatever else is watched."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._sinks: dict[int, Sink] = {}
        self._source: tuple[int, Source] | None = None
        self._watched: set[int] = set()
        self._polled: dict[int, int] = {}
        #: bytes read so far, and when the last of them came
        self.taken = 0
        self.taken_at = 0.0

    def read_from(self, fd: int, sink: Sink) -> None:
        """Own ``fd`` and feed what comes out of it to ``sink``."""
        os.set_blocking(fd, False)
        self._sinks[fd] = sink

    def write_to(self, fd: int, source: Source) -> None:
        """Own ``fd``, write to it what ``source`` has, and close it when there will be no more."""
        os.set_blocking(fd, False)
        self._source = (fd, source)

    def watch(self, fd: int) -> None:
        """Have ``wait`` return when ``fd`` becomes readable; it stays the caller's."""
        self._watched.add(fd)

    def unwatch(self, fd: int) -> None:
        self._watched.discard(fd)
        self._set(fd, 0)

    @property
    def is_reading(self) -> bool:
        """Whether a stream has not come to its end yet."""
        return bool(self._sinks)

    @property
    def is_held(self) -> bool:
        """Whether a stream is not read from because its sink is full."""
        return any(sink.is_full for sink in self._sinks.values())

    def look_in(self) -> None:
        """Take what can be read at this moment, one chunk of each stream at most."""
        for fd in list(self._sinks):
            self._read(fd)

    def wait(self, until: float | None, *, full_too: bool = False) -> list[int]:
        """Block until something is ready or the monotonic time ``until``; move bytes; the watched that are
        ready.

        ``full_too`` reads into full sinks as well.
        """
        self._choose(full_too)
        timeout = -1
        if until is not None:
            timeout = math.ceil(min(max(0.0, (until - monotonic()) * 1000), _LONGEST_MS))
        ready = []
        for fd, _ in self._poll.poll(timeout):
            if fd in self._watched:
                ready.append(fd)
            elif fd in self._sinks:
                self._read(fd)
            elif self._source is not None and fd == self._source[0]:
                self._write(*self._source)
        return ready

    def _choose(self, full_too: bool) -> None:
        for fd in self._watched:
            self._set(fd, select.POLLIN)
        for fd, sink in list(self._sinks.items()):
            if sink.is_gone:
                self._close(fd)
                continue
            self._set(fd, select.POLLIN if full_too or not sink.is_full else 0)
        if self._source is not None:
            fd, source = self._source
            source.say_last_words()
            if source.is_done:
                self._close_source()
            else:
                # without an event mask a closed far end is still told of, which is wanted here
                self._set(fd, select.POLLOUT if source.next() is not None else select.POLLERR)

    def _set(self, fd: int, mask: int) -> None:
        if self._polled.get(fd, 0) == mask:
            return
        if mask:
            self._poll.register(fd, mask)
            self._polled[fd] = mask
        else:
            self._poll.unregister(fd)
            del self._polled[fd]

    def _read(self, fd: int) -> bool:
        """Move one chunk; False if there was none to be had."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""  # a terminal whose other side is closed says so by an error
        sink = self._sinks[fd]
        if not data:
            self._close(fd)
            return False
        self.taken += len(data)
        self.taken_at = monotonic()
        sink.feed(data)
        return True

    def _write(self, fd: int, source: Source) -> None:
        part = source.next()
        try:
            if part is None:
                source.give_up()  # woken without anything to write: the far end is closed
            else:
                source.took(write_some(fd, part))
        except BlockingIOError:
            return
        except OSError:
            source.give_up()  # the command reads no more, which is its right
        source.say_last_words()
        if source.is_done:
            self._close_source()

    def _close_source(self) -> None:
        if self._source is not None:
            fd, source = self._source
            source.give_up()
            self._source = None
            self._set(fd, 0)
            os.close(fd)

    def _close(self, fd: int) -> None:
        self._set(fd, 0)
        sink = self._sinks.pop(fd)
        os.close(fd)
        sink.finish()

    def drain(self) -> None:
        """Take what is in the pipes at this moment, at most ``DRAIN_LIMIT`` bytes, without waiting."""
        limit = self.taken + DRAIN_LIMIT
        for fd in list(self._sinks):
            while self.taken < limit and self._read(fd):
                pass

    def finish(self) -> None:
        """Tell every sink that nothing more will come, though a pipe may still be open; close the
        source's.
        """
        self._close_source()
        for sink in self._sinks.values():
            sink.finish()

    def close(self) -> None:
        """Close every pipe; what is still in one is lost to us."""
        self._close_source()
        for fd in list(self._sinks):
            self._close(fd)
        for fd in list(self._watched):
            self.unwatch(fd)


def write_some(fd: int, data: bytes | memoryview) -> int:
    """``os.write``; one to a pipe that nobody reads any more is an error also for hosts that die of SIGPIPE."""
    if signal.getsignal(signal.SIGPIPE) is not signal.SIG_DFL:
        return os.write(fd, data)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
    try:
        return os.write(fd, data)
    except BrokenPipeError:
        if signal.SIGPIPE not in before and signal.SIGPIPE in signal.sigpending():
            signal.sigwait({signal.SIGPIPE})  # ours, sent to this thread by that write; comes back at once
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
