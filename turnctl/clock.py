"""Clocks and durations: the time of the process, replaceable in tests, and "1m30s" to seconds and back.

Nothing here but ``block`` blocks, nothing is a checkpoint, and all of it may be called from any thread. Units are
seconds.
"""

from __future__ import annotations

import math
import re
import time
from _thread import LockType
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from turnctl.errors import BadDuration

__all__ = [
    "LONGEST_S",
    "UNITS",
    "Clock",
    "block",
    "format_duration",
    "is_real",
    "keepers",
    "monotonic",
    "own_threads",
    "parse_duration",
    "use",
    "wall",
]

#: The longest duration that is accepted. Locks and selectors overflow beyond some centuries.
LONGEST_S = 1e9

#: the units of durations, in seconds, the largest first
UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
# compiled by the first duration that is read, and kept by re: whoever only imports this reads none
_PART = r"([0-9]+(?:\.[0-9]+)?)(d|h|ms|m|s)"
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"


class Clock(Protocol):
    """What stands in for the clocks of the process; see ``turnctl.testing.FakeClock``."""

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean anything."""

    def wall(self) -> float:
        """Seconds since the epoch."""

    def block(self, lock: LockType, seconds: float) -> object:
        """Acquire ``lock``, or give up when ``seconds`` have passed on this clock; below 0 there is no limit.

        It may give up early: who waits measures again.
        """


def _block(lock: LockType, seconds: float) -> object:
    return lock.acquire(True, seconds)


#: Have the calling thread wait for a lock; the clock in use says how long that is. Call it as ``clock.block``.
block: Callable[[LockType, float], object] = _block

#: For clocks that stand in: each of these waits in real time, at most as long as it is told, until turnctl has done
#: what is due by now; False if that did not come to an end.
keepers: list[Callable[[float], bool]] = []
#: and the idents of turnctl's own threads that wait for a time, which are no waits of the program.
own_threads: set[int] = set()

_monotonic: Callable[[], float] = time.monotonic
_wall: Callable[[], float] = time.time


def monotonic() -> float:
    """Seconds that never go back: for deadlines and spans."""
    return _monotonic()


def is_real() -> bool:
    """Whether the clock in use is the system's own, which other processes go by as well."""
    return _monotonic is time.monotonic


def wall() -> float:
    """Seconds since the epoch: for records that people and other machines read."""
    return _wall()


@contextmanager
def use(clock: Clock) -> Iterator[None]:
    """Answer from ``clock`` in the whole process until the block ends. For tests.

    Timed waits of turnctl that begin in the block go by it. Waits that are already going on, and what the operating
    system waits for (a descriptor, a process), keep to real time.
    """
    global _monotonic, _wall, block
    before = (_monotonic, _wall, block)
    _monotonic, _wall, block = clock.monotonic, clock.wall, clock.block
    try:
        yield
    finally:
        _monotonic, _wall, block = before


def parse_duration(
    value: object,
    *,
    what: str = "timeout",
    zero: bool = False,
    unit_required: bool = False,
    none: bool = False,
) -> float | None:
    """Read a duration; returns seconds, or None for "no limit" where ``none`` allows it.

    Accepts seconds as an int or a float, and text of number and unit from large to small: "500ms", "30s",
    "1.5s", "1m30s", "2h", "30d". Only the last number may have a fraction. With ``unit_required`` numbers are
    refused as well, since a reader of a file or a command line cannot tell their unit. ``none`` allows None
    and "none"; ``zero`` allows 0. ``what`` names the argument in the message of ``BadDuration``.
    """
    if value is None or value == "none":
        if none:
            return None
        raise _refusal(value, what, "a limit is needed here", "30s")
    if isinstance(value, str):
        seconds = _read_text(value, what)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = _read_number(value, what)
        if unit_required:
            raise _refusal(value, what, "it has no unit", _offer(seconds))
    else:
        raise _refusal(value, what, f"it is of type {type(value).__name__}", "30s", number=not unit_required)
    if seconds < 0:
        raise _refusal(value, what, "it is negative", _offer(-seconds))
    if seconds > LONGEST_S:
        unlimited = 'give "none" for no limit, or a shorter one' if none else "give a shorter one"
        raise BadDuration(f"{what} {_shown(value)} is longer than 30 years; {unlimited}, such as 2h", value=value)
    if seconds == 0 and not zero:
        raise _refusal(value, what, "it must be more than 0", "500ms")
    return abs(seconds)  # -0.0 is 0


def _read_number(value: float, what: str) -> float:
    try:
        seconds = float(value)
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds):
        raise _refusal(value, what, "it is not a finite number", "30s")
    return seconds


def _read_text(value: str, what: str) -> float:
    text = value.strip()
    if not text:
        raise _refusal(value, what, "it is empty", "30s")
    if text.startswith("-"):
        raise _refusal(value, what, "it is negative", "30s")
    if re.fullmatch(_NUMBER, text):
        raise _refusal(value, what, "it has no unit", f"{text}s")
    parts = []
    at = 0
    while at < len(text):
        part = re.compile(_PART).match(text, at)
        if part is None:
            break
        parts.append((part[1], part[2]))
        at = part.end()
    if at < len(text) or not parts:
        raise _refusal(value, what, "it is not made of numbers and the units d, h, m, s, ms", "1m30s")
    sizes = [UNITS[unit] for _, unit in parts]
    if sizes != sorted(set(sizes), reverse=True):
        raise _refusal(value, what, "each unit may come once, from large to small", "1m30s")
    if any("." in number for number, _ in parts[:-1]):
        raise _refusal(value, what, "only the last number may have a fraction", "1m30.5s")
    # digits without end overflow to infinity, which is refused as too long; the sum of one part is exact
    return math.fsum(_scaled(number, unit) for number, unit in parts)


def _scaled(number: str, unit: str) -> float:
    if unit == "ms":
        return float(number) / 1000  # dividing rounds once, multiplying by 0.001 twice
    return float(number) * UNITS[unit]


def _offer(seconds: float) -> str:
    return format_duration(seconds) if 0 < seconds <= LONGEST_S else "30s"


def _refusal(value: object, what: str, why: str, example: str, *, number: bool = False) -> BadDuration:
    also = " or a number of seconds" if number else ""
    return BadDuration(f"{what} {_shown(value)} cannot be used: {why}; write it like {example}{also}", value=value)


def _shown(value: object) -> str:
    # a number of many thousand digits has no repr at all
    try:
        text = repr(value)
    except ValueError:
        text = f"of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def format_duration(seconds: float) -> str:
    """Write a span for people, rounded to about three digits: "80ms", "1.5s", "1m30s", "2h5m".

    The text can be read back by ``parse_duration``, but for negative, infinite and NaN values, which are
    shown and never refused: a report must be printable.
    """
    if not math.isfinite(seconds):
        return f"{seconds}s"
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    if seconds < 0.9995:
        # three digits, but nothing below a microsecond
        return _unit(float(f"{seconds * 1000:.3g}") if seconds >= 0.001 else round(seconds * 1000, 3), "ms")
    if seconds < 9.995:
        return _unit(round(seconds, 2), "s")
    if seconds < 59.95:
        return _unit(round(seconds, 1), "s")
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number)


def _unit(number: float, unit: str) -> str:
    if number == 0:
        return "0s"
    digits = f"{number:.3f}".rstrip("0").rstrip(".")
    return f"{digits}{unit}"
