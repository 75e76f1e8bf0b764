"""Where everything of a picture stands: panels of rows, one for each lane, or for each page of a long one.

Wide, a row has its name before it and its state behind it; narrow, both stand above it. A lane with very many items has
no row for each: items that do not overlap share one, and their names are in them as far as there is room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from operator import itemgetter
from typing import NamedTuple

from turnctl.report.bars import SIGN_W
from turnctl.report.picture import Item, Lane, Picture
from turnctl.report.scale import Scale

__all__ = ["NARROW", "WIDE", "Form", "Panel", "Row", "laid_out"]


class Form(NamedTuple):
    """The measures of a drawing, in pixels; ``name`` and ``word`` are how many letters these may have."""

    width: int
    gutter: int
    status: int
    row: int
    #: from the top of a row to the middle of its bar
    middle: int
    name: int
    word: int
    apart: int
    is_narrow: bool

    @property
    def plot(self) -> int:
        return self.width - self.gutter - self.status


WIDE = Form(1080, 250, 244, 24, 12, 36, 36, 64, is_narrow=False)
NARROW = Form(360, 6, 24, 38, 27, 28, 34, 56, is_narrow=True)

#: a lane of more items than this has rows that several of them share
SINGLY = 60
#: rows of one panel, so that it fits a page of paper
PAGE = 30
#: rows that are shared: how high, at least so wide is an item in them, and so many are drawn at most
SHARED_H, SHARED_W, SHARED_MOST = 16, 5.0, 150

HEAD, FOOT, STOP_H, GRACE_H = 38, 10, 16, 16
#: above a bar whose marks have words
MARKS_H = 9


class Row(NamedTuple):
    """Items on one line, ``height`` from ``top`` on, with ``y`` the middle of its bars; from the top of the panel."""

    top: float
    height: float
    y: float
    items: tuple[Item, ...]
    is_shared: bool


class Panel(NamedTuple):
    """A piece of the drawing with a line of ticks of its own. ``left_out`` items of its lane are drawn nowhere."""

    lane: Lane
    title: str
    height: float
    #: where the line of ticks is
    axis: float
    rows: tuple[Row, ...]
    is_first: bool
    left_out: int = 0


def laid_out(picture: Picture, form: Form) -> tuple[Panel, ...]:
    """The panels of a picture, from top to bottom."""
    scale = Scale(picture.end, form.plot)
    found: list[Panel] = []
    for lane in picture.lanes:
        if lane.items or lane.key == "turn":
            found += _panels(lane, scale, form, picture, is_first=not found)
    return tuple(found)


def _panels(lane: Lane, scale: Scale, form: Form, picture: Picture, *, is_first: bool) -> Iterator[Panel]:
    is_shared = len(lane.items) > SINGLY
    lines, left_out = _shared(lane.items, scale) if is_shared else ([(item,) for item in lane.items], 0)
    if left_out:  # of what is well nobody misses a piece
        lines, left_out = _shared([item for item in lane.items if item.look != "done"], scale)
        left_out = len(lane.items) - sum(map(len, lines))
    height, middle = (SHARED_H, SHARED_H / 2) if is_shared else (form.row, form.middle)
    page = PAGE * form.row // height
    above = (STOP_H * (picture.stop is not None or picture.now) + GRACE_H * (picture.grace is not None)) * is_first
    count = "" if lane.key == "turn" else f" ({len(lane.items)})"
    for first in range(0, len(lines), page):
        top = HEAD + above * (first == 0)
        rows, y = [], float(top)
        for items in lines[first : first + page]:
            more_h = MARKS_H if not is_shared and any(item.marks for item in items) else 0
            rows.append(Row(y, height + more_h, y + more_h + middle, tuple(items), is_shared))
            y += height + more_h
        more = f"{count}, continued" if first else count
        is_last = first + page >= len(lines)
        yield Panel(
            lane,
            lane.title + more,
            y + FOOT,
            top - 6,
            tuple(rows),
            is_first and first == 0,
            left_out if is_last else 0,
        )


def _shared(items: Sequence[Item], scale: Scale) -> tuple[list[tuple[Item, ...]], int]:
    """Rows in which no two items touch, and how many items found no place."""
    lines: list[list[tuple[float, float, Item]]] = []
    free: list[tuple[float, int]] = []
    left_out = 0
    for begin, end, item in sorted((_reach(item, scale) for item in items if item.spans), key=itemgetter(0, 1)):
        if free and free[0][0] <= begin:
            _, n = heappop(free)
        elif len(lines) < SHARED_MOST:
            n = len(lines)
            lines.append([])
        else:
            left_out += 1
            continue
        lines[n].append((begin, end, item))
        heappush(free, (end + 1.0, n))
    untimed = [(item,) for item in items if not item.spans][:SHARED_MOST]
    left_out += sum(not item.spans for item in items) - len(untimed)
    return [tuple(item for _, _, item in line) for line in lines] + untimed, left_out


def _reach(item: Item, scale: Scale) -> tuple[float, float, Item]:
    begin = scale.x(item.begin)
    least = SHARED_W if item.look in ("done", "going") else SIGN_W
    return begin, max(scale.x(item.end), begin + least), item
