"""The owner of a command, as the frame that asks has to obey it: with the token that is bound there added.

A turn stops its commands. A token below it (``turn.child(timeout=...)``, ``CancelToken.any_of``) stops those that were
started where it is bound, and wakes who waits for a command there.

Invariants
  C1  What the owner asks for counts also here: this only adds stops, and brings the time of killing nearer.
  C2  A token that was closed without a stop adds nothing any more; the owner's own stop still counts.

Nothing here blocks. Thread-safe, as tokens are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from turnctl.processes.unowned import Unowned
from turnctl.tokens import registry
from turnctl.tokens.activities import Activity, Owned, Owner
from turnctl.tokens.current import current_token
from turnctl.tokens.due import due_at
from turnctl.tokens.shielding import shielded_until
from turnctl.tokens.token import CancelToken
from turnctl.tokens.turn import TurnCore

__all__ = ["Scoped", "scoped", "unscoped", "watching"]


def scoped(owner: Owner) -> Owner:
    """The owner as this frame has to obey it: itself, or with the stop of the token that is bound here.

    That is a token under the owner's turn; where the command has no turn, one that is under no other turn either.
    """
    token = current_token()
    if token is None or (token.retired and not token.cancelled):
        return owner
    if isinstance(owner, TurnCore):
        is_its_own = token is not owner._token and registry.enclosing(token) is owner
    else:
        is_its_own = isinstance(owner, Unowned) and registry.enclosing(token) is None
    return Scoped(owner, token) if is_its_own else owner


def unscoped(owner: Owner) -> Owner:
    """The owner without what only a frame has to obey."""
    return owner._owner if isinstance(owner, Scoped) else owner


@contextmanager
def watching(owner: Owner, fn: Callable[[], None]) -> Iterator[Owner]:
    """The owner as this frame has to obey it, and ``fn`` called on each change of what only this frame obeys.

    The owner itself is watched already, by whoever supervises the command.
    """
    here = scoped(owner)
    undo = here.watch(fn) if here is not owner else None
    try:
        yield here
    finally:
        if undo is not None:
            undo()


class Scoped:
    """An owner and the stop of one token more."""

    __slots__ = ("_owner", "_token")

    def __init__(self, owner: Owner, token: CancelToken) -> None:
        self._owner = owner
        self._token = token

    @property
    def turn_id(self) -> str:
        return self._owner.turn_id

    @property
    def grace_s(self) -> float:
        return self._owner.grace_s

    def stop_wanted(self) -> bool:
        return self._token.cancelled or self._owner.stop_wanted()

    def kill_at(self) -> float | None:
        """The earlier of the owner's and the token's; a stop of the token that names no grace has the owner's."""
        at = self._owner.kill_at()
        ends = [] if at is None else [at]
        for record in self._token._stops():
            if record.level == "kill":
                ends.append(record.at)
            elif record.level == "cancel" and (record.grace_s is not None or not ends):
                ends.append(record.at + (self.grace_s if record.grace_s is None else record.grace_s))
        return min(ends, default=None)

    def held_until(self) -> float | None:
        # a shield of the token's holds back what comes to this frame by it, a stop of the turn too; a closed token
        # takes no part any more
        return self._owner.held_until() if self._is_closed else shielded_until(self._token)

    def due_at(self) -> float | None:
        """The nearer of the owner's and the token's."""
        ends = [self._owner.due_at(), None if self._is_closed else due_at(self._token)]
        return min([at for at in ends if at is not None], default=None)

    def watch(self, fn: Callable[[], None]) -> Callable[[], None]:
        undo_owners = self._owner.watch(fn)
        try:
            undo_tokens = self._token._bridge().watch(self._token, fn)
        except BaseException:
            undo_owners()
            raise

        def undo() -> None:
            undo_tokens()
            undo_owners()

        return undo

    def admit(self, owned: Owned) -> Activity:
        return self._owner.admit(owned)

    def check(self) -> None:
        if self._is_closed:
            self._owner.check()
        else:
            self._token.check()

    @property
    def _is_closed(self) -> bool:
        return self._token.retired and not self._token.cancelled
