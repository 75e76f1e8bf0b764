"""Folders in which a copy is made until it has its name; each is held by a lock that ends with its maker.

A maker that is killed leaves its folder behind. Whoever makes another copy beside it takes that away.

Invariants
  W1  A folder is taken away only while its lock is held by who does that, so that no maker of it lives; and only where
      it has our name, our mark, this user as its owner, and locks that hold between all who can reach it.
  W2  Nothing is removed but what a maker puts there. What else is in such a folder stays, and so does the folder.
  W3  The mark is written by who has the lock: a folder without it may be one that is being begun, and is left alone.

Blocks for the disk. Not promised: that a maker that died before it wrote its mark leaves no empty folder.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from turnctl.ledger.ownfiles import own_file
from turnctl.ledger.places import is_remote

__all__ = ["abandon_all", "clear_dead", "workshop"]

_PREFIX = ".turnctl-backup-"
_NAME = re.compile(re.escape(_PREFIX) + r"[a-z0-9_]{8}")
_LOCK = "lock"
_MARK = b"turnctl ledger backup makes its copy here, and has a lock on this file meanwhile\n"
_COPY = "ledger"
#: all that a maker puts there; the lock goes last, so that what is half removed is found again
_OURS = (*(_COPY + ending for ending in ("", "-wal", "-shm", "-journal")), _LOCK)

#: folders of this process
_mine: set[str] = set()


@contextmanager
def workshop(folder: str) -> Iterator[str]:
    """The path for a file that is being made below ``folder``, for its owner alone; gone with the block. Raises
    ``OSError``."""
    place = tempfile.mkdtemp(prefix=_PREFIX, dir=folder)  # mode 0700
    _mine.add(place)
    lock = -1
    try:
        lock = own_file(os.path.join(place, _LOCK), os.O_RDWR | os.O_EXCL)
        with suppress(OSError):  # no locks to be had here: without its mark nobody else takes it away
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(lock, _MARK)  # W3
        yield os.path.join(place, _COPY)
    finally:
        shutil.rmtree(place, ignore_errors=True)
        _mine.discard(place)
        if lock >= 0:
            os.close(lock)


def abandon_all() -> None:
    """Take away those of this process, which ends now."""
    for place in list(_mine):
        shutil.rmtree(place, ignore_errors=True)


def clear_dead(folder: str) -> tuple[str, ...]:
    """Take away those below ``folder`` whose makers are dead (W1), and say which. Raises ``OSError`` where there is no
    such folder."""
    if is_remote(folder):
        return ()  # a maker on another machine may have a lock that is not seen here
    try:
        found = sorted(one for one in os.listdir(folder) if _NAME.fullmatch(one))
    except PermissionError:
        return ()  # one may write there and not look
    return tuple(place for place in (os.path.join(folder, one) for one in found) if _is_cleared(place))


def _is_cleared(place: str) -> bool:
    try:
        there = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False  # no folder, or not for us
    try:
        return os.fstat(there).st_uid == os.geteuid() and _is_emptied(there, place)
    finally:
        os.close(there)


def _is_emptied(there: int, place: str) -> bool:
    """All by the descriptor: the name may lead elsewhere by now."""
    try:
        lock = os.open(_LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=there)
    except OSError:
        return False  # W3
    try:
        if not stat.S_ISREG(os.fstat(lock).st_mode):
            return False
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.read(lock, len(_MARK) + 1) != _MARK:
            return False
        if set(os.listdir(there)) - set(_OURS):
            return False  # W2
        for name in _OURS:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=there)
        if os.path.samestat(os.lstat(place), os.fstat(there)):
            os.rmdir(place)
    except OSError:
        return False  # its maker lives, somebody else clears it, or it is not ours to remove
    finally:
        os.close(lock)
    return True
