"""A line of output as it is written: as it came where a program reads, harmless where a person looks.

On a terminal nothing that a turn has printed may move the cursor, answer for the user, set a title or hide what stands
elsewhere. So of what came only text that can be seen goes there, and tabs; what cannot be seen, or is no UTF-8, is
written as ``\\x1b``, ``\\u202e``. The one exception is colour (``ESC [ ... m``): it is passed on where colour is
wanted, else left out, and ends with its line. Anywhere else the bytes are what came: who puts them on a terminal does
so himself.
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from turnctl.cli.showing import precise

if TYPE_CHECKING:
    from turnctl.ledger.spool_lines import Line

__all__ = ["SCHEMA", "gap_text", "harmless", "plain_line", "text_of"]

SCHEMA = "turnctl.log-line/1"
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,40}m")
_RESET = "\x1b[0m"


def harmless(data: bytes, *, is_coloured: bool) -> str:
    """That line for a terminal."""
    text = text_of(data.removesuffix(b"\r"))
    if text.isprintable():
        return text
    parts, at, has_colour = [], 0, False
    for match in _COLOUR.finditer(text):
        parts.append(_seen(text[at : match.start()]))
        if is_coloured:
            parts.append(match[0])
            has_colour = True
        at = match.end()
    parts.append(_seen(text[at:]))
    return "".join(parts) + (_RESET if has_colour else "")


def _seen(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    number = ord(char)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def text_of(data: bytes) -> str:
    """As text; a byte that is no UTF-8 as ``\\xff``."""
    return data.decode("utf-8", "backslashreplace")


def gap_text(line: Line) -> str:
    """What stands in the place of what was not kept."""
    return f"[turnctl: {line.missing} bytes of {line.stream} are missing here: they were not kept]"


def plain_line(turn_id: str, line: Line, event: dict[str, Any] | None) -> dict[str, Any]:
    """As one object of JSON, schema ``turnctl.log-line/1``."""
    try:
        text, raw = line.data.decode(), None
    except UnicodeDecodeError:
        text, raw = text_of(line.data), b64encode(line.data).decode("ascii")
    return {
        "schema": SCHEMA,
        "turn_id": turn_id,
        "at": None if line.at is None else precise(line.at),
        "stream": line.stream,
        "text": text,
        "is_ended": line.is_ended,
        "base64": raw,
        "missing": line.missing,
        "event": event,
    }
