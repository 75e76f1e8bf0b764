"""A page as a man page: roff with the macros of man(7), which groff and mandoc both read.

Invariants
  R1  No text becomes a request: a line of ours that begins with a dot or a quote begins with ``\\&``.
  R2  No letter is lost or turned into another: backslashes are written ``\\e``, hyphens ``\\-``, so that an option can
      be searched for and copied, quotes and carets by their names.
  R3  The same command gives the same page: there is no day in it but the one of a release.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from turnctl._version import __version__
from turnctl.cli.pages.model import Group, Page, Rows

__all__ = ["escaped", "man_page", "short_form"]

_LETTERS = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti", '"': "\\(dq"}


def man_page(page: Page, files: Rows = (), day: str = "") -> str:
    """The whole of it, for section 1. ``files`` are what turnctl keeps; ``day`` is that of a release."""
    brief = page.summary[:1].lower() + page.summary[1:].rstrip(".")
    variables = ((name, f"The same as {option}, which is stronger.") for name, option in _once(page))
    parts = [
        f'.TH {_quoted(page.file.upper())} 1 "{day}" {_quoted(f"turnctl {__version__}")} "turnctl manual"',
        _section("NAME", [f"{escaped(page.file)} \\- {escaped(brief)}"]),
        _section("SYNOPSIS", [_synopsis(page)]),
        _section("DESCRIPTION", _paragraphs(page.notes) if page.notes else [escaped(page.summary)]),
        _section("EXAMPLES", _examples(page)),
        _section("COMMANDS", _rows((short_form(page.name, word), meaning) for word, meaning in page.commands)),
        _section("OPTIONS", [line for group in page.groups for line in _group(group)]),
        _section("OPERATION", _steps(page.steps)),
        *(_section(title.upper(), _rows(rows)) for title, rows in page.tables),
        _section("HELP TOPICS", _rows((f"turnctl help {word}", meaning) for word, meaning in page.topics)),
        _section("EXIT STATUS", _rows(page.codes)),
        _section("ENVIRONMENT", _rows(variables)),
        _section("FILES", _rows(files)),
        _section("SEE ALSO", [_see_also(page)]),
    ]
    return "\n".join(part for part in parts if part) + "\n"


def escaped(text: str) -> str:
    """``text`` as roff shows it, letter by letter (R1, R2)."""
    safe = "".join(_LETTERS.get(char, char) for char in text)
    return f"\\&{safe}" if safe.startswith(".") else safe


def short_form(name: str, word: str) -> str:
    """The man page of a command of the command ``name``, as it is referred to: "turnctl-run(1)"."""
    return f"{name} {word}".replace(" ", "-") + "(1)"


def _quoted(text: str) -> str:
    """An argument of a macro."""
    return f'"{escaped(text)}"'


def _section(title: str, lines: list[str]) -> str:
    lines = [line for line in lines if line]
    return "\n".join([f".SH {_quoted(title)}", *lines]) if lines else ""


def _synopsis(page: Page) -> str:
    rest = page.synopsis.removeprefix(page.name).strip()
    return f"\\fB{escaped(page.name)}\\fR {_placed(rest)}".rstrip()


def _placed(text: str) -> str:
    """With what stands for something else in italics: words in capitals."""
    return re.sub(r"[A-Z][A-Z0-9_|]*|[^A-Z]+", lambda one: _italic(one[0]), text)


def _italic(text: str) -> str:
    return f"\\fI{escaped(text)}\\fR" if text[:1].isupper() else escaped(text)


def _paragraphs(notes: Iterable[str]) -> list[str]:
    return [line for note in notes for line in (".PP", escaped(note))][1:]


def _examples(page: Page) -> list[str]:
    lines = []
    for one in page.examples:
        what = one.what[:1].upper() + one.what[1:]
        lines += [".PP", f"{escaped(what)}:", ".PP", ".nf", ".RS 4", escaped(one.call), ".RE", ".fi"]
    return lines[1:]


def _group(group: Group) -> list[str]:
    lines = [f".SS {_quoted(group.title)}"]
    for option in group.options:
        names = ", ".join(f"\\fB{escaped(name)}\\fR" for name in option.names)
        lines += [
            ".TP",
            names + (f" \\fI{escaped(option.metavar)}\\fR" if option.metavar else ""),
            escaped(option.help),
        ]
        if option.facts:
            lines.append(escaped(f"({'; '.join(option.facts)})"))
    return lines


def _rows(rows: Iterable[tuple[str, str]]) -> list[str]:
    lines = []
    for word, meaning in rows:
        lines += [".TP", f"\\fB{escaped(word)}\\fR", escaped(meaning) or "\\&"]
    return lines


def _steps(steps: Iterable[str]) -> list[str]:
    lines = []
    for n, step in enumerate(steps, 1):
        lines += [f'.IP "{n}." 4', escaped(step)]
    return lines


def _once(page: Page) -> Rows:
    return tuple(dict(page.environment).items())


def _see_also(page: Page) -> str:
    if " " not in page.name:
        return "\\fBturnctl help\\fR shows the topics as well."
    above = page.name.rpartition(" ")[0].replace(" ", "-")
    return f"\\fB{escaped(above)}\\fR(1), and \\fBturnctl help exit\\-codes\\fR, \\fBnames\\fR, \\fBenv\\fR"
