"""What is kept of a stream: all of it, or its beginning and its end.

Invariants
  K1  With a limit never more than that many bytes are kept, however they come: as one endless line, or byte by byte.
  K2  What is kept is the first half and the last half of the limit. What is left out between them is counted: kept
      and left out are together what came.
  K3  Without a limit the stream is held once, not twice: the buffer it was collected in becomes the value.

For one thread at a time. Nothing blocks.
"""

from __future__ import annotations

import io
from typing import NamedTuple

__all__ = ["Capture", "Cut"]


class Cut(NamedTuple):
    """``left_out`` bytes are missing, from ``offset`` on; after several ``gaps``, in all, from the first on."""

    offset: int
    left_out: int
    gaps: int = 1


class Capture:
    """A sink that keeps a stream in memory."""

    __slots__ = ("_at", "_head", "_head_room", "_ring", "_ring_size", "_trimmed", "total")

    is_full = False
    is_gone = False

    def __init__(self, limit: int | None = None) -> None:
        # BytesIO gives its buffer away without a copy, and grows where it is as long as the kernel can remap it
        self._head = io.BytesIO()
        self._head_room = limit if limit is None else limit - limit // 2
        self._ring_size = 0 if limit is None else limit // 2
        self._ring = bytearray()
        self._at = 0  # where the oldest byte of a full ring is
        #: bytes that came
        self.total = 0
        self._trimmed = (0, 0)

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        if self._head_room is None:
            self._head.write(data)
        elif len(data) <= self._head_room:
            self._head_room -= len(data)
            self._head.write(data)
        else:
            self._head.write(data[: self._head_room])
            rest = memoryview(data)[self._head_room :]
            self._head_room = 0
            self._to_ring(rest)

    def _to_ring(self, data: memoryview) -> None:
        size, ring = self._ring_size, self._ring
        data = data[max(0, len(data) - size) :]
        room = size - len(ring)
        if room:
            ring += data[:room]
            data = data[room:]
        while len(data):
            part = data[: size - self._at]
            ring[self._at : self._at + len(part)] = part
            self._at = (self._at + len(part)) % size
            data = data[len(part) :]

    def finish(self) -> None:
        pass

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return self._head.tell() + len(self._ring)

    @property
    def head(self) -> bytes:
        """What came before the cut."""
        head = self._head.getvalue()
        return head[: len(head) - self._trimmed[0]] if self._trimmed[0] else head

    @property
    def tail(self) -> bytes:
        """What came after the cut, or after the first half where there is none."""
        return bytes(self._ring[self._at :] + self._ring[: self._at])[self._trimmed[1] :]

    @property
    def cut(self) -> Cut | None:
        """What is missing between the two; None if nothing is."""
        left_out = self.total - self.size + sum(self._trimmed)
        return Cut(self._head.tell() - self._trimmed[0], left_out) if left_out else None

    def trim(self, head: int, tail: int) -> None:
        """Leave out so many bytes more at the edges of the cut: parts of characters that it fell into."""
        self._trimmed = (head, tail)

    def value(self, between: bytes = b"") -> bytes:
        """What is kept, with ``between`` in place of what is missing."""
        if not self._ring and self.cut is None:
            return self.head
        return b"".join((self.head, between if self.cut is not None else b"", self.tail))
