"""The table of what the ledger has to keep is whole, and each test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "ledger-requirements.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([RU]\d+) \| (.+?) \| (.+) \|$", PAGE, re.MULTILINE)
NAMED = sorted({(file, name) for *_, held in ROWS for file, name in re.findall(r"`(tests/[\w/.]+)::(\w+)`", held)})


def test_every_requirement_has_a_line() -> None:
    """All of them, in their order, each once."""
    numbers = [int(mark[1:]) for mark, *_ in ROWS if mark[0] == "R"]

    assert list(range(1, 73)) == numbers


def test_every_line_is_held_or_says_why_it_waits() -> None:
    """A line has a test, or a reason."""
    assert [] == [mark for mark, _, held in ROWS if "::" not in held and not re.match(r"waits( in part)?: .{20}", held)]
    assert [] == [mark for mark, _, held in ROWS if "::" in held and re.sub(r"`tests/[\w/.]+::\w+`(, )?", "", held)]


def test_every_test_of_a_line_exists() -> None:
    """Each name is a test, or a class of tests, of that file."""
    missing = []
    for file, name in NAMED:
        text = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).exists() else ""
        if not re.search(rf"^(def {name}\(|class {name}\b|{name} = )", text, re.MULTILINE):
            missing.append(f"{file}::{name}")

    assert len(NAMED) > 100
    assert [] == missing
