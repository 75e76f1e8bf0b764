"""Ids of what a ledger keeps: text, unguessable enough that two processes never make the same one; names of files."""

from __future__ import annotations

from uuid import uuid4

__all__ = ["keepable", "new_id"]


def new_id(kind: str) -> str:
    """A new id; ``kind`` is a letter or two that tell people what it is of."""
    return f"{kind}-{uuid4().hex}"


def keepable(text: str) -> str:
    """The name of a file as a ledger can keep it: bytes of it that are no text are spelled."""
    return text.encode("utf-8", "backslashreplace").decode()
