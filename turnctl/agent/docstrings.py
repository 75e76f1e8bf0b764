"""What a docstring tells a model of a tool: the description, and what is said of each parameter."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

__all__ = ["told_of"]

_SECTION = re.compile(
    r"^(args|arguments|parameters|params|returns?|yields?|raises|examples?|notes?|see also|warnings?|attributes):?$",
    re.IGNORECASE,
)
_HOLDS = ("args", "arguments", "parameters", "params")
_GOOGLE = re.compile(r"^(\w+)(?:\s*\([^)]*\))?\s*:\s*(.*)$")
_NUMPY = re.compile(r"^(\w+)(?:\s*:.*)?$")
_SPHINX = re.compile(r"^:param\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)$")


def told_of(fn: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The text before the first section or field, and a text for each parameter, in the three usual forms."""
    lines = (inspect.getdoc(fn) or "").splitlines()
    said: list[str] = []
    parameters: dict[str, str] = {}
    section, name = "", ""
    for n, line in enumerate(lines):
        text = line.strip()
        underlined = n + 1 < len(lines) and set(lines[n + 1].strip()) == {"-"}
        if line and not line[0].isspace() and _SECTION.match(text) and (text.endswith(":") or underlined):
            section, name = text.rstrip(":").lower(), ""
        elif found := _SPHINX.match(text):
            section, name = "fields", found[1]
            parameters[name] = found[2]
        elif text.startswith(":"):
            section, name = "fields", ""
        elif not section:
            said.append(line)
        elif text and set(text) != {"-"}:
            found = _entry(section, line)
            if found is not None:
                name = found[1]
                parameters[name] = found[2] if found.re is _GOOGLE else ""
            elif name:
                parameters[name] = f"{parameters[name]} {text}".strip()
    return "\n".join(said).strip(), {name: text for name, text in parameters.items() if text}


def _entry(section: str, line: str) -> re.Match[str] | None:
    """The beginning of what is said of one parameter; a line that goes on with it is none."""
    if section not in _HOLDS:
        return None
    if not line[0].isspace():
        return _NUMPY.match(line.strip())
    indent = len(line) - len(line.lstrip())
    return _GOOGLE.match(line.strip()) if indent <= 4 else None
