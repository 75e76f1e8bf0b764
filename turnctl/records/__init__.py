"""Frozen values that all rooms speak. Loaded on first use, so that ``import turnctl`` stays cheap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.lazily import names_of

if TYPE_CHECKING:
    from turnctl.records.process import Completed, Escapes, OutputCut, ProcessOutcome, SignalSent, Survivor
    from turnctl.records.report import ActivityRecord, TurnReport
    from turnctl.records.stops import StopAnswer, StopRecord, StopResult

__all__ = [
    "ActivityRecord",
    "Completed",
    "Escapes",
    "OutputCut",
    "ProcessOutcome",
    "SignalSent",
    "StopAnswer",
    "StopRecord",
    "StopResult",
    "Survivor",
    "TurnReport",
]

_HOMES = {
    "ActivityRecord": "turnctl.records.report",
    "Completed": "turnctl.records.process",
    "Escapes": "turnctl.records.process",
    "OutputCut": "turnctl.records.process",
    "ProcessOutcome": "turnctl.records.process",
    "SignalSent": "turnctl.records.process",
    "StopAnswer": "turnctl.records.stops",
    "StopRecord": "turnctl.records.stops",
    "StopResult": "turnctl.records.stops",
    "Survivor": "turnctl.records.process",
    "TurnReport": "turnctl.records.report",
}

__getattr__, __dir__ = names_of(__name__, _HOMES, __all__)
