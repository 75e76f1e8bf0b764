"""A stream of bytes as whole lines, or as text as it comes: for those who are given output while a command runs."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnctl.processes.text import Coding

__all__ = ["Splitter", "split"]


class Splitter:
    """Feeds of bytes to pieces: as they come, or with ``lines`` whole lines. Without a coding they stay bytes.

    A line longer than ``limit`` comes in pieces. After ``flush`` nothing of before is joined to what follows.
    """

    __slots__ = ("_decoder", "_limit", "_rest", "lines")

    def __init__(self, coding: Coding | None, *, lines: bool, limit: int) -> None:
        self._decoder = None if coding is None else coding.decoder()
        #: may be changed between two feeds
        self.lines = lines
        self._limit = limit
        self._rest: str | bytes = b"" if coding is None else ""

    def feed(self, data: bytes, *, final: bool = False) -> list[str | bytes]:
        fresh: str | bytes = data if self._decoder is None else self._decoder.decode(data, final=final)
        fresh, self._rest = self._rest + fresh, fresh[:0]  # type: ignore[operator]
        if not self.lines:
            return [fresh] if fresh else []
        pieces = split(fresh)
        last = pieces[-1] if pieces else self._rest
        unfinished = bool(last) and last[-1:] not in (b"\n", "\n")
        if unfinished and not final and len(last) < self._limit:
            self._rest = pieces.pop()
        return pieces

    def flush(self) -> list[str | bytes]:
        """What is there of a line that will not be completed; half a character is dropped."""
        rest, self._rest = self._rest, self._rest[:0]
        if self._decoder is not None:
            self._decoder.reset()
        return [rest] if rest else []


def split(text: str | bytes) -> list[str | bytes]:
    """The lines, each with its newline."""
    # splitlines would split at other characters as well
    if isinstance(text, bytes):
        return list(io.BytesIO(text).readlines())
    return list(io.StringIO(text, newline="\n").readlines())
