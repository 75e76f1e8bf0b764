"""Between a turn at work on a task and the files that keep what it says; loads these on first use."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from turnctl.ledger.spool import Spool
    from turnctl.ledger.store import Store

__all__ = ["Output", "closed", "forget", "forget_noted", "spool_of", "with_output"]

#: what a note begins with, in the folder of the outputs: no output has such a name
_NOTE = ".purging-"


def spool_of(store: Store, turn_id: str, limit: int | None = None) -> Spool | None:
    """The spool of that turn beside the file of its ledger; None where the ledger is in no file."""
    path: str | None = getattr(store, "path", None)
    if path is None:
        return None
    from turnctl.ledger import spool

    return spool.Spool(os.path.dirname(path), turn_id, spool.LIMIT if limit is None else limit)


def closed(spool: Spool | None) -> str | None:
    """Close it, and give the account of it as JSON; None where nothing came."""
    if spool is None:
        return None
    spool.close()
    account = spool.account()
    return json.dumps({"kept": account}) if account else None


class Output(NamedTuple):
    """The turns that are about to go, and the file that names them until their output has gone as well."""

    turn_ids: list[str]
    note: str | None = None


def with_output(store: Store, incs: Sequence[str]) -> Output:
    """The turns of these incarnations, where the ledger keeps the output of any; noted, so that whoever goes on after
    a kill knows of them, when their rows are gone."""
    folder = _folder(store)
    if folder is None:
        return Output([])
    found = store.read(lambda books: [one.turn_id for inc in incs for one in books.turns_of(inc)])
    if not found:
        return Output([])
    note = os.path.join(folder, f"{_NOTE}{store.authority}-{uuid.uuid4().hex}")
    with open(note, "x", encoding="ascii", opener=_private) as file:
        json.dump(found, file)
    return Output(found, note)


def forget(store: Store, output: Output) -> None:
    """Take away the output of those turns that are on record no more, and the note where that is all of them."""
    if output.note is None:
        return
    from turnctl.ledger import spool

    folder = os.path.dirname(store.path)  # type: ignore[attr-defined]
    gone = store.read(lambda books: [one for one in output.turn_ids if books.turn(one) is None])
    for turn_id in gone:
        with suppress(OSError):  # it is purged all the same, and a folder that is left is in nobody's way
            spool.remove(folder, turn_id)
    if len(gone) == len(output.turn_ids):
        with suppress(FileNotFoundError):
            os.unlink(output.note)


def forget_noted(store: Store) -> None:
    """The same for what purges that were killed have noted."""
    folder = _folder(store)
    for name in () if folder is None else os.listdir(folder):
        if name.startswith(f"{_NOTE}{store.authority}-"):
            note = os.path.join(folder or "", name)
            try:
                with open(note, encoding="ascii") as file:
                    found = json.load(file)
            except FileNotFoundError:
                continue  # another purge has seen to it
            except ValueError:
                found = []  # killed while it was written, when nothing had gone yet
            forget(store, Output(found, note))


def _folder(store: Store) -> str | None:
    path: str | None = getattr(store, "path", None)
    folder = None if path is None else os.path.join(os.path.dirname(path), "turns")
    return folder if folder is not None and os.path.isdir(folder) else None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
