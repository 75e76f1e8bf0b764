"""Between a turn at work on a task and the files that keep what it says; loads these on first use."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnctl.ledger.spool import Spool
    from turnctl.ledger.store import Store

__all__ = ["closed", "forget", "spool_of", "with_output"]


def spool_of(store: Store, turn_id: str, limit: int | None = None) -> Spool | None:
    """The spool of that turn beside the file of its ledger; None where the ledger is in no file."""
    path: str | None = getattr(store, "path", None)
    if path is None:
        return None
    from turnctl.ledger import spool

    return spool.Spool(os.path.dirname(path), turn_id, spool.LIMIT if limit is None else limit)


def closed(spool: Spool | None) -> str | None:
    """Close it, and give the account of it as JSON; None where nothing came."""
    if spool is None:
        return None
    spool.close()
    account = spool.account()
    return json.dumps({"kept": account}) if account else None


def with_output(store: Store, incs: Sequence[str]) -> list[str]:
    """The turns of these incarnations, where the ledger keeps the output of any."""
    path: str | None = getattr(store, "path", None)
    if path is None or not os.path.isdir(os.path.join(os.path.dirname(path), "turns")):
        return []
    return store.read(lambda books: [one.turn_id for inc in incs for one in books.turns_of(inc)])


def forget(store: Store, turn_ids: Sequence[str]) -> None:
    """Take away the output of those turns that are on record no more."""
    if not turn_ids:
        return
    from turnctl.ledger import spool

    folder = os.path.dirname(store.path)  # type: ignore[attr-defined]
    for turn_id in store.read(lambda books: [one for one in turn_ids if books.turn(one) is None]):
        with suppress(OSError):  # it is purged all the same, and a folder that is left is in nobody's way
            spool.remove(folder, turn_id)
