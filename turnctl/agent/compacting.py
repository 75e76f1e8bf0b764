"""Making a long history shorter: what was cut by a stop, or failed, does not land.

Invariants
  C1  The compactor works on a copy. What it gave counts when what it took out has been handed over and no stop is
      there; before that the history is as it was.
  C2  What would be no history is no compaction: a call whose result was taken out, or nothing to answer.
  C3  A compactor that fails does not end the run: that is noted, and the history stays as it is.

May block: ``compact``, as the host's functions do. A checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from turnctl.agent.history import compacted
from turnctl.errors import BadArgument
from turnctl.spelling import described

if TYPE_CHECKING:
    from turnctl.agent.running import Run
    from turnctl.records.messages import Message

__all__ = ["Compacts", "compact"]


class Compacts(Protocol):
    """A compactor: fewer messages, or None for "not now"; it may have ``demote(messages)`` for what it took out."""

    def compact(self, messages: tuple[Message, ...]) -> Iterable[Any] | None: ...


def compact(run: Run) -> bool:
    """Have the history of the run compacted, if the compactor wants to; whether it was."""
    compactor = run.loop.compactor
    if compactor is None:
        return False
    before = run.loop.history.feed
    try:
        made = run.read(run.raced(getattr(compactor, "compact", compactor), before))
        after = before if made is None else _landing(made)
        if after == before:
            return False
        demote = getattr(compactor, "demote", None)
        if demote is not None:
            kept = {id(one) for one in after}
            run.raced(demote, tuple(one for one in before if id(one) not in kept))
        run.turn.check()
        run.loop.history.compact(after)  # C1
    except Exception as error:  # noqa: BLE001 - C3
        run.turn.check()
        run.note(f"compaction failed: {described(error)}")
        return False
    run.tell("compacted", detail=f"{len(before)} messages became {len(after)}")
    return True


def _landing(made: Any) -> tuple[Message, ...]:
    """What the compactor gave, as it may be fed. Raises ``BadArgument`` for what is no history (C2)."""
    found = compacted(made)
    if all(one.role == "system" for one in found):
        raise BadArgument("a compacted history has more than the system's prompt, or there is nothing to answer")
    return found
