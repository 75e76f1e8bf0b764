"""The exit status of ``turnctl run``, decided from the report of its turn; see docs/adr/0004."""

from __future__ import annotations

import signal
from collections.abc import Collection
from typing import TYPE_CHECKING

from turnctl.cli.ending import Ending, ExitStatus
from turnctl.processes.signames import number_of

if TYPE_CHECKING:
    from turnctl.records.report import TurnReport
    from turnctl.records.stops import StopRecord

__all__ = ["ExitStatus", "decide"]


def decide(report: TurnReport, *, keys: Collection[int] = ()) -> Ending:
    """The ending that a report calls for. ``keys`` are the signals that a key of the terminal can have sent.

    The first of these that holds: something lives or is not known (123); the first accepted stop was a signal to us
    (we die of it), the deadline (124) or another one (122); the command wrote nothing for too long (124); it died of a
    signal (128+N, and we die of it as well if it is one of ``keys``); the command's own status.
    """
    process = report.processes[-1] if report.processes else None
    if report.execution != "ended" or report.effects_unresolved:
        return Ending(ExitStatus.UNRESOLVED)
    if report.stop is not None:
        return _of_stop(report.stop)
    if process is not None and process.timed_out:
        return Ending(ExitStatus.DEADLINE)
    if process is None or process.returncode is None:
        return Ending(ExitStatus.UNRESOLVED)
    if process.returncode >= 0:
        return Ending(process.returncode)
    ending = Ending.by(-process.returncode)
    return ending if ending.signal in keys else Ending(ending.status)


def _of_stop(record: StopRecord) -> Ending:
    if record.cause == "deadline":
        return Ending(ExitStatus.DEADLINE)
    number = _signal_of(record)
    return Ending(ExitStatus.STOPPED) if number is None else Ending.by(number)


def _signal_of(record: StopRecord) -> int | None:
    """The signal that a record of ``SignalStops`` tells of."""
    if record.cause != "signal" or record.reason is None:
        return None
    if record.reason == "Ctrl-C":
        return signal.SIGINT
    return number_of(record.reason) if record.reason.startswith("SIG") else None
