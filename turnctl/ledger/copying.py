"""A copy of a ledger for safe-keeping: one state of it, made by SQLite beside whoever writes, and verified.

It is made and verified under another name, in a folder of its own, and has its name when it is whole and on the disk.
It has no mark (``.hwm``): nothing says how far a copy had come, so that it can be opened where it is put. Blocks for as
long as reading all of the ledger twice takes; writers go on meanwhile.
"""

from __future__ import annotations

import os
from contextlib import closing
from os import PathLike
from typing import NamedTuple

from turnctl.errors import BadArgument
from turnctl.ledger.connections import breathe, connect, copy_into
from turnctl.ledger.opening import identify
from turnctl.ledger.ownfiles import own_file
from turnctl.ledger.reading import Still, connect_to_read
from turnctl.ledger.refusals import FAULTS, system_told, told
from turnctl.ledger.sqlite import BUSY_S
from turnctl.ledger.verify import Tell, Verified, quietly, verify
from turnctl.ledger.workshop import clear_dead, workshop
from turnctl.spelling import visible

__all__ = ["Copied", "backup"]


class Copied(NamedTuple):
    """The copy, its size in bytes, and what reading all of it has found; and folders of makers that were killed, which
    were taken away."""

    path: str
    size: int
    verified: Verified
    cleared: tuple[str, ...] = ()
    #: how it is known that the ledger does not change, where nothing can be written; else None
    still: str | None = None


def backup(path: str | PathLike[str], to: str | PathLike[str], *, tell: Tell = quietly) -> Copied:
    """Copy the ledger at ``path`` to ``to``, where nothing is yet, for its owner alone; ``tell`` as for ``verify``.

    Raises ``BadArgument`` where something is there, and the ledger's or the system's error as one of ``StoreError``.
    The copy is kept also where something was found in it: the ledger has it too.
    """
    path, _ = identify(path, writes=False)
    to = os.path.abspath(os.fspath(to))
    if os.path.lexists(to):
        raise _there(to)
    with system_told(to, "copying to"):
        folder = os.path.dirname(to)
        cleared = clear_dead(folder)
        with workshop(folder) as fresh:
            tell("copying the ledger", 0, 0)
            still = _copy(path, fresh)
            found = verify(fresh, tell=lambda what, done, total: tell(f"verifying the copy: {what}", done, total))
            _flush(fresh)
            _name(fresh, to)
            _flush(folder)
        return Copied(to, os.stat(to).st_size, found, cleared, still)


def _there(to: str) -> BadArgument:
    text = f"{to} is there already, and a backup replaces nothing; name another file, or remove it"
    return BadArgument(visible(text))


def _copy(path: str, fresh: str) -> str | None:
    os.close(own_file(fresh, os.O_RDWR | os.O_EXCL))
    still: Still | None = None
    try:
        connection, still = connect_to_read(path, BUSY_S)
        with closing(connection):
            breathe(connection)
            copy_into(connection, fresh)
        if still is not None:
            still.check()
        with closing(connect(fresh, "rw", BUSY_S)) as made:
            made.execute("PRAGMA journal_mode=WAL")  # as that of a ledger is
    except FAULTS as error:
        if still is not None:
            still.check()  # or a writer who came later is taken for damage
        raise told(error, path, "copying") from error
    return None if still is None else still.words


def _flush(name: str) -> None:
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _name(fresh: str, to: str) -> None:
    try:
        os.link(fresh, to)
    except FileExistsError:
        raise _there(to) from None
    except OSError:  # a file system without links
        os.rename(fresh, to)
