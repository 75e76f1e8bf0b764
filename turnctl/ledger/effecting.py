"""What a turn can do with effects and with its task: the methods of ``Turn`` that belong to this room."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from turnctl.errors import BadArgument, TurnOver
from turnctl.tokens.ids import check_name
from turnctl.tokens.turn import TurnCore

if TYPE_CHECKING:
    from turnctl.ledger.acting import TurnEffect
    from turnctl.ledger.adapters import Adapter
    from turnctl.ledger.attachment import Attachment
    from turnctl.ledger.sharing import Share
    from turnctl.records.effects import Consequence

__all__ = ["EffectingTurn"]


class EffectingTurn(TurnCore):
    """The side of ``turnctl.Turn`` that acts on the world."""

    def effect(
        self,
        kind: str,
        *,
        key: str,
        payload: Any = b"",
        adapter: Adapter | None = None,
        consequence: Consequence = "medium",
    ) -> TurnEffect:
        """Something that gets out and cannot be taken back by stopping; enter it with ``with`` and send it in the body.

        ``kind`` says what it is ("mail.send"), ``key`` is your own name for this one intent. With the same two, one
        that is completed raises ``EffectCompleted`` with its receipt, and one whose outcome is unknown
        ``LedgerRefused``; neither is sent again, but for an unknown one whose ``adapter`` says that the receiver takes
        an id once: that is entered anew under its own id. Entering admits and claims it, unless the turn or its task
        was stopped (``CancelledError``). In the body call ``complete``, ``reject`` or ``provider_cancelled`` with the
        receiver's receipt; a body that is left without one leaves ``unknown``, which is in the report.

        Without a task the same gate runs in memory, and the report says that it is not durable. Raises ``TurnOver``
        once the outcome has been decided. This call neither blocks nor is a checkpoint; entering is both.
        """
        from turnctl.ledger.acting import TurnEffect

        for what, given in (("kind", kind), ("key", key)):
            if not check_name(given):
                raise BadArgument(f"the {what} of an effect is a non-empty str, not {given!r}")
        if " " in kind:
            raise BadArgument(f"the kind of an effect has no spaces: {kind!r}")
        if consequence not in ("low", "medium", "high"):
            raise BadArgument(f"unknown consequence {consequence!r}; use low, medium or high")
        return TurnEffect(self._acts_for(), kind, key, payload, adapter=adapter, consequence=consequence)

    @contextmanager
    def share(self, key: str) -> Iterator[Share]:
        """Be interested in work that other tasks of the tenant wait for too, for the length of the ``with``.

        Leaving it, or being cancelled, releases this task's interest alone; the last release has the work cancelled,
        once, unless ``end()`` said that it is done. Raises ``LedgerRefused`` for work that is over. Blocks for the
        store; entering is a checkpoint.
        """
        from turnctl.ledger.sharing import Share

        if not check_name(key):
            raise BadArgument(f"the key of shared work is a non-empty str, not {key!r}")
        shared = Share(self._acts_for(), key)
        shared.attach()
        try:
            yield shared
        finally:
            shared.release()

    def _acts_for(self) -> Attachment:
        if self.activities.is_closed:
            raise TurnOver(
                f"turn {self.turn_id} is over and admits no new effect; begin a new turn", turn_id=self.turn_id
            )
        self.token  # noqa: B018 - refuses where it has not begun
        found: Any = self._ruling
        if found is None:
            from turnctl.ledger.unkept import attach_in_memory

            found = attach_in_memory(self)
        attachment: Attachment = found
        return attachment
