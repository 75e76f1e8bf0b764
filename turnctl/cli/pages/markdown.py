"""A page as Markdown: the reference part of the documents, which nobody writes by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable

from turnctl.cli.pages.model import Group, Page, Rows

__all__ = ["escaped", "reference", "table"]


def reference(page: Page) -> str:
    """Summary, synopsis, examples, options with their variables, words, exit statuses."""
    parts = [
        f"{escaped(page.summary)}\n",
        f"    {page.synopsis}\n",
        _examples(page),
        table(
            ("command", "what it is for"), [(f"`{page.name} {word}`", escaped(what)) for word, what in page.commands]
        ),
        *(_group(group) for group in page.groups),
        "\n".join(f"{n}. {escaped(step)}" for n, step in enumerate(page.steps, 1)) + "\n" if page.steps else "",
        *(table((title.lower(), "meaning"), _worded(rows)) for title, rows in page.tables),
        table(("exit status", "meaning"), [(word, escaped(what)) for word, what in page.codes]),
        "\n".join(f"{escaped(note)}\n" for note in page.notes),
    ]
    return "\n".join(part for part in parts if part)


def _examples(page: Page) -> str:
    if not page.examples:
        return ""
    return "```sh\n" + "".join(f"# {one.what}\n{one.call}\n" for one in page.examples) + "```\n"


def _group(group: Group) -> str:
    rows = []
    for one in group.options:
        term = ", ".join(f"`{name}`" for name in one.names)
        if one.metavar:
            term = term.removesuffix("`") + f" {one.metavar}`"
        facts = [fact for fact in one.facts if not fact.startswith("env: ")]
        meaning = escaped(one.help) + (f" ({escaped('; '.join(facts))})" if facts else "")
        rows.append((_in_cell(term), meaning, ", ".join(f"`{name}`" for name in one.env)))
    return table((group.title.lower(), "meaning", "environment"), rows)


def _worded(rows: Rows) -> list[tuple[str, str]]:
    return [(f"`{_in_cell(word)}`", escaped(meaning)) for word, meaning in rows]


def table(head: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    """A table; nothing where there are no rows."""
    rows = list(rows)
    if not rows:
        return ""
    head = tuple(head)
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ("---",) * len(head), *rows])


def escaped(text: str) -> str:
    """``text`` as Markdown shows it: no star, underline, bar or tag of it means anything."""
    return re.sub(r"([\\*_|<>`\[\]])", r"\\\1", text)


def _in_cell(text: str) -> str:
    """Code in a cell: only a bar would end it."""
    return text.replace("|", "\\|")
