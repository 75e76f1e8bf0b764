"""Texts of others, on one line: names of files and processes, commands, reasons are whatever somebody chose. And why
the system refuses something."""

from __future__ import annotations

import os

__all__ = ["JOINERS", "described", "in_words", "visible"]

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


def in_words(error: BaseException, *, of: str | None = None) -> str:
    """Why, for a message that names the file ``of`` itself: what the system says, without its number for that, and
    behind the name of the file where it is another one. Of any other error its own text."""
    if not isinstance(error, OSError) or not error.strerror:
        return _said(error) or type(error).__name__
    name = error.filename
    if not isinstance(name, (str, bytes)) or os.fsdecode(name) == of:
        return error.strerror
    return f"{os.fsdecode(name)}: {error.strerror}"


def described(error: BaseException) -> str:
    """An error by its class and what it says, also one that cannot say it: whoever keeps an account goes on with it."""
    said = _said(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - its own ``__str__`` is somebody else's code; its class is left
        return ""


def _spelled(letter: str) -> str:
    number = ord(letter)
    return f"\\x{number - _BYTES:02x}" if 0x80 <= number - _BYTES <= 0xFF else ascii(letter)[1:-1]
