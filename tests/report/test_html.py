"""The page: everything that opens is closed, nothing comes from elsewhere, and names are texts."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from sketches import Sketch, completed, hostile, stopped

from turnctl.report.drawing import picture_of
from turnctl.report.facts import Facts
from turnctl.report.html import html

VOID = {"meta"}


class Reader(HTMLParser):
    """Holds what it reads against what is open."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(facts: Facts) -> tuple[Reader, str]:
    """The page of a turn, as text and as read."""
    text = html(picture_of(facts), facts, made_by="turnctl 0")
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert [] == reader.open
    return reader, text


@pytest.mark.parametrize("facts", [completed(), stopped(), hostile()], ids=["completed", "stopped", "hostile"])
def test_page_needs_nothing_else(facts: Facts) -> None:
    """No script, nothing to load, no address; what is not allowed is said to the browser too."""
    reader, text = read(facts)
    tags = {tag for tag, _ in reader.seen}
    names = {name for _, attrs in reader.seen for name in attrs}

    assert set() == tags & {"script", "link", "img", "iframe", "object", "embed", "a", "base", "form", "use", "image"}
    assert set() == {name for name in names if name.startswith(("on", "src", "href", "xlink"))}
    assert [] == re.findall(r"[a-z]+://|@import|url\((?!#)", text)
    assert (
        "meta",
        {"http-equiv": "Content-Security-Policy", "content": "default-src 'none'; style-src 'unsafe-inline'"},
    ) in (reader.seen)


def test_ids_are_there_once() -> None:
    """Each hatching and each name for readers is one thing, and all that is referred to is there."""
    reader, text = read(stopped())
    ids = [attrs["id"] for _, attrs in reader.seen if "id" in attrs]
    labels = {one for _, attrs in reader.seen for one in (attrs.get("aria-labelledby") or "").split()}

    assert len(ids) == len(set(ids))
    assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(ids)
    assert labels <= set(ids)


def test_page_has_its_parts() -> None:
    """The three facts apart, the drawing for both widths, what is not on record, and tables."""
    reader, _ = read(stopped())
    headings = re.findall(r"<h2>([^<]*)</h2>", _)

    assert [
        *("turn", "intent", "execution", "effects", "What happened when", "What is not on record"),
        *("Activities (4)", "Processes (1)", "Effects (4)", "Events (21)"),
    ] == headings
    assert ("html", {"lang": "en", "dir": "ltr"}) == reader.seen[0]
    for form in ("wide-drawing", "narrow"):
        assert ("figure", {"class": form}) in reader.seen


def test_page_is_for_dark_and_paper() -> None:
    """Dark only on screens, and rules for print and for narrow windows."""
    _, text = read(completed())

    assert "@media screen and (prefers-color-scheme:dark)" in text
    assert "@media print" in text
    assert "@media (max-width:640px)" in text


def test_hostile_names_stay_texts_in_a_page() -> None:
    """They are all there to be read, with what acts spelled out."""
    reader, text = read(hostile())
    shown = "</script><img src=x onerror=alert(1)>]]>--> & \" ' ``` | @bob #12 [x](y) " + r"\x00\x08\x1b[31m\ud800"

    assert any(shown in one for one in reader.texts)
    assert text.encode("utf-8").decode("utf-8") == text
    assert [] == [c for c in text if not (c.isprintable() or c == "\n")]


def test_long_tables_are_cut_and_say_so() -> None:
    """What is not well is in them first."""
    made = Sketch()
    for n in range(400):
        made.activity("call", f"step {n}", n * 0.1, n * 0.1 + 0.05, detail="failed: x" if n == 399 else "completed")
    _, text = read(made.facts(60.0))
    table = text.partition("<h2>Activities (400)</h2>")[2].partition("</table>")[0]

    assert 300 == table.count("<tr class=")
    assert "call step 399" in table
    assert "100 more are in the report as JSON" in table
