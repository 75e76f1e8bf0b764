"""How a live view is drawn, with rich: the one place that it is imported in, and only when something is drawn.

Why rich, why as an extra, and what is not taken from it: docs/adr/0015.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from io import StringIO
from typing import TYPE_CHECKING

from turnctl.cli.frames import Cell, Frame, fitted
from turnctl.cli.stdout import is_terminal
from turnctl.spelling import visible

if TYPE_CHECKING:
    from rich.text import Text

    from turnctl.cli.frames import Row
    from turnctl.cli.scrolling import Scroll

__all__ = ["EXTRA", "can_move", "drawn", "is_there", "size"]

#: what to install
EXTRA = "turnctl[live]"
_GAP = "  "
_STYLES = {
    "": "",
    "title": "bold",
    "head": "underline",
    "good": "green",
    "bad": "bold red",
    "busy": "yellow",
    "strong": "bold",
    "quiet": "dim",
}


def is_there() -> bool:
    """Whether rich is installed. Does not load it."""
    return find_spec("rich") is not None


def can_move() -> bool:
    """Whether stdout is a terminal that something can be drawn on anew."""
    return is_terminal() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def size() -> tuple[int, int]:
    """Columns and lines of the terminal; 80 and 24 where it does not say."""
    try:
        found = os.get_terminal_size(1)
    except OSError:
        return 80, 24
    return found.columns or 80, found.lines or 24


def drawn(frame: Frame, width: int, height: int | None, *, colour: bool, scroll: Scroll | None = None) -> list[str]:
    """The lines of it, none wider than ``width`` and not more than ``height``, with the codes of colours; from where
    a person has gone on to with ``scroll``."""
    from rich.console import Console
    from rich.text import Text

    rows = fitted(frame, height, scroll)
    widths = _widths(rows if scroll is None else fitted(frame, None))  # what moves keeps its columns
    console = Console(file=StringIO(), force_terminal=True, width=width, no_color=not colour, highlight=False)
    found = []
    for row in rows[: height or len(rows)]:
        text = Text(no_wrap=True, end="")
        last = len(row.cells) - 1
        for n, cell in enumerate(row.cells):
            piece = _piece(cell)
            text.append_text(piece)
            if row.has_columns and n < last:
                text.append(" " * (widths[n] - piece.cell_len) + _GAP)
        text.rstrip()
        text.truncate(width, overflow="ellipsis")
        with console.capture() as capture:
            console.print(text, end="", soft_wrap=True)
        found.append(capture.get())
    return found


def _piece(cell: Cell) -> Text:
    from rich.text import Text

    return Text(visible(cell.text), style=_STYLES[cell.style], end="")


def _widths(rows: list[Row]) -> list[int]:
    from rich.cells import cell_len

    widths: list[int] = []
    for row in rows:
        if row.has_columns:
            for n, cell in enumerate(row.cells):
                if n == len(widths):
                    widths.append(0)
                widths[n] = max(widths[n], cell_len(visible(cell.text)))
    return widths
