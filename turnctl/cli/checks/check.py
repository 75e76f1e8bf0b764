"""One thing that was looked at, and what was found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

__all__ = ["Check", "Finding", "Look", "made"]

Status = Literal["ok", "warn", "fail", "skip"]


class Finding(NamedTuple):
    """What one look came to. ``remedy`` is a command to paste, or what to ask an administrator for."""

    status: Status
    summary: str
    remedy: str = ""
    details: dict[str, Any] = {}  # noqa: RUF012 - never changed


class Check(NamedTuple):
    """A finding, with what was looked at and how long that took."""

    id: str
    finding: Finding
    duration_ms: float

    def as_dict(self) -> dict[str, Any]:
        """As it is in the JSON of the doctor."""
        found = self.finding
        return {
            "id": self.id,
            "status": found.status,
            "summary": found.summary,
            "details": found.details,
            "remediation": found.remedy or None,
            "duration_ms": round(self.duration_ms, 1),
        }


Look = Callable[[], Finding]


def made(looks: Iterable[tuple[str, Look]]) -> Iterator[Check]:
    """Look at one thing after the other. One that fails is told as that, and hides no other."""
    for name, look in looks:
        began = time.perf_counter()
        try:
            found = look()
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are looked at as well
            text = f"this could not be looked at: {type(error).__name__}: {error}"
            found = Finding("fail", text, "TURNCTL_DEBUG=1 turnctl doctor, and report what it says")
        yield Check(name, found, (time.perf_counter() - began) * 1000)
