"""Signals by name and number, the real-time ones among them, which Python's own list leaves out but for two."""

from __future__ import annotations

import re
import signal
from functools import lru_cache

__all__ = ["can_be_sent", "name_of", "number_of"]

_RTMIN: int = getattr(signal, "SIGRTMIN", 0)
_RTMAX: int = getattr(signal, "SIGRTMAX", 0)
_REAL_TIME = r"SIGRT(MIN|MAX)([+-]\d{1,2})?"


def name_of(number: int) -> str:
    """The name for people, as ``kill -l`` has it: ``SIGTERM``, ``SIGRTMIN+1``; else ``signal 70``."""
    if 0 < _RTMIN < number < _RTMAX:
        above, below = number - _RTMIN, _RTMAX - number
        return f"SIGRTMIN+{above}" if above <= below else f"SIGRTMAX-{below}"
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@lru_cache(maxsize=64, typed=True)  # True is not 1 here
def number_of(given: int | str) -> int | None:
    """The number of a signal that this machine has: ``TERM``, ``SIGTERM``, ``15``, ``RTMIN+1``; None for another."""
    if isinstance(given, int):
        return int(given) if can_be_sent(given) else None
    text = given.strip().upper()
    if text.isdecimal() and text.isascii():
        return number_of(int(text))
    name = text if text.startswith("SIG") else f"SIG{text}"
    real_time = re.fullmatch(_REAL_TIME, name)
    if real_time is not None and _RTMIN:
        base = _RTMIN if real_time[1] == "MIN" else _RTMAX
        number = base + int(real_time[2] or 0)
        return number if _RTMIN <= number <= _RTMAX else None
    found = signal.Signals.__members__.get(name)
    return None if found is None else int(found)


def can_be_sent(number: int) -> bool:
    """Whether there is a signal of this number."""
    return not isinstance(number, bool) and number in signal.valid_signals()
