"""The examples of a page of the documentation, run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def examples(page: str, section: str = "", **names: Any) -> dict[str, Any]:
    """The names that the blocks under ``## section`` define, or those before the first one; ``names`` are given."""
    text = (DOCS / page).read_text(encoding="utf-8")
    parts = {part.partition("\n")[0].strip(): part for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]}
    found = parts[section] if section else re.split(r"^## ", text, maxsplit=1, flags=re.MULTILINE)[0]
    scope: dict[str, Any] = dict(names)
    blocks = re.findall(r"```python\n(.*?)```", found, re.DOTALL)
    assert blocks, f"{page} has no example under {section!r}"
    for block in blocks:
        exec(compile(block, f"docs/{page}", "exec"), scope)
    return scope
