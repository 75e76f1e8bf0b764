"""Turn ids: short, sortable by time, never reused."""

from __future__ import annotations

import os
import time

__all__ = ["check_name", "new_turn_id"]

# no i, l, o, u: ids are read aloud and typed
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = tuple(a + b for a in _DIGITS for b in _DIGITS)
_EPOCH_MS = 1_704_067_200_000  # 2024-01-01


def new_turn_id() -> str:
    """A fresh id: ``t``, eight characters of time to the millisecond, six of chance."""
    n = ((int(time.time() * 1000) - _EPOCH_MS) & 0xFF_FFFF_FFFF) << 30
    n |= int.from_bytes(os.urandom(4), "little") & 0x3FFF_FFFF
    text = ""
    for _ in range(7):
        text = _PAIRS[n & 1023] + text
        n >>= 10
    return "t" + text


def check_name(name: object) -> bool:
    """Whether a session name or turn id given by the host can be used as one."""
    return isinstance(name, str) and bool(name)
