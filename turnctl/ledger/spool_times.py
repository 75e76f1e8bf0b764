"""When what is kept of a stream came: beside each piece of it a list of moments, each with the byte that it is of.

    turns/TURN_ID/NAME.times.OFFSET    for the piece that begins with that byte of the stream; 0 is the head

A list is entries of 16 bytes, two unsigned numbers of 64 bits, the lowest byte first: microseconds since the epoch, and
the byte of the stream that came then, with those behind it up to the next entry.

Invariants
  T1  An entry is written before the bytes that it is of. So after a kill an entry may be of bytes that are not there,
      and no byte is without the entry before it.
  T2  There is an entry where another stream of the turn has written since the last one, or ``SPACING_S`` have passed.
      So between streams the order is that in which they were read, as long as T3 leaves room.
  T3  A list is at most as long as its piece and 4 KiB: where single writes are of less than 16 bytes for long, some
      have the moment of one at most 16 bytes before them.
  T4  A list that cannot be written ends there, whole: what follows has its last moment as "then or later". Nothing is
      raised, and no output is lost by it.
  T5  A list goes with its piece. One that is not there (kept by an earlier version, or no room) is no error: nothing is
      known of times then.

Moments are the machine's clock; one that is set back shows here as that. Used under the lock of its stream.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress

from turnctl import clock

__all__ = ["SPACING_S", "Moments", "Turns", "file_of", "read_moments"]

SPACING_S = 0.01
_ENTRY = struct.Struct("<QQ")
_FREE = 256
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


def file_of(base: str, offset: int) -> str:
    """The list of the piece that begins with that byte."""
    return f"{base}.times.{offset}"


class Turns:
    """Which stream of a turn wrote last. Two that write at once may both be taken for it: then one entry is missing."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last: object = None


class Moments:
    """The list of one stream's piece in hand."""

    __slots__ = ("_at", "_base", "_fd", "_left", "_noted", "_turns")

    def __init__(self, base: str, turns: Turns) -> None:
        self._base = base
        self._turns = turns
        self._fd = -1
        self._at = 0.0
        #: the byte of the last entry, and how many more there may be without one more byte
        self._noted = 0
        self._left = 0

    def begin(self, offset: int) -> None:
        """Go on in the list of a new piece."""
        self.stop()
        with suppress(OSError):  # T4
            fd = os.open(file_of(self._base, offset), _FLAGS, 0o600)
            os.fchmod(fd, 0o600)
            self._fd, self._noted, self._left, self._at = fd, offset, _FREE, 0.0

    def note(self, offset: int) -> None:
        """The byte ``offset`` comes now."""
        if self._fd < 0:
            return
        now, turns = clock.wall(), self._turns
        if turns.last is self and 0.0 <= now - self._at < SPACING_S:
            return
        left = self._left + (offset - self._noted) // _ENTRY.size
        if left < 1:
            return
        turns.last = self
        self._at, self._noted, self._left = now, offset, min(left, 1 << 40) - 1
        entry = _ENTRY.pack(max(0, int(now * 1e6)), offset)
        try:
            if os.write(self._fd, entry) == len(entry):
                return
        except OSError:
            pass
        self.stop()

    def stop(self) -> None:
        """No more entries here."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def read_moments(base: str, offset: int) -> list[tuple[int, float]] | None:
    """The entries of that piece's list, in order: a byte, and when it came. None where nothing is known."""
    try:
        with open(file_of(base, offset), "rb") as file:
            data = file.read()
    except OSError:
        return None
    whole = data[: len(data) - len(data) % _ENTRY.size]
    found: list[tuple[int, float]] = []
    for micros, at in _ENTRY.iter_unpack(whole):
        if at < (found[-1][0] if found else offset):
            break  # no list of ours from here on
        found.append((at, micros / 1e6))
    return found or None
