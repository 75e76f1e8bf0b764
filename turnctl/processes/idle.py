"""The clock of ``idle_timeout``: how long a command has been silent.

Invariants
  N1  Silence is measured from the last byte that was read, or from the start.
  N2  Time during which nothing is read because a consumer of the output is too slow does not count: the command may
      well be writing.
  N3  The limit has passed only if the pipes were looked into after it had: a program that was suspended finds what
      was written meanwhile.

Nothing here blocks. It belongs to the loop of its command, and so is not held while this program is stopped.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnctl.processes.output import Pump

__all__ = ["Idle"]


class Idle:
    """Read and kept by the loop of a command."""

    __slots__ = ("_since", "_was_held", "limit_s")

    def __init__(self, limit_s: float | None) -> None:
        self.limit_s = limit_s
        self._since = monotonic()
        self._was_held = False

    def begin(self) -> None:
        """The command starts now."""
        self._since = monotonic()

    def ends_at(self, pump: Pump) -> float | None:
        """When the command will have been silent for too long, as it stands now; None for never."""
        if self.limit_s is None:
            return None
        if pump.is_held:
            self._was_held = True
            return None
        if self._was_held:
            self._was_held, self._since = False, monotonic()
        return max(self._since, pump.taken_at) + self.limit_s

    def has_passed(self, pump: Pump) -> bool:
        """Whether it has been silent for too long."""
        at = self.ends_at(pump)
        if at is None or monotonic() < at:
            return False
        pump.look_in()
        at = self.ends_at(pump)
        return at is not None and monotonic() >= at
