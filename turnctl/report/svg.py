"""The drawing as SVG: panels one below the other, without script, and with nothing from elsewhere."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, tostring

from turnctl.report.bars import HATCH_ID, bar, hatch, rect
from turnctl.report.layout import FOOT, MARKS_H, STOP_H, WIDE, Form, Panel, Row, laid_out
from turnctl.report.look import DRAWING
from turnctl.report.picture import Item, Picture
from turnctl.report.scale import Scale
from turnctl.report.signs import sign
from turnctl.report.texts import cut, moment, span, units, whole

__all__ = ["KEY", "description", "key_sample", "panels", "svg"]

_BAR, _SHARED_BAR = 13, 11
_LINE, _MOST_GAPS = 17, 6
_LETTER = 6.6
#: what the shapes mean
KEY = (
    ("ran", "ran, and its end is known"),
    ("stopping", "after the stop was accepted"),
    ("starting", "being started"),
    ("unknown", "hatched: not known"),
    ("open", "goes on"),
)


def svg(picture: Picture, *, made_by: str) -> str:
    """A file of its own."""
    form, margin = WIDE, 20
    top = 76
    drawn = laid_out(picture, form)
    missing = _missing(picture)
    height = top + sum(panel.height for panel in drawn) + 34 + _LINE * len(missing)
    root = Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {form.width + 2 * margin} {height:g}",
            "width": str(form.width + 2 * margin),
            "height": f"{height:g}",
            "class": "drawing",
            "role": "img",
            "aria-labelledby": "title desc",
        },
    )
    SubElement(root, "title", {"id": "title"}).text = f"turn {picture.turn_id}: {picture.state}"
    SubElement(root, "desc", {"id": "desc"}).text = description(picture)
    SubElement(root, "metadata").text = made_by
    SubElement(root, "style").text = DRAWING
    hatch(root, HATCH_ID)
    rect(root, "paper", 0, 0, form.width + 2 * margin, height)
    head = SubElement(root, "g", {"transform": f"translate({margin} 0)", "class": picture.look})
    sign(head, picture.look, 8, 25)
    _text(head, "word lane", 20, 29, cut(f"{picture.state}", 60))
    _text(head, "lane", 20 + 7.1 * units(picture.state) + 18, 29, cut(picture.title, 90))
    _text(head, "", 0, 49, cut(picture.sentence, 160))
    _text(head, "dim", 0, 66, cut(_when(picture), 160))
    y = float(top)
    for panel in drawn:
        group = SubElement(root, "g", {"transform": f"translate({margin} {y:g})"})
        _panel(group, panel, picture, form, HATCH_ID)
        y += panel.height
    _key(SubElement(root, "g", {"transform": f"translate({margin} {y + 16:g})"}))
    for n, text in enumerate(missing, 1):
        _text(root, "dim", margin, y + 20 + n * _LINE, text)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _missing(picture: Picture) -> list[str]:
    """What is not on record, in a few lines below the drawing."""
    if not picture.gaps:
        return []
    more = len(picture.gaps) - _MOST_GAPS
    last = [f"and {more} more, which turnctl report tells as a page"] if more > 0 else []
    return ["Not on record:", *(cut(one, 165) for one in picture.gaps[:_MOST_GAPS]), *last]


def panels(picture: Picture, form: Form, prefix: str) -> list[Element]:
    """The same as one element for each panel, to stand in a page."""
    found = []
    for n, panel in enumerate(laid_out(picture, form)):
        name = f"{prefix}{n}"
        root = Element(
            "svg",
            {
                "viewBox": f"0 0 {form.width} {panel.height:g}",
                "class": "drawing",
                "role": "img",
                "aria-labelledby": f"{name}t {name}d",
            },
        )
        SubElement(root, "title", {"id": f"{name}t"}).text = f"{panel.title} of turn {picture.turn_id}"
        SubElement(root, "desc", {"id": f"{name}d"}).text = _said(panel) if n else description(picture)
        hatch(root, f"{name}h")
        _panel(root, panel, picture, form, f"{name}h")
        found.append(root)
    return found


def description(picture: Picture) -> str:
    """The picture in words, for who does not see it."""
    parts = [f"{picture.sentence}. From {moment(picture.begun_at)}, for {span(picture.end)}."]
    parts += [f"{one.words}." for one in (picture.stop, picture.grace) if one is not None]
    parts += [f"{len(lane.items)} {lane.title}." for lane in picture.lanes[1:]]
    return " ".join([*parts, *picture.gaps])


def _said(panel: Panel) -> str:
    words: dict[str, int] = {}
    for row in panel.rows:
        for item in row.items:
            words[item.word] = words.get(item.word, 0) + 1
    return "; ".join(f"{count} {word}" for word, count in words.items())


def _when(picture: Picture) -> str:
    seen = f"; seen {moment(picture.seen_at)}" if picture.now else ""
    redacted = "; redacted" if picture.is_redacted else ""
    return f"turn {picture.turn_id}; times from {moment(picture.begun_at)}{seen}{redacted}"


def _text(into: Element, name: str, x: float, y: float, text: str) -> None:
    SubElement(into, "text", {"class": name, "x": f"{x:g}", "y": f"{y:g}"}).text = text


# -- a panel ----------------------------------------------------------------------------------------------------------


def _panel(into: Element, panel: Panel, picture: Picture, form: Form, name: str) -> None:
    scale = Scale(picture.end, form.plot)
    bottom = panel.height - FOOT + 2
    _text(into, "lane", 0, 14, panel.title)
    notes = []
    if panel.rows and panel.rows[0].is_shared:
        notes.append("several to a row")
    if panel.left_out:
        notes.append(f"{panel.left_out} not drawn")
    if notes:
        _text(into, "dim", 150 if form.is_narrow else form.gutter, 14, "; ".join(notes))
    plot = SubElement(into, "g", {"transform": f"translate({form.gutter} 0)"})
    _under(plot, panel, picture, form, scale, bottom)
    for row in panel.rows:
        _row(into, plot, row, form, scale, name)
    _over(plot, panel, picture, form, scale, bottom)


def _under(plot: Element, panel: Panel, picture: Picture, form: Form, scale: Scale, bottom: float) -> None:
    """Stripes, ticks and the grace: what lies below the bars."""
    axis = panel.axis
    if not form.is_narrow:
        for row in panel.rows[1::2]:
            rect(plot, "stripe", -form.gutter, row.top, form.width, row.height)
    if picture.grace is not None:
        x = scale.x(picture.grace.begin)
        rect(plot, "grace", x, axis, max(scale.x(picture.grace.end) - x, 2), bottom - axis)
    last = -1000.0
    for tick in scale.ticks(form.apart):
        SubElement(plot, "path", {"class": "grid", "d": f"M{tick.x:g} {axis:g} V{bottom:g}"})
        wide = len(tick.label) * 6.4
        if picture.stop is not None and abs(tick.x - scale.x(picture.stop.begin)) < wide / 2 + 7:
            continue  # the sign of the stop is there
        if tick.x - last > wide and tick.x + wide / 2 <= scale.width + form.status:
            at_edge = form.is_narrow and (tick.x < wide / 2 or tick.x > scale.width - wide / 2)
            anchor = "mid" if not at_edge else "" if tick.x < wide else "end"
            _text(plot, f"tick {anchor}".rstrip(), tick.x, axis - 5, tick.label)
            last = tick.x


def _over(plot: Element, panel: Panel, picture: Picture, form: Form, scale: Scale, bottom: float) -> None:
    """The stop and the present: lines over the bars, with their words in the first panel."""
    axis = panel.axis
    top = 22.0 if panel.is_first else axis
    if picture.stop is not None:
        x = scale.x(picture.stop.begin)
        SubElement(plot, "path", {"class": "stop", "d": f"M{x:g} {top:g} V{bottom:g}"})
        _octagon(plot, x, top + 4 if panel.is_first else axis - 1)
        if panel.is_first:
            _words(plot, picture.stop.words, x, top + 8, form)
        top += STOP_H
    if picture.grace is not None and panel.is_first:
        _words(plot, picture.grace.words, scale.x(picture.grace.begin), top + 8, form)
    if picture.now:
        x = scale.width
        SubElement(plot, "path", {"class": "now", "d": f"M{x:g} {axis:g} V{bottom:g}"})
        if panel.is_first and picture.stop is None:
            _text(plot, "words end", x, 30, "now: it goes on")


def _octagon(plot: Element, x: float, y: float) -> None:
    points = " ".join(f"{x + dx:g},{y + dy:g}" for dx, dy in _CORNERS)
    SubElement(plot, "polygon", {"class": "stopsign", "points": points})


_CORNERS = ((-2.5, -6), (2.5, -6), (6, -2.5), (6, 2.5), (2.5, 6), (-2.5, 6), (-6, 2.5), (-6, -2.5))


def _words(plot: Element, words: str, x: float, y: float, form: Form) -> None:
    """Beside a line, on the side where there is more room, and no longer than that."""
    right, left = form.plot + form.status - x - 14, x + form.gutter - 14
    if right >= min(left, units(words) * _LETTER) or right > left:
        _text(plot, "words", x + 9, y, cut(words, int(right / _LETTER)))
    else:
        _text(plot, "words end", x - 9, y, cut(words, int(left / _LETTER)))


def _row(into: Element, plot: Element, row: Row, form: Form, scale: Scale, name: str) -> None:
    for item in row.items:
        group = SubElement(plot, "g", {"class": item.look})
        SubElement(group, "title").text = whole("\n".join([*item.about, *(mark.text for mark in item.marks)]))
        if item.spans:
            high = _SHARED_BAR if row.is_shared else _BAR
            bar(group, item, scale, row.y, high, name, is_shared=row.is_shared)
        else:
            wide = min(scale.width, 190)
            rect(group, "untimed", 0, row.y - 7, wide, 14)
            _text(group, "tick", 6, row.y + 4, "time not on record")
        if not row.is_shared:
            _beside(into, item, row.y, form)


def _beside(into: Element, item: Item, y: float, form: Form) -> None:
    """The name and the state of an item that has a row of its own."""
    group = SubElement(into, "g", {"class": item.look})
    took = "" if item.took is None else f", {span(item.took)}"
    word = cut(item.word, form.word - len(took)) + took
    if form.is_narrow:
        room = 50 - units(word)
        y -= MARKS_H if item.marks else 0
        _text(group, "halo", form.gutter, y - 12, cut(item.name, max(room, 14)))
        _text(group, "word halo end", form.width - 18, y - 12, word)
        sign(group, item.look, form.width - 6, y - 16)
        return
    _text(group, "", 8, y + 4, cut(item.name, form.name))
    x = form.width - form.status + 16
    sign(group, item.look, x + 5, y)
    _text(group, "word", x + 16, y + 4, word)


# -- the key ----------------------------------------------------------------------------------------------------------


def key_sample(kind: str, name: str) -> Element:
    """A small drawing of what a shape looks like."""
    from turnctl.report.picture import Span

    look = {"ran": "ended", "stopping": "ended", "starting": "ended", "unknown": "unknown", "open": "going"}[kind]
    root = Element("svg", {"viewBox": "0 0 34 14", "class": f"drawing {look}", "aria-hidden": "true"})
    hatch(root, name)
    span_kind = kind if kind in ("stopping", "starting", "unknown") else "going"
    item = Item("", "", "done", (Span(0, 1, span_kind),), is_open=kind == "open")  # type: ignore[arg-type]
    bar(root, item, Scale(1.0, 24), 7, 11, name, is_shared=True)
    return root


def _key(into: Element) -> None:
    x = 0.0
    for kind, words in KEY:
        group = SubElement(into, "g", {"transform": f"translate({x:g} -11)"})
        sample = key_sample(kind, f"k-{kind}")
        group.set("class", sample.get("class", "").removeprefix("drawing "))
        group.extend([*sample])
        _text(group, "tick", 40, 11, words)
        x += 40 + len(words) * 6.2 + 24
