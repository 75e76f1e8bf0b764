"""The report as Markdown, for a pull request: the facts, a drawing in letters, and what is not on record.

What others wrote stands in code, where it makes no link, no heading, and calls nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from turnctl.report.picture import Item, Look, Picture
from turnctl.report.scale import Scale
from turnctl.report.texts import cut, moment, span, units

__all__ = ["markdown"]

_WIDE, _NAME, _MOST = 48, 26, 40
_SIGNS: dict[Look, str] = {
    "done": "+",
    "failed": "x",
    "stopped": "#",
    "going": ">",
    "unknown": "?",
    "ended": ".",
    "never": "0",
    "elsewhere": "~",
}
_LETTERS = {"starting": ".", "going": "=", "stopping": "-", "unknown": "?"}


def markdown(picture: Picture, *, made_by: str) -> str:
    """The text."""
    return "\n".join(_lines(picture, made_by)) + "\n"


def code(text: str, room: int = 120) -> str:
    """In code: with more ticks around it than are in it, and nothing that ends a cell of a table."""
    text = cut(text, room).replace("|", "\u2223").strip() or " "
    ticks = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _lines(picture: Picture, made_by: str) -> Iterator[str]:
    yield f"### turn {code(picture.turn_id)}: {picture.state}"
    yield ""
    yield code(picture.sentence, 400)
    yield ""
    yield "| | | |"
    yield "|---|---|---|"
    for title, rows in picture.facts:
        for n, (label, value) in enumerate(rows):
            yield f"| {f'**{title}**' if n == 0 else ''} | {code(label)} | {code(value)} |"
    yield ""
    yield "```text"
    yield from _drawing(picture)
    yield "```"
    yield ""
    if picture.gaps:
        yield "**Not on record**"
        yield ""
        for one in picture.gaps:
            yield f"- {code(one, 400)}"
        yield ""
    redacted = "; redacted" if picture.is_redacted else ""
    yield f"<sub>made by {made_by} at {moment(picture.seen_at)}{redacted}</sub>"


def _drawing(picture: Picture) -> Iterator[str]:
    scale = Scale(picture.end, _WIDE)
    yield f"{'':{_NAME}}  {_axis(scale)}"
    for lane in picture.lanes:
        shown = lane.items if len(lane.items) <= _MOST else _chosen(lane.items)
        if lane.key != "turn" and lane.items:
            yield f"{lane.title} ({len(lane.items)})"
        for item in shown:
            yield _row(item, scale)
        if len(shown) < len(lane.items):
            yield f"  ... and {len(lane.items) - len(shown)} more"
    if picture.stop is not None:
        yield f"{'':{_NAME}}  {_pointer(scale, picture.stop.begin)} {_safe(picture.stop.words, 90)}"
    if picture.grace is not None:
        yield f"{'':{_NAME}}  {_pointer(scale, picture.grace.end)} {_safe(picture.grace.words, 90)}"
    yield "= ran   - after the stop was accepted   . being started   ? not known   | an end that is known   > goes on"


def _safe(text: str, room: int) -> str:
    """Text that cannot end the block that it stands in."""
    return cut(text, room).replace("```", "'''")


def _chosen(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Those that are not well, and the first of the others, in their order."""
    bad = [n for n, item in enumerate(items) if item.look != "done"][:_MOST]
    good = [n for n, item in enumerate(items) if item.look == "done"][: _MOST - len(bad)]
    return tuple(items[n] for n in sorted([*bad, *good]))


def _axis(scale: Scale) -> str:
    line = ""
    for tick in scale.ticks(8):
        at = round(tick.x)
        if at >= len(line) and at + len(tick.label) <= _WIDE + 8:
            line = line.ljust(at) + tick.label + " "
    return line.rstrip()


def _row(item: Item, scale: Scale) -> str:
    name = _safe(item.name, _NAME)
    took = "" if item.took is None else f", {span(item.took)}"
    state = f"{_SIGNS[item.look]} {_safe(item.word, 60)}{took}"
    return f"{name}{'':{_NAME - units(name)}}  {_bar(item, scale)}  {state}"


def _bar(item: Item, scale: Scale) -> str:
    if not item.spans:
        return "(time not on record)".ljust(_WIDE + 1)
    cells = [" "] * (_WIDE + 1)
    for one in item.spans:
        first = min(int(scale.x(one.begin)), _WIDE - 1)
        for n in range(first, max(min(round(scale.x(one.end)), _WIDE), first + 1)):
            cells[n] = _LETTERS[one.kind]
    last = max(n for n, cell in enumerate(cells) if cell != " ")
    if item.is_open:
        cells[last + 1] = ">"
    elif item.spans[-1].kind != "unknown":
        cells[last + 1] = "|"
    return "".join(cells)


def _pointer(scale: Scale, at: float) -> str:
    return f"{'':{min(int(scale.x(at)), _WIDE)}}^"
