"""Commands without an owner that left processes behind: kept until these have ended, or until the program ends.

There is no turn that would look after them. So each start of such a command looks whether any of the others are over,
and lets go of those, as ``subprocess`` does with children that nobody has waited for. Never blocks.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnctl.processes.supervise import Supervision

__all__ = ["keep", "look_through"]

_kept: dict[Supervision, None] = {}


def keep(supervision: Supervision) -> None:
    """Look at it again at later starts."""
    _kept[supervision] = None


def look_through() -> None:
    """Let go of those that are over by now."""
    for supervision in list(_kept):
        supervision.look_again()
        if supervision.phase == "over":
            _kept.pop(supervision, None)


os.register_at_fork(after_in_child=_kept.clear)
