"""The tree: starting commands, watching their output, and ending everything that they started."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnctl.processes.failed import CommandFailed, CommandTimedOut
    from turnctl.processes.process import Process
    from turnctl.processes.unowned import Unowned

__all__ = ["CommandFailed", "CommandTimedOut", "Process", "Unowned"]

_HOMES = {
    "CommandFailed": "failed",
    "CommandTimedOut": "failed",
    "Process": "process",
    "Unowned": "unowned",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'turnctl.processes' has no attribute {name!r}")
    value: object = getattr(import_module(f"turnctl.processes.{home}"), name)
    globals()[name] = value
    return value
