"""The report as one page: the three facts, the drawing, what is not on record, and everything as tables.

One file with its style in it, no script, nothing from elsewhere; what is not allowed to it its first line says to the
browser as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

from turnctl.report.facts import Facts
from turnctl.report.layout import NARROW, WIDE
from turnctl.report.look import DRAWING, PAGE
from turnctl.report.picture import Item, Lane, Look, Picture
from turnctl.report.signs import standalone
from turnctl.report.svg import KEY, key_sample, panels
from turnctl.report.texts import cut, moment, offset, span, visible, whole

__all__ = ["html"]

_ROWS, _EVENTS, _NAME, _MORE = 300, 300, 200, 700
#: what has a line of its own
_WHOLE = ("command", "task")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def html(picture: Picture, facts: Facts, *, made_by: str) -> str:
    """The page."""
    root = Element("html", {"lang": "en", "dir": "ltr"})
    head = SubElement(root, "head")
    SubElement(head, "meta", {"charset": "utf-8"})
    SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY})
    SubElement(head, "meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"})
    SubElement(head, "meta", {"name": "generator", "content": made_by})
    SubElement(head, "title").text = f"{picture.state}: {cut(picture.title, 60)} (turn {picture.turn_id})"
    SubElement(head, "style").text = DRAWING + PAGE
    main = SubElement(SubElement(root, "body"), "main")
    _top(main, picture)
    _cards(main, picture)
    _figure(main, picture)
    _gaps(main, picture)
    for lane in picture.lanes[1:]:
        _lane(main, lane)
    _attempts(main, picture)
    _events(main, facts)
    _foot(main, picture, made_by)
    return "<!DOCTYPE html>\n" + tostring(root, encoding="unicode", method="html") + "\n"


def _put(into: Element, tag: str, text: str, **more: str) -> Element:
    made = SubElement(into, tag, {name.rstrip("_").replace("_", "-"): value for name, value in more.items()})
    made.text = text
    return made


def _top(main: Element, picture: Picture) -> None:
    head = SubElement(main, "header")
    SubElement(SubElement(head, "h1"), "code").text = cut(picture.title, _NAME)
    line = SubElement(head, "div", {"class": picture.look})
    state = SubElement(line, "span", {"class": "state word"})
    state.append(standalone(picture.look))
    SubElement(state, "span").text = picture.state
    if not picture.sentence.startswith(picture.state) or picture.sentence != picture.state:
        _put(head, "p", picture.sentence)
    _put(head, "p", f"turn {picture.turn_id}", class_="dim")


def _cards(main: Element, picture: Picture) -> None:
    cards = SubElement(main, "div", {"class": "cards"})
    for n, (title, rows) in enumerate(picture.facts):
        card = SubElement(cards, "section", {"class": "card" if n else "card wide"})
        _put(card, "h2", title)
        block = SubElement(card, "dl")
        for label, value in rows:
            more = {"class_": "whole"} if label in _WHOLE else {}
            _put(block, "dt", label, **more)
            _put(block, "dd", whole(value), **more)


def _figure(main: Element, picture: Picture) -> None:
    section = SubElement(main, "section")
    _put(section, "h2", "What happened when")
    until = f"; the picture ends when it was made, {moment(picture.seen_at)}" if picture.now else ""
    _put(section, "p", f"Times run from the begin of the turn, {moment(picture.begun_at)}{until}.", class_="note")
    for form, name, prefix in ((WIDE, "wide-drawing", "w"), (NARROW, "narrow", "n")):
        SubElement(section, "figure", {"class": name}).extend(panels(picture, form, prefix))
    key = SubElement(section, "ul", {"class": "key"})
    for kind, words in KEY:
        one = SubElement(key, "li")
        one.append(key_sample(kind, f"k-{kind}"))
        SubElement(one, "span").text = words


def _gaps(main: Element, picture: Picture) -> None:
    if not picture.gaps:
        return
    section = SubElement(main, "section")
    _put(section, "h2", "What is not on record")
    block = SubElement(SubElement(section, "div", {"class": "gaps"}), "ul")
    for one in picture.gaps:
        _put(block, "li", one)


# -- tables -----------------------------------------------------------------------------------------------------------


def _table(main: Element, title: str, headers: Iterable[str], note: str = "") -> Element:
    section = SubElement(main, "section")
    _put(section, "h2", title)
    if note:
        _put(section, "p", note, class_="note")
    table = SubElement(SubElement(section, "div", {"class": "scroll"}), "table")
    row = SubElement(SubElement(table, "thead"), "tr")
    for one in headers:
        _put(row, "th", one, scope="col")
    return SubElement(table, "tbody")


def _lane(main: Element, lane: Lane) -> None:
    if not lane.items:
        return
    shown = _chosen(lane.items)
    left = len(lane.items) - len(shown)
    note = f"{left} more are in the report as JSON; these are those that are not well, and the first of the others."
    headers = ("name", "state", "from", "to", "took", "more")
    body = _table(main, f"{lane.title} ({len(lane.items)})".capitalize(), headers, note if left else "")
    for item in shown:
        row = SubElement(body, "tr", {"class": item.look})
        _cut_cell(row, item.name, "name")
        _word(SubElement(row, "td"), item.word, item.look)
        for label, when in zip(("from", "to", "took"), _times(item), strict=True):
            _put(row, "td", when, class_="when", data_label=label)
        more = [*(one for one in item.about[1:] if one != item.word), *(mark.text for mark in item.marks)]
        _cut_cell(row, "; ".join(more), "more", room=_MORE)


def _chosen(items: Sequence[Item]) -> list[Item]:
    if len(items) <= _ROWS:
        return list(items)
    well = [item for item in items if item.look == "done"]
    left = {id(item) for item in well[max(_ROWS - (len(items) - len(well)), 0) :]}
    return [item for item in items if id(item) not in left][:_ROWS]


def _times(item: Item) -> tuple[str, str, str]:
    if not item.spans:
        return "not on record", "not on record", "not on record"
    known = item.spans[-1].kind != "unknown" and not item.is_open
    end = offset(item.end) if known else "goes on" if item.look == "going" else "not known"
    return offset(item.begin), end, "" if item.took is None else span(item.took)


def _word(cell: Element, word: str, look: Look) -> None:
    made = SubElement(cell, "span", {"class": "word"})
    made.append(standalone(look))
    SubElement(made, "span").text = word


def _cut_cell(row: Element, text: str, name: str, *, room: int = _NAME) -> None:
    short = cut(text, room)
    more = {} if short == text else {"title": whole(text)}
    SubElement(row, "td", {"class": name, **more}).text = short


def _attempts(main: Element, picture: Picture) -> None:
    if not picture.attempts:
        return
    headers = ("incarnation", "generation", "turn", "state", "began", "ended")
    note = "All turns at this task. Each submission of it is an incarnation, each worker that takes it up a generation."
    body = _table(main, "Attempts at this task", headers, note)
    for one in picture.attempts:
        row = SubElement(body, "tr")
        for label, value in zip(headers, one, strict=True):
            _put(row, "td", visible(value), data_label=label)


def _events(main: Element, facts: Facts) -> None:
    if not facts.events:
        return
    left = len(facts.events) - _EVENTS
    note = f"The last {_EVENTS} of {len(facts.events)}; all are in the report as JSON." if left > 0 else ""
    body = _table(main, f"Events ({len(facts.events)})", ("line", "when", "what", "about", "by"), note)
    for one in facts.events[-_EVENTS:]:
        row = SubElement(body, "tr")
        _put(row, "td", str(one["n"]), class_="when", data_label="line")
        _put(row, "td", moment(one["at"]), class_="when")
        for name in ("kind", "subject", "actor"):
            _cut_cell(row, visible(one[name]), name)


def _foot(main: Element, picture: Picture, made_by: str) -> None:
    texts = [f"Made by {made_by} at {moment(picture.seen_at)} from the ledger."]
    if picture.is_redacted:
        texts.append("Redacted: what people and programs wrote is left out; equal texts have equal numbers.")
    _put(SubElement(main, "footer"), "p", " ".join(texts))
