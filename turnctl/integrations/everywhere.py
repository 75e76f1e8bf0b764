"""What ``install(http=True)`` changes: the clients of this process that there is a file for here, if they are loaded.

A client that nobody has imported yet is not loaded for this, and not watched for.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from turnctl.errors import BadArgument

if TYPE_CHECKING:
    from turnctl.waiting.installing import Change

__all__ = ["changes"]

#: each module of ours with a ``changes()``, and the packages of which one has to be loaded for it
_PARTS = (
    ("turnctl.integrations.cores.making", ("httpx", "httpcore", "httpx2", "httpcore2")),
    ("turnctl.integrations.urllib3", ("urllib3",)),
)
#: the same for retries around them, which are no clients
_RETRIES = (
    ("turnctl.integrations.retries.of_sdks", ("openai", "anthropic")),
    ("turnctl.integrations.retries.of_tenacity", ("tenacity", "litellm")),  # which loads it with its first retry
)


def changes() -> tuple[Change, ...]:
    """The changes for what is loaded now. Raises ``BadArgument`` if that is nothing."""
    found = _changes_of(_PARTS)
    if not found:
        names = ", ".join(package for _, packages in _PARTS for package in packages)
        raise BadArgument(
            f"install(http=True) found no client to change; import the one that you use before it ({names} and what "
            "is built on them)"
        )
    return (*found, *_changes_of(_RETRIES))


def _changes_of(parts: tuple[tuple[str, tuple[str, ...]], ...]) -> list[Change]:
    found: list[Change] = []
    for module, packages in parts:
        if any(package in sys.modules for package in packages):
            found += importlib.import_module(module).changes()
    return found
