"""How far a store had come when it last acknowledged something, kept beside it: a store that was put back shows by it.

Invariants
  B1  A mark is written after COMMIT and by whoever holds the turnstile, so it never goes back, and never is ahead of
      the store. One that is behind, since a process died between the two or the power failed, says less, and nothing
      wrong.
  B2  There are two slots, written in turn: a torn write leaves the other.
"""

# annotations are values here: NamedTuple compiles each that is a text, which is most of the time it takes

import os
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from turnctl.ledger.ownfiles import own_file

if TYPE_CHECKING:
    from sqlite3 import Connection

__all__ = ["HighWater", "Mark", "marks_of", "missing_from", "read_marks"]

_SLOT = 128
_MARKS = (
    "SELECT max(ifnull((SELECT max(told) FROM cancellation), 0), ifnull((SELECT max(told) FROM tombstone), 0), "
    "ifnull((SELECT told FROM forgotten), 0)), "
    "max(ifnull((SELECT max(pos) FROM log), 0), ifnull((SELECT max(last_pos) FROM tombstone), 0), "
    "ifnull((SELECT last_pos FROM forgotten), 0))"
)


class Mark(NamedTuple):
    """The store, the number of its last acceptance, and the position of the last line of its log."""

    authority: str
    told: int
    pos: int


def marks_of(connection: "Connection") -> tuple[int, int]:
    """The number of the last acceptance that was told, and the position of the last line of the log."""
    told, pos = connection.execute(_MARKS).fetchone()
    return int(told), int(pos)


def missing_from(mark: Mark, authority: str, told: int, pos: int) -> str | None:
    """What is wrong with a store that has come so far, by its mark; None where nothing is."""
    if mark.authority != authority:
        return "was replaced by another one"
    if told < mark.told or pos < mark.pos:
        counts = f"{told} of {mark.told} cancellations, {pos} of {mark.pos} lines"
        return f"is behind what it had acknowledged ({counts}), so a backup was put back or its log was lost"
    return None


def read_marks(path: str) -> Mark | None:
    """The last mark for the store at ``path``; None where there is none. ``ValueError`` for a file that has no mark."""
    try:
        with open(f"{path}.hwm", "rb") as file:
            data = file.read(2 * _SLOT)
    except FileNotFoundError:
        return None
    found = [mark for slot in (data[:_SLOT], data[_SLOT:]) if (mark := _read(slot)) is not None]
    if not found:
        raise ValueError("no mark can be read from it")
    return max(found, key=lambda mark: (mark.pos, mark.told))


def _read(slot: bytes) -> Mark | None:
    words = slot.split()
    if len(words) != 5 or words[0] != b"turnctl-1":
        return None
    try:
        mark, told = Mark(words[1].decode("ascii"), int(words[2]), int(words[3])), int(words[4])
    except ValueError:
        return None
    return mark if told == crc32(b" ".join(words[:4])) else None


class HighWater:
    """Writes the marks of one store. Not thread-safe: whoever holds the turnstile does it (B1)."""

    def __init__(self, path: str, authority: str) -> None:
        self._file = f"{path}.hwm"
        self._authority = authority.encode("ascii")
        self._fd = -1
        self._turn = 0

    def write(self, told: int, pos: int) -> None:
        """Tell how far the store is."""
        if self._fd < 0:
            self._fd = own_file(self._file, os.O_RDWR)
        text = b"turnctl-1 %s %d %d" % (self._authority, told, pos)
        slot = b"%s %d" % (text, crc32(text))
        os.pwrite(self._fd, slot.ljust(_SLOT - 1) + b"\n", self._turn * _SLOT)
        self._turn = 1 - self._turn

    def begin_anew(self, told: int, pos: int) -> None:
        """Have no mark but this one."""
        self.write(told, pos)
        os.ftruncate(self._fd, 0)
        self.write(told, pos)
        self.write(told, pos)
        os.fsync(self._fd)

    def close(self) -> None:
        """Close its file, which is all that a forked child does with it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
