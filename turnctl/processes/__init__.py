"""The tree: starting commands, watching their output, and ending everything that they started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.lazily import names_of

if TYPE_CHECKING:
    from turnctl.processes.failed import CommandFailed, CommandTimedOut
    from turnctl.processes.levels import Capabilities, Capability, capabilities
    from turnctl.processes.process import Process
    from turnctl.processes.unowned import Unowned
    from turnctl.processes.upkeep import shutdown

__all__ = [
    "Capabilities",
    "Capability",
    "CommandFailed",
    "CommandTimedOut",
    "Process",
    "Unowned",
    "capabilities",
    "shutdown",
]

_HOMES = {
    "Capabilities": "turnctl.processes.levels",
    "Capability": "turnctl.processes.levels",
    "capabilities": "turnctl.processes.levels",
    "CommandFailed": "turnctl.processes.failed",
    "CommandTimedOut": "turnctl.processes.failed",
    "Process": "turnctl.processes.process",
    "Unowned": "turnctl.processes.unowned",
    "shutdown": "turnctl.processes.upkeep",
}

__getattr__, __dir__ = names_of(__name__, _HOMES, __all__)
