"""Where the user's own ledger is, and opening it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnctl.ledger.store import Store

__all__ = ["STATE_DIR", "default_path", "open_durable", "state_dir"]

#: the variable that names another state directory; what a turn runs has it as well
STATE_DIR = "TURNCTL_STATE_DIR"


def state_dir(given: str | os.PathLike[str] | None = None) -> Path:
    """Where turnctl keeps what it remembers: ``given``, else ``TURNCTL_STATE_DIR``, else ``turnctl`` in the user's
    state directory (``XDG_STATE_HOME``, else ``~/.local/state``). Nothing is made, or looked at."""
    named = os.fspath(given) if given is not None else os.environ.get(STATE_DIR, "")
    if named:
        return Path(os.path.abspath(named))
    xdg = os.environ.get("XDG_STATE_HOME", "")
    # a relative one is to be ignored, says the specification
    base = Path(xdg) if os.path.isabs(xdg) else Path.home() / ".local" / "state"
    return base / "turnctl"


def default_path(given: str | os.PathLike[str] | None = None) -> Path:
    """The user's own ledger: ``ledger.sqlite3`` in the state directory."""
    return state_dir(given) / "ledger.sqlite3"


def open_durable(url: str | None) -> Store:
    """The durable store at ``url``, made where there is none; by default the user's own."""
    from turnctl.ledger.opening import init, open_sqlite

    path = default_path() if url is None else Path(url)
    init(path)
    return open_sqlite(path)
