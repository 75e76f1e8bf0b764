"""The tree: starting commands, watching their output, and ending everything that they started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.lazily import names_of

if TYPE_CHECKING:
    from turnctl.processes.adopted import Adopted
    from turnctl.processes.failed import CommandFailed, CommandTimedOut
    from turnctl.processes.levels import Capabilities, Capability, capabilities
    from turnctl.processes.process import Process
    from turnctl.processes.remains import Leftover, leftovers
    from turnctl.processes.spared import Scope
    from turnctl.processes.unowned import Unowned
    from turnctl.processes.upkeep import shutdown

__all__ = [
    "Adopted",
    "Capabilities",
    "Capability",
    "CommandFailed",
    "CommandTimedOut",
    "Leftover",
    "Process",
    "Scope",
    "Unowned",
    "capabilities",
    "leftovers",
    "shutdown",
]

_HOMES = {
    "Adopted": "turnctl.processes.adopted",
    "Scope": "turnctl.processes.spared",
    "Capabilities": "turnctl.processes.levels",
    "Capability": "turnctl.processes.levels",
    "capabilities": "turnctl.processes.levels",
    "CommandFailed": "turnctl.processes.failed",
    "CommandTimedOut": "turnctl.processes.failed",
    "Leftover": "turnctl.processes.remains",
    "leftovers": "turnctl.processes.remains",
    "Process": "turnctl.processes.process",
    "Unowned": "turnctl.processes.unowned",
    "shutdown": "turnctl.processes.upkeep",
}

__getattr__, __dir__ = names_of(__name__, _HOMES, __all__)
