"""What is kept of a turn as lines, in the order in which it came, also while more of it comes.

Invariants
  L1  Each kept byte is given once, in the order of its stream. What lies between two pieces is given as a gap, with its
      size, so that what is before it and what is behind it are never one line.
  L2  Between streams the order is that of their moments (``ledger.spool_times``); a line stands where its end came, and
      has that moment. What has no moments has none here, and stands before what has.
  L3  Of what is found by one look the order is as in L2; of two looks the second one stands behind the first. So who
      follows may see two streams that write within the same moment in another order than who reads later.
  L4  At most ``LONGEST`` bytes are one line; what is longer is given in parts.

For one thread. Blocks for the disk. Raises nothing for files that go while they are read: they become a gap.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from heapq import merge
from typing import NamedTuple
from urllib.parse import unquote

from turnctl.ledger.spool import folder_of, pieces_in
from turnctl.ledger.spool_times import read_moments

__all__ = ["LONGEST", "Following", "Line"]

LONGEST = 64 * 1024
_CHUNK = 64 * 1024


class Line(NamedTuple):
    """A line of one stream, without its end."""

    at: float | None
    stream: str
    data: bytes
    #: whether its end was kept: not so for what a stream ends with, for what stands before a gap, for a part (L4)
    is_ended: bool = True
    #: bytes that are not kept, for a gap
    missing: int = 0


class _Chunk(NamedTuple):
    order: float
    at: float | None
    stream: str
    data: bytes
    missing: int = 0


class _Stream:
    """One stream, read up to ``pos``."""

    def __init__(self, base: str, name: str) -> None:
        self.name = name
        self.pos = 0
        self._base = base
        self._order = 0.0
        self._rest = b""
        self._rest_at: float | None = None

    # -- bytes ------------------------------------------------------------------------------------------------

    def chunks(self, pieces: list[tuple[int, str]]) -> Iterator[_Chunk]:
        """What is there behind ``pos``, a moment each."""
        for n, (offset, file) in enumerate(pieces):
            is_last = n + 1 == len(pieces)
            if not is_last and pieces[n + 1][0] <= self.pos:
                continue
            with suppress(FileNotFoundError), open(file, "rb") as opened:  # its place may just have been taken
                moments = read_moments(self._base, offset)
                if offset > self.pos:
                    yield self._chunk(moments[0][1] if moments else None, b"", offset - self.pos)
                    self.pos = offset
                opened.seek(self.pos - offset)
                while data := opened.read(_CHUNK):
                    yield from self._apart(data, moments)

    def _apart(self, data: bytes, moments: list[tuple[int, float]] | None) -> Iterator[_Chunk]:
        """Those bytes, apart where a new moment begins."""
        if moments is None:
            yield self._chunk(None, data)
            return
        from bisect import bisect_right

        end = self.pos + len(data)
        n = max(0, bisect_right(moments, (self.pos, float("inf"))) - 1)
        begin = self.pos
        while begin < end:
            until = min(end, moments[n + 1][0]) if n + 1 < len(moments) else end
            if until > begin:
                yield self._chunk(moments[n][1], data[begin - end : until - end or None])
                begin = until
            n += 1

    def _chunk(self, at: float | None, data: bytes, missing: int = 0) -> _Chunk:
        if at is not None:
            self._order = at
        self.pos += len(data)
        return _Chunk(self._order, at, self.name, data, missing)

    def skip(self, pieces: list[tuple[int, str]], lines: int) -> None:
        """Begin with the last so many lines of what is there, if there are more."""
        left = lines + 1  # the last line has an end, and the one before the first of them as well
        for offset, file in reversed(pieces):
            with suppress(FileNotFoundError), open(file, "rb") as opened:
                end = opened.seek(0, os.SEEK_END)
                while end > 0:
                    begin = max(0, end - _CHUNK)
                    opened.seek(begin)
                    data = opened.read(end - begin)
                    count = data.count(b"\n")
                    if count >= left:
                        for _ in range(left):
                            data = data[: data.rindex(b"\n")]
                        self.pos = offset + begin + len(data) + 1
                        return
                    left -= count
                    end = begin

    # -- lines ------------------------------------------------------------------------------------------------

    def lines(self, chunk: _Chunk) -> Iterator[Line]:
        if chunk.missing:
            yield from self.rest()
            yield Line(chunk.at, self.name, b"", missing=chunk.missing)
            return
        *whole, rest = (self._rest + chunk.data).split(b"\n")
        for data in whole:
            *parts, last = _parts(data)
            for part in parts:
                yield Line(chunk.at, self.name, part, is_ended=False)
            yield Line(chunk.at, self.name, last)
        *parts, self._rest = _parts(rest)
        self._rest_at = chunk.at
        for part in parts:
            yield Line(chunk.at, self.name, part, is_ended=False)

    def rest(self) -> Iterator[Line]:
        """What has no end."""
        rest, self._rest = self._rest, b""
        if rest:
            yield Line(self._rest_at, self.name, rest, is_ended=False)


def _parts(data: bytes) -> list[bytes]:
    return [data[n : n + LONGEST] for n in range(0, len(data), LONGEST)] or [b""]


class Following:
    """All that is kept of one turn, once ``more`` has given it, and what comes after, when it is called again."""

    def __init__(self, state_dir: str, turn_id: str) -> None:
        self.folder = folder_of(state_dir, turn_id)
        self._streams: dict[str, _Stream] = {}

    def more(self, wanted: Callable[[str], bool] = bool, *, last: int | None = None) -> Iterator[Line]:
        """What has come since the last time, of those streams. To be taken to its end.

        With ``last``, of a stream that was not asked for before it may be only about so many of its last lines.
        """
        found = pieces_in(self.folder)
        sources = []
        for name, pieces in sorted(found.items()):
            title = unquote(name)
            if wanted(title):
                stream = self._streams.get(title)
                if stream is None:
                    stream = self._streams[title] = _Stream(os.path.join(self.folder, name), title)
                    if last is not None:
                        stream.skip(pieces, last)
                sources.append(stream.chunks(pieces))
        for chunk in merge(*sources, key=lambda chunk: chunk.order):
            yield from self._streams[chunk.stream].lines(chunk)

    def end(self) -> Iterator[Line]:
        """What is left without an end, when nothing more comes."""
        for stream in self._streams.values():
            yield from stream.rest()

    def position(self, name: str) -> int:
        """The byte up to which that stream was given."""
        stream = self._streams.get(name)
        return 0 if stream is None else stream.pos

    def without_times(self) -> list[str]:
        """The streams of which some piece has no moments."""
        return sorted(
            unquote(name)
            for name, pieces in pieces_in(self.folder).items()
            if any(read_moments(os.path.join(self.folder, name), offset) is None for offset, _ in pieces)
        )

    def names(self) -> list[str]:
        """The streams of which something is there now."""
        return sorted(unquote(name) for name in pieces_in(self.folder))
