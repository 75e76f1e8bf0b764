"""Ids of what a ledger keeps: text, unguessable enough that two processes never make the same one."""

from __future__ import annotations

from uuid import uuid4

__all__ = ["new_id"]


def new_id(kind: str) -> str:
    """A new id; ``kind`` is a letter or two that tell people what it is of."""
    return f"{kind}-{uuid4().hex}"
