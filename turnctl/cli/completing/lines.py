"""A line of bash as words, also where it is not finished: what is quoted is given without its quotes."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Word", "quoted", "split"]

_SPECIAL = frozenset(" \t\n\\'\"`$&|;<>()[]{}*?!#~^")


class Word(NamedTuple):
    """One word: as meant, as written, where it begins, and the quote that is still open at its end."""

    text: str
    raw: str
    at: int
    quote: str = ""


def split(line: str) -> list[Word]:
    """The words of ``line``; the last is the one at its end, which is empty after a space."""
    found: list[Word] = []
    text, begin, quote, n = "", -1, "", 0
    while n < len(line):
        char = line[n]
        if quote == "'":
            if char == quote:
                quote = ""
            else:
                text += char
        elif char == "\\" and (not quote or line[n + 1 : n + 2] in tuple('$`"\\\n')):
            begin = n if begin < 0 else begin
            text += line[n + 1 : n + 2]
            n += 1
        elif quote:
            if char == quote:
                quote = ""
            else:
                text += char
        elif char in "'\"":
            begin, quote = (n if begin < 0 else begin), char
        elif char.isspace():
            if begin >= 0:
                found.append(Word(text, line[begin:n], begin))
            text, begin = "", -1
        else:
            begin = n if begin < 0 else begin
            text += char
        n += 1
    return [*found, Word(text, line[begin:] if begin >= 0 else "", begin if begin >= 0 else len(line), quote)]


def quoted(text: str, quote: str = "") -> str:
    """``text`` as it is written in bash after the opening ``quote``, if there is one."""
    if quote == "'":
        return text.replace("'", "'\\''")
    if quote:
        return "".join(f"\\{char}" if char in '$`"\\' else char for char in text)
    return "".join(f"\\{char}" if char in _SPECIAL else char for char in text)
