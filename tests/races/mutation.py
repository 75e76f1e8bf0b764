"""Copies of the product's own functions with a line changed: points put in, or a fault made on purpose.

A copy is made from the source as it stands, so it follows the product; a change that finds no place fails the test.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from turnctl import points


def rewritten(fn: Callable[..., Any], *changes: tuple[str, str]) -> Callable[..., Any]:
    """``fn`` with each text replaced by another, in the same module and with the same globals.

    The texts are lines of the function without the indentation that all of it shares. ``reach("name")`` in a new
    text is a race point.
    """
    source = textwrap.dedent(inspect.getsource(fn))
    for old, new in changes:
        count = source.count(old)
        assert count == 1, f"{fn.__qualname__} has {old!r} {count} times: its mutant must be made anew"
        source = source.replace(old, new)
    # inside a function that has ``reach``, so that the module's globals stay as they are
    source = f"def made_with(reach):\n{textwrap.indent(source, '    ')}\n    return {fn.__name__}\n"
    namespace: dict[str, Any] = {}
    exec(compile(source, f"<rewritten {fn.__qualname__}>", "exec"), fn.__globals__, namespace)
    made: Callable[..., Any] = namespace["made_with"](points.reach)
    return made
