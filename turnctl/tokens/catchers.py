"""Who can have swallowed an exception: read from the source of the frames that it passed.

Used only when a report or a diagnosis is made. Names of exceptions are read as they are written; what is computed at
run time is not understood, and then the answer is that it is not known.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal

from turnctl.tokens.sites import Site, is_ours
from turnctl.tokens.swallowing import BY_ITS_EXIT, Reached

__all__ = ["catcher"]

#: what catches a ``CancelledError`` of ours when it is written in an ``except``
_CATCHING = frozenset({"BaseException", "CancelledError"})
_CANNOT_TELL = -1
#: functions of the standard library that keep an exception for somebody else
_HANDING_OVER = (("concurrent/futures/thread.py", "run"), ("threading.py", "_bootstrap_inner"), ("asyncio/", ""))


def catcher(
    passed: Sequence[Site], beyond: Site | None, reached: Reached | None
) -> Site | Literal["unknown", "handed over"]:
    """The innermost statement that can have swallowed what was raised, and went through ``passed`` (innermost first).

    ``reached`` is what was observed of the last one, and ``beyond`` the frame behind it, which it did not come to,
    unless C code between the two has kept it for somebody else.
    """
    if reached is None:
        return "unknown"
    last = len(passed) - 1
    for index, site in enumerate(passed):
        name, line, function = site
        if is_ours(name) or (reached.is_exact and index < last):
            continue
        if _hands_over(site):
            return "handed over"
        found = _around(name, line, reached.line if index == last else None)
        if found == _CANNOT_TELL:
            return "unknown"
        if found is not None:
            return name, found, function
    return "handed over" if beyond is not None and _hands_over(beyond) else "unknown"


def _hands_over(site: Site) -> bool:
    return any(part in site[0] and (not function or function == site[2]) for part, function in _HANDING_OVER)


def _around(filename: str, line: int, ended_at: int | None) -> int | None:
    """The line of the innermost statement of that function around ``line`` that swallows; None if there is none.

    At ``ended_at`` the function let go of the exception: if that is the line of a ``with``, its exit has swallowed it.
    For ``BY_ITS_EXIT`` that of the innermost ``with`` has.
    """
    tree = _parsed(filename)
    if tree is None or not tree.body:
        return _CANNOT_TELL
    inner: ast.AST = tree
    for node in ast.walk(tree):  # the outer ones come first, so the last one that fits is the innermost
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and _covers([node], line):
            inner = node
    best: int | None = None
    for node in _own(inner):
        found = None
        if isinstance(node, (ast.Try, ast.TryStar)):
            found = _of_try(node, line)
        elif isinstance(node, ast.With) and _covers(node.body, line):
            found = node.lineno if ended_at in (node.lineno, BY_ITS_EXIT) or _suppresses(node) else None
        if found is not None:
            best = found
    return best


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions in it, the outer ones first."""
    found = [function]
    for node in found:
        yield node
        found.extend(
            child
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        )


@lru_cache(maxsize=32)
def _parsed(filename: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(filename)))
    except (SyntaxError, ValueError):
        return None


def _covers(nodes: Sequence[ast.AST], line: int) -> bool:
    return bool(nodes) and nodes[0].lineno <= line <= (nodes[-1].end_lineno or 0)  # type: ignore[attr-defined]


def _of_try(node: ast.Try | ast.TryStar, line: int) -> int | None:
    in_body = _covers(node.body, line)
    if in_body:
        for handler in node.handlers:
            if handler.type is None or _names(handler.type) & _CATCHING:
                return None if _goes_on_raising(handler.body) else handler.lineno
            if not all(map(_is_class_name, _names(handler.type))):
                return _CANNOT_TELL  # a variable may hold anything
    in_rest = any(_covers(part, line) for part in (node.body, node.orelse, *(h.body for h in node.handlers)))
    if in_rest and node.finalbody:
        for statement in node.finalbody:
            for inner in _own(statement):
                if isinstance(inner, (ast.Return, ast.Break, ast.Continue)):
                    return inner.lineno
    return None


def _names(node: ast.expr) -> set[str]:
    """The last parts of the names in an ``except``."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return {ast.unparse(part).rpartition(".")[2] for part in parts}


def _is_class_name(name: str) -> bool:
    return name[:1].isupper() and not name.isupper() and name.isidentifier()


def _goes_on_raising(body: Sequence[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Raise)


def _suppresses(node: ast.With) -> bool:
    for item in node.items:
        call = item.context_expr
        if not isinstance(call, ast.Call) or ast.unparse(call.func).rpartition(".")[2] != "suppress":
            continue
        if any(_names(argument) & _CATCHING for argument in call.args):
            return True
    return False
