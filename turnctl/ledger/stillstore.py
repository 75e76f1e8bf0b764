"""A ledger as a store that is only read, where nothing can be written: one state of it (``ledger.reading``).

Blocks for the disk. For one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import NoReturn, TypeVar

from turnctl.errors import StoreUnsafe
from turnctl.ledger.opening import identify
from turnctl.ledger.reading import Still, connect_to_read
from turnctl.ledger.refusals import FAULTS, told
from turnctl.ledger.sqlbooks import SqlBooks
from turnctl.ledger.sqlite import BUSY_S
from turnctl.ledger.store import Books, Store

__all__ = ["StillStore", "open_still"]

T = TypeVar("T")


def open_still(path: str | PathLike[str]) -> StillStore | None:
    """The ledger at ``path``, as an unchanging copy; None where it can be opened as any other. Raises as opening it."""
    path, meta = identify(path, writes=False)
    try:
        connection, still = connect_to_read(path, BUSY_S)
        if still is None:
            connection.close()
            return None
        connection.execute("BEGIN")
    except FAULTS as error:
        raise told(error, path, "reading") from error
    return StillStore(path, meta.store_uuid, SqlBooks(connection, meta.store_uuid), still, connection.close)


class StillStore(Store):
    """Made by ``open_still``; what was read holds if ``check`` says so."""

    durable = True

    def __init__(self, path: str, authority: str, books: Books, still: Still, give_back: Callable[[], object]) -> None:
        self.path, self.authority, self.still = path, authority, still
        self._books = books
        self._give_back = give_back

    def read(self, fn: Callable[[Books], T]) -> T:
        try:
            found = fn(self._books)
        except FAULTS as error:
            self.still.check()  # or a writer who came later is taken for damage
            raise told(error, self.path, "reading") from error
        self.still.check()
        return found

    def transact(self, fn: Callable[[Books], T], *, urgent: bool = False, point: str = "store") -> T:  # noqa: ARG002
        self._refuse()

    def watch(self, inc: str, fn: Callable[[], object]) -> Callable[[], None]:  # noqa: ARG002
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise StoreUnsafe(f"{self.path} lies where nothing can be written; it can only be read", path=self.path)

    def close(self) -> None:
        self._give_back()
