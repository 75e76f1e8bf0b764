"""Between a turn at work on a task and the files that keep what it says; loads these on first use."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnctl.ledger.spool import Spool
    from turnctl.ledger.store import Store

__all__ = ["closed", "spool_of"]


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
