"""Copies of the product's own functions with a line changed: a race point put in, or a fault made on purpose.

A copy is made from the source as it stands, so it follows the product; a change that finds no place fails the test.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from turnctl import points

Change = tuple[str, str]


def rewritten(fn: Callable[..., Any], *changes: Change) -> Callable[..., Any]:
    """``fn`` with each block of lines replaced by another, in the same module and with the same globals.

    Blocks are compared without indentation and comments, and put in at the indentation that is there.
    ``reach("name")`` in a new block is a race point.
    """
    lines = textwrap.dedent(inspect.getsource(fn)).splitlines()
    for old, new in changes:
        wanted = [_bare(line) for line in textwrap.dedent(old).strip().splitlines()]
        found = [at for at in range(len(lines)) if [_bare(line) for line in lines[at : at + len(wanted)]] == wanted]
        assert len(found) == 1, f"{fn.__qualname__} has {old!r} {len(found)} times: this copy must be made anew"
        (at,) = found
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        lines[at : at + len(wanted)] = textwrap.indent(textwrap.dedent(new).strip("\n"), indent).splitlines()
    # inside a function that has ``reach``, so that the module's globals stay as they are
    body = textwrap.indent("\n".join(lines), "    ")
    source = f"from __future__ import annotations\ndef made_with(reach):\n{body}\n    return {fn.__name__}\n"
    namespace: dict[str, Any] = {}
    exec(compile(source, f"<rewritten {fn.__qualname__}>", "exec"), fn.__globals__, namespace)
    made: Callable[..., Any] = namespace["made_with"](points.reach)
    return made


def _bare(line: str) -> str:
    return line.split("  #", maxsplit=1)[0].strip()
