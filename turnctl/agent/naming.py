"""Ids that are not taken yet."""

from __future__ import annotations

__all__ = ["fresh"]


def fresh(wanted: str, taken: set[str]) -> str:
    """``wanted``, or the first of ``wanted-2``, ``wanted-3`` and so on that is not taken; it is taken from then on."""
    found, n = wanted, 2
    while found in taken:
        found, n = f"{wanted}-{n}", n + 1
    taken.add(found)
    return found
