"""A page as help: for a person at a terminal, examples first, so wide as the terminal is."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap

from turnctl.cli.pages.model import Option, Page, Rows

__all__ = ["help_text", "paragraphs", "section"]

_INDENT = "  "
#: a space where no line is broken
_HARD = "\u00a0"
#: columns that a word may take before what it means begins on a line of its own
_WIDEST = 26
#: what is left for a meaning at least
_NARROWEST = 20


def help_text(page: Page, width: int = 78) -> str:
    """The text of ``--help``, in lines of ``width`` columns at most; calls to copy are never broken.

    What is done step by step is left to the man page."""
    parts = [paragraphs([page.summary], width), f"Usage: {page.synopsis}\n"]
    if page.examples:
        lines = (f"{_INDENT}# {one.what}\n{_INDENT}{one.call}\n" for one in page.examples)
        parts.append("Examples:\n" + "".join(lines))
    parts += [section("Commands", page.commands, width), section("Help topics", page.topics, width)]
    for group in page.groups:
        parts.append(section(group.title, [(one.term, _told(one)) for one in group.options], width))
    parts += [section(title, rows, width) for title, rows in page.tables]
    parts += [section("Exit status", page.codes, width), paragraphs(page.notes, width)]
    return "\n".join(part for part in parts if part)


def _told(option: Option) -> str:
    """Its help, and its facts in brackets, of which none is broken."""
    facts = "; ".join(one.replace(" ", _HARD) for one in option.facts)
    return f"{option.help} ({facts})" if facts else option.help


def section(title: str, rows: Rows | Iterable[tuple[str, str]], width: int) -> str:
    """A title, and below it words with what they mean, in two columns; nothing where there are none."""
    rows = list(rows)
    if not rows:
        return ""
    longest = max((len(word) for word, _ in rows if len(word) <= _WIDEST), default=0)
    column = len(_INDENT) + longest + 2
    room = max(_NARROWEST, width - column)
    lines = [f"{title}:"] if title else []
    for word, meaning in rows:
        folded = wrap(meaning, room, break_long_words=False, break_on_hyphens=False) or [""]
        first, *rest = (one.replace(_HARD, " ") for one in folded)
        if len(word) > longest:
            lines.append(f"{_INDENT}{word}")
            rest = [first, *rest]
        else:
            lines.append(f"{_INDENT}{word:{longest}}  {first}".rstrip())
        lines += [" " * column + one for one in rest]
    return "\n".join(lines) + "\n"


def paragraphs(notes: Iterable[str], width: int) -> str:
    """Paragraphs with a line between."""
    return "\n".join("\n".join(wrap(one, width, break_on_hyphens=False)) + "\n" for one in notes)
