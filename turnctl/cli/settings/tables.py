"""What a file of settings says: its tables, read once, and in which line each key stands."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from turnctl.cli.settings.places import LEAVE_OUT, Found, Kind
from turnctl.cli.settings.problem import SettingsProblem

__all__ = ["Setting", "Table", "read"]


class Setting(NamedTuple):
    """A value from a file, and where it stands."""

    value: Any
    kind: Kind
    where: str


class Table(NamedTuple):
    """The settings of one file. ``prefix`` are the words before each of its tables."""

    found: Found
    root: dict[str, Any]
    prefix: tuple[str, ...]

    def where(self, path: tuple[str, ...], key: str | None = None) -> str:
        """The file, the line if it can be told, and the key: "FILE, line 3: [run] grace"."""
        words = (*self.prefix, *path)
        line = _line(self.found.data or b"", words, key)
        named = f"[{'.'.join(words)}]" if words else ""
        key = " ".join(filter(None, (named, key)))
        return f"{self.found.path}{f', line {line}' if line else ''}: {key}"


_TOO_LARGE = "it has a number that is too large"


def read(found: Found) -> Table:
    """The tables of a file that counts. Raises ``SettingsProblem`` where it is no TOML."""
    import tomllib

    try:
        data: Any = tomllib.loads((found.data or b"").decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise _no_toml(found, "it is not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise _no_toml(found, f"{str(error)[:1].lower()}{str(error)[1:]}") from error
    except RecursionError as error:
        raise _no_toml(found, "it is nested too deep") from error
    except (ValueError, OverflowError) as error:  # of thousands of digits
        raise _no_toml(found, _TOO_LARGE) from error
    prefix = ("tool", "turnctl") if found.is_pyproject else ()
    for word in prefix:
        data = data.get(word, {}) if isinstance(data, dict) else data
    if not isinstance(data, dict):
        raise SettingsProblem(f"{found.path}: tool.turnctl is no table", "write it as [tool.turnctl]")
    if _has_too_large(data):
        raise _no_toml(found, _TOO_LARGE)
    return Table(found, data, prefix)


def _has_too_large(data: Any) -> bool:
    """Whether a whole number below has more than the 64 bits of TOML: such a one may be too long even to be told."""
    left = [data]
    while left:
        one = left.pop()
        if isinstance(one, dict | list):
            left.extend(one.values() if isinstance(one, dict) else one)
        elif isinstance(one, int) and not -(2**63) <= one < 2**63:
            return True
    return False


def _no_toml(found: Found, why: str) -> SettingsProblem:
    return SettingsProblem(f"{found.path} is no TOML: {why}", f"mend it, or {LEAVE_OUT}")


_HEAD = re.compile(r"\s*\[+\s*([^\]\[]+?)\s*\]+\s*(#.*)?$")
_KEY = r"""\s*((?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+))*)\s*="""


def _line(data: bytes, words: tuple[str, ...], key: str | None) -> int | None:
    """Where that table, or that key of it, begins; None where it is written in a way that is not looked through."""
    wanted = words if key is None else (*words, key)
    head: tuple[str, ...] = ()
    for number, text in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if (found := _HEAD.match(text)) is not None:
            head = _words(found[1])
            if head == wanted:
                return number
        elif (found := re.match(_KEY, text)) is not None and (*head, *_words(found[1])) == wanted:
            return number
    return None


def _words(dotted: str) -> tuple[str, ...]:
    return tuple(one.strip().strip("\"'") for one in dotted.split("."))
