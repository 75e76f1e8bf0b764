"""Where the entries of a log go: as text for a person or a file, as lines of JSON, or as one document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnctl.cli.logged import EVENTS
from turnctl.cli.logtext import gap_text, harmless, plain_line
from turnctl.cli.showing import precise
from turnctl.cli.stdout import is_terminal, put_bytes, put_line
from turnctl.cli.times import TimeFormat, shown
from turnctl.clock import wall

if TYPE_CHECKING:
    from turnctl.cli.logged import Entry, Log

__all__ = ["AsDocument", "AsJson", "AsText"]

SCHEMA = "turnctl.log/1"
#: streams that need no name before their lines: there is one command
_PLAIN = ("stdout", "stderr", "stdout+stderr")


class AsText:
    """Lines as they came, or harmless on a terminal; with their times and names where those are wanted or needed."""

    def __init__(self, log: Log, timestamps: bool, time_format: TimeFormat | None, *, colour: bool) -> None:
        self._timestamps = timestamps
        self._how = time_format
        self._is_seen = is_terminal()
        self._has_colour = colour
        self._has_names = log.has_several
        #: the stream whose line was begun and not ended
        self._open: str | None = None

    def take(self, entries: list[Entry]) -> None:
        put_bytes(b"".join(self._written(one) for one in entries))

    def _written(self, entry: Entry) -> bytes:
        line = entry.line
        goes_on = self._open == line.stream and not line.missing
        end = b"\n" if self._open is not None and not goes_on else b""
        self._open = None if line.is_ended or line.missing else line.stream
        begin = b"" if goes_on else self._begin(line.at, line.stream).encode("utf-8", "backslashreplace")
        if line.missing:
            text = harmless(gap_text(line).encode("utf-8", "backslashreplace"), is_coloured=False).encode()
        elif self._is_seen:
            text = harmless(line.data, is_coloured=self._has_colour).encode("utf-8", "backslashreplace")
        else:
            text = line.data
        return end + begin + text + (b"" if self._open is not None else b"\n")

    def _begin(self, at: float | None, stream: str) -> str:
        name = f"{stream} | " if self._has_names and (self._has_names > 1 or stream not in _PLAIN) else ""
        if not self._timestamps:
            return name
        if at is None:
            return f"- {name}"
        when = precise(at) if self._how is None or self._how == "iso" else shown(at, self._how, wall())
        return f"{when} {name}"

    def end(self) -> None:
        """Leave a terminal at the beginning of a line."""
        if self._open is not None and self._is_seen:
            put_bytes(b"\n")


class AsJson:
    """An object of JSON a line."""

    def __init__(self, turn_id: str) -> None:
        self._turn_id = turn_id

    def take(self, entries: list[Entry]) -> None:
        for one in entries:
            put_line(plain_line(self._turn_id, one.line, one.event))

    def end(self) -> None:
        pass


class AsDocument:
    """All of it in one document, schema ``turnctl.log/1``."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._lines: list[dict[str, Any]] = []

    def take(self, entries: list[Entry]) -> None:
        self._lines += [plain_line(self._log.turn_id, one.line, one.event) for one in entries]

    def as_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "turn_id": self._log.turn_id,
            "streams": [*self._log.names, EVENTS],
            "notes": list(self._log.notes()),
            "lines": self._lines,
        }
