"""What a turn printed or streamed, kept in plain files while it comes: the beginning and the end of each stream.

    turns/TURN_ID/NAME.head            the first half of what may be kept
    turns/TURN_ID/NAME.tail.OFFSET     a piece of what came later, from that byte of the stream on; two at the most
    turns/TURN_ID/NAME.times.OFFSET    when the bytes of such a piece came (``ledger.spool_times``)

Invariants
  P1  What was written is there after the process is killed: each write goes to the system at once, and is never
      collected here. It is not flushed to the disk: after a power failure the last seconds may be missing.
  P2  Of one stream at most ``limit`` bytes are kept: half of it as the head, then pieces of a quarter. A third piece
      takes the place of the oldest, so that nothing that was kept is ever written anew.
  P3  The name of a piece says where it belongs, so what lies between two pieces is known to be missing, also by who
      finds the files of a process that was killed.
  P4  ``write`` never raises: what cannot be kept is counted, and the stream goes on. As soon as there is room again it
      is kept again, as a piece of its own.
  P5  A folder is made with the first byte, and is for its owner alone, as each file is, whatever the umask.
  P6  Of one turn the last ``MOST_STREAMS`` are kept.

Any thread may use all of it. Lock: one for each stream, held for a write, so that a stream is not closed under who
writes it. May block: a write, as long as a local disk takes for one.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from turnctl.digest import hex_of
from turnctl.ledger.spool_times import Moments, Turns, file_of
from turnctl.records.texts import text_of

__all__ = ["LIMIT", "Kept", "KeptOutput", "Spool", "folder_of", "pieces_in", "read", "remove", "sizes"]

#: what is kept of one stream where nothing else is said: more than a person reads, and a build's last errors
LIMIT = 1024 * 1024
#: and of how many streams of one turn
MOST_STREAMS = 64
FOLDER = "turns"
_LONGEST = 120
_PLAIN = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,79}")
_PIECE = re.compile(r"(.+)\.(?:head|tail\.([0-9]+))")
_LIST = re.compile(r".+\.times\.[0-9]+")


def folder_of(state_dir: str, turn_id: str) -> str:
    """Where the output of that turn is, in the folder of its ledger."""
    return os.path.join(state_dir, FOLDER, _file_name(turn_id))


def _file_name(text: str) -> str:
    """A name that no other text has and that leads nowhere else."""
    if _PLAIN.fullmatch(text):
        return text
    from urllib.parse import quote  # takes longer than all else here

    name = quote(text, safe="+", errors="surrogatepass")
    if len(name) > _LONGEST:
        name = f"{name[:40].rpartition('%')[0] or name[:40]}~{hex_of(text.encode('utf-8', 'surrogatepass'))}"
    return f"%2E{name[1:]}" if name.startswith(".") else name


class Spool:
    """The streams of one turn. Makes nothing before there is something to keep."""

    def __init__(self, state_dir: str, turn_id: str, limit: int = LIMIT) -> None:
        self._state_dir = state_dir
        self.folder = folder_of(state_dir, turn_id)
        self._limit = limit
        self._lock = threading.Lock()
        self._streams: dict[str, Kept] = {}
        self._dropped = 0
        self.turns = Turns()

    def stream(self, name: str) -> Kept:
        """A new stream; a name that is taken gets a number."""
        with self._lock:
            found, n = name, 1
            while found in self._streams:
                n += 1
                found = f"{name}-{n}"
            made = self._streams[found] = Kept(self, found, self._limit)
            oldest = next((one for one in self._streams.values() if one.is_over), None)
            if len(self._streams) <= MOST_STREAMS or oldest is None:
                return made
            del self._streams[oldest.name]
            self._dropped += 1
        oldest.drop()
        return made

    def make(self) -> None:
        """Make the folder (P5). Raises ``OSError``."""
        for folder in (os.path.join(self._state_dir, FOLDER), self.folder):
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700)
                os.chmod(folder, 0o700)

    def close(self) -> None:
        """Nothing more will come. May be called again."""
        for one in list(self._streams.values()):
            one.finish()

    def account(self) -> dict[str, Any]:
        """What is kept of each stream, as plain values; empty where nothing came."""
        found: dict[str, Any] = {one.name: one.account() for one in list(self._streams.values()) if one.total}
        return {**found, "streams_left_out": self._dropped} if self._dropped else found


class Kept:
    """One stream. ``write`` may be called until ``finish``, and does nothing after."""

    def __init__(self, spool: Spool, name: str, limit: int) -> None:
        self.name = name
        self.is_over = False
        #: bytes that came, and those that could not be kept though there was room for them by the limit
        self.total = 0
        self.lost = 0
        #: why, as the system said it the last time
        self.problem: str | None = None
        self._lock = threading.Lock()
        self._spool = spool
        self._base = os.path.join(spool.folder, _file_name(name))
        self._head = limit - limit // 2
        self._piece = max(1, limit // 4)
        self._fd = -1
        self._room = 0
        self._began = 0
        self._pieces: list[int] = []
        self._moments = Moments(self._base, spool.turns)

    def write(self, data: bytes | memoryview) -> None:
        """Keep it (P4)."""
        with self._lock:
            self._write(memoryview(data))

    def _write(self, left: memoryview) -> None:
        while left and not self.is_over:
            if self._fd < 0 or not self._room:
                try:
                    self._begin()
                except OSError as error:
                    self._fail(error, len(left))
                    return
            self._moments.note(self.total)
            try:
                count = os.write(self._fd, left[: self._room])
            except OSError as error:
                self._stop()
                self._fail(error, len(left))
                return
            self._room -= count
            self.total += count
            left = left[count:]

    def item(self, item: object) -> None:
        """Keep an item of a stream: text and bytes as they are, a model's event as the text that it says."""
        if isinstance(item, (bytes, bytearray, memoryview)):
            self.write(bytes(item))
        else:
            text = item if isinstance(item, str) else _said_by(item)
            self.write(text.encode("utf-8", "surrogatepass"))

    def finish(self) -> None:
        """Nothing more will come."""
        with self._lock:
            self.is_over = True
            self._stop()

    # -- the files --------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Go on in the next file: the head at the very beginning, else a piece that its offset names (P2, P3)."""
        self._stop()
        is_head = self.total == 0
        file = self._file_of(self.total)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._fd = os.open(file, flags, 0o600)
        except FileNotFoundError:
            self._spool.make()
            self._fd = os.open(file, flags, 0o600)
        os.fchmod(self._fd, 0o600)
        self._began = self.total
        self._room = self._head if is_head else self._piece
        self._moments.begin(self.total)
        if not is_head:
            self._pieces.append(self.total)
            while len(self._pieces) > 2:
                self._remove(self._pieces.pop(0))

    def _file_of(self, offset: int) -> str:
        return f"{self._base}.tail.{offset}" if offset else f"{self._base}.head"

    def _remove(self, offset: int) -> None:
        _unlink(self._file_of(offset))
        _unlink(file_of(self._base, offset))

    def _stop(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._moments.stop()
            if os.fstat(fd).st_size == 0:  # the disk was full: there may be room again later, under another name
                self._remove(self._began)
                if self._began in self._pieces:
                    self._pieces.remove(self._began)
            os.close(fd)

    def _fail(self, error: OSError, count: int) -> None:
        self.problem = error.strerror or str(error)
        self.total += count
        self.lost += count

    def drop(self) -> None:
        """Take it away."""
        self.finish()
        for offset in (0, *self._pieces):
            self._remove(offset)

    def account(self) -> dict[str, Any]:
        found: dict[str, Any] = {"bytes": self.total}
        if self.lost:
            found |= {"not_kept": self.lost, "problem": self.problem}
        return found


def _unlink(file: str) -> None:
    with suppress(OSError):
        os.unlink(file)


def _said_by(item: object) -> str:
    """What an item that is no text says; one line for what is neither that nor an event of a model."""
    said = text_of((item,))
    if said is not None:
        return said
    try:
        return f"{json.dumps(item)}\n"
    except Exception:  # noqa: BLE001 - whatever it is: a stream is not to fail by being kept
        return f"<{type(item).__name__}>\n"


# -- reading ------------------------------------------------------------------------------------------------------


class KeptOutput(NamedTuple):
    """What is there of one stream: its pieces in order, each with the byte of the stream that it begins with."""

    name: str
    pieces: tuple[tuple[int, bytes], ...]

    @property
    def missing(self) -> tuple[tuple[int, int], ...]:
        """What lies between the pieces and was not kept: from which byte on, and how many."""
        found, at = [], 0
        for offset, data in self.pieces:
            if offset > at:
                found.append((at, offset - at))
            at = max(at, offset + len(data))
        return tuple(found)

    @property
    def total(self) -> int:
        """How much came, as far as the files tell."""
        return max((offset + len(data) for offset, data in self.pieces), default=0)

    def value(self, mark: str = "\n[{} bytes left out]\n") -> bytes:
        """All that is kept, with a mark in place of what is missing."""
        parts, at = [], 0
        for offset, data in self.pieces:
            if offset > at:
                parts.append(mark.format(offset - at).encode())
            parts.append(data)
            at = offset + len(data)
        return b"".join(parts)


def read(state_dir: str, turn_id: str) -> list[KeptOutput]:
    """What is kept of that turn, stream by stream; nothing where it printed nothing. Also while it runs."""
    from urllib.parse import unquote

    found: dict[str, list[tuple[int, bytes]]] = {}
    for name, offset, file in _files(folder_of(state_dir, turn_id)):
        with suppress(FileNotFoundError), open(file, "rb") as opened:  # its place may just have been taken
            found.setdefault(name, []).append((offset, opened.read()))
    return [KeptOutput(unquote(name), tuple(sorted(pieces))) for name, pieces in sorted(found.items())]


def sizes(state_dir: str, turn_id: str) -> dict[str, int]:
    """How many bytes came of each stream of that turn, as far as its files tell. Also while it runs."""
    from urllib.parse import unquote

    found: dict[str, int] = {}
    for name, offset, file in _files(folder_of(state_dir, turn_id)):
        with suppress(FileNotFoundError):
            found[name] = max(found.get(name, 0), offset + os.stat(file).st_size)
    return {unquote(name): size for name, size in sorted(found.items())}


def pieces_in(folder: str) -> dict[str, list[tuple[int, str]]]:
    """The files of each stream in order, with the byte that each begins with; streams by their names in files."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name, offset, file in _files(folder):
        found.setdefault(name, []).append((offset, file))
    return {name: sorted(pieces) for name, pieces in found.items()}


def _files(folder: str) -> Iterator[tuple[str, int, str]]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    for name in names:
        match = _PIECE.fullmatch(name)
        if match is not None:
            yield match[1], int(match[2] or 0), os.path.join(folder, name)


def remove(state_dir: str, turn_id: str) -> None:
    """Take away what is kept of a turn; nothing happens where nothing is. Raises ``OSError``."""
    folder = folder_of(state_dir, turn_id)
    with suppress(FileNotFoundError):
        for name in os.listdir(folder):
            if _PIECE.fullmatch(name) or _LIST.fullmatch(name):
                _unlink(os.path.join(folder, name))
        os.rmdir(folder)
