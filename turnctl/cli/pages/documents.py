"""The documents of the command line: the parts of them that are made, between two marks, and the rest left as it is.

A part begins with a line ``<!-- made by bin/pages: WHAT -->`` and ends with ``<!-- end -->``. WHAT is the name of a
command as it is called, ``topic NAME``, or ``commands``, the list of all with links to their pages. A command that has
no part yet gets one, in ``docs/cli/NAME.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from turnctl.cli.pages.markdown import escaped, reference, table
from turnctl.cli.pages.model import Page
from turnctl.cli.pages.tree import ROOT, pages

__all__ = ["end", "mark", "renewed"]

end = "<!-- end -->"
_PART = re.compile(rf"^<!-- made by bin/pages: ([^\n]+) -->\n.*?^{end}$", re.MULTILINE | re.DOTALL)


def mark(what: str) -> str:
    """The line that such a part begins with."""
    return f"<!-- made by bin/pages: {what} -->"


def renewed(docs: Path) -> dict[Path, str]:
    """Every page of the command line below ``docs`` as it has to be. Nothing is written.

    Raises ``LookupError`` where a page has a part that nothing makes.
    """
    known = {page.name: page for page in pages()}
    there = {path: path.read_text("utf-8") for path in [docs / "cli.md", *sorted((docs / "cli").glob("*.md"))]}
    made = {path: _PART.sub(lambda part: _part(part[1], known), text) for path, text in there.items()}
    told = {what for text in made.values() for what in _PART.findall(text)}
    for name, page in known.items():
        if name not in told and name != ROOT:
            path = docs / "cli" / f"{name.split()[1]}.md"
            title = f"{'#' if path not in made else '##'} {name}"
            text = f"{title}\n\n{mark(name)}\n{reference(page)}{end}\n"
            made[path] = f"{made[path].rstrip()}\n\n{text}" if path in made else text
    return made


def _part(what: str, known: dict[str, Page]) -> str:
    if what == "commands":
        text = _commands(known)
    elif what.startswith("topic "):
        text = _topic(what.removeprefix("topic "))
    elif what in known:
        text = reference(known[what])
    else:
        raise LookupError(f"no command or topic {what!r}: a page tells of what is not there")
    return f"{mark(what)}\n{text}{end}"


def _commands(known: dict[str, Page]) -> str:
    rows = [
        (f"[`{name}`](cli/{name.split()[1]}.md)", escaped(page.summary)) for name, page in known.items() if name != ROOT
    ]
    return table(("command", "what it is for"), rows)


def _topic(name: str) -> str:
    return "\n".join(_parts(name))


def _parts(name: str) -> Iterator[str]:
    from turnctl.cli.topics.reading import parts_of

    for part in parts_of(name):
        if isinstance(part, str):
            yield f"{escaped(part)}\n"
        else:
            title, rows = part
            yield table((title.lower(), "meaning"), [(f"`{word}`", escaped(what)) for word, what in rows])
