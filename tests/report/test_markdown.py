"""The report for a pull request: a drawing in letters that says the same, and names that call nobody."""

from __future__ import annotations

import re

import pytest
from sketches import Sketch, completed, hostile, stopped

from turnctl.report.drawing import picture_of
from turnctl.report.markdown import code, markdown

COMPLETED = """\
```text
                            0         +1s      +2s       +3s      +4s       +5s
t2nnepwyyyqp6ma             ================================================|  + completed, 5s
activities (1)
call openai chat                ===============|                               + completed, 1.5s
processes (1)
[4121] make test                               .....===================|       + completed, exit 0, 2s
effects (1)
mail.send to bob                                                       ===|    + completed, 250ms
= ran   - after the stop was accepted   . being started   ? not known   | an end that is known   > goes on
```
"""
STOPPED = """\
```text
                            0         +1s      +2s       +3s      +4s       +5s
t2nnepwyyyqp6ma             ======================================----------|  ? stopped, effects unresolved, 5s
activities (4)
call openai chat                ===============|                               + completed, 1.5s
thread deaf one                      =============================---------->  ? left running
stream claude                                  ===================---|         # cancelled, 2.25s
http POST api                                           ????????????????????>  ? cut off, its end not known
"""


def test_drawing_in_letters_is_as_by_hand() -> None:
    """Forty-eight letters for five seconds, and a sign and a word behind each bar."""
    text = markdown(picture_of(completed()), made_by="turnctl 0")

    assert COMPLETED in text
    assert "**Not on record**" not in text


def test_unknown_is_no_end() -> None:
    """Question marks up to the edge, and no bar at the end."""
    text = markdown(picture_of(stopped()), made_by="turnctl 0")

    assert STOPPED in text
    assert "^ stop accepted +4s by ana: wrong repo\n" in text
    assert "- `Of 1 effect what became of it: it may have happened.`" in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("@bob #12", "`@bob #12`"),
        ("a`b", "``a`b``"),
        ("```", "```` ``` ````"),
        ("a|b", "`a\u2223b`"),
        ("", "` `"),
    ],
)
def test_names_stand_in_code(text: str, shown: str) -> None:
    """Where they make no link and call nobody, whatever ticks they have."""

    assert shown == code(text)


def test_hostile_names_end_nothing() -> None:
    """The block of the drawing is closed once, each row of the table has three cells, and nothing is HTML."""
    text = markdown(picture_of(hostile()), made_by="turnctl 0")
    outside = re.sub(r"```text\n.*?\n```\n", "", text, flags=re.DOTALL)
    plain = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", outside)

    assert 2 == len(re.findall(r"^```", text, re.MULTILINE))
    assert {4} == {line.count("|") for line in outside.splitlines() if line.startswith("|")}
    assert [] == re.findall(r"<(?!/?sub>)|@|#\d", plain)
    assert [] == [c for c in text if not (c.isprintable() or c == "\n")]


def test_many_are_counted() -> None:
    """It stays short enough for a comment: what is not well first, and how many more there are."""
    made = Sketch()
    for n in range(500):
        made.activity("call", f"step {n}", n * 0.1, n * 0.1 + 0.05, detail="failed: x" if n == 499 else "completed")
    text = markdown(picture_of(made.facts(60.0)), made_by="turnctl 0")

    assert "  ... and 460 more\n" in text
    assert "call step 499 " in text
    assert len(text) < 20000
