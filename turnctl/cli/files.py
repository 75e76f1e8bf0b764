"""Writing a file in one step: all of it under its name, or nothing; for its owner alone, and over nobody else's."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from turnctl.beside import put_whole

__all__ = ["Occupied", "put_file"]

#: so much of a file that is there is looked at
_LOOKED_AT = 65536


class Occupied(Exception):
    """There is something of that name that is not to be replaced."""


def put_file(path: str, data: bytes, *, may_replace: Callable[[bytes], bool]) -> None:
    """Write it to ``path``, with mode 0600, as ``turnctl.beside`` does.

    A regular file that is there and is ours is replaced if ``may_replace`` says so of how it begins; anything else is
    left as it is, and ``Occupied`` raised. Raises ``OSError`` where it cannot be written; then nothing is left of it.
    Who makes a file of that name at the same moment keeps it, unless an older one was to be replaced.
    """
    replaces = os.path.lexists(path)
    if replaces and not _is_ours(path, may_replace):
        raise Occupied(path)
    try:
        put_whole(path, data, is_new=not replaces, mode=0o600)
    except FileExistsError:
        raise Occupied(path) from None


def _is_ours(path: str, may_replace: Callable[[bytes], bool]) -> bool:
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        return False
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return may_replace(os.read(fd, _LOOKED_AT))
    finally:
        os.close(fd)
