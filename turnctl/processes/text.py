"""From bytes to text and to lines, as ``subprocess`` does it: locale encoding, universal newlines."""

from __future__ import annotations

import codecs
import io
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator

from turnctl.processes.capture import Capture, Cut
from turnctl.processes.scoped import scoped, watching
from turnctl.processes.splitting import Splitter
from turnctl.tokens import eras
from turnctl.tokens.activities import Owner

__all__ = ["Coding", "Lines"]

#: unread bytes at which a command has to wait for its reader
LINES_LIMIT = 8 * 1024 * 1024
#: bytes that in UTF-8 do not begin a character
_CONTINUING = bytes(range(0x80, 0xC0))


class Coding:
    """How a command's streams are turned into text."""

    __slots__ = ("encoding", "errors")

    def __init__(self, encoding: str | None = None, errors: str | None = None) -> None:
        if encoding is None or encoding == "locale":
            import locale

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

    def decode_cut(self, capture: Capture, marker: str = "") -> str:
        """The text of what was kept, with ``marker`` where something is missing. Never raises, as ``decode_partial``.

        The pieces of a character that the cut fell into are left out as well.
        """
        head, tail = capture.head, capture.tail
        decoder = codecs.getincrementaldecoder(self.encoding)("replace")
        decoder.decode(head)
        pending = decoder.getstate()[0]
        capture.trim(len(pending), self.misplaced(tail, capture))
        return self.decode_partial(capture.head) + marker + self.decode_partial(capture.tail)

    def misplaced(self, tail: bytes, capture: Capture) -> int:
        """How many bytes at the beginning of ``tail``, the end of ``capture``, belong to a character before it."""
        name = codecs.lookup(self.encoding).name
        if name.startswith("utf-8"):
            first = tail[:3]
            return len(first) - len(first.lstrip(_CONTINUING))
        unit = {"utf-16": 2, "utf-32": 4}.get(name[:6], 1)
        return -(capture.total - len(tail)) % unit

    def decoder(self) -> io.IncrementalNewlineDecoder:
        inner = codecs.getincrementaldecoder(self.encoding)(self.errors)
        return io.IncrementalNewlineDecoder(inner, translate=True)


def _plain_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


class Lines:
    """The lines of a stream, for one reader, while the command runs.

    Iterating blocks until a line, the end of the stream, or a stop; it is a checkpoint. At most
    ``LINES_LIMIT`` unread bytes are kept: then the command has to wait for its reader, as at any full pipe. A
    longer line comes in pieces. Lines keep their newline; the last may have none. ``chunks()`` gives what is there
    instead, as it comes.

    With ``keeps`` the command never waits: of what is unread the first and the last half of so many bytes are kept,
    and what is left out between them is in ``cut``. The line before such a gap has no newline.
    """

    is_gone = False

    def __init__(
        self,
        changed: threading.Condition,
        owner: Owner,
        make_room: Callable[[], None],
        coding: Coding | None,
        limit: int = LINES_LIMIT,
        *,
        keeps: int | None = None,
    ) -> None:
        self._changed = changed
        self._era = eras.era
        self.owner = owner
        self._make_room = make_room
        self._coding = coding
        self._splitter = Splitter(coding, lines=True, limit=limit)
        self._limit = limit
        self._keeps = keeps
        self._fed = Capture(keeps)
        self._taken = 0
        self._cut: Cut | None = None
        self._ready: deque[str | bytes] = deque()
        self._ended = False

    # -- the supervisor's side -------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        return self._keeps is None and self._fed.size >= self._limit

    def feed(self, data: bytes) -> None:
        with self._changed:
            self._fed.feed(data)
            self._changed.notify_all()

    def finish(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def cut(self) -> Cut | None:
        """What the reader was too slow for, where that is not kept."""
        if self._keeps is None:
            return None
        if self._era is not eras.era:
            return _sum_of(self._cut, self._fed.cut, self._taken)  # a thread that is not here may hold the lock
        with self._changed:
            return _sum_of(self._cut, self._fed.cut, self._taken)

    # -- the reader's side -----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[str | bytes]:
        """The lines from here on. Each call goes on where the last one left off."""
        return self._pieces(lines=True)

    def chunks(self) -> Iterator[str | bytes]:
        """The output from here on in pieces of any size, as soon as it is there. Blocks and checks as lines do."""
        return self._pieces(lines=False)

    def _pieces(self, *, lines: bool) -> Iterator[str | bytes]:
        ready = self._ready
        while True:
            if self._era is not eras.era:
                eras.refuse("the output of a command")  # who would bring more of it, and may hold the lock, is not here
            while ready:
                scoped(self.owner).check()
                yield ready.popleft()
            with watching(self.owner, self._wake) as owner:
                owner.check()
                is_there = self._refill(owner, lines=lines)
            if not is_there:
                return

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _refill(self, owner: Owner, *, lines: bool) -> bool:
        """Block until there are lines, or a stop to be checked for; False at the end of the stream."""
        is_held = False
        while not self._ready:
            with self._changed:
                while not (self._fed.size or self._ended or (owner.stop_wanted() and not is_held)):
                    self._changed.wait()
                fed, self._fed = self._fed, Capture(self._keeps)
                ended = self._ended
                self._cut = _sum_of(self._cut, fed.cut, self._taken)
                self._taken += fed.total
            if fed.size >= self._limit:
                self._make_room()
            self._split(fed, ended, lines=lines)
            if ended:
                return bool(self._ready)
            owner.check()
            # woken without data and not stopped: a shield holds the stop back
            is_held = not fed.size
        return True

    def _split(self, fed: Capture, ended: bool, *, lines: bool) -> None:
        splitter = self._splitter
        splitter.lines = lines
        if fed.cut is None:
            self._ready.extend(splitter.feed(fed.value(), final=ended))
            return
        self._ready.extend(splitter.feed(fed.head))
        self._ready.extend(splitter.flush())
        tail = fed.tail
        skipped = 0 if self._coding is None else self._coding.misplaced(tail, fed)
        self._ready.extend(splitter.feed(tail[skipped:], final=ended))


def _sum_of(before: Cut | None, now: Cut | None, offset: int) -> Cut | None:
    """Two cuts as one, the second of which is in what began at ``offset``."""
    if now is None:
        return before
    if before is None:
        return Cut(offset + now.offset, now.left_out)
    return Cut(before.offset, before.left_out + now.left_out, before.gaps + 1)
