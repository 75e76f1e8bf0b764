"""What a command is given or denied besides its streams: environment, descriptors, file mask, priority, limits, shield.

Checked before anything is started; nothing of this program itself is changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from turnctl.errors import BadArgument
from turnctl.processes import marks
from turnctl.processes.limits import Limits, read_limits

__all__ = ["Hygiene", "Inherited", "compose_env", "read_hygiene"]

_MASK = 0o777


class Hygiene(NamedTuple):
    """The checked options. ``nice`` is added to this program's own."""

    umask: int | None = None
    nice: int | None = None
    limits: Limits = Limits()
    shield: bool = False

    @property
    def of_wardens(self) -> tuple[str, ...]:
        """The options among these that only a warden can carry out."""
        names = [] if self.nice is None else ["nice"]
        if self.limits.words:
            names.append("limits")
        if self.limits.is_core_off:
            names.append("core_dumps")
        return (*names, "shield") if self.shield else tuple(names)


def read_hygiene(
    *, umask: int | None, nice: int | None, limits: Mapping[str, Any] | None, core_dumps: bool, shield: bool
) -> Hygiene:
    """Check them. Raises ``BadArgument`` or ``TypeError``."""
    if not isinstance(shield, bool):
        raise TypeError(f"shield is {shield!r}, of type {type(shield).__name__}; give True or False")
    return Hygiene(
        _number("umask", umask, 0, _MASK, "give a mask of permissions such as 0o077"),
        _number("nice", nice, -20, 19, "give what is added to the priority of this program, from -20 to 19"),
        read_limits(limits, core_dumps=core_dumps),
        shield,
    )


def _number(name: str, given: object, lowest: int, highest: int, choice: str) -> int | None:
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"{name} is {given!r}, of type {type(given).__name__}; {choice}")
    if not lowest <= given <= highest:
        raise BadArgument(f"{name}={given} is out of range; {choice}")
    return given


class Inherited(dict[Any, Any]):
    """This program's environment with changes, in which a mark of who holds the command may be put."""


def compose_env(
    env: Mapping[Any, Any] | None, extra: Mapping[Any, Any] | None, unset: Iterable[str] | None
) -> Mapping[Any, Any] | None:
    """The whole environment: ``env``, or this program's, without what ``unset`` names, and with ``extra``.

    None where it is this program's as it is. The values are not looked at here.
    """
    patterns = _patterns(unset)
    if extra is not None and not isinstance(extra, Mapping):
        raise TypeError(f"env_extra is of type {type(extra).__name__}; give names and values, such as {{'A': 'b'}}")
    if extra is None and not patterns:
        return env
    base: Any = os.environ if env is None else env
    if not isinstance(base, Mapping):
        return env  # its type is told where it is looked at
    kept = {name: value for name, value in base.items() if not _matches(name, patterns)}
    for name, value in (extra or {}).items():
        for twin in [other for other in kept if _text(other) == _text(name)]:
            del kept[twin]
        kept[name] = value
    return kept if env is not None or _matches(marks.NAME, patterns) else Inherited(kept)


def _patterns(unset: Iterable[str] | None) -> tuple[str, ...]:
    if unset is None:
        return ()
    if isinstance(unset, (str, bytes)):
        raise TypeError(f"env_unset is {unset!r}; give a list of names or patterns, such as ['*_TOKEN']")
    patterns = tuple(unset)
    for one in patterns:
        if not isinstance(one, str):
            raise TypeError(f"env_unset has {one!r}, of type {type(one).__name__}; give names or patterns as str")
        if not one or "=" in one:
            raise BadArgument(f"env_unset has {one!r}, which no name can be; give a name or a pattern such as *_TOKEN")
    return patterns


def _text(name: Any) -> Any:
    return os.fsdecode(name) if isinstance(name, (str, bytes, os.PathLike)) else name


def _matches(name: Any, patterns: tuple[str, ...]) -> bool:
    text = _text(name)
    return isinstance(text, str) and any(fnmatchcase(text, pattern) for pattern in patterns)
