"""Texts of others, on one line: names of files and processes, commands, reasons are whatever somebody chose."""

from __future__ import annotations

__all__ = ["JOINERS", "visible"]

#: joiners, which some scripts and emoji need, and which move nothing
JOINERS = "\u200c\u200d"
#: where Python puts bytes of a name that are no UTF-8
_BYTES = 0xDC00


def visible(text: str) -> str:
    """The same with each control character, surrogate, and mark of direction spelled out, as ``\\n`` or ``\\u202e``.

    So it is one line, nothing in it can move, hide or turn round what stands beside it, and no letter in it is one that
    XML forbids. A byte of a file's name that is no UTF-8 is ``\\xff``. A name that has a backslash itself stays as it
    is: this is for people, and nothing reads it back.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in JOINERS else _spelled(c) for c in text)


def _spelled(letter: str) -> str:
    number = ord(letter)
    return f"\\x{number - _BYTES:02x}" if 0x80 <= number - _BYTES <= 0xFF else ascii(letter)[1:-1]
