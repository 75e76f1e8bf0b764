"""The members of what others made: an object of an SDK, or a dict that says the same. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["get"]


def get(given: Any, name: str, default: Any = None) -> Any:
    """A member of an object or of a dict; ``default`` for one that is not there, or None."""
    found = given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)
    return default if found is None else found
