"""One item as a bar, whose shape says what is known.

It is solid while it ran, half as high once it was to stop, a line before it ran, and hatched where nothing is known. A
known end has a cap, one that goes on an arrow.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement

from turnctl.report.picture import Item, Span
from turnctl.report.scale import Scale
from turnctl.report.signs import sign
from turnctl.report.texts import cut

__all__ = ["HATCH_ID", "SIGN_W", "bar", "hatch", "rect"]

HATCH_ID = "hatch"
_LEAST = 1.5
#: so much room a sign needs
SIGN_W = 9.0
#: what a bar without a sign is
_PLAIN = ("done", "going")
_LETTER = 6.2
_MARK_APART = 26


def hatch(svg: Element, name: str, colour_class: str = "unknown") -> None:
    """The hatching, to be used as ``url(#name)``."""
    defs = SubElement(svg, "defs")
    pattern = SubElement(
        defs,
        "pattern",
        {
            "id": name,
            "class": colour_class,
            "width": "6",
            "height": "6",
            "patternUnits": "userSpaceOnUse",
            "patternTransform": "rotate(45)",
        },
    )
    SubElement(pattern, "path", {"class": "hatching", "d": "M0 0 V6"})


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def rect(into: Element, name: str, x: float, y: float, width: float, height: float, **more: str) -> None:
    place = {"x": _n(x), "y": _n(y), "width": _n(max(width, 0)), "height": _n(height)}
    SubElement(into, "rect", {"class": name, **place, **more})


def bar(into: Element, item: Item, scale: Scale, y: float, high: float, name: str, *, is_shared: bool) -> None:
    """Draw it with its middle at ``y``, ``high`` pixels high; ``name`` is that of the hatching."""
    wide = scale.x(item.end) - scale.x(item.begin)
    if is_shared and wide < SIGN_W and item.look not in _PLAIN and not item.is_open:
        sign(into, item.look, scale.x(item.begin) + SIGN_W / 2, y)  # as a bar its colour alone would tell
        return
    for span in item.spans:
        _span(into, span, scale, y, high, name)
    x, end = scale.x(item.begin), max(scale.x(item.end), scale.x(item.begin) + _LEAST)
    is_known = item.spans[-1].kind != "unknown"
    if item.is_open:
        _arrow(into, end, y, is_filled=is_known and item.look != "unknown")
    elif is_known:
        rect(into, "solid", end - 1.5, y - high / 2 - 1.5, 2, high + 3)
    if is_shared:
        _name_inside(into, item, x, end, y)
    else:
        _marks(into, item, scale, y, high)
        if is_known and end - x < 14 and not item.is_open and end < scale.width - 16:
            sign(into, item.look, end + 9, y)


def _span(into: Element, span: Span, scale: Scale, y: float, high: float, name: str) -> None:
    x, wide = scale.x(span.begin), scale.x(span.end) - scale.x(span.begin)
    wide = max(wide, _LEAST)
    if span.kind == "unknown":
        if wide > 3:
            rect(into, "back", x, y - high / 2, wide, high)
            rect(into, "hatched", x + 0.6, y - high / 2, wide - 1.2, high, fill=f"url(#{name})")
        else:
            rect(into, "solid", x, y - high / 2, wide, high)
    elif span.kind == "stopping":
        rect(into, "solid", x, y - high / 4, wide, high / 2)
    elif span.kind == "starting":
        rect(into, "solid", x, y - 1, wide, 2)
    else:
        rect(into, "solid", x, y - high / 2, wide, high)


def _arrow(into: Element, x: float, y: float, *, is_filled: bool) -> None:
    more = {} if is_filled else {"fill": "none"}
    name = "solid" if is_filled else "line"
    SubElement(into, "path", {"class": name, "d": f"M{_n(x)} {_n(y - 6)} l7 6 l-7 6 z", **more})


def _name_inside(into: Element, item: Item, x: float, end: float, y: float) -> None:
    room = int((end - x - 8) / _LETTER)
    if room < 5:
        if item.look not in _PLAIN and end - x >= SIGN_W and item.spans[-1].kind != "unknown":
            sign(into, item.look, (x + end) / 2, y, is_over=item.spans[-1].kind == "going")
        elif room >= 3 and item.look in _PLAIN:
            _put_inside(into, item.name, room, x, y)
        return
    if item.look not in _PLAIN:
        rect(into, "back", x + 2, y - 5, 13, 10)
        sign(into, item.look, x + 9, y)
        x, room = x + 12, room - 2
    _put_inside(into, item.name, room, x, y)


def _put_inside(into: Element, text: str, room: int, x: float, y: float) -> None:
    SubElement(into, "text", {"class": "inside", "x": _n(x + 4), "y": _n(y + 3.5)}).text = cut(text, room)


def _marks(into: Element, item: Item, scale: Scale, y: float, high: float) -> None:
    before = -100.0
    for mark in item.marks:
        x = scale.x(mark.at)
        SubElement(into, "path", {"class": "mark", "d": f"M{_n(x)} {_n(y - high / 2 - 8)} V{_n(y + high / 2)}"})
        if x - before < _MARK_APART:
            continue  # what it is stands in the title and in the list
        before = x
        is_last = x > scale.width - 40
        text = SubElement(
            into,
            "text",
            {
                "class": f"sent{' end' if is_last else ''}",
                "x": _n(x - 3 if is_last else x + 3),
                "y": _n(y - high / 2 - 2),
            },
        )
        text.text = mark.word
