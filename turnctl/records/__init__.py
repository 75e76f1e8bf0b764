"""Frozen values that all rooms speak. Loaded on first use, so that ``import turnctl`` stays cheap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.lazily import names_of

if TYPE_CHECKING:
    from turnctl.records.changes import Refusal
    from turnctl.records.effects import Effect, EffectRecord
    from turnctl.records.process import Completed, Escapes, OutputCut, ProcessOutcome, SignalSent, Survivor
    from turnctl.records.report import ActivityRecord, TurnReport
    from turnctl.records.stops import StopAnswer, StopRecord, StopResult
    from turnctl.records.tasks import Cancellation, Task
    from turnctl.records.turns import TurnRecord

__all__ = [
    "ActivityRecord",
    "Cancellation",
    "Completed",
    "Effect",
    "EffectRecord",
    "Escapes",
    "OutputCut",
    "ProcessOutcome",
    "Refusal",
    "SignalSent",
    "StopAnswer",
    "StopRecord",
    "StopResult",
    "Survivor",
    "Task",
    "TurnRecord",
    "TurnReport",
]

_HOMES = {
    "ActivityRecord": "turnctl.records.report",
    "Cancellation": "turnctl.records.tasks",
    "Completed": "turnctl.records.process",
    "Effect": "turnctl.records.effects",
    "EffectRecord": "turnctl.records.effects",
    "Escapes": "turnctl.records.process",
    "OutputCut": "turnctl.records.process",
    "ProcessOutcome": "turnctl.records.process",
    "Refusal": "turnctl.records.changes",
    "SignalSent": "turnctl.records.process",
    "StopAnswer": "turnctl.records.stops",
    "StopRecord": "turnctl.records.stops",
    "StopResult": "turnctl.records.stops",
    "Survivor": "turnctl.records.process",
    "Task": "turnctl.records.tasks",
    "TurnRecord": "turnctl.records.turns",
    "TurnReport": "turnctl.records.report",
}

__getattr__, __dir__ = names_of(__name__, _HOMES, __all__)
