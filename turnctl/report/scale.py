"""From times to places: a line of ticks that people can read, from microseconds to months."""

from __future__ import annotations

from typing import NamedTuple

from turnctl.report.texts import span

__all__ = ["Scale", "Tick"]

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_STEPS = (
    *(base * ten for ten in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1) for base in (1, 2, 5)),
    *(1.0, 2.0, 5.0, 10.0, 15.0, 30.0),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 30, 90, 365)),
)


class Tick(NamedTuple):
    """A place with a label."""

    x: float
    label: str


class Scale(NamedTuple):
    """``end`` seconds on ``width``."""

    end: float
    width: float

    def x(self, at: float) -> float:
        """Where a moment is; one outside is at the edge."""
        return round(min(max(at, 0.0), self.end) / self.end * self.width, 2)

    def ticks(self, apart: float) -> tuple[Tick, ...]:
        """Ticks at round times, at least so far apart, from 0 on."""
        step = next((s for s in _STEPS if s / self.end * self.width >= apart), self.end)
        found = []
        n = 0
        while n * step <= self.end and n < 100:
            found.append(Tick(self.x(n * step), "0" if n == 0 else f"+{_label(n * step)}"))
            n += 1
        return tuple(found)


def _label(seconds: float) -> str:
    """A round time, without the noise of binary fractions."""
    if seconds >= _DAY:
        days, rest = divmod(round(seconds), int(_DAY))
        hours = rest // 3600
        return f"{days}d{hours}h" if hours else f"{days}d"
    return span(round(seconds, 9))
