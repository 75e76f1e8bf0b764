"""What a live view shows, apart from how it gets there: lines of cells, and which of them find room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from turnctl.cli.scrolling import Scroll

__all__ = ["Cell", "Frame", "Group", "Row", "Style", "fitted", "state_cell"]

Style = Literal["", "title", "head", "good", "bad", "busy", "strong", "quiet"]


class Cell(NamedTuple):
    """A piece of text. Its style never carries a meaning alone."""

    text: str
    style: Style = ""


class Row(NamedTuple):
    """One line. In columns, the cells but for the last are as wide as the widest of their column."""

    cells: tuple[Cell, ...]
    has_columns: bool = False


class Group(NamedTuple):
    """A row, and what stands below it and may be left out."""

    row: Row
    below: tuple[Row, ...] = ()


class Frame(NamedTuple):
    """All that is seen at one moment."""

    head: tuple[Row, ...]
    groups: tuple[Group, ...]
    foot: tuple[Row, ...] = ()
    #: what one that is left out is called: one turn, many turns
    what: tuple[str, str] = ("line", "lines")


def state_cell(word: str) -> Cell:
    """A word of state."""
    if "unresolved" in word or word in ("lost", "failed"):
        return Cell(word, "bad")
    if word == "completed" or word.endswith("settled"):
        return Cell(word, "good")
    return Cell(word, "strong" if word == "running" else "busy")


def fitted(frame: Frame, height: int | None, scroll: Scroll | None = None) -> list[Row]:
    """The rows for so many lines; None for all. What is left out is said.

    First what stands below is cut, each group keeping about as much as another, then groups. Where a person has gone
    on with ``scroll`` it is all lines from there on, as many as find room; the foot says how to do that, and where one
    is.
    """
    lines = [row for one in frame.groups for row in (one.row, *one.below)]
    if height is None:
        return [*frame.head, *lines, *frame.foot]
    room = max(1, height - len(frame.head) - len(frame.foot))
    if scroll is not None:
        at = scroll.within(len(lines), room)
        if at is not None:
            shown = lines[at : at + room]
            return [*frame.head, *shown, *_noted(frame.foot, f"lines {at + 1} to {at + len(shown)} of {len(lines)}")]
        if len(lines) > room:
            frame = frame._replace(foot=_noted(frame.foot, f"j, k and PgDn, PgUp show all {len(lines)} lines"))
    groups = frame.groups
    left_out = 0
    if len(groups) > room:
        left_out = len(groups) - (room - 1)
        groups = groups[: room - 1]
    shares = _shares([len(one.below) for one in groups], room - len(groups) - (left_out > 0))
    rows = [*frame.head]
    for group, share in zip(groups, shares, strict=True):
        rows.append(group.row)
        rows += _cut(group.below, share)
    if left_out:
        rows.append(Row((Cell(f"and {left_out} more {frame.what[left_out > 1]}", "quiet"),)))
    return [*rows, *frame.foot]


def _noted(foot: tuple[Row, ...], text: str) -> tuple[Row, ...]:
    """The foot with that before all else, where there is one."""
    if not foot:
        return foot
    return (foot[0]._replace(cells=(Cell(f"{text}   ", "quiet"), *foot[0].cells)), *foot[1:])


def _cut(below: Sequence[Row], share: int) -> list[Row]:
    if len(below) <= share:
        return [*below]
    if share < 1:
        return []
    return [*below[: share - 1], Row((Cell(f"   … {len(below) - share + 1} more", "quiet"),))]


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """Who gets how much: all that he wants where that is less than what is left for each, else an equal part."""
    shares = [0] * len(wanted)
    left, open_ = max(0, room), sorted(range(len(wanted)), key=lambda n: (wanted[n], n))
    for i, n in enumerate(open_):
        shares[n] = min(wanted[n], left // (len(open_) - i))
        left -= shares[n]
    return shares
