"""How far a person has gone down in a view that does not fit, and the keys for that."""

from __future__ import annotations

import re

__all__ = ["Scroll", "keys_of"]

#: a key as it comes: a sequence that begins with an escape, an escape before a letter (Alt), or a byte
_KEY = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO[ -~]|\x1b?.", re.DOTALL)
#: the beginning of a sequence whose rest has not come yet
_BEGUN = re.compile(rb"\x1b(\[[0-?]*[ -/]*|O)?\Z")

_DOWN = {b"j", b"\n", b"\r", b"\x1b[B", b"\x1bOB"}
_UP = {b"k", b"\x1b[A", b"\x1bOA"}
_PAGE_DOWN = {b" ", b"f", b"\x06", b"\x1b[6~"}
_PAGE_UP = {b"b", b"\x02", b"\x1b[5~"}
_TO_TOP = {b"g", b"\x1b[H", b"\x1bOH", b"\x1b[1~"}
_TO_BOTTOM = {b"G", b"\x1b[F", b"\x1bOF", b"\x1b[4~"}


def keys_of(data: bytes) -> tuple[list[bytes], bytes]:
    """The keys that were pressed, and the begin of one whose rest is still to come. Alt with a letter is the letter."""
    begun = _BEGUN.search(data)
    rest = b"" if begun is None else begun[0]
    found = _KEY.findall(data[: len(data) - len(rest)])
    return [one[1:] if len(one) == 2 and one[:1] == b"\x1b" else one for one in found], rest


class Scroll:
    """Where a person is: nowhere in particular, which is the view that has a bit of everything; or at a line of all."""

    def __init__(self) -> None:
        #: the first line that is shown; None for a bit of everything
        self.at: int | None = None
        self._last = 0
        self._page = 1

    def press(self, key: bytes) -> bool:
        """Act on a key; whether it is one of those."""
        if key in _DOWN:
            self._by(1)
        elif key in _UP:
            self._by(-1)
        elif key in _PAGE_DOWN:
            self._by(self._page)
        elif key in _PAGE_UP:
            self._by(-self._page)
        elif key in _TO_TOP:
            self.at = None
        elif key in _TO_BOTTOM:
            self.at = self._last
        else:
            return False
        return True

    def _by(self, lines: int) -> None:
        if self.at is None:
            self.at = 0 if lines > 0 else None  # first all lines from the first on, so that none is passed over
        elif self.at + lines < 0 and lines < 0:
            self.at = None if self.at == 0 else 0
        else:
            self.at = min(self.at + lines, self._last)

    def within(self, total: int, room: int) -> int | None:
        """The first line to show of so many, where there is room for so many."""
        self._last, self._page = max(0, total - room), max(1, room)
        if total <= room:
            self.at = None
        elif self.at is not None:
            self.at = min(self.at, self._last)
        return self.at
