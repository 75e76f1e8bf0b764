"""The schema of a SQLite ledger: what its files are marked with, its versions, and how each kind of row is written.

The tables stand in ``migrations/NNNN_*.sql``, one file for each version; a version is never changed when it was
released. The columns of a table are the fields of its record, in their order.
"""

from __future__ import annotations

from collections.abc import Iterator

from turnctl.ledger.rows import KEYS, KINDS, fields_of
from turnctl.ledger.versions import APPLICATION_ID, MIN_READER, MIN_WRITER, VERSION

__all__ = ["APPLICATION_ID", "MIN_READER", "MIN_WRITER", "VERSION", "inserts", "migrations", "selects", "statements"]


def migrations() -> list[tuple[int, str]]:
    """The steps from an empty file to the present version: which version each leads to, and its SQL."""
    from importlib.resources import files  # brings every compressor along

    folder = files("turnctl.ledger").joinpath("migrations")
    found = [(int(one.name.split("_")[0]), one.read_text("utf-8")) for one in folder.iterdir() if _is_step(one.name)]
    return sorted(found)


def _is_step(name: str) -> bool:
    return name.endswith(".sql") and name[:4].isdecimal()


def statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one: a whole script would commit the transaction that it stands in."""
    from sqlite3 import complete_statement

    text = ""
    for line in script.splitlines():
        text += line + "\n"
        if complete_statement(text):
            yield text
            text = ""
    if text.strip():
        raise AssertionError(f"a migration ends within a statement: {text[:60]!r}")


def selects() -> dict[str, str]:
    """For each kind of row the beginning of a query for its fields."""
    return {kind: f"SELECT {', '.join(fields_of(kind))} FROM {kind}" for kind in KINDS}  # noqa: S608 - our own names


def inserts() -> dict[str, str]:
    """For each kind of row the statement that writes one, over the one with its key: its values, then the authority."""
    return {kind: _insert(kind) for kind in KINDS}


def _insert(kind: str) -> str:
    key, more = KEYS[kind], ["told"] if kind == "cancellation" else []
    columns = [*fields_of(kind), "authority", *more]
    kept = [name for name in columns if name not in key and name != "authority"]
    marks = ", ".join("?" * len(columns))
    changes = ", ".join(f"{name} = excluded.{name}" for name in kept)
    then = "NOTHING" if kind == "receipt" else f"UPDATE SET {changes}"
    into = f"INSERT INTO {kind} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - the same
    return f"{into} ON CONFLICT ({', '.join(key)}) DO {then}"
