"""Where the user's own ledger is, and opening it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from turnctl.errors import BadArgument, StoreUnsafe
from turnctl.homes import home
from turnctl.ledger.ownfiles import NAME

if TYPE_CHECKING:
    from pathlib import Path

    from turnctl.ledger.store import Store

__all__ = ["STATE_DIR", "default_file", "default_path", "open_durable", "state_dir"]

#: the variable that names another state directory; what a turn runs has it as well
STATE_DIR = "TURNCTL_STATE_DIR"


def default_file(given: str | os.PathLike[str] | None = None) -> str:
    """The user's own ledger: ``ledger.sqlite3`` in the state directory."""
    return os.path.join(_state_dir(given), NAME)


def _state_dir(given: str | os.PathLike[str] | None) -> str:
    named = os.fspath(given) if given is not None else os.environ.get(STATE_DIR, "")
    if named:
        return _whole(named)
    xdg = os.environ.get("XDG_STATE_HOME", "")
    # a relative one is to be ignored, says the specification
    base = xdg if os.path.isabs(xdg) else os.path.join(_home(), ".local", "state")
    return _whole(os.path.join(base, "turnctl"))


def _whole(path: str) -> str:
    """``path`` from the root on: it would lead elsewhere from another folder."""
    try:
        return os.path.abspath(path)
    except OSError:
        text = f"the state directory {path!r} is relative, and the current folder has been removed; give its whole path"
        raise StoreUnsafe(text) from None


def _home() -> str:
    found = home()
    if found is None:
        raise StoreUnsafe("this user has no home directory; name another place for the ledger: TURNCTL_STATE_DIR")
    return found


def state_dir(given: str | os.PathLike[str] | None = None) -> Path:
    """Where turnctl keeps what it remembers: ``given``, else ``TURNCTL_STATE_DIR``, else ``turnctl`` in the user's
    state directory (``XDG_STATE_HOME``, else ``~/.local/state``). Nothing is made, or looked at."""
    from pathlib import Path  # which takes longer than the rest

    return Path(_state_dir(given))


def default_path(given: str | os.PathLike[str] | None = None) -> Path:
    """``default_file`` as a path."""
    return state_dir(given) / NAME


def open_durable(url: str | None) -> Store:
    """The durable store at ``url``, made where there is none; by default the user's own."""
    from turnctl.ledger.opening import init, open_sqlite

    path = default_file() if url is None else _path_of(url)
    init(path)
    return open_sqlite(path)


def _path_of(url: str) -> str:
    """``url`` as the path that it is; what looks like something else would become a file of that name."""
    if not url or "://" in url or "\0" in url or url.startswith((":memory:", "memory:")):
        raise BadArgument(f'the url of a ledger is the path of a file, or "memory:", not {url!r}')
    try:
        os.fsencode(url)
    except UnicodeEncodeError as error:
        raise BadArgument(f"the url of a ledger is the path of a file, and {url!r} cannot be one: {error}") from None
    return url
