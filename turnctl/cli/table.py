"""Plain aligned columns, without boxes; cut to a width on a terminal alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from turnctl.spelling import visible

__all__ = ["lines"]

_GAP = "  "


def lines(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None = None,
    paint: Callable[[int, str, str], str] | None = None,
) -> list[str]:
    """The lines of a table. The last column is cut to ``width``, with a sign that it was.

    ``paint(column, cell, padded)`` may put colour around a cell, which counts for nothing in its width.
    """
    cells = [[visible(cell) for cell in row] for row in rows]
    last = len(headers) - 1
    sizes = [max(len(row[n]) for row in (headers, *cells)) for n in range(last)]
    room = None if width is None else max(8, width - sum(sizes) - len(_GAP) * last)
    found = [_GAP.join([*(cell.ljust(size) for cell, size in zip(headers, sizes, strict=False)), headers[last]])]
    for row in cells:
        padded = [cell.ljust(size) for cell, size in zip(row, sizes, strict=False)]
        if paint is not None:
            padded = [paint(n, row[n], text) for n, text in enumerate(padded)]
        found.append(_GAP.join([*padded, _cut(row[last], room)]).rstrip())
    return found


def _cut(text: str, room: int | None) -> str:
    return text if room is None or len(text) <= room else text[: room - 1] + "…"
