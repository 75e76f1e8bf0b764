"""What the files of a SQLite ledger are marked with, and the versions of its schema. Loads nothing."""

from __future__ import annotations

__all__ = ["APPLICATION_ID", "MIN_READER", "MIN_WRITER", "VERSION"]

#: "tctl": what ``PRAGMA application_id`` says of a ledger
APPLICATION_ID = 0x7463746C
#: the schema that this turnctl writes, and the oldest one that may read, and write, what it writes
VERSION = 1
MIN_READER = 1
MIN_WRITER = 1
