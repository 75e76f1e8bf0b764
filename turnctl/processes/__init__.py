"""The tree: starting commands, watching their output, and ending everything that they started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.lazily import names_of

if TYPE_CHECKING:
    from turnctl.processes.failed import CommandFailed, CommandTimedOut
    from turnctl.processes.process import Process
    from turnctl.processes.unowned import Unowned

__all__ = ["CommandFailed", "CommandTimedOut", "Process", "Unowned"]

_HOMES = {
    "CommandFailed": "turnctl.processes.failed",
    "CommandTimedOut": "turnctl.processes.failed",
    "Process": "turnctl.processes.process",
    "Unowned": "turnctl.processes.unowned",
}

__getattr__, __dir__ = names_of(__name__, _HOMES, __all__)
