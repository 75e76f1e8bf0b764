"""Reads the import graph of a source tree: who imports which room, and which package of others, where."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FACE = "turnctl"
"""The room of ``turnctl/__init__.py``: the public names."""


@dataclass(frozen=True)
class Import:
    """One import: from which file and line, of what, and whether only type checkers see it."""

    file: str
    line: int
    room: str
    target: str
    types_only: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def imports_of(tree: Path) -> Iterator[Import]:
    """Every import in the package that lies at ``tree``, those inside functions and ``import_module`` too."""
    package = tree.name
    for path in sorted(tree.rglob("*.py")):
        file = path.relative_to(tree).as_posix()
        room = FACE if file == "__init__.py" else file.split("/")[0].removesuffix(".py")
        source = ast.parse(path.read_text(encoding="utf-8"), file)
        # all imports, and the calls that may be one; to look at every name would take most of the time
        nodes = [node for node in ast.walk(source) if isinstance(node, (ast.Import, ast.ImportFrom, ast.If, ast.Call))]
        guarded = set(_types_only(nodes))
        for node in nodes:
            for target in _targets(node, package, tree):
                yield Import(file, getattr(node, "lineno", 0), room, target, node in guarded)


def _types_only(nodes: list[ast.AST]) -> Iterator[ast.AST]:
    for node in nodes:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in map(_name, ast.walk(node.test)):
            for statement in node.body:
                yield from ast.walk(statement)


def _targets(node: ast.AST, package: str, tree: Path) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        module = node.module or ""
        if node.level:
            yield f"{package}.relative"  # the linter refuses these; here they must not pass unseen
        elif module == package:
            # `from turnctl import clock` is the room, `from turnctl import turn` is the face
            for alias in node.names:
                is_room = (tree / alias.name).is_dir() or (tree / f"{alias.name}.py").exists()
                yield f"{package}.{alias.name}" if is_room else package
        else:
            yield module
    elif (
        isinstance(node, ast.Call)
        and node.args
        and _name(node.func).endswith(("import_module", "__import__"))
        and (name := _leading_text(node.args[0]))
    ):
        yield name


def _name(node: ast.AST) -> str:
    """A name, or the last one of several with dots between; else nothing."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _leading_text(node: ast.expr) -> str:
    """The constant text that an expression begins with: all of a string, the head of an f-string."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.rstrip(".")
    return ""


def breaches(
    tree: Path,
    *,
    lower: Mapping[str, frozenset[str]],
    lower_for_types: Mapping[str, frozenset[str]],
    homes: Mapping[str, str],
) -> list[str]:
    """What the tree does that the tables do not allow, one sentence each.

    ``lower`` tells for each room which others it may import, ``lower_for_types`` which more for type checkers
    alone. ``homes`` tells for each package of others the one place for it: a file, or a room with a slash.
    """
    found: list[str] = []
    for one in imports_of(tree):
        top, _, rest = one.target.partition(".")
        if top == tree.name:
            target_room = rest.split(".")[0] if rest else FACE
            allowed = lower.get(one.room)
            if allowed is None:
                sentence = f"{one.file}: room {one.room} is not in the table"
                found.extend([] if sentence in found else [sentence])
                continue
            if one.types_only:
                allowed |= lower_for_types.get(one.room, frozenset())
            if target_room != one.room and target_room not in allowed:
                found.append(f"{one}: {one.room} may not import {target_room}")
        elif top not in sys.stdlib_module_names and top != "__future__":
            home = homes.get(top)
            if home is None:
                found.append(f"{one}: {top} has no home in the table")
            elif not (one.file.startswith(home) if home.endswith("/") else one.file == home):
                found.append(f"{one}: {top} is imported in {home} only")
    return found
