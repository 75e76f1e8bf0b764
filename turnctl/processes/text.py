"""From bytes to text and to lines, as ``subprocess`` does it: locale encoding, universal newlines."""

from __future__ import annotations

import codecs
import io
import locale
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator

from turnctl.processes.scoped import scoped, watching
from turnctl.tokens.activities import Owner

__all__ = ["Coding", "Lines"]

#: unread bytes at which a command has to wait for its reader
LINES_LIMIT = 8 * 1024 * 1024


class Coding:
    """How a command's streams are turned into text."""

    __slots__ = ("encoding", "errors")

    def __init__(self, encoding: str | None = None, errors: str | None = None) -> None:
        if encoding is None or encoding == "locale":
            encoding = "utf-8" if sys.flags.utf8_mode else locale.getencoding()
        codecs.lookup(encoding)
        self.encoding = encoding
        self.errors = errors or "strict"

    def encode(self, text: str) -> bytes:
        return text.encode(self.encoding, self.errors)

    def decode(self, data: bytes) -> str:
        return _plain_newlines(data.decode(self.encoding, self.errors))

    def decode_partial(self, data: bytes) -> str:
        """As ``decode``, but never raises: a stop may cut a character in two, and must not be hidden by
        that.
        """
        try:
            return self.decode(data)
        except UnicodeDecodeError:
            return _plain_newlines(data.decode(self.encoding, "replace"))

    def decoder(self) -> io.IncrementalNewlineDecoder:
        inner = codecs.getincrementaldecoder(self.encoding)(self.errors)
        return io.IncrementalNewlineDecoder(inner, translate=True)


def _plain_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


class Lines:
    """The lines of a stream, for one reader, while the command runs.

    Iterating blocks until a line, the end of the stream, or a stop; it is a checkpoint. At most
    ``LINES_LIMIT`` unread bytes are kept: then the command has to wait for its reader, as at any full pipe. A
    longer line comes in pieces. Lines keep their newline; the last may have none.
    """

    def __init__(
        self,
        changed: threading.Condition,
        owner: Owner,
        make_room: Callable[[], None],
        coding: Coding | None,
        limit: int = LINES_LIMIT,
    ) -> None:
        self._changed = changed
        self.owner = owner
        self._make_room = make_room
        self._decoder = None if coding is None else coding.decoder()
        self._limit = limit
        self._fed = bytearray()
        self._rest: str | bytes = b"" if coding is None else ""
        self._ready: deque[str | bytes] = deque()
        self._ended = False

    # -- the supervisor's side -------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        return len(self._fed) >= self._limit

    def feed(self, data: bytes) -> None:
        with self._changed:
            self._fed += data
            self._changed.notify_all()

    def finish(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    # -- the reader's side -----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[str | bytes]:
        """The lines from here on. Each call goes on where the last one left off."""
        ready = self._ready
        while True:
            while ready:
                scoped(self.owner).check()
                yield ready.popleft()
            with watching(self.owner, self._wake) as owner:
                owner.check()
                is_there = self._refill(owner)
            if not is_there:
                return

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _refill(self, owner: Owner) -> bool:
        """Block until there are lines, or a stop to be checked for; False at the end of the stream."""
        is_held = False
        while not self._ready:
            with self._changed:
                while not (self._fed or self._ended or (owner.stop_wanted() and not is_held)):
                    self._changed.wait()
                data, self._fed = self._fed, bytearray()
                ended = self._ended
            if len(data) >= self._limit:
                self._make_room()
            self._split(bytes(data), ended)
            if ended:
                return bool(self._ready)
            owner.check()
            # woken without data and not stopped: a shield holds the stop back
            is_held = not data
        return True

    def _split(self, data: bytes, ended: bool) -> None:
        fresh: str | bytes = data if self._decoder is None else self._decoder.decode(data, final=ended)
        self._ready.extend(_lines(self._rest + fresh))  # type: ignore[operator]
        self._rest = fresh[:0]
        last = self._ready[-1] if self._ready else self._rest
        unfinished = bool(last) and last[-1:] not in (b"\n", "\n")
        if unfinished and not ended and len(last) < self._limit:
            self._rest = self._ready.pop()


def _lines(text: str | bytes) -> list[str | bytes]:
    # splitlines would split at other characters as well
    if isinstance(text, bytes):
        return list(io.BytesIO(text).readlines())
    return list(io.StringIO(text, newline="\n").readlines())
