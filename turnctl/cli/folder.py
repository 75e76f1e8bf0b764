"""The current folder, which may have been removed under us: then no relative path leads anywhere."""

from __future__ import annotations

import os

__all__ = ["current", "gone_for"]

_GONE = "the current folder, which has been removed"


def current() -> str:
    """The current folder for people."""
    try:
        return os.getcwd()
    except OSError:
        return _GONE


def gone_for(path: str) -> str:
    """What to add to a refusal of ``path`` where it is relative to a folder that is gone; else nothing."""
    return "" if os.path.isabs(path) or not _is_gone() else ": the current folder has been removed"


def _is_gone() -> bool:
    return current() is _GONE
