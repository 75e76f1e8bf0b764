"""``python -m turnctl.cli.pages``: renews the made parts of the documents, or writes man pages; see ``bin/pages``."""

from __future__ import annotations

import sys
from pathlib import Path

from turnctl.cli.pages.documents import renewed
from turnctl.cli.pages.roff import man_page
from turnctl.cli.pages.tree import pages
from turnctl.cli.topics.texts import KEPT

__all__ = ["docs", "main", "man"]

_USAGE = "usage: python -m turnctl.cli.pages docs FOLDER [--check] | man FOLDER [DAY]"


def docs(folder: Path, *, is_check: bool = False) -> list[Path]:
    """Bring the pages of the command line below ``folder`` up to date; those that were not. With ``is_check`` nothing
    is written."""
    stale = []
    for path, text in renewed(folder).items():
        if not path.exists() or path.read_text("utf-8") != text:
            stale.append(path)
            if not is_check:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, "utf-8")
    return stale


def man(folder: Path, day: str = "") -> list[Path]:
    """Write the man page of every command into ``folder``; the files. ``day`` is that of the release."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for page in pages():
        path = folder / f"{page.file}.1"
        path.write_text(man_page(page, KEPT, day), "utf-8")
        written.append(path)
    return written


def main(args: list[str]) -> int:
    """Run it; the exit status."""
    if len(args) in (2, 3) and args[0] == "docs" and args[2:] in ([], ["--check"]):
        stale = docs(Path(args[1]), is_check=bool(args[2:]))
        for path in stale:
            print(f"{'stale' if args[2:] else 'written'}: {path}")
        return int(bool(stale and args[2:]))
    if len(args) in (2, 3) and args[0] == "man":
        print(f"{len(man(Path(args[1]), *args[2:]))} man pages in {args[1]}")
        return 0
    print(_USAGE, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
