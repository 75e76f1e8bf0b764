"""Writing a file in one step: all of it under its name, or nothing; for its owner alone, and over nobody else's."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Callable
from contextlib import suppress

__all__ = ["Occupied", "put_file"]

#: so much of a file that is there is looked at
_LOOKED_AT = 65536


class Occupied(Exception):
    """There is something of that name that is not to be replaced."""


def put_file(path: str, data: bytes, *, may_replace: Callable[[bytes], bool]) -> None:
    """Write it to ``path``, with mode 0600, through a file beside it.

    A regular file that is there and is ours is replaced if ``may_replace`` says so of how it begins; anything else is
    left as it is, and ``Occupied`` raised. Raises ``OSError`` where it cannot be written; then nothing is left of it.
    Who makes a file of that name at the same moment keeps it, unless an older one was to be replaced.
    """
    replaces = os.path.lexists(path)
    if replaces and not _is_ours(path, may_replace):
        raise Occupied(path)
    fresh = f"{path}.new-{uuid.uuid4().hex[:8]}"
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with open(fd, "wb") as file:
                os.fchmod(fd, 0o600)
                file.write(data)
                file.flush()
                os.fsync(fd)
            _name(fresh, path, replaces=replaces)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(fresh)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None  # the file beside it means nothing to anybody


def _name(fresh: str, path: str, *, replaces: bool) -> None:
    if replaces:
        os.rename(fresh, path)
        return
    try:
        os.link(fresh, path)
    except FileExistsError:
        raise Occupied(path) from None
    except OSError:  # a file system without links
        os.rename(fresh, path)


def _is_ours(path: str, may_replace: Callable[[bytes], bool]) -> bool:
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        return False
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return may_replace(os.read(fd, _LOOKED_AT))
    finally:
        os.close(fd)
