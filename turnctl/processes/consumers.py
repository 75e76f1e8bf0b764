"""Who takes a command's output, as its loop and its account see them: what is kept, what is handed on, what was lost.

Invariants
  R1  After the command has ended by itself, consumers have ``Tee.patience_s`` to take what is there; ``HURRIED_S`` from
      when it was ended, or a stop is wanted. Then they are given nothing more, and are named.
  R2  What is missing is in the account: bytes that were not kept, and bytes that were not handed on.

Nothing here blocks but for a thread that is at its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from turnctl.processes.idle import Idle
from turnctl.processes.sizes import format_size
from turnctl.records.process import OutputCut

if TYPE_CHECKING:
    from turnctl.processes.output import Sink
    from turnctl.processes.tee import Tee

__all__ = ["HURRIED_S", "Consumers"]

#: what consumers have once a command was ended, or is to be
HURRIED_S = 1.0


class Consumers:
    """The sinks of one command and its tee. Its loop's, but for ``cuts`` and ``notes``, which any thread may ask."""

    def __init__(
        self,
        stdout: Sink | None = None,
        stderr: Sink | None = None,
        tee: Tee | None = None,
        idle_s: float | None = None,
    ) -> None:
        self.sinks = {"stdout": stdout, "stderr": stderr}
        self.idle = Idle(idle_s)
        self._tee = tee
        self._ends_at: float | None = None
        self._is_hurried = False

    def begin(self, changed: Callable[[], None]) -> None:
        """Before the command starts. Raises where there is no thread to be had."""
        if self._tee is not None:
            self._tee.begin(changed)

    def drop(self) -> None:
        """The command was not started."""
        if self._tee is not None:
            self._tee.give_up()
            self._tee.join()

    def hand_over(self, now: float, *, is_hurried: bool) -> float | None:
        """Nothing more comes: let what is there be taken. When to look again at the latest; None when that is over."""
        tee = self._tee
        if tee is None or tee.is_given_up:
            return None
        if self._ends_at is None:
            tee.finish_all()
            self._ends_at = math.inf if tee.patience_s is None else now + tee.patience_s
        if is_hurried and not self._is_hurried:
            self._is_hurried = True
            self._ends_at = min(self._ends_at, now + HURRIED_S)
        if not tee.is_done and now < self._ends_at:
            return self._ends_at
        tee.give_up()
        tee.join()
        return None

    # -- what is known ----------------------------------------------------------------------------------------

    def cuts(self) -> tuple[OutputCut, ...]:
        """What is missing of each stream."""
        found = [(name, sink.cut) for name, sink in self.sinks.items() if sink is not None]
        return tuple(OutputCut(name, cut.offset, cut.left_out, cut.gaps) for name, cut in found if cut is not None)

    @property
    def tee_lost(self) -> int:
        return 0 if self._tee is None else self._tee.lost

    def notes(self) -> list[str]:
        """All of it in words."""
        found = []
        for cut in self.cuts():
            where = f"after the first {format_size(cut.offset)}" if cut.gaps == 1 else f"in {cut.gaps} places"
            found.append(f"{format_size(cut.left_out)} of {cut.stream} were left out {where} (max_output)")
        return found if self._tee is None else found + self._tee.notes()

    def alive(self) -> tuple[str, ...]:
        """Threads that were left behind in a consumer, as long as they are."""
        return () if self._tee is None else self._tee.alive()
