"""Turn ids: short, sortable by time, never reused."""

from __future__ import annotations

import itertools
import os
import time

__all__ = ["check_name", "new_turn_id"]

# no i, l, o, u: ids are read aloud and typed
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = tuple(a + b for a in _DIGITS for b in _DIGITS)
_EPOCH_MS = 1_704_067_200_000  # 2024-01-01


def _fresh_count() -> itertools.count[int]:
    # a random start keeps processes apart that begin turns in the same millisecond
    return itertools.count(int.from_bytes(os.urandom(4), "little"))


_count = _fresh_count()
_head: tuple[int, str] = (0, "")


def new_turn_id() -> str:
    """A fresh id: ``t``, eight characters of time to the millisecond, six that count from a random start."""
    global _head
    ms = int(time.time() * 1000) - _EPOCH_MS
    last, text = _head
    if ms != last:
        text = "t" + _PAIRS[ms >> 30 & 1023] + _PAIRS[ms >> 20 & 1023] + _PAIRS[ms >> 10 & 1023] + _PAIRS[ms & 1023]
        _head = (ms, text)
    n = next(_count)
    return text + _PAIRS[n >> 20 & 1023] + _PAIRS[n >> 10 & 1023] + _PAIRS[n & 1023]


def check_name(name: object) -> bool:
    """Whether a session name or turn id given by the host can be used as one."""
    return isinstance(name, str) and bool(name)


def _reset_in_child() -> None:
    global _count
    _count = _fresh_count()


os.register_at_fork(after_in_child=_reset_in_child)
