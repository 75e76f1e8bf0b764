"""The same gate for a turn without a ledger: in memory, for the life of the turn, and never called durable."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from turnctl.ledger import dealings
from turnctl.ledger.attachment import Attachment
from turnctl.ledger.memory import MemoryStore

if TYPE_CHECKING:
    from turnctl.tokens.turn import TurnCore

__all__ = ["attach_in_memory"]

_making = threading.Lock()


def attach_in_memory(turn: TurnCore) -> Attachment:
    """The one attachment of ``turn``, made on first use; two threads get the same."""
    with _making:
        found = turn._ruling
        if not isinstance(found, Attachment):
            found = Attachment(turn, MemoryStore(), turn.turn_id, turn.turn_id, is_private=True)
            found.deal(dealings.submit, found.inc, "", turn.turn_id)
            found.begin()
            turn._ruling = found
        return found


def _begin_anew() -> None:
    global _making
    _making = threading.Lock()  # a thread that a fork does not have may hold the other one


os.register_at_fork(after_in_child=_begin_anew)
