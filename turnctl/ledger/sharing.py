"""Work that several tasks wait for: each holds an interest of its own, and the last one to let go ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.errors import LedgerRefused
from turnctl.ledger import dealings
from turnctl.ledger.attachment import error_of
from turnctl.records.changes import Refusal

if TYPE_CHECKING:
    from turnctl.ledger.attachment import Attachment
    from turnctl.ledger.store import Books
    from turnctl.records.tasks import SharedWork

__all__ = ["Share"]


class Share:
    """This task's interest in shared work; made by ``turn.share``."""

    def __init__(self, of: Attachment, key: str) -> None:
        self._of = of
        self.key = key

    def _id(self, books: Books) -> str:
        task = books.task(self._of.inc)
        return f"{'' if task is None else task.tenant}/{self.key}"

    def attach(self) -> None:
        """Take the interest; ``turn.share`` does it."""
        of, by = self._of, self._of.by
        of.turn.check()
        found = of.store.transact(
            lambda books: dealings.attach(books, by, of.inc, of.gen, self._id(books)), point="share"
        )
        if isinstance(found, Refusal):
            if found.code == "cancelled" and of.heard():
                raise of.turn.token._raised()
            raise error_of(found)

    def release(self) -> None:
        """Let go of it; ``turn.share`` does it. Nothing to do where a cancellation or the end has done so."""
        of, by = self._of, self._of.by
        found = of.store.transact(lambda books: dealings.release(books, by, of.inc, self._id(books)), point="release")
        if isinstance(found, Refusal) and found.code != "has_no_interest":
            raise error_of(found)

    def end(self) -> None:
        """Say that the work is done, so that letting go of it cancels nothing. Blocks for the store."""
        of, by = self._of, self._of.by
        found = of.store.transact(lambda books: dealings.end_shared(books, by, of.inc, self._id(books)), point="share")
        if isinstance(found, Refusal):
            raise error_of(found)

    @property
    def state(self) -> str:
        """``running``, ``cancel_requested`` once nobody wants it any more, or ``ended``. Reads the store."""
        found: SharedWork | None = self._of.store.read(lambda books: books.shared(self._id(books)))
        if found is None:
            raise LedgerRefused(f"there is no shared work {self.key!r} in this ledger", code="no_such_task")
        return found.state
