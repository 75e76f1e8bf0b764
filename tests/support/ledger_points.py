"""The failpoints of the ledger as its source has them, so that a new one is in every sweep by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import turnctl.ledger

__all__ = ["failpoints"]

SOURCE = Path(turnctl.ledger.__file__).parent


def failpoints() -> list[str]:
    """The names of all of them, sorted. What cannot be read as a name is an error: it would be in no sweep."""
    names: set[str] = set()
    dealings: set[str] = set()
    phases: set[str] = set()
    for path in sorted(SOURCE.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                if isinstance(node.func, ast.Name) and node.func.id == "reach":
                    _reached(node.args[0], names, phases, path)
                for keyword in node.keywords:
                    if keyword.arg == "point":
                        dealings.update(_texts(keyword.value, path))
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                dealings.update(_defaults(node))
    return sorted(names | {f"{one}.{phase}" for one in dealings for phase in phases})


def _reached(name: ast.expr, names: set[str], phases: set[str], path: Path) -> None:
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        names.add(name.value)
    elif isinstance(name, ast.JoinedStr) and isinstance(name.values[-1], ast.Constant):
        phases.add(str(name.values[-1].value).removeprefix("."))
    else:
        raise AssertionError(f"{path}:{name.lineno}: a failpoint whose name cannot be read: {ast.unparse(name)}")


def _texts(value: ast.expr, path: Path) -> Iterator[str]:
    if isinstance(value, ast.Constant):
        yield str(value.value)
    elif isinstance(value, ast.IfExp):
        yield from _texts(value.body, path)
        yield from _texts(value.orelse, path)
    elif not isinstance(value, (ast.Name, ast.Attribute)):  # these pass on what somebody else has named
        raise AssertionError(f"{path}:{value.lineno}: a dealing whose name cannot be read: {ast.unparse(value)}")


def _defaults(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for argument, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        if argument.arg == "point" and isinstance(default, ast.Constant):
            yield str(default.value)
