"""Where the user's own ledger is, and opening it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnctl.ledger.store import Store

__all__ = ["default_path", "open_durable"]


def default_path() -> Path:
    """``turnctl/ledger.sqlite3`` in the user's state directory (``XDG_STATE_HOME``, else ``~/.local/state``)."""
    given = os.environ.get("XDG_STATE_HOME", "")
    # a relative one is to be ignored, says the specification
    base = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
    return base / "turnctl" / "ledger.sqlite3"


def open_durable(url: str | None) -> Store:
    """The durable store at ``url``, made where there is none; by default the user's own."""
    from turnctl.ledger.opening import init, open_sqlite

    path = default_path() if url is None else Path(url)
    init(path)
    return open_sqlite(path)
