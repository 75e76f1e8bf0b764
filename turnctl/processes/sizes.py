"""Sizes: "10MiB" to a number of bytes, and back for people."""

from __future__ import annotations

import re

from turnctl.errors import BadArgument

__all__ = ["format_size", "parse_size"]

_TEXT = r"([0-9]+)\s*([a-z]*)"
_SCALES = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", 1):
    _SCALES |= {_letter: 1024**_power, f"{_letter}ib": 1024**_power, f"{_letter}b": 1000**_power}
_LARGEST = 1 << 62


def parse_size(value: object, *, what: str, zero: bool = False, unit_required: bool = False) -> int | None:
    """A number of bytes; None for None and "none", which are no limit.

    Takes a whole number, or text: "65536", "64k", "10MiB" (powers of 1024), "10MB" (powers of 1000). Raises
    ``BadArgument`` or ``TypeError``; ``what`` names the argument in the message. ``zero`` allows 0; with
    ``unit_required`` a bare number is refused, as text too.
    """
    if value is None or value == "none":
        return None
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(
            f"{what} is {value!r}, of type {type(value).__name__}; give a number of bytes, or text such as 10MiB"
        )
    if isinstance(value, str):
        found = re.fullmatch(_TEXT, value.strip(), re.IGNORECASE)
        scale = None if found is None else _SCALES.get(found[2].lower())
        if found is None or scale is None:
            raise BadArgument(f"{what} {value[:60]!r} is no size; write it like 65536, 64k or 10MiB")
        if unit_required and not found[2]:
            raise BadArgument(f"{what} {value[:60]!r} has no unit; write {found[1][:60]}B or {found[1][:60]}MiB")
        # a number of many thousand digits is refused by int() itself
        size = int(found[1]) * scale if len(found[1]) < 30 else _LARGEST + 1
    else:
        size = value
    if size < 0 or (size == 0 and not zero):
        least = "must not be negative" if zero else "must be more than 0"
        raise BadArgument(f"{what} {value!r} {least}; leave it out for no limit")
    if size > _LARGEST:
        raise BadArgument(f"{what} is larger than any memory; leave it out for no limit")
    return size


def format_size(size: int) -> str:
    """A size for people; exact, so in the largest unit that divides it."""
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size >= 1024**power and size % 1024**power == 0:
            return f"{size // 1024**power} {unit}"
    return f"{size} byte{'' if size == 1 else 's'}"
