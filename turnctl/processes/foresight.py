"""What a warden is told ahead, for the case that this program cannot tell it when the time comes.

That is when the owner's deadline passes, and which signals, unread by this program, stop the command. The warden acts a
moment later than this side would, so as a rule it finds that it has been told.

Thread-safe, blocks nowhere. Not promised: a shield that is entered, or a deadline that is moved, while this program is
already unable to tell of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import NamedTuple

from turnctl import clock
from turnctl.processes import leaving
from turnctl.processes.scoped import unscoped
from turnctl.signals import stops
from turnctl.tokens.activities import Owner

__all__ = ["BACKUP_S", "Foresight", "foresee", "lent"]

#: how much later than this side the warden acts on a timeout or a deadline
BACKUP_S = 0.5


class Foresight(NamedTuple):
    """When the warden acts by itself (monotonic), and the signals on which it does."""

    due_at: float | None
    numbers: tuple[int, ...]

    @property
    def due_s(self) -> float | None:
        """The same in seconds from now."""
        return None if self.due_at is None else max(0.0, self.due_at - monotonic())


NOTHING = Foresight(None, ())


def foresee(owner: Owner, *, is_here: bool) -> Foresight:
    """What holds now for a command of this owner.

    ``is_here`` if the frame that started it waits for it. Then the deadlines of what only that frame obeys count as
    well: tokens that are closed when it is left.
    """
    if not clock.is_real():
        return NOTHING  # another process goes by the system's clock
    due_at = (owner if is_here else unscoped(owner)).due_at()
    held = owner.held_until()
    if held is not None:
        return Foresight(None if due_at is None else max(due_at, held) + BACKUP_S, ())
    return Foresight(None if due_at is None else due_at + BACKUP_S, stops.stopped_by(owner.turn_id))


@contextmanager
def lent(foresight: Foresight) -> Iterator[int]:
    """A copy of the socket in which these signals wait, -1 where none do; closed at the end."""
    ear = stops.lend_unread() if foresight.numbers else -1
    try:
        yield ear
    finally:
        if ear >= 0:
            os.close(ear)


def _tell_all() -> None:
    for supervision in leaving.everybody():
        supervision.foresee_anew()


stops.changed.append(_tell_all)
