"""Makes an httpcore stoppable, once for each: for the clients that are wrapped, or for all of the process.

What is replaced stays replaced, once a client was wrapped or all of them were: it does what the original does for all
who did not ask.
Lock: ``_making``, held for a few assignments and, the first time, the look at the library.
"""

from __future__ import annotations

import importlib.util
import sys
import threading

from turnctl.integrations.cores import http1, http2, pool, streams, waits
from turnctl.integrations.cores.library import Library
from turnctl.waiting.installing import Change

__all__ = ["FAMILIES", "changes", "ensure", "library"]

#: the name of the core that each client is built on
FAMILIES = {"httpx": "httpcore", "httpx2": "httpcore2"}

_making = threading.RLock()
_libraries: dict[str, Library] = {}
_made: dict[str, tuple[tuple[Change, ...], pool.Everywhere]] = {}
_wrapped: set[str] = set()


def library(name: str) -> Library:
    """The httpcore of that name, whether or not it is what we know."""
    with _making:
        if name not in _libraries:
            _libraries[name] = Library(name)
        return _libraries[name]


def _changes_of(name: str) -> tuple[tuple[Change, ...], pool.Everywhere]:
    with _making:
        if name not in _made:
            core = library(name)
            core.require()
            everywhere = pool.Everywhere()
            parts = [*streams.changes(core), *waits.changes(core), *http1.changes(core), *http2.changes(core)]
            _made[name] = ((*parts, *pool.changes(core, everywhere)), everywhere)
        return _made[name]


def ensure(name: str) -> None:
    """Have requests of the httpcore of that name served where it is asked for. Raises ``ClientChanged``."""
    with _making:
        if name not in _wrapped:
            parts, _ = _changes_of(name)
            for change in parts:
                change.enter()
            _wrapped.add(name)


def changes() -> tuple[Change, ...]:
    """What ``install(http=True)`` changes: all requests of each httpcore whose client was imported before.

    Raises ``ClientChanged`` if one of them is not what we know.
    """
    found: list[Change] = []
    for client, core in FAMILIES.items():
        if (core in sys.modules or client in sys.modules) and importlib.util.find_spec(core) is not None:
            parts, everywhere = _changes_of(core)
            found += [*parts, everywhere]
    return tuple(found)
