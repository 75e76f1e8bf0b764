"""The drawing as SVG: well-formed, without script or network, and with shapes that say what colours say."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from sketches import Sketch, completed, hostile, stopped

from turnctl.report.drawing import picture_of
from turnctl.report.facts import Facts
from turnctl.report.svg import description, svg

NS = "{http://www.w3.org/2000/svg}"


def drawn(facts: Facts) -> ET.Element:
    """The SVG of a turn, read back by a strict reader."""
    return ET.fromstring(svg(picture_of(facts), made_by="turnctl 0"))


def groups(root: ET.Element) -> dict[str, ET.Element]:
    """What is drawn of each item, by the first line of its title."""
    return {
        (group[0].text or "").partition("\n")[0]: group
        for group in root.iter(f"{NS}g")
        if len(group) and group[0].tag == f"{NS}title"
    }


def shapes(group: ET.Element) -> list[tuple[str, float, float]]:
    """Its rectangles: what they are, where each begins, how high it is."""
    return [
        (one.get("class", ""), float(one.get("x", "")), float(one.get("height", ""))) for one in group.iter(f"{NS}rect")
    ]


def test_lanes_are_as_drawn_by_hand() -> None:
    """On 586 pixels for 5 s: where each bar of the four lanes begins, and its form."""
    found = groups(drawn(stopped()))

    assert [("solid", 0.0, 13.0), ("solid", 468.8, 6.5), ("solid", 584.5, 16.0)] == shapes(
        found["turn t2nnepwyyyqp6ma"]
    )
    assert [("solid", 58.6, 13.0), ("solid", 232.9, 16.0)] == shapes(found["call openai chat"])
    assert [("back", 351.6, 13.0), ("hatched", 352.2, 13.0)] == shapes(found["http POST api"])
    assert [("solid", 117.2, 2.0), ("solid", 146.5, 13.0), ("solid", 468.8, 6.5), ("solid", 555.2, 16.0)] == shapes(
        found["process sh -c 'sleep 99'"]
    )
    assert [("solid", 410.2, 2.0), ("solid", 467.3, 16.0)] == shapes(found["mail.send to eve"])


def test_stop_is_a_line_and_grace_a_band() -> None:
    """Through every lane at one place, with their words once."""
    root = drawn(stopped())
    lines = [one.get("d", "") for one in root.iter(f"{NS}path") if one.get("class") == "stop"]
    bands = [(one.get("x"), one.get("width")) for one in root.iter(f"{NS}rect") if one.get("class") == "grace"]
    texts = [one.text for one in root.iter(f"{NS}text")]

    assert (4, 4) == (len(lines), len(bands))
    assert {"M468.8"} == {line.partition(" ")[0] for line in lines}
    assert {("468.8", "87.9")} == set(bands)
    assert 1 == texts.count("stop accepted +4s by ana: wrong repo")
    assert 1 == texts.count("grace of 750ms")


def test_missing_time_is_written() -> None:
    """An item whose time is not on record has a dotted frame that says so, and no bar."""
    made = Sketch()
    made.process(4121, "make test", 1.0, 2.0)
    made.activities.clear()
    (group,) = [one for name, one in groups(drawn(made.facts(3.0))).items() if "make test" in name]

    assert ["untimed"] == [name for name, _, _ in shapes(group)]
    assert "time not on record" in [one.text for one in group.iter(f"{NS}text")]


@pytest.mark.parametrize("facts", [completed(), stopped(), hostile()], ids=["completed", "stopped", "hostile"])
def test_nothing_is_loaded_or_run(facts: Facts) -> None:
    """No script, no handler, no address but the name of SVG itself."""
    text = svg(picture_of(facts), made_by="turnctl 0")
    root = ET.fromstring(text)

    assert {"http://www.w3.org/2000/svg"} == set(re.findall(r"\w+://[^\s\"'<)]+", text))
    assert {"svg", "title", "desc", "metadata", "style", "defs", "pattern", "path", "rect", "g", "text", "polygon"} >= {
        one.tag.removeprefix(NS) for one in root.iter()
    }
    assert [] == [name for one in root.iter() for name in one.attrib if name.startswith(("on", "href", "src"))]
    assert {"url(#"} >= set(re.findall(r"url\(.", text))


def test_readers_are_told() -> None:
    """A title, and a description with all that is seen."""
    root = drawn(stopped())

    assert ("img", "title desc") == (root.get("role"), root.get("aria-labelledby"))
    assert "turn t2nnepwyyyqp6ma: stopped, effects unresolved" == root.findtext(f"{NS}title")
    told = root.findtext(f"{NS}desc") or ""
    assert description(picture_of(stopped())) == told
    for words in ("stop accepted +4s by ana: wrong repo", "4 effects", "it may have happened"):
        assert words in told


def test_hostile_names_stay_texts() -> None:
    """What was named in full stands in a title, with what XML forbids spelled out."""
    titles = [one.text or "" for one in drawn(hostile()).iter(f"{NS}title")]
    shown = r"</script><img src=x onerror=alert(1)>]]>--> &"

    assert any(title.startswith(f"call {shown}") for title in titles)
    assert any(r"\x00\x08\x1b[31m\ud800\ufffe\u202e\u2028\r\n" in title for title in titles)


def test_shared_rows_tell_by_shape() -> None:
    """What is too short for a bar is a sign, unless it went well: its colour alone would tell."""
    made = Sketch()
    for n in range(100):
        made.activity("call", f"step {n}", n * 0.1, n * 0.1 + 0.01, detail="completed" if n % 10 else "failed: x")
    found = groups(drawn(made.facts(60.0)))

    assert ["path"] == [one.tag.removeprefix(NS) for one in found["call step 10"][1:]]
    assert ["rect", "rect"] == [one.tag.removeprefix(NS) for one in found["call step 11"][1:]]
