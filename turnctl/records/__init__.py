"""Frozen values that all rooms speak. Loaded on first use, so that ``import turnctl`` stays cheap."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnctl.records.process import Completed, ProcessOutcome, SignalSent, Survivor
    from turnctl.records.report import ActivityRecord, TurnReport
    from turnctl.records.stops import StopAnswer, StopRecord, StopResult

__all__ = [
    "ActivityRecord",
    "Completed",
    "ProcessOutcome",
    "SignalSent",
    "StopAnswer",
    "StopRecord",
    "StopResult",
    "Survivor",
    "TurnReport",
]

_HOMES = {
    "ActivityRecord": "report",
    "Completed": "process",
    "ProcessOutcome": "process",
    "SignalSent": "process",
    "StopAnswer": "stops",
    "StopRecord": "stops",
    "StopResult": "stops",
    "Survivor": "process",
    "TurnReport": "report",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'turnctl.records' has no attribute {name!r}")
    value: object = getattr(import_module(f"turnctl.records.{home}"), name)
    globals()[name] = value
    return value
